"""Unsaved changes, on disk from the moment they are made: `<workspace>/drafts/DOCUMENT.json`.

A draft holds the document's canonical text, what its file held when it was read, the revision, and
the ids of the latest edits, so that an edit which the browser sends again is known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.document.pipeline import Pipeline, dump, load
from engine.errors import PipelineError, WorkspaceError
from engine.storage.files import write_whole
from engine.storage.io_errors import remedy
from engine.workspace import Workspace
from ui.build.documents import is_document_id

KEPT_EDITS = 400
_FORMAT = 1


class Base(BaseModel):
    """What a document's file held when it was last read or written: hashes of its bytes and of its canonical text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    text: str


@dataclass(frozen=True)
class Draft:
    """A document that differs, or may differ, from its file. `base` is None while there is no file."""

    pipeline: Pipeline
    base: Base | None
    rev: int
    edits: tuple[str, ...]

    @property
    def unsaved(self) -> bool:
        """Whether it differs from the file that it is based on."""
        return self.base is None or self.base.text != digest(dump(self.pipeline))


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    rev: int
    edits: list[str]
    base: Base | None
    pipeline: str


class Drafts:
    """The drafts of one workspace. Each belongs to one `SharedDocument`, which alone writes it."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.root / "drafts"
        self._read: dict[str, tuple[tuple[int, int, int], Draft]] = {}

    def documents(self) -> list[str]:
        """Ids of the documents that have a draft."""
        try:
            names = [p.stem for p in self.folder.iterdir() if p.suffix == ".json"]
        except OSError:
            return []
        return sorted(n for n in names if is_document_id(n))

    def has(self, document: str) -> bool:
        """Whether the document has a draft."""
        return is_document_id(document) and self._path(document).exists()

    def read(self, document: str) -> Draft | None:
        """The draft; None when there is none.

        Raises `PipelineError` when its file is damaged. That file is then kept under another name, if possible,
        so that the next call finds no draft.
        """
        path = self._path(document)
        try:
            found = path.stat()
            # Two drafts of one size may follow each other within a tick of the clock, but each is a file of its own.
            signature = (found.st_mtime_ns, found.st_size, found.st_ino)
            known = self._read.get(document)
            if known is not None and known[0] == signature:
                return known[1]
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise PipelineError(
                f"the unsaved changes of {document} cannot be read: {exc.strerror}", hint=remedy(exc)
            ) from exc
        try:
            written = _Written.model_validate_json(raw)
            draft = Draft(load(written.pipeline, document), written.base, written.rev, tuple(written.edits))
        except (ValidationError, PipelineError) as exc:
            raise PipelineError(
                f"the unsaved changes of {document} are damaged and cannot be used",
                hint=f"Go on from the saved pipeline; {self._set_aside(path)}",
            ) from exc
        self._read[document] = (signature, draft)
        return draft

    def write(self, document: str, text: str, base: Base | None, rev: int, edits: Sequence[str]) -> None:
        """Keep the draft; whole at any moment. Raises `WorkspaceError` when that is not possible."""
        written = _Written(format=_FORMAT, rev=rev, edits=list(edits)[-KEPT_EDITS:], base=base, pipeline=text)
        self._replace(self._path(document), written.model_dump_json(indent=1), durable=True)

    def remove(self, document: str) -> None:
        """Remove the draft, if there is one. Raises `WorkspaceError` when that is not possible."""
        self._read.pop(document, None)
        path = self._path(document)
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            raise WorkspaceError(
                f"the draft {path} is no longer needed and cannot be removed: {exc.strerror or exc}",
                hint="Remove it, or it will be taken for unsaved changes.",
            ) from exc

    # --- what else the app remembers there -------------------------------------------------

    @property
    def handled_file(self) -> Path:
        """Where `HandledCommands` keeps what must not be done twice."""
        return self.folder / ".handled.json"

    def last_opened(self) -> str | None:
        """The document that someone opened last."""
        try:
            found = json.loads((self.folder / ".last-opened.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, str) and is_document_id(found) else None

    def remember_opened(self, document: str) -> None:
        """Keep the id for `last_opened`. Raises `WorkspaceError` when that is not possible."""
        self._replace(self.folder / ".last-opened.json", json.dumps(document), durable=False)

    def _path(self, document: str) -> Path:
        if not is_document_id(document):
            raise PipelineError(f"{document[:80]!r} is not the name of a pipeline", hint="Open one from Start.")
        return self.folder / f"{document}.json"

    def _replace(self, path: Path, text: str, *, durable: bool) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, text, durable=durable)
        except OSError as exc:
            raise WorkspaceError(
                f"changes cannot be kept in {self.folder}: {exc.strerror or exc}",
                hint=f"{remedy(exc)} Until then save often.",
            ) from exc

    def _set_aside(self, path: Path) -> str:
        """Rename a damaged draft. Gives the end of a sentence that says where it is."""
        number = 1
        while (kept := path.with_name(f"{path.stem}.damaged-{number}")).exists():
            number += 1
        try:
            path.replace(kept)
        except OSError as exc:
            return f"the next edit overwrites {path}, which cannot be renamed ({exc.strerror or exc}): copy it."
        return f"they are kept in {kept}."


def digest(text: str | bytes) -> str:
    """Hash of a text, or of its UTF-8 bytes: 32 hexadecimal digits."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.blake2b(data, digest_size=16).hexdigest()
