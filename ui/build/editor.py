"""One browser tab: hears its commands, tells it what it should know.

Whatever goes wrong becomes something a person can read; the tab lives on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import ValidationError

from engine.errors import CheckFailed, PipelineError, VoxelflowError
from engine.pipeline import Pipeline, dump
from ui.build.background import LOG, once
from ui.build.files import browse
from ui.build.link import Link
from ui.build.outbox import read_outbox
from ui.build.rooms import FIRST_TEMPLATE, Open, Rooms
from ui.build.running import cancel_run, resume_run, start_run
from ui.protocol.commands import (
    Browse,
    CancelRun,
    Choose,
    Command,
    Delete,
    Duplicate,
    Export,
    Hello,
    Import,
    MakeEdit,
    NewDocument,
    OpenDocument,
    Recheck,
    Rename,
    ResumeRun,
    Revert,
    Save,
    SaveAs,
    Seen,
    StartRun,
    Watch,
)
from ui.protocol.link import Inbox, Sent
from ui.protocol.notices import Exported, Notice, Told

GONE_AFTER_S = 90.0
"""A tab that was not polled for so long is gone. Browsers let a hidden tab's timers run once a minute."""
_ANSWER_IN_S = 0.05
"""How long an edit's answer waits for the checks: its problems then come with it, not half a second later."""
_ONCE = (Save, SaveAs, Rename, Duplicate, Delete, Revert, Import, NewDocument, StartRun, ResumeRun)
"""Commands that must not be done again after a restart of the server."""


