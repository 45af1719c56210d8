"""One document while it is open: the draft that all its tabs share.

Edits are applied in the order in which they come, kept on disk, then sent to every tab, the author's
among them: that notice is the acknowledgement. Two people who change one field: the later one wins;
different fields never collide.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from engine.document.pipeline import Pipeline, dump
from engine.errors import PipelineError, WorkspaceError
from ui.build.documents import apply, doc_to_pipeline, is_looks_only, pipeline_to_doc
from ui.build.drafts import KEPT_EDITS, Base, Draft, Drafts, digest
from ui.build.library import Conflict, Library, Signature, Stored
from ui.protocol.document import Doc, Op
from ui.protocol.notices import Edited, FileState, Notice, Opened, Others

LOOK_AT_DISK_S = 1.0
Disk = Literal["new", "same", "changed", "deleted"]


class Member(Protocol):
    """A tab that has the document open. `profile` is the compute profile chosen in it; None is the usual one."""

    @property
    def profile(self) -> str | None: ...

    def post(self, notice: Notice) -> None: ...


class SharedDocument:
    """A document, its draft and its members. Everything public may be called from any thread."""

    def __init__(self, document: str, draft: Draft, drafts: Drafts, library: Library) -> None:
        self.id = document
        self.changed: Callable[[], None] = lambda: None
        """Called after the document has changed in what a run would do."""
        self.unsaved_changed: Callable[[], None] = lambda: None
        """Called when it begins or ceases to differ from its file."""
        self._drafts, self._library = drafts, library
        self._lock = threading.RLock()
        self._members: list[Member] = []
        self._doc = pipeline_to_doc(draft.pipeline)
        self._rev = self._changed_rev = draft.rev
        self._edits: deque[str] = deque(draft.edits, maxlen=KEPT_EDITS)
        self._base = draft.base
        self._written = dump(draft.pipeline)
        self._text = digest(self._written)
        # What a file that cannot be read counts as, until it can be: one that is there and is not overwritten unasked.
        self._disk: Disk = "new" if draft.base is None else "changed"
        self._compared: tuple[Signature | None, Base | None] | None = None
        self._looked_at = 0.0
        self._look()
        self._reported = self._file_state()

    # --- looking ----------------------------------------------------------------------------

    @property
    def snapshot(self) -> tuple[int, Doc]:
        """The revision and the document of it."""
        with self._lock:
            return self._rev, self._doc

    @property
    def changed_rev(self) -> int:
        """The newest revision that changed what a run would do: problems found for an older one are outdated."""
        return self._changed_rev

    @property
    def pipeline(self) -> Pipeline:
        """The draft as a pipeline."""
        return doc_to_pipeline(self.snapshot[1])

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._doc.name

    @property
    def unsaved(self) -> bool:
        """Whether it differs from what was last read from or written to its file."""
        return self._base is None or self._base.text != self._text

    @property
    def disk(self) -> Disk:
        """How the file compares with what the draft is based on."""
        return self._disk

    @property
    def members(self) -> list[Member]:
        """The tabs that show it."""
        with self._lock:
            return list(self._members)

    # --- members ----------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """Show the document to `member`, and every change from now on."""
        with self._lock:
            if member not in self._members:
                if not self._members and self._look() == "changed" and not self.unsaved:
                    # Nobody has it open and nothing is lost: what the file holds now is the document.
                    self._take_file(self._stored())
                self._members.append(member)
            member.post(self._opened())
            member.post(self._file_state())
            self._post_others()

    def leave(self, member: Member) -> None:
        """Send this member nothing more."""
        with self._lock:
            if member in self._members:
                self._members.remove(member)
                self._post_others()

    def post(self, notice: Notice) -> None:
        """Send a notice to every member."""
        for member in self.members:
            member.post(notice)

    # --- changes ----------------------------------------------------------------------------

    def edit(self, edit: str, ops: Sequence[Op]) -> bool:
        """Apply one edit, unless it was applied before; whether it changes what a run would do.

        Raises `PipelineError` when it would leave no valid pipeline: then nothing of it is applied,
        and it counts as known. Raises `WorkspaceError` when it was applied but cannot be kept on disk.
        """
        with self._lock:
            if edit in self._edits:
                return False
            self._edits.append(edit)
            doc = apply(self._doc, ops)
            was_unsaved = self.unsaved
            matters = not all(is_looks_only(op) for op in ops)
            self._set(doc, matters=matters)
            failure: WorkspaceError | None = None
            try:
                self._keep()
            except WorkspaceError as exc:
                failure = exc
            self.post(Edited(document=self.id, rev=self._rev, edit=edit, ops=list(ops)))
            self._post_file_state()
        if matters:
            self.changed()
        if was_unsaved != self.unsaved:
            self.unsaved_changed()
        if failure is not None:
            raise failure
        return matters

    def save(self, *, overwrite: bool = False) -> None:
        """Write the file.

        Raises `Conflict` when someone else changed it, and as `Library.write`; as `Drafts.remove` when all is done but
        that.
        """
        with self._lock:
            try:
                self._base = self._library.write(self.id, doc_to_pipeline(self._doc), self._base, overwrite=overwrite)
            except Conflict:
                self._look()
                self._post_file_state()
                raise
            self._look()
            self._post_file_state()
            failure = self._remove_draft()
        self.unsaved_changed()
        if failure is not None:
            raise failure

    def revert(self) -> None:
        """Take what the file holds; what was unsaved goes to the trash first.

        Raises `PipelineError` when there is no file, or none that can be read, and as `Library.keep_in_trash`: then
        nothing has changed. Raises as `Drafts.remove` when all is done but that.
        """
        with self._lock:
            stored = self._stored()
            if self.unsaved:
                self._library.keep_in_trash(self.id, doc_to_pipeline(self._doc))
            failure = self._revert_to(stored)
        self._reverted(failure)

    def drop_draft(self, copy: Pipeline) -> None:
        """Take what the file holds, if nobody shows the document and `copy` has all that is unsaved here.

        Raises as `revert`.
        """
        with self._lock:
            copied = dump(copy.model_copy(update={"name": self.name})) == self._written
            if self._members or not self.unsaved or not copied or self._look() != "same":
                return
            failure = self._revert_to(self._stored())
        self._reverted(failure)

    def delete(self) -> None:
        """Move the file, and what is unsaved, to the trash. Tabs keep what they show, and may save it again.

        Raises as `Library.to_trash` and `Drafts.remove`.
        """
        with self._lock:
            try:
                self._library.to_trash(self.id, doc_to_pipeline(self._doc) if self.unsaved else None)
                self._drafts.remove(self.id)
            finally:
                self._look()
                self._post_file_state()

    def rename(self, document: str, name: str) -> None:
        """Another name, and with it another id; the file moves, unsaved changes stay unsaved.

        Raises `PipelineError` when the file cannot be read, `WorkspaceError` when it cannot be moved, or when all is
        done but keeping the draft under its new name or removing the old one.
        """
        failure: WorkspaceError | None = None
        with self._lock:
            old = self.id
            disk = self._look()
            if self._base is None or disk == "deleted":
                if disk != "changed":  # else they are those of a file that someone else has made and that stays
                    self._library.rename_versions(old, document)
                self._base = None
            else:
                base = self._library.rename(old, document, name)
                # Someone else's change stays one: the draft has not seen it.
                self._base = base if disk == "same" else self._base
            self.id = document
            self._set(self._doc.model_copy(update={"name": name}))
            try:
                if self.unsaved:
                    self._keep()
                if document != old or not self.unsaved:
                    self._drafts.remove(old)
            except WorkspaceError as exc:
                failure = exc  # reported when all are informed
            self._look()
            self._show_anew()
        self.changed()
        self.unsaved_changed()
        if failure is not None:
            raise failure

    def look_at_disk(self) -> None:
        """Notice what others do to the file; looks about once a second however often it is called."""
        with self._lock:
            if time.monotonic() - self._looked_at < LOOK_AT_DISK_S:
                return
            self._look()
            self._post_file_state()

    # --- parts, all under the lock ----------------------------------------------------------

    def _set(self, doc: Doc, *, matters: bool = True) -> None:
        self._doc = doc
        self._rev += 1
        if matters:
            self._changed_rev = self._rev
        self._written = dump(doc_to_pipeline(doc))
        self._text = digest(self._written)

    def _keep(self) -> None:
        self._drafts.write(self.id, self._written, self._base, self._rev, self._edits)

    def _stored(self) -> Stored:
        stored = self._library.read(self.id)
        if stored is None:
            raise PipelineError(f"{self._library.path(self.id)} is not there", hint="Save the pipeline first.")
        return stored

    def _revert_to(self, stored: Stored) -> WorkspaceError | None:
        self._take_file(stored)
        failure = self._remove_draft()
        self._show_anew()
        return failure

    def _reverted(self, failure: WorkspaceError | None) -> None:
        """Not under the lock: what is informed here looks at other documents."""
        self.changed()
        self.unsaved_changed()
        if failure is not None:
            raise failure

    def _remove_draft(self) -> WorkspaceError | None:
        """What was asked for is done already: a draft that stays is reported when all are informed."""
        try:
            self._drafts.remove(self.id)
        except WorkspaceError as exc:
            return exc
        return None

    def _take_file(self, stored: Stored) -> None:
        self._base = stored.base
        self._set(pipeline_to_doc(stored.pipeline))
        self._look()

    def _show_anew(self) -> None:
        self._reported = self._file_state()
        for member in self._members:
            member.post(self._opened())
            member.post(self._reported)
        self._post_others()

    def _opened(self) -> Opened:
        return Opened(document=self.id, rev=self._rev, doc=self._doc, edits=list(self._edits))

    def _look(self) -> Disk:
        """Compare the file with what the draft is based on; reads it only when it has been touched."""
        self._looked_at = time.monotonic()
        signature = self._library.signature(self.id)
        if (signature, self._base) == self._compared:
            return self._disk
        try:
            file = self._library.digest(self.id)
        except PipelineError:
            return self._disk  # the file cannot be read now: keep what was last known, the next look tries again
        if file is None:
            self._disk = "new" if self._base is None else "deleted"
        else:
            if file == self._text:
                # Whoever wrote it, it holds what is shown.
                self._base = Base(file=file, text=file)
            self._disk = "same" if self._base is not None and self._base.file == file else "changed"
        self._compared = (signature, self._base)
        return self._disk

    def _file_state(self) -> FileState:
        return FileState(
            document=self.id,
            path=str(self._library.path(self.id)),
            dirty=self.unsaved,
            disk=self._disk,
        )

    def _post_file_state(self) -> None:
        state = self._file_state()
        if state != self._reported:
            self._reported = state
            self.post(state)

    def _post_others(self) -> None:
        for member in self._members:
            member.post(Others(document=self.id, count=len(self._members) - 1))
