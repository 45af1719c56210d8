"""The list of all pipelines: files and drafts together, and the templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ui.build.drafts import Draft
from ui.build.library import Library as Files
from ui.build.library import Listed
from ui.protocol.catalogue import PipelineInfo, TemplateInfo
from ui.protocol.notices import Library


def list_library(files: Files, drafted: Iterable[str], draft_of: Callable[[str], Draft | None]) -> Library:
    """Pipelines by id. `drafted` have a draft, unless `draft_of` finds that it cannot be read."""
    listed = {item.document: item for item in files.listed()}
    drafts = {document: draft for document in drafted if (draft := draft_of(document)) is not None}
    return Library(
        pipelines=[_info(d, listed.get(d), drafts.get(d)) for d in sorted(listed.keys() | drafts.keys())],
        templates=[
            TemplateInfo(template=name, name=p.name, description=p.description, nodes=len(p.nodes))
            for name, p in files.templates().items()
        ],
    )


def _info(document: str, item: Listed | None, draft: Draft | None) -> PipelineInfo:
    stored = item.stored if item is not None else None
    pipeline = draft.pipeline if draft is not None else stored.pipeline if stored is not None else None
    return PipelineInfo(
        document=document,
        name=pipeline.name if pipeline is not None else document,
        description=pipeline.description if pipeline is not None else "",
        modified=item.modified if item is not None else None,
        unsaved=draft is not None and draft.unsaved,
        problem=item.problem if item is not None and draft is None else "",
    )
