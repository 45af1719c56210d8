"""Checks a document as it is edited: problems at once, what a run would do when typing pauses.

Two threads, so that a long look at a folder of 650,000 files never delays the problem under the field.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from engine.advisor.run_estimate import node_times, storage_costs
from engine.advisor.sources import advice_by_node, trainings
from engine.diagnostics.rule import Diagnostic
from engine.document.checks import Checked as Found
from engine.document.checks import Observation, check
from engine.document.resolve import Resolved, resolve
from engine.observe.observe import at_storage, look_into_cache, observe
from engine.profiles import Profile
from engine.workspace import storage_of
from ui.build.background import Loop
from ui.build.catalogue import Catalogue, problem
from ui.build.documents import doc_to_pipeline
from ui.build.forecast import Memory, all_listed, forecast, recall
from ui.build.shared_document import Member, SharedDocument
from ui.build.status import previews_in_words, views_of
from ui.protocol.document import Doc
from ui.protocol.notices import Checked, RunForecast
from ui.studio_context import Studio

N = TypeVar("N")
PAUSE_S = 0.8
LONGEST_PAUSE_S = 30.0


_ByProfile = dict[str | None, N]
"""By the profile's name as the tabs have it; None before one is chosen."""


class DocumentAnalysis:
    """Sends a document's members its problems and what a run would do. Cheap to poke.

    Each gets those of the compute profile chosen in its tab: a node may run on one and not on another.
    """

    def __init__(self, shared: SharedDocument, studio: Studio, catalogue: Catalogue) -> None:
        self._shared, self._studio, self._catalogue = shared, studio, catalogue
        self._lock = threading.Lock()
        self._checked: _ByProfile[Checked] = {}
        self._refused: tuple[Member, int] | None = None
        self._forecasts: _ByProfile[RunForecast] = {}
        self._memory: Memory | None = None
        self._oldest_rev = 0
        self._due = 0.0
        self._pause_s = PAUSE_S
        self._wanted = False
        self._checker = Loop("checks", self._check)
        self._forecaster = Loop("forecast", self._forecast_when_quiet, ended=studio.store.close)

    def edited(self) -> None:
        """The document has changed."""
        self._checker.poke()
        self.soon()

    def soon(self) -> None:
        """Look at the disk again when things are quiet: something may have changed."""
        with self._lock:
            self._due = time.monotonic() + self._pause_s
            self._wanted = True
        self._forecaster.poke()

    def now(self) -> None:
        """Look at everything again at once."""
        with self._lock:
            self._due = 0.0
            self._wanted = True
        self._checker.poke()
        self._forecaster.poke()

    def show(self, member: Member) -> None:
        """Send a new member what is known of the document as it is now; `now` is expected to be called next.

        The problems of an older revision are not sent, neither those known nor those of a check that is under way:
        Run would be disabled by errors that are solved.
        """
        with self._lock:
            self._oldest_rev = self._shared.changed_rev
            for known in (self._checked.get(member.profile), self._forecasts.get(member.profile)):
                if known is None or known.document != self._shared.id:
                    continue
                if isinstance(known, RunForecast) or known.rev >= self._oldest_rev:
                    member.post(known)

    def chosen(self, member: Member) -> None:
        """The member's tab has another profile."""
        with self._lock:
            if self._refused is not None and self._refused[0] is member:
                self._refused = None
        self.show(member)
        self.now()

    def refuse(self, member: Member, problems: Iterable[Diagnostic]) -> None:
        """Send `member` why a run could not start. Its values may be at fault: the next check gives the document's."""
        rev, _ = self._shared.snapshot
        with self._lock:
            known = self._checked.get(member.profile)
            if known is None:
                known = Checked(
                    document=self._shared.id, rev=rev, problems=[], previews={}, views={}, does={}, listed=False
                )
            self._checked.clear()
            self._refused = (member, rev)
            member.post(known.model_copy(update={"rev": rev, "problems": [problem(d) for d in problems]}))

    def _profiles(self) -> list[str | None]:
        """Those chosen in the tabs, each once."""
        return list(dict.fromkeys(member.profile for member in self._shared.members)) or [None]

    def close(self) -> None:
        """End both threads."""
        self._checker.close()
        self._forecaster.close()

    # --- at once ----------------------------------------------------------------------------

    def _check(self) -> None:
        memory = self._memory
        rev, doc = self._shared.snapshot
        resolved = self._resolved(doc)
        workspace = self._studio.workspace
        quick = observe(resolved, workspace, None, scan=False)
        checked: _ByProfile[Checked] = {}
        for name in self._profiles():
            profile, storage = self._place(name)
            seen = recall(resolved, at_storage(quick, workspace, storage), memory)
            listed = memory is not None and all_listed(quick, seen)
            checked[name] = self._notice(rev, check(resolved, seen, profile), listed=listed)
        with self._lock:
            # Meanwhile a full look has come to its end: it knew more.
            # Or a tab has joined: it waits for the problems of the document that it shows.
            outdated = memory is not self._memory or rev < self._oldest_rev
            if not outdated:
                self._post(checked)
        if outdated:
            self._checker.poke()

    def _notice(self, rev: int, found: Found, *, listed: bool) -> Checked:
        return Checked(
            document=self._shared.id,
            rev=rev,
            problems=[problem(d) for d in found.diagnostics],
            previews=previews_in_words(found.previews),
            views=views_of(found.previews, self._studio.shown.key),
            does={node: preview.does for (node, _), preview in found.previews.items() if preview.does},
            listed=listed,
        )

    def _place(self, name: str | None) -> tuple[Profile, Path | None]:
        """The profile, and where its results lie when that is not the workspace."""
        profile = self._catalogue.profile(name)
        if profile.storage_root is None:
            return profile, None
        return profile, storage_of(self._studio.workspace, profile.storage_root).root

    def _post(self, checked: _ByProfile[Checked]) -> None:
        """Under the lock."""
        before, self._checked = self._checked, dict(checked)
        for name, now in checked.items():
            known = before.get(name)
            # Moving a node gives the same problems again: they need not be sent.
            if known is None or known.model_copy(update={"rev": now.rev}) != now:
                self._post_but_to_the_refused(name, now)

    def _post_but_to_the_refused(self, name: str | None, checked: Checked) -> None:
        """A tab that just got the reasons why its run cannot start keeps them until the document changes."""
        refused = self._refused
        if refused is not None and refused[1] == checked.rev:
            self._checked.pop(name, None)  # so that the next revision's problems are sent in any case
        else:
            refused = self._refused = None
        for member in self._shared.members:
            if member.profile == name and (refused is None or member is not refused[0]):
                member.post(checked)

    # --- when it is quiet -------------------------------------------------------------------

    def _forecast_when_quiet(self) -> float | None:
        with self._lock:
            if not self._wanted:
                return None
            wait = self._due - time.monotonic()
            if wait > 0:
                return wait
            self._wanted = False
        began = time.monotonic()
        try:
            self._look()
        except BaseException:
            self._wanted = True  # the loop repeats the step
            raise
        took = time.monotonic() - began
        self._pause_s = min(LONGEST_PAUSE_S, max(PAUSE_S, 2 * took))
        return 0.0 if self._wanted else None

    def _look(self) -> None:
        studio = self._studio
        rev, doc = self._shared.snapshot
        resolved = self._resolved(doc)
        listed = observe(resolved, studio.workspace, None)
        checked: _ByProfile[Checked] = {}
        forecasts: _ByProfile[RunForecast] = {}
        observation = listed
        for name in self._profiles():
            profile, storage = self._place(name)
            placed = at_storage(listed, studio.workspace, storage)
            observation = look_into_cache(resolved, placed, studio.store, studio.workspace)
            found = check(resolved, observation, profile)
            advice = advice_by_node(resolved, found.previews, observation, studio.workspace, profile)
            times = node_times(resolved, found.previews, observation, studio.workspace, studio.store, profile)
            paid = storage_costs(trainings(resolved, found.previews, observation), studio.workspace)
            last = self._with_last(resolved, observation)
            nodes = forecast(resolved, profile, last, found, self._studio.shown, advice, times, paid)
            forecasts[name] = RunForecast(document=self._shared.id, rev=rev, nodes=nodes)
            checked[name] = self._notice(rev, found, listed=True)
        with self._lock:
            self._memory = Memory(resolved, observation)
            before, self._forecasts = self._forecasts, forecasts
            for name, now in forecasts.items():
                known = before.get(name)
                if known is None or known.model_copy(update={"rev": rev}) != now:
                    for member in self._shared.members:
                        if member.profile == name:
                            member.post(now)
            newest = self._shared.snapshot[0] == rev
            if newest:
                self._post(checked)
        if not newest:
            # What was found out serves the newer revision too.
            self._checker.poke()

    def _with_last(self, resolved: Resolved, observation: Observation) -> Observation:
        """With what nodes made last that have a problem now: the engine leaves these out."""
        last = dict(observation.last)
        for node in resolved.nodes.keys() - last.keys():
            if before := self._studio.store.results.newest_of_node(resolved.pipeline.name, node):
                last[node] = before
        return replace(observation, last=last)

    def _resolved(self, doc: Doc) -> Resolved:
        return resolve(doc_to_pipeline(doc), self._catalogue.catalog, base=self._studio.base)
