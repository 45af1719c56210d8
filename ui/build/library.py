"""The workspace's pipelines as files, and the templates that come with Voxelflow.

A document's id is the stem of its file. A file is written only over what the writer has seen: one that
someone else changed, made or deleted meanwhile is left alone unless the caller says `overwrite`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline, dump, load, read_pipeline, write_pipeline
from engine.errors import PipelineError, WorkspaceError
from engine.storage.files import read_document
from engine.storage.io_errors import remedy
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace
from ui.build.documents import is_document_id
from ui.build.drafts import Base, Draft, digest
from ui.build.versions import Versions
from ui.protocol import notices
from ui.protocol.catalogue import PipelineInfo, TemplateInfo

_LOCK_TIMEOUT_S = 10.0


class Conflict(PipelineError):
    """The file is not what the writer has seen."""

    code = "conflict"


@dataclass(frozen=True)
class Stored:
    """A pipeline as its file holds it."""

    pipeline: Pipeline
    base: Base
    modified: float


@dataclass(frozen=True)
class Listed:
    """A file of the pipelines' folder: what it holds, or the `problem` with it."""

    document: str
    modified: float
    stored: Stored | None
    problem: str


Signature = tuple[int, int, int, int]
"""Changes whenever a file or its permissions do: modification time, size, inode, time of the inode's last change."""


