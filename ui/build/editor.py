"""One browser tab: carries out its commands, and queues the notices for it.

Whatever goes wrong becomes a message that a person can read; the tab lives on.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import ValidationError

from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import Pipeline, dump
from engine.errors import PipelineError, UsageError, VoxelflowError
from engine.run import launch
from engine.text import plural
from engine.workspace import allow
from ui.build.background import LOG
from ui.build.code import code_of
from ui.build.document_runs import resume_run
from ui.build.document_sweeps import Newest, forecast_of, refused
from ui.build.documents import pipeline_to_doc
from ui.build.file_browser import browse, to_allow, unlisted
from ui.build.link import Link, read_outbox
from ui.build.open_documents import FIRST_TEMPLATE, LiveDocument, OpenDocuments
from ui.protocol.commands import (
    AllowFolder,
    Browse,
    CancelRun,
    Choose,
    Command,
    Delete,
    Duplicate,
    Export,
    ExportCode,
    ForecastSweep,
    Hello,
    Import,
    KeepDraft,
    ListVersions,
    MakeEdit,
    NewDocument,
    OpenDocument,
    ReadVersion,
    Recheck,
    Rename,
    ResumeRun,
    Revert,
    Save,
    SaveAs,
    Seen,
    StartRun,
    StartSweep,
    Watch,
)
from ui.protocol.link import Inbox, Sent
from ui.protocol.notices import Exported, Message, Notice, VersionInfo, VersionRead, Versions


class Editor:
    """The server's side of one tab. `handle` and `inbox` are all that its connection calls; from any thread."""

    def __init__(self, documents: OpenDocuments, *, address: str | None = None) -> None:
        """`address` is the document named in the page's address."""
        self.ticket = secrets.token_urlsafe(32)
        """What only this tab's canvas knows."""
        self._documents = documents
        self._address = address
        self._ring: Callable[[], None] | None = None
        self._turn = threading.RLock()
        self._lock = threading.Lock()
        self._link = Link(documents.handled)
        self._profile: str | None = None
        self._open: LiveDocument | None = None
        self._watched: str | None = None
        self._wanted: str | None = None
        self._left = False
        self._forecasts = Newest()

    @property
    def document(self) -> str | None:
        """The document that the tab shows."""
        return self._open.document.id if self._open is not None else None

    @property
    def profile(self) -> str | None:
        """The compute profile chosen in the tab; None before one is."""
        return self._profile

    # --- what the connection and the page call ----------------------------------------------

    def attach(self, ring: Callable[[], None]) -> None:
        """The browser has connected: `ring` is called, from any thread, when `inbox` has something new."""
        self._ring = ring

    def detach(self, ring: Callable[[], None]) -> None:
        """That connection has ended, and the tab is gone, unless it has connected again meanwhile."""
        if self._ring is ring:
            self._ring = None
            self.leave()

    def handle(self, outbox: Any) -> None:
        """Do what the browser asks; `outbox` is what came, in any shape it may have. Never raises."""
        try:
            read, unreadable = read_outbox(outbox)
        except ValidationError:
            LOG.warning("the browser sent what is no outbox: %.500r", outbox)
            return
        with self._turn, self._documents.handled.turn(read.client):
            with self._lock:
                commands = self._link.receive(read)
            for sent in commands:
                if sent.n in unreadable:
                    LOG.warning("a command of the canvas cannot be read: %s", unreadable[sent.n])
                    self._message("error", "The app did not understand that.", hint="Reload the page.")
                else:
                    self._remember(read.client, sent)
                    self._guard(partial(self._do, sent.command))
        if commands and (ring := self._ring) is not None:
            ring()

    def inbox(self, sent: int = 0, ring: Callable[[], None] | None = None) -> Inbox:
        """What the browser has not seen yet, without notices up to number `sent`: those are on their way.

        `ring` is that of the connection that asks: one that has ended meanwhile does not bring the tab back.
        """
        if self._left or self._link.overflowed or self._link.log_lost:
            with self._turn:
                if ring is None or ring is self._ring:
                    self._catch_up()
        with self._lock:
            return self._link.inbox(sent)

    def open(self, document: str) -> None:
        """Show this document: another page of the app asks for it."""
        with self._turn:
            self._wanted = document
            if self._open is not None:
                self._wanted = None
                self._guard(lambda: self._show(self._documents.open(document)))

    def can_go_to(self, document: str) -> bool:
        """Whether the tab shows another document, and this one is there."""
        return self.document not in (None, document) and self._documents.is_there(document)

    def post(self, notice: Notice) -> None:
        """Queue a notice for the tab. From any thread."""
        with self._lock:
            self._link.post(notice)
        if (ring := self._ring) is not None:
            ring()

    def leave(self) -> None:
        """The tab is gone; a further command brings it back."""
        with self._turn:
            self._left = True
            self._documents.leave(self)
            if self._open is not None:
                self._open.document.leave(self)
                self._open.runs.leave(self)

    # --- commands ---------------------------------------------------------------------------

    def _remember(self, client: str, sent: Sent) -> None:
        if sent.command.once:
            try:
                self._documents.handled.keep(client, sent.n)
            except OSError:
                LOG.exception("what was done cannot be remembered beyond a restart")

    def _do(self, command: Command) -> None:
        documents = self._documents
        match command:
            case Hello():
                self._hello(command.document)
            case Seen():
                pass
            case OpenDocument():
                self._show(documents.open(command.document))
            case NewDocument():
                self._show(documents.new(command.template))
            case Import():
                self._show(documents.import_text(command.text, command.name[:200] or "the file"))
            case MakeEdit():
                self._edit(command)
            case Save():
                documents.open(command.document).document.save(overwrite=command.overwrite)
                self._message("success", "Saved")
            case SaveAs():
                self._save_as(documents.open(command.document), command.name)
            case Rename():
                documents.rename(documents.open(command.document).document, command.name)
            case Duplicate():
                self._show(documents.duplicate(documents.open(command.document).document))
            case Delete():
                self._delete(command.document)
            case Revert():
                documents.open(command.document).document.revert()
            case Export():
                shared = documents.open(command.document).document
                self.post(Exported(name=f"{shared.id}.json", text=dump(shared.pipeline), packed=False))
            case ExportCode():
                pipeline = documents.open(command.document).document.pipeline
                self._in_background(command.type, partial(self._export_code, pipeline, command))
            case ListVersions():
                self._list_versions(command)
            case ReadVersion():
                self._read_version(command)
            case KeepDraft():
                shared = documents.open(command.document).document
                documents.files.versions.keep_pipeline(shared.id, shared.pipeline, unsaved=shared.unsaved)
            case AllowFolder():
                self._allow(command.path)
            case Watch():
                self._watched = command.node
                if self._open is not None:
                    self._open.runs.watch(self, command.node)
            case Choose():
                self._profile = command.profile
                if self._open is not None:
                    self._open.analysis.chosen(self)
            case Recheck():
                documents.catalogue_changed()
                documents.open(command.document).analysis.now()
            case StartRun():
                opened = documents.open(command.document)
                self._in_background(command.type, partial(self._start, opened, opened.document.pipeline, command))
            case StartSweep():
                opened = documents.open(command.document)
                self._in_background(command.type, partial(self._sweep, opened, opened.document.pipeline, command))
            case ForecastSweep():
                pipeline = documents.open(command.document).document.pipeline
                self._in_background(command.type, self._forecasts.wrap(partial(self._forecast, pipeline, command)))
            case ResumeRun():
                self._in_background(command.type, partial(resume_run, documents.studio, command.run_id, self._poke))
            case CancelRun():
                self._in_background(command.type, partial(launch.cancel, documents.studio.store, command.run_id))
            case Browse():
                self._in_background(command.type, partial(self._browse, command))

    def _in_background(self, name: str, job: Callable[[], object]) -> None:
        """What may take seconds, in a thread of its own."""

        def work() -> None:
            self._guard(job)
            self._documents.studio.store.close()
            self._poke()

        threading.Thread(target=work, name=name, daemon=True).start()

    def _start(self, opened: LiveDocument, pipeline: Pipeline, command: StartRun) -> None:
        try:
            opened.runs.start(pipeline, command, self._documents.catalogue.catalog)
        except CheckFailed as exc:
            opened.analysis.refuse(self, exc.diagnostics)
            raise

    def _sweep(self, opened: LiveDocument, pipeline: Pipeline, command: StartSweep) -> None:
        try:
            started = opened.runs.sweep(pipeline, command, self._documents.catalogue.catalog)
        except CheckFailed as exc:
            # Of the values, not of the document: they stand in no field that could show them.
            errors = [d.line() for d in exc.diagnostics if d.severity == "error"]
            raise UsageError("; ".join(errors)) from exc
        text = f"A sweep of {plural(started.trials, 'trials')} is at work"
        outlook = f"{started.expected[0].upper()}{started.expected[1:]}." if started.expected else ""
        hints = (started.begun_anew, outlook, "The page Runs ranks them; the canvas shows the newest.")
        self._message("success", text, hint=" ".join(filter(None, hints)))

    def _forecast(self, pipeline: Pipeline, command: ForecastSweep) -> None:
        try:
            found = forecast_of(command, pipeline, self._documents.catalogue.catalog, self._documents.studio)
        except Exception as exc:
            # The dialog waits for its answer, whatever has gone wrong.
            self.post(refused(command, f"it cannot be said what it would run: {type(exc).__name__}: {exc}"))
            raise
        self.post(found)

    def _browse(self, command: Browse) -> None:
        studio = self._documents.studio
        try:
            found = browse(studio.workspace, studio.base, command.request, command.path, anywhere=studio.only_here)
        except Exception as exc:
            # The dialog waits for its answer, whatever has gone wrong.
            self.post(unlisted(command.request, command.path, exc))
            raise
        self.post(found)

    def _allow(self, path: str) -> None:
        studio = self._documents.studio
        if not studio.only_here:
            raise UsageError(
                "folders cannot be allowed from here: the app is open to others",
                hint='Ask whoever started it to list the folder in workspace.json under "data_roots".',
            )
        place = to_allow(studio.base, path)
        allow(studio.workspace, place)
        self._documents.look_again()
        self._message("success", f"Pipelines of this workspace may use {place} now", hint="See workspace.json.")

    def _export_code(self, pipeline: Pipeline, command: ExportCode) -> None:
        self.post(code_of(pipeline, self._documents.catalogue, self._documents.studio, command))

    def _list_versions(self, command: ListVersions) -> None:
        document, versions = self._documents.open(command.document).document.id, self._documents.files.versions
        found: list[VersionInfo] = []
        for item in versions.listed(document):
            nodes, problem = 0, ""
            try:
                nodes = len(versions.read(document, item.name).nodes)
            except PipelineError as exc:
                problem = exc.line()
            found.append(
                VersionInfo(version=item.name, saved=item.saved, unsaved=item.unsaved, nodes=nodes, problem=problem)
            )
        self.post(Versions(request=command.request, versions=found))

    def _read_version(self, command: ReadVersion) -> None:
        document = self._documents.open(command.document).document.id
        try:
            doc = pipeline_to_doc(self._documents.files.versions.read(document, command.version))
            self.post(VersionRead(request=command.request, doc=doc, problem=""))
        except PipelineError as exc:
            self.post(VersionRead(request=command.request, doc=None, problem=exc.line()))

    def _hello(self, document: str | None) -> None:
        self._documents.enter(self)
        self._left = False
        if document is not None:
            self._address = None  # the canvas comes back to what it shows: a document that is gone is no template
        wanted, self._wanted = self._wanted or document or self._address, None
        self._post_everything(wanted)
        self._address = None

    def _show_first(self, wanted: str | None) -> None:
        """Show the document asked for, or a copy of the template that the address names; else the one opened last, else
        any, else a new one from the first template."""
        documents = self._documents
        listed = sorted(documents.library().pipelines, key=lambda p: -(p.modified or time.time()))
        for document in (wanted, documents.drafts.last_opened(), *(p.document for p in listed)):
            # One that was deleted may still be open in another tab; here it is gone.
            if document is None or (document != wanted and not documents.is_there(document)):
                continue
            try:
                copied = document == self._address and not documents.is_there(document)
                if copied and document in documents.files.templates():
                    opened = documents.new(document)
                else:
                    opened = documents.open(document)
                self._join(opened)
            except VoxelflowError as exc:
                if document == wanted:
                    self._report(exc)
            else:
                break
        else:
            opened = documents.new(FIRST_TEMPLATE if FIRST_TEMPLATE in documents.files.templates() else None)
            self._join(opened)
        self._follow(opened)

    def _show(self, opened: LiveDocument) -> None:
        """Show a document in the tab, and keep it up to date.

        Raises `PipelineError` when its file was changed and cannot be read: then the tab shows what it has shown.
        """
        self._join(opened)
        self._follow(opened)

    def _join(self, opened: LiveDocument) -> None:
        before = self._open if self._open is not opened else None
        if before is not None:
            before.runs.leave(self)  # first: nothing in lines of a log says which document they belong to
        try:
            # Before the other is left: a tab that is a member of neither gets no answer to its edits.
            opened.document.join(self)
        except BaseException:
            if before is not None:
                before.runs.watch(self, self._watched)
            raise
        self._open = opened
        if before is not None:
            before.document.leave(self)
            with self._lock:
                displaced = self._link.document != opened.document.id
            if displaced:
                # Someone reverted or renamed the other one between the two: it was sent once more, and hides this one.
                opened.document.join(self)
            self._watched = None

    def _follow(self, opened: LiveDocument) -> None:
        opened.analysis.show(self)
        opened.runs.show(self)
        opened.runs.watch(self, self._watched)
        opened.analysis.now()
        for damage in self._documents.damage():
            self._report(damage)
        self._documents.drafts.remember_opened(opened.document.id)

    def _edit(self, command: MakeEdit) -> None:
        opened = self._documents.open(command.document)
        try:
            opened.document.edit(command.edit, command.ops)
        except PipelineError:
            # The tab shows what was refused: it takes the document anew.
            if self._open is opened:
                self._show(opened)
            raise

    def _save_as(self, before: LiveDocument, name: str) -> None:
        opened = self._documents.save_as(before.document, name)
        if opened is not before:
            self._show(opened)
            before.document.drop_draft(opened.document.pipeline)
        self._message("success", f"Saved as {opened.document.name}")

    def _delete(self, document: str) -> None:
        shown = self._open is not None and self._documents.is_same(self._open, document)
        if shown and self._open is not None:
            self._open.document.leave(self)
            self._open.runs.leave(self)
            self._open = None
        try:
            name = self._documents.delete(document)
        finally:
            if shown:
                self._show_first(None)
        self._message("success", f"Deleted {name}", hint="It is kept in the workspace's trash folder.")

    # --- messages ---------------------------------------------------------------------------

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except CheckFailed as exc:
            first = next(d for d in exc.diagnostics if d.severity == "error")
            where = f"{first.node}: " if first.node else ""
            hint = f"{where}{first.message}. {first.hint}".strip()
            self._message("error", exc.message, hint=hint, node=first.node, parameter=first.parameter)
        except VoxelflowError as exc:
            self._report(exc)
        except Exception as exc:
            LOG.exception("a command of the canvas failed")
            self._message("error", f"Something went wrong: {type(exc).__name__}", hint="The app's log has the details.")

    def _report(self, exc: VoxelflowError) -> None:
        self._message("error", exc.message, hint=exc.hint, node=exc.node, parameter=exc.parameter)

    def _message(
        self, level: Any, text: str, *, hint: str = "", node: str | None = None, parameter: str | None = None
    ) -> None:
        self.post(Message(level=level, text=text, hint=hint, node=node, parameter=parameter))

    def _poke(self) -> None:
        if self._open is not None:
            self._open.runs.poke()

    def _catch_up(self) -> None:
        """The tab was disconnected, or too much waited for it: it gets the whole state again."""
        with self._lock:
            anew, log_lost = self._left or self._link.overflowed, self._link.log_lost
            if self._link.overflowed:
                self._link.start_over()
        if self._left:
            self._left = False
            self._documents.enter(self)
        if self._open is None:
            return
        if anew:
            self._guard(partial(self._post_everything, self.document))
        elif log_lost:
            self._open.runs.watch(self, self._watched)

    def _post_everything(self, document: str | None) -> None:
        self.post(self._documents.welcome())
        self.post(self._documents.library())
        self._show_first(document)
