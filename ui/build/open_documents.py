"""All that the tabs of one app share: the documents that are open, and what can be done with whole documents."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from engine.catalog import Catalog
from engine.document.pipeline import MAX_NAME, Pipeline, dump
from engine.errors import PipelineError, UsageError
from ui.build.analysis import DocumentAnalysis
from ui.build.catalogue import Catalogue
from ui.build.document_runs import DocumentRuns
from ui.build.documents import document_id, free_name
from ui.build.drafts import Draft, Drafts
from ui.build.library import Library as Files
from ui.build.library import list_library, read_text
from ui.build.link import HandledCommands
from ui.build.shared_document import Member, SharedDocument
from ui.protocol.notices import Library, Welcome
from ui.studio_context import Studio

FIRST_TEMPLATE = "quickstart"
_LIBRARY_EVERY_S = 2.0


@dataclass(frozen=True)
class LiveDocument:
    """A document that is open, its checks and its runs."""

    document: SharedDocument
    analysis: DocumentAnalysis
    runs: DocumentRuns

    def close(self) -> None:
        """End its threads."""
        self.analysis.close()
        self.runs.close()


class OpenDocuments:
    """The open documents of one workspace. May be used by any thread."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.files = Files(studio.workspace)
        self.drafts = Drafts(studio.workspace)
        self.catalogue = Catalogue(studio.workspace, studio.make_catalog)
        self.handled = HandledCommands(self.drafts.handled_file)
        self._lock = threading.RLock()
        self._open: dict[str, LiveDocument] = {}
        self._renamed: dict[str, str] = {}
        self._tabs: list[Member] = []
        self._library: Library | None = None
        self._library_state: object = None
        self._damage: list[PipelineError] = []
        self._catalog: Catalog | None = None
        self._profiles: object = None
        self._looked_at = 0.0

    # --- tabs -------------------------------------------------------------------------------

    def enter(self, tab: Member) -> None:
        """Send `tab` the news of the workspace from now on."""
        with self._lock:
            if tab not in self._tabs:
                self._tabs.append(tab)

    def leave(self, tab: Member) -> None:
        """The tab is gone."""
        with self._lock:
            if tab in self._tabs:
                self._tabs.remove(tab)

    def each_second(self) -> None:
        """What must be looked at from time to time; called by each document's runs."""
        with self._lock:
            due = time.monotonic() - self._looked_at >= _LIBRARY_EVERY_S
            if due:
                self._looked_at = time.monotonic()
        if due:
            self.catalogue_changed()
            if self.files.state() != self._library_state:
                self.library_changed()

    def welcome(self) -> Welcome:
        """The catalogue and the profiles, and whether anything was ever run here."""
        return self.catalogue.welcome(ran=bool(self.studio.store.runs(1)))

    def library(self) -> Library:
        """The pipelines of the workspace, and the templates."""
        with self._lock:
            if self._library is None:
                self._library = self._list()
            return self._library

    def library_changed(self) -> None:
        """Send every tab the list of pipelines, if it has changed."""
        with self._lock:
            before, self._library = self._library, self._list()
            news = self._library
            tabs = list(self._tabs)
        if news != before:
            for tab in tabs:
                tab.post(news)

    def catalogue_changed(self) -> None:
        """If the person's own nodes or profiles have changed, inform all tabs and check all documents."""
        with self._lock:
            before, self._catalog = self._catalog, self.catalogue.catalog
            profiles, self._profiles = self._profiles, self.catalogue.profiles_state()
            if before is None or (before is self._catalog and profiles == self._profiles):
                return
            tabs, opened = list(self._tabs), list(self._open.values())
        welcome = self.welcome()
        for tab in tabs:
            tab.post(welcome)
        for item in opened:
            if item.document.members:
                item.analysis.now()

    def look_again(self) -> None:
        """What pipelines may use has changed: all documents are checked anew."""
        with self._lock:
            opened = list(self._open.values())
        for item in opened:
            if item.document.members:
                item.analysis.now()

    def damage(self) -> list[PipelineError]:
        """Drafts that were found damaged and have not been reported yet."""
        with self._lock:
            out, self._damage = self._damage, []
            return out

    def close(self) -> None:
        """End all threads; drafts are on disk already."""
        with self._lock:
            opened = list(self._open.values())
        for item in opened:
            item.close()

    # --- documents --------------------------------------------------------------------------

    def open(self, document: str) -> LiveDocument:
        """The document, opened on first use. Raises `PipelineError` when there is none, or it cannot be read."""
        with self._lock:
            document = self._now_called(document)
            known = self._open.get(document)
            if known is not None and (known.document.members or self.is_there(document)):
                return known
            shared = SharedDocument(document, self._load(document), self.drafts, self.files)
            self._open[document] = self._furnish(shared)
            return self._open[document]

    def new(self, template: str | None) -> LiveDocument:
        """A new document, unsaved: empty or from a template. Raises `UsageError` for an unknown template."""
        if template is None:
            return self.add(Pipeline(name="untitled"))
        pipeline = self.files.templates().get(template)
        if pipeline is None:
            raise UsageError(f"there is no template {template[:80]}", hint="Choose one from Start.")
        return self.add(pipeline)

    def import_text(self, text: str, where: str) -> LiveDocument:
        """A document from a pipeline's JSON, unsaved. Raises `PipelineError` when the text is not one."""
        return self.add(read_text(text, where))

    def add(self, pipeline: Pipeline) -> LiveDocument:
        """A new, unsaved document that holds `pipeline`, under a name that is still free."""
        with self._lock:
            pipeline = pipeline.model_copy(update={"name": free_name(pipeline.name, self._names())})
            document = document_id(pipeline.name, self._taken())
            self.drafts.write(document, dump(pipeline), None, 0, ())
            out = self.open(document)
        self.library_changed()
        return out

    def save_as(self, shared: SharedDocument, name: str) -> LiveDocument:
        """Save the document as another one.

        Raises `UsageError` for a name that cannot be used, and as `SharedDocument.save`. What was a draft and
        nothing else goes along: only the new document is left.
        """
        with self._lock:
            only_a_draft = shared.disk == "new"
            name = self._fit(name, shared if only_a_draft else None)
            if only_a_draft:
                if name != shared.name:
                    self._rename(shared, name)
                shared.save()
                return self._open[shared.id]
            pipeline = shared.pipeline.model_copy(update={"name": name})
            document = document_id(name, self._taken())
            self.files.write(document, pipeline, None)
            out = self.open(document)
        self.library_changed()
        return out

    def rename(self, shared: SharedDocument, name: str) -> None:
        """Another name for a document and its file. Raises as `SharedDocument.rename`, `UsageError` for a bad name."""
        with self._lock:
            name = self._fit(name, shared)
            if name != shared.name:
                self._rename(shared, name)

    def duplicate(self, shared: SharedDocument) -> LiveDocument:
        """A saved copy of the draft, called `NAME copy`."""
        with self._lock:
            pipeline = shared.pipeline
            name = free_name(f"{pipeline.name[: MAX_NAME - 11]} copy", self._names())
            document = document_id(name, self._taken())
            self.files.write(document, pipeline.model_copy(update={"name": name}), None)
            out = self.open(document)
        self.library_changed()
        return out

    def delete(self, document: str) -> str:
        """Move a document's file and draft to the workspace's trash; gives its name.

        Tabs that have it open keep what they show, and may save it again.
        """
        with self._lock:
            document = self._now_called(document)
            opened = self._open.get(document)
            if opened is not None:
                name = opened.document.name
                if self.files.signature(document) is None and not opened.document.unsaved:
                    raise self._gone(document)
                opened.document.delete()
                if not opened.document.members:
                    del self._open[document]
            else:
                draft = self._draft(document)
                name = document if draft is None else draft.pipeline.name
                unsaved = draft.pipeline if draft is not None and draft.unsaved else None
                if self.files.signature(document) is None and unsaved is None:
                    raise self._gone(document)
                self.files.to_trash(document, unsaved)
                self.drafts.remove(document)
        if opened is not None and document not in self._open:
            opened.close()
        self.library_changed()
        return name

    def is_there(self, document: str) -> bool:
        """Whether the document has a file or a draft."""
        return self.files.signature(document) is not None or self.drafts.has(document)

    def is_same(self, opened: LiveDocument, document: str) -> bool:
        """Whether `document` means the document `opened`, perhaps by the name it had before."""
        with self._lock:
            return opened.document.id == self._now_called(document)

    # --- parts, all under the lock ----------------------------------------------------------

    def _load(self, document: str) -> Draft:
        # Refuses what is no document's id: it would be reported twice, once as a damaged draft.
        self.files.path(document)
        draft = self._draft(document)
        if draft is not None:
            return draft
        stored = self.files.read(document)
        if stored is None:
            raise PipelineError(
                f"there is no pipeline {document[:80]}",
                hint="Look for it on Start: it may have been renamed or deleted.",
            )
        return Draft(stored.pipeline, stored.base, 0, ())

    def _furnish(self, shared: SharedDocument) -> LiveDocument:
        analysis = DocumentAnalysis(shared, self.studio, self.catalogue)
        runs = DocumentRuns(shared, self.studio, self.each_second)
        shared.changed = analysis.edited
        shared.unsaved_changed = self.library_changed
        runs.run_ended = analysis.soon
        return LiveDocument(shared, analysis, runs)

    def _rename(self, shared: SharedDocument, name: str) -> None:
        old = shared.id
        document = document_id(name, self._taken() - {old})
        try:
            shared.rename(document, name)
        finally:
            if shared.id != old:
                self._open[document] = self._open.pop(old)
                self._renamed[old] = document
                self._renamed.pop(document, None)
        self._open[document].runs.poke()

    def _now_called(self, document: str) -> str:
        # A tab may not know yet that its document was renamed.
        while document not in self._open and document in self._renamed and not self.is_there(document):
            document = self._renamed[document]
        return document

    def _fit(self, name: str, own: SharedDocument | None) -> str:
        name = name.strip()
        if not 1 <= len(name) <= MAX_NAME:
            raise UsageError(f"a pipeline's name has 1 to {MAX_NAME} characters", hint="Type such a name.")
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise UsageError("the pipeline's name has a broken character", hint="Type it again.")
        if name in self._names(but=own.id if own else None):
            # Runs are distinguished by their pipeline's name.
            raise UsageError(f"there is a pipeline called {name} already", hint="Choose another name.")
        return name

    def _taken(self) -> set[str]:
        return {d for d, _ in self.files.state()} | set(self.drafts.documents()) | self._open.keys()

    def _names(self, but: str | None = None) -> set[str]:
        return {info.name for info in self._list().pipelines if info.document != but}

    @staticmethod
    def _gone(document: str) -> PipelineError:
        return PipelineError(
            f"there is no pipeline {document[:80]}", hint="Look in the trash: someone else may have deleted it."
        )

    def _draft(self, document: str) -> Draft | None:
        try:
            return self.drafts.read(document)
        except PipelineError as exc:
            if str(exc) not in map(str, self._damage):  # one that cannot be set aside is found at each look
                self._damage.append(exc)
            return None

    def _list(self) -> Library:
        self._library_state = self.files.state()
        return list_library(self.files, self.drafts.documents(), self._draft)