class Library:
    """Reads and writes the pipelines of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.versions = Versions(workspace)
        self._lock = threading.RLock()
        self._held = False
        self._templates: dict[str, Pipeline] | None = None
        self._known: dict[str, tuple[Signature, Listed]] = {}

    # --- looking ----------------------------------------------------------------------------

    def path(self, document: str) -> Path:
        """Where the document's file is or will be. Raises `PipelineError` for an invalid id."""
        if not is_document_id(document):
            raise PipelineError(f"{document[:80]!r} is not the name of a pipeline", hint="Open one from Start.")
        return self._workspace.pipelines / f"{document}.json"

    def signature(self, document: str) -> Signature | None:
        """None when there is no file."""
        try:
            return _signature(self.path(document).stat())
        except (OSError, PipelineError):
            return None

    def read(self, document: str) -> Stored | None:
        """What the file holds; None when there is none. Raises `PipelineError` when it cannot be read."""
        path = self.path(document)
        try:
            raw = read_document(path)
            modified = path.stat().st_mtime
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise PipelineError(f"{path} cannot be read: {exc.strerror}", hint=remedy(exc)) from exc
        pipeline = read_text(raw, str(path))
        return Stored(pipeline, Base(file=digest(raw), text=digest(dump(pipeline))), modified)

    def digest(self, document: str) -> str | None:
        """Hash of the file's bytes; None when there is no file. Raises `PipelineError` when it cannot be read."""
        path = self.path(document)
        try:
            return digest(read_document(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise PipelineError(f"{path} cannot be read: {exc.strerror}", hint=remedy(exc)) from exc

    def listed(self) -> list[Listed]:
        """All pipelines, by id. What has not changed since the last call is not read again."""
        with self._lock:
            out = [self._look(d, s) for d, s in sorted(self._signatures().items())]
            there = {item.document for item in out}
            self._known = {d: known for d, known in self._known.items() if d in there}
        return out

    def state(self) -> frozenset[tuple[str, Signature]]:
        """Changes whenever a file of the folder does. Cheap."""
        return frozenset(self._signatures().items())

    def templates(self) -> dict[str, Pipeline]:
        """The pipelines that come with Voxelflow."""
        with self._lock:
            if self._templates is None:
                self._templates = {name: read_pipeline(path) for name, path in shipped_pipelines().items()}
            return self._templates

    # --- writing ----------------------------------------------------------------------------

    def write(self, document: str, pipeline: Pipeline, seen: Base | None, *, overwrite: bool = False) -> Base:
        """Write the canonical text; `seen` is what the writer believes the file to hold (None: no file).

        Raises `Conflict` when it holds something else and not `overwrite`, `PipelineError` when it cannot be read,
        `WorkspaceError` when it cannot be written.
        """
        path = self.path(document)
        text = dump(pipeline)
        with self._writing():
            found = None if overwrite else self.digest(document)
            if not overwrite and found not in (seen.file if seen else None, digest(text)):
                raise Conflict(_conflict(path, found, seen), hint="Overwrite it, or take what the file holds.")
            self._keep_what_is_there(document)
            self._put(path, pipeline)
            with suppress(WorkspaceError):  # the file is written: that is what was asked for
                self.versions.keep(document, text)
        return Base(file=digest(text), text=digest(text))

    def rename(self, document: str, to: str, name: str) -> Base:
        """Move the file and change the name in it.

        Raises `PipelineError` when it cannot be read, `WorkspaceError` when it cannot be moved: then all is as it was.
        """
        with self._writing():
            stored = self.read(document)
            if stored is None:
                raise PipelineError(f"{self.path(document)} is gone", hint="Save the pipeline first.")
            if to != document and self.path(to).exists():
                raise Conflict(f"{self.path(to)} exists already", hint="Choose another name.")
            renamed = stored.pipeline.model_copy(update={"name": name})
            text = dump(renamed)
            self._keep_what_is_there(document)
            others = self.versions.names(to)  # of a document that had this name before
            self.versions.move(document, to)
            try:
                self._put(self.path(to), renamed)
                if to != document:
                    self._replaced(document, to)
            except WorkspaceError:
                self.versions.move(to, document, without=others)
                raise
            with suppress(WorkspaceError):
                self.versions.keep(to, text)
        return Base(file=digest(text), text=digest(text))

    def rename_versions(self, document: str, to: str) -> None:
        """Rename a document that has no file: what was saved of it goes along.

        Raises `WorkspaceError` when another program writes for too long.
        """
        with self._writing():
            self.versions.move(document, to)

    def to_trash(self, document: str, unsaved: Pipeline | None = None) -> None:
        """Move the file, and the text of an unsaved draft, to the workspace's `trash/`.

        Raises `WorkspaceError` when that is not possible: then the file and its versions are where they were.
        """
        path = self.path(document)
        with self._writing():
            if unsaved is not None:
                self.keep_in_trash(document, unsaved)
            try:
                if path.exists():
                    path.replace(_free(self._trash(), document))
            except OSError as exc:
                raise WorkspaceError(
                    f"{path} cannot be moved to {self._workspace.root / 'trash'}: {exc.strerror or exc}",
                    hint=remedy(exc),
                ) from exc
            self.versions.set_aside(document)

    def keep_in_trash(self, document: str, unsaved: Pipeline) -> None:
        """Write what a person drops to the trash. Raises `WorkspaceError` when that is not possible."""
        with self._writing():
            try:
                write_pipeline(unsaved, _free(self._trash(), f"{document}-unsaved"))
            except OSError as exc:
                raise WorkspaceError(
                    f"the unsaved changes of {document} cannot be kept in {self._workspace.root / 'trash'}: "
                    f"{exc.strerror or exc}",
                    hint=f"{remedy(exc)} Nothing was dropped.",
                ) from exc

    # --- parts ------------------------------------------------------------------------------

    def _put(self, path: Path, pipeline: Pipeline) -> None:
        try:
            write_pipeline(pipeline, path)
        except OSError as exc:
            raise WorkspaceError(
                f"{path} cannot be written: {exc.strerror or exc}",
                hint=f"{remedy(exc)} Your changes are kept as a draft.",
            ) from exc

    def _replaced(self, document: str, by: str) -> None:
        """Remove the file of a document that is written under another name, or else the new one."""
        path = self.path(document)
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            with suppress(OSError):
                self.path(by).unlink(missing_ok=True)
            raise WorkspaceError(f"{path} cannot be renamed: {exc.strerror or exc}", hint=remedy(exc)) from exc

    def _trash(self) -> Path:
        trash = self._workspace.root / "trash"
        trash.mkdir(exist_ok=True)
        return trash

    def _keep_what_is_there(self, document: str) -> None:
        """What is about to be overwritten, if no version holds it: a file from before, or one that others changed."""
        path = self.path(document)
        with suppress(OSError, PipelineError, WorkspaceError):
            raw = read_document(path)
            self.versions.keep(document, dump(read_text(raw, str(path))), saved=path.stat().st_mtime)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time, also among several apps on one workspace."""
        lock = ProcessLock(self._workspace.locks / "pipelines")
        with self._lock:
            if self._held:
                yield
                return
            try:
                held = lock.acquire_within(_LOCK_TIMEOUT_S)
            except OSError as exc:
                raise WorkspaceError(f"{lock.path} cannot be opened: {exc.strerror or exc}", hint=remedy(exc)) from exc
            if not held:
                raise WorkspaceError("another program is writing pipelines in this workspace", hint="Try again.")
            self._held = True
            try:
                yield
            finally:
                self._held = False
                lock.release()

    def _signatures(self) -> dict[str, Signature]:
        out: dict[str, Signature] = {}
        try:
            with os.scandir(self._workspace.pipelines) as entries:
                for entry in entries:
                    stem, dot, suffix = entry.name.rpartition(".")
                    if not dot or suffix != "json" or not is_document_id(stem):
                        continue
                    # One that is gone meanwhile, or a link in a circle, hides no other.
                    with suppress(OSError):
                        if entry.is_file():
                            out[stem] = _signature(entry.stat())
        except OSError:
            return out
        return out

    def _look(self, document: str, signature: Signature) -> Listed:
        known = self._known.get(document)
        if known is not None and known[0] == signature:
            return known[1]
        modified = signature[0] / 1e9
        try:
            stored = self.read(document)
            listed = Listed(document, modified, stored, "" if stored else "it is gone")
        except PipelineError as exc:
            listed = Listed(document, modified, None, exc.line())
        self._known[document] = (signature, listed)
        return listed


def _signature(found: os.stat_result) -> Signature:
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


def read_text(text: str | bytes, where: str) -> Pipeline:
    """The pipeline in `text`, known to be one that can be written again. Raises `PipelineError`."""
    pipeline = load(text, where)
    try:
        dump(pipeline).encode()
    except (ValueError, OverflowError, RecursionError) as exc:
        raise PipelineError(
            f"{where} holds figures or characters that no file can hold", hint="Take back the last change."
        ) from exc
    return pipeline


def _conflict(path: Path, found: str | None, seen: Base | None) -> str:
    if found is None:
        return f"{path} was deleted since it was read"
    if seen is None:
        return f"{path} was created by someone else in the meantime"
    return f"{path} was changed by someone else since it was read"


def _free(folder: Path, stem: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    stem = stem.encode()[:200].decode(errors="ignore")
    number = 1
    while (path := folder / f"{stem}-{stamp}{f'-{number}' if number > 1 else ''}.json").exists():
        number += 1
    return path


def list_library(files: Library, drafted: Iterable[str], draft_of: Callable[[str], Draft | None]) -> notices.Library:
    """The list that the canvas shows: files and drafts by id, and the templates.

    `drafted` have a draft, unless `draft_of` finds that it cannot be read.
    """
    listed = {item.document: item for item in files.listed()}
    drafts = {document: draft for document in drafted if (draft := draft_of(document)) is not None}
    return notices.Library(
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