class Editor:
    """The server's side of one tab. `handle` and `inbox` are all that the page calls."""

    def __init__(
        self, rooms: Rooms, *, address: str | None = None, connected: Callable[[], bool] = lambda: True
    ) -> None:
        """`address` is the document named in the page's address; `connected` whether the browser is there."""
        self._rooms = rooms
        self._address = address
        self._connected = connected
        self._lock = threading.Lock()
        self._link = Link(rooms.handled)
        self._profile: str | None = None
        self._open: Open | None = None
        self._watched: str | None = None
        self._wanted: str | None = None
        self._polled = time.monotonic()
        self._left = False
        self._awaits_checks = False
        self._heard: Any = None

    @property
    def document(self) -> str | None:
        """The document that the tab shows."""
        return self._open.room.document if self._open is not None else None

    @property
    def profile(self) -> str | None:
        """The compute profile chosen in the tab; None before one is."""
        return self._profile

    # --- what the page calls ----------------------------------------------------------------

    def handle(self, outbox: Any) -> None:
        """Do what the browser asks; `outbox` is the component's value, in any shape it may have. Never raises."""
        if outbox is None or outbox == self._heard:
            return
        self._heard = outbox
        try:
            read, unreadable = read_outbox(outbox)
        except ValidationError:
            LOG.warning("the browser sent what is no outbox: %.500r", outbox)
            return
        self._awaits_checks = False
        with self._rooms.handled.turn(read.client):
            with self._lock:
                commands = self._link.receive(read)
            for sent in commands:
                if sent.n in unreadable:
                    LOG.warning("a command of the canvas cannot be read: %s", unreadable[sent.n])
                    self._tell("error", "The app did not understand that.", hint="Reload the page.")
                else:
                    self._remember(read.client, sent)
                    self._guard(partial(self._do, sent.command))
        if self._awaits_checks and self._open is not None:
            self._open.outlook.wait_checked(_ANSWER_IN_S)

    def inbox(self) -> Inbox:
        """What the browser has not seen yet: the component's `data`."""
        self._polled = time.monotonic()
        if self._left:
            self._come_back()
        with self._lock:
            anew, log_lost = self._link.overflowed, self._link.log_lost
            if anew:
                self._link.start_over()
        if anew and self._open is not None:
            self._guard(partial(self._say_everything, self.document))
        elif log_lost and self._open is not None:
            self._open.following.watch(self, self._watched)
        with self._lock:
            return self._link.inbox()

    def open(self, document: str) -> None:
        """Show this document: another page of the app asks for it."""
        self._wanted = document
        if self._open is not None:
            self._wanted = None
            self._guard(lambda: self._show(self._rooms.open(document)))

    def post(self, notice: Notice) -> None:
        """Tell the tab something. From any thread."""
        with self._lock:
            self._link.post(notice)

    def leave_if_gone(self) -> None:
        if time.monotonic() - self._polled > GONE_AFTER_S or not self._connected():
            self.leave()

    def leave(self) -> None:
        """The tab is gone. If it speaks again it comes back."""
        self._left = True
        self._rooms.leave(self)
        if self._open is not None:
            self._open.room.leave(self)
            self._open.following.leave(self)

    # --- commands ---------------------------------------------------------------------------

    def _remember(self, client: str, sent: Sent) -> None:
        if isinstance(sent.command, _ONCE):
            try:
                self._rooms.handled.keep(client, sent.n)
            except OSError:
                LOG.exception("what was done cannot be remembered beyond a restart")

    def _do(self, command: Command) -> None:
        rooms = self._rooms
        match command:
            case Hello():
                self._hello(command.document)
            case Seen():
                pass
            case OpenDocument():
                self._show(rooms.open(command.document))
            case NewDocument():
                self._show(rooms.new(command.template))
            case Import():
                self._show(rooms.import_text(command.text, command.name[:200] or "the file"))
            case MakeEdit():
                self._edit(command)
            case Save():
                rooms.open(command.document).room.save(overwrite=command.overwrite)
                self._tell("success", "Saved")
            case SaveAs():
                self._save_as(rooms.open(command.document), command.name)
            case Rename():
                rooms.rename(rooms.open(command.document).room, command.name)
            case Duplicate():
                self._show(rooms.duplicate(rooms.open(command.document).room))
            case Delete():
                self._delete(command.document)
            case Revert():
                rooms.revert(rooms.open(command.document).room)
            case Export():
                room = rooms.open(command.document).room
                self.post(Exported(name=f"{room.document}.json", text=dump(room.pipeline)))
            case Watch():
                self._watched = command.node
                if self._open is not None:
                    self._open.following.watch(self, command.node)
            case Choose():
                self._profile = command.profile
                if self._open is not None:
                    self._open.outlook.chosen(self)
            case Recheck():
                rooms.catalogue_changed()
                rooms.open(command.document).outlook.now()
            case StartRun():
                opened = rooms.open(command.document)
                self._in_background(command.type, partial(self._start, opened, opened.room.pipeline, command))
            case ResumeRun():
                self._in_background(command.type, partial(resume_run, rooms.studio, command.run_id, self._poke))
            case CancelRun():
                self._in_background(command.type, partial(cancel_run, rooms.studio, command.run_id))
            case Browse():
                self._in_background(command.type, partial(self._browse, command))

    def _in_background(self, name: str, job: Callable[[], None]) -> None:
        """What may take seconds, in a thread of its own."""

        def work() -> None:
            self._guard(job)
            self._rooms.studio.store.close()
            self._poke()

        once(name, work)

    def _start(self, opened: Open, pipeline: Pipeline, command: StartRun) -> None:
        try:
            start_run(self._rooms, opened, pipeline, command)
        except CheckFailed as exc:
            opened.outlook.refuse(self, exc.diagnostics)
            raise

    def _browse(self, command: Browse) -> None:
        studio = self._rooms.studio
        self.post(browse(studio.workspace, studio.base, command.request, command.path))

    def _hello(self, document: str | None) -> None:
        self._rooms.enter(self)
        self._left = False
        wanted = self._wanted or document or self._address
        self._wanted = self._address = None
        self._say_everything(wanted)

    def _first(self, wanted: str | None) -> Open:
        """The document asked for, else the one opened last, else any, else a new one from the first template."""
        rooms = self._rooms
        listed = sorted(rooms.library().pipelines, key=lambda p: -(p.modified or time.time()))
        for document in (wanted, rooms.drafts.last_opened(), *(p.document for p in listed)):
            # One that was deleted may still be open in another tab; here it is gone.
            if document is None or (document != wanted and not rooms.is_there(document)):
                continue
            try:
                return rooms.open(document)
            except VoxelflowError as exc:
                if document == wanted:
                    self._tell_error(exc)
        return rooms.new(FIRST_TEMPLATE if FIRST_TEMPLATE in rooms.files.templates() else None)

    def _show(self, opened: Open) -> None:
        """Show a document in the tab, and keep it told."""
        before, self._open = self._open, opened
        if before is not None and before is not opened:
            before.room.leave(self)
            before.following.leave(self)
            self._watched = None
        opened.room.join(self)
        opened.outlook.show(self)
        opened.following.show(self)
        opened.following.watch(self, self._watched)
        opened.outlook.now()
        for damage in self._rooms.damage():
            self._tell_error(damage)
        self._rooms.drafts.remember_opened(opened.room.document)

    def _edit(self, command: MakeEdit) -> None:
        opened = self._rooms.open(command.document)
        try:
            self._awaits_checks = opened.room.edit(command.edit, command.ops)
        except PipelineError:
            # The tab shows what was refused: it takes the document anew.
            if self._open is opened:
                self._show(opened)
            raise

    def _save_as(self, before: Open, name: str) -> None:
        opened = self._rooms.save_as(before.room, name)
        if opened is not before:
            self._show(opened)
            self._rooms.drop_draft(before.room)
        self._tell("success", f"Saved as {opened.room.name}")

    def _delete(self, document: str) -> None:
        shown = self._open is not None and self._rooms.is_same(self._open, document)
        if shown and self._open is not None:
            self._open.room.leave(self)
            self._open.following.leave(self)
            self._open = None
        try:
            name = self._rooms.delete(document)
        finally:
            if shown:
                self._show(self._first(None))
        self._tell("success", f"Deleted {name}", hint="It is kept in the workspace's trash folder.")

    # --- telling ----------------------------------------------------------------------------

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except CheckFailed as exc:
            first = next(d for d in exc.diagnostics if d.severity == "error")
            where = f"{first.node}: " if first.node else ""
            hint = f"{where}{first.message}. {first.hint}".strip()
            self._tell("error", exc.message, hint=hint, node=first.node, parameter=first.parameter)
        except VoxelflowError as exc:
            self._tell_error(exc)
        except Exception as exc:
            LOG.exception("a command of the canvas failed")
            self._tell("error", f"Something went wrong: {type(exc).__name__}", hint="The app's log has the details.")

    def _tell_error(self, exc: VoxelflowError) -> None:
        self._tell("error", exc.message, hint=exc.hint, node=exc.node, parameter=exc.parameter)

    def _tell(
        self, level: Any, text: str, *, hint: str = "", node: str | None = None, parameter: str | None = None
    ) -> None:
        self.post(Told(level=level, text=text, hint=hint, node=node, parameter=parameter))

    def _poke(self) -> None:
        if self._open is not None:
            self._open.following.poke()

    def _come_back(self) -> None:
        """The tab was thought gone, and is not: a laptop slept, or another page was shown."""
        self._left = False
        self._rooms.enter(self)
        if self._open is not None:
            self._guard(partial(self._say_everything, self.document))

    def _say_everything(self, document: str | None) -> None:
        self.post(self._rooms.catalogue.welcome())
        self.post(self._rooms.library())
        self._show(self._first(document))
