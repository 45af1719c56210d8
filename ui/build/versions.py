"""The versions of a pipeline: what each save wrote, in `<workspace>/versions/DOCUMENT/`, a file for each.

A version is named by when it was kept, so that the names sort by time. The newest `KEPT` stay. A save that
equals the one before it is not kept again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.document.pipeline import Pipeline, dump, load
from engine.errors import PipelineError, WorkspaceError
from engine.storage.files import read_document, write_whole
from engine.storage.io_errors import remedy
from engine.workspace import Workspace
from ui.build.documents import is_document_id

KEPT = 100
_NAME = re.compile(r"([0-9]{19})(-unsaved)?\.json")


@dataclass(frozen=True)
class Version:
    """One of them. `saved` is in seconds since the epoch; `unsaved` when it was never a file, but about to be lost."""

    name: str
    saved: float
    unsaved: bool


class Versions:
    """The versions of one workspace's pipelines. To be used by one writer at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._root = workspace.root / "versions"

    def listed(self, document: str) -> list[Version]:
        """The newest first."""
        try:
            names = [path.name for path in self.folder(document).iterdir()]
        except OSError:
            return []
        found = [(match, name) for name in names if (match := _NAME.fullmatch(name))]
        return [
            Version(name.removesuffix(".json"), int(match[1]) / 1e9, match[2] is not None)
            for match, name in sorted(found, key=lambda item: item[1], reverse=True)
        ]

    def read(self, document: str, version: str) -> Pipeline:
        """What a version holds. Raises `PipelineError` when it is gone or cannot be read."""
        path = self.folder(document) / f"{version}.json"
        if not _NAME.fullmatch(f"{version}.json"):
            raise PipelineError(f"{version[:80]!r} is not the name of a version", hint="Choose one from the list.")
        try:
            return load(read_document(path), f"the version {version} of {document}")
        except OSError as exc:
            raise PipelineError(
                f"the version {version} of {document} cannot be read: {exc.strerror}", hint=remedy(exc)
            ) from exc

    def keep(self, document: str, text: str, *, unsaved: bool = False, saved: float | None = None) -> None:
        """Keep a pipeline's text as the newest version, durably. Raises `WorkspaceError` when it cannot be written."""
        folder = self.folder(document)
        known = self.listed(document)
        alike = known[:1] if unsaved else [item for item in known if not item.unsaved][:1]
        if alike and self._text(folder, alike[0]) == text.encode():
            return
        # Two saves in one tick of the clock, or a clock that was set back, must not change their order.
        after = int(known[0].name[:19]) + 1 if known else 0
        stamp = max(time.time_ns() if saved is None else int(saved * 1e9), after)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{stamp:019d}{'-unsaved' if unsaved else ''}.json", text, durable=True)
        except OSError as exc:
            raise WorkspaceError(
                f"a version cannot be kept in {folder}: {exc.strerror or exc}", hint=remedy(exc)
            ) from exc
        for old in self.listed(document)[KEPT:]:
            with suppress(OSError):
                (folder / f"{old.name}.json").unlink()

    def keep_pipeline(self, document: str, pipeline: Pipeline, *, unsaved: bool = False) -> None:
        """The same for a pipeline."""
        self.keep(document, dump(pipeline), unsaved=unsaved)

    def names(self, document: str) -> frozenset[str]:
        """The names of the files that hold its versions."""
        with suppress(OSError):
            return frozenset(os.listdir(self.folder(document)))
        return frozenset()

    def move(self, document: str, to: str, without: Collection[str] = ()) -> None:
        """The document is called otherwise now: its versions but these go along, in front of any that lie there."""
        folder = self.folder(document)
        with suppress(OSError):
            target = self.folder(to)
            if not folder.is_dir() or target == folder:
                return
            target.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                if path.name not in without:
                    path.replace(target / path.name)
            if not without:
                folder.rmdir()

    def set_aside(self, document: str) -> None:
        """The pipeline is deleted: one of the same name that is made later has versions of its own."""
        folder, aside = self.folder(document), self._root / ".deleted"
        with suppress(OSError):
            if folder.is_dir():
                aside.mkdir(exist_ok=True)
                # A long name is cut: with the time added it could be longer than the file system allows.
                stem = document.encode()[:200].decode(errors="ignore")
                folder.rename(aside / f"{stem}-{time.time_ns():x}")

    def folder(self, document: str) -> Path:
        """Where a document's versions lie. Raises `PipelineError` for an invalid id."""
        if not is_document_id(document):
            raise PipelineError(f"{document[:80]!r} is not the name of a pipeline", hint="Open one from Start.")
        return self._root / document

    @staticmethod
    def _text(folder: Path, version: Version) -> bytes | None:
        try:
            return read_document(folder / f"{version.name}.json")
        except OSError:
            return None
