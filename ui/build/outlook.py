"""Looks at a document as it is edited: problems at once, what a run would do when typing pauses.

Two threads, so that a long look at a folder of 650,000 files never delays the problem under the field.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from engine.checks import Checked as Found
from engine.checks import check
from engine.diagnostics import Diagnostic
from engine.observation import Observation
from engine.observe import at_storage, look_into_cache, observe
from engine.profiles import Profile
from engine.resolve import Resolved, resolve
from engine.workspace import storage_of
from ui.build.background import Loop
from ui.build.catalogue import Catalogue, problem
from ui.build.documents import doc_to_pipeline
from ui.build.foresight import Memory, foresee, recall
from ui.build.room import Member, Room
from ui.build.wording import previews_in_words
from ui.protocol.document import Doc
from ui.protocol.notices import Checked, Foreseen
from ui.studio_context import Studio

N = TypeVar("N")
PAUSE_S = 0.8
LONGEST_PAUSE_S = 30.0


_ByProfile = dict[str | None, N]
"""By the profile's name as the tabs have it; None before one is chosen."""


class Outlook:
    """Keeps a room's members told of problems and of what a run would do. Cheap to poke.

    Each is told for the compute profile chosen in its tab: a node may run on one and not on another.
    """

    def __init__(self, room: Room, studio: Studio, catalogue: Catalogue) -> None:
        self._room, self._studio, self._catalogue = room, studio, catalogue
        self._lock = threading.Lock()
        self._checked: _ByProfile[Checked] = {}
        self._refused: tuple[Member, int] | None = None
        self._foreseen: _ByProfile[Foreseen] = {}
        self._memory: Memory | None = None
        self._due = 0.0
        self._pause_s = PAUSE_S
        self._wanted = False
        self._fresh = threading.Condition()
        self._checker = Loop("checks", self._check)
        self._foreseer = Loop("outlook", self._foresee, ended=studio.store.close)

    def edited(self) -> None:
        """The document has changed."""
        self._checker.poke()
        self.soon()

    def soon(self) -> None:
        """Look at the world again when things are quiet: something may have changed."""
        with self._lock:
            self._due = time.monotonic() + self._pause_s
            self._wanted = True
        self._foreseer.poke()

    def now(self) -> None:
        """Look at everything again at once."""
        with self._lock:
            self._due = 0.0
            self._wanted = True
        self._checker.poke()
        self._foreseer.poke()

    def show(self, member: Member) -> None:
        """Tell a new member what is known of the document."""
        with self._lock:
            for known in (self._checked.get(member.profile), self._foreseen.get(member.profile)):
                if known is not None and known.document == self._room.document:
                    member.post(known)

    def chosen(self, member: Member) -> None:
        """The member's tab has another profile."""
        with self._lock:
            if self._refused is not None and self._refused[0] is member:
                self._refused = None
        self.show(member)
        self.now()

    def refuse(self, member: Member, problems: Iterable[Diagnostic]) -> None:
        """Tell `member` why a run could not start. Its values may be at fault, so the next check says how it stands."""
        rev, _ = self._room.snapshot
        with self._lock:
            known = self._checked.get(member.profile)
            previews = known.previews if known is not None else {}
            self._checked.clear()
            self._refused = (member, rev)
            member.post(
                Checked(
                    document=self._room.document, rev=rev, problems=[problem(d) for d in problems], previews=previews
                )
            )

    def wait_checked(self, timeout_s: float) -> bool:
        """Wait until the newest revision has been checked, so that its problems go back with the answer."""
        rev, _ = self._room.snapshot
        with self._fresh:
            return self._fresh.wait_for(lambda: self._is_checked(rev), timeout_s)

    def _is_checked(self, rev: int) -> bool:
        checked = dict(self._checked)
        return all(name in checked and checked[name].rev >= rev for name in self._profiles())

    def _profiles(self) -> list[str | None]:
        """Those chosen in the room, each once."""
        return list(dict.fromkeys(member.profile for member in self._room.members)) or [None]

    def close(self) -> None:
        self._checker.close()
        self._foreseer.close()

    # --- at once ----------------------------------------------------------------------------

    def _check(self) -> None:
        memory = self._memory
        rev, doc = self._room.snapshot
        resolved = self._resolved(doc)
        workspace = self._studio.workspace
        quick = observe(resolved, workspace, None, scan=False)
        checked: _ByProfile[Checked] = {}
        for name in self._profiles():
            profile, storage = self._place(name)
            seen = recall(resolved, at_storage(quick, workspace, storage), memory)
            checked[name] = self._told(rev, check(resolved, seen, profile))
        with self._lock:
            # Meanwhile a full look has come to its end: it knew more.
            outdated = memory is not self._memory
            if not outdated:
                self._post(checked)
        if outdated:
            self._checker.poke()

    def _told(self, rev: int, found: Found) -> Checked:
        return Checked(
            document=self._room.document,
            rev=rev,
            problems=[problem(d) for d in found.diagnostics],
            previews=previews_in_words(found.previews),
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
            # Moving a node gives the same problems again: nobody needs to hear of it.
            if known is None or known.model_copy(update={"rev": now.rev}) != now:
                self._post_but_to_the_refused(name, now)
        with self._fresh:
            self._fresh.notify_all()

    def _post_but_to_the_refused(self, name: str | None, checked: Checked) -> None:
        """A tab that was just told why its run cannot start goes on seeing that until the document changes."""
        refused = self._refused
        if refused is not None and refused[1] == checked.rev:
            self._checked.pop(name, None)  # so that the next revision's problems are told in any case
        else:
            refused = self._refused = None
        for member in self._room.members:
            if member.profile == name and (refused is None or member is not refused[0]):
                member.post(checked)

    # --- when it is quiet -------------------------------------------------------------------

    def _foresee(self) -> float | None:
        with self._lock:
            if not self._wanted:
                return None
            wait = self._due - time.monotonic()
            if wait > 0:
                return wait
            self._wanted = False
        began = time.monotonic()
        self._look()
        took = time.monotonic() - began
        self._pause_s = min(LONGEST_PAUSE_S, max(PAUSE_S, 2 * took))
        return 0.0 if self._wanted else None

    def _look(self) -> None:
        studio = self._studio
        rev, doc = self._room.snapshot
        resolved = self._resolved(doc)
        listed = observe(resolved, studio.workspace, None)
        checked: _ByProfile[Checked] = {}
        foreseen: _ByProfile[Foreseen] = {}
        observation = listed
        for name in self._profiles():
            profile, storage = self._place(name)
            placed = at_storage(listed, studio.workspace, storage)
            observation = look_into_cache(resolved, placed, studio.store, studio.workspace)
            found = check(resolved, observation, profile)
            nodes = foresee(resolved, profile, self._with_last(resolved, observation), found)
            foreseen[name] = Foreseen(document=self._room.document, rev=rev, nodes=nodes)
            checked[name] = self._told(rev, found)
        with self._lock:
            self._memory = Memory(resolved, observation)
            before, self._foreseen = self._foreseen, foreseen
            for name, told in foreseen.items():
                known = before.get(name)
                if known is None or known.model_copy(update={"rev": rev}) != told:
                    for member in self._room.members:
                        if member.profile == name:
                            member.post(told)
            newest = self._room.snapshot[0] == rev
            if newest:
                self._post(checked)
        if not newest:
            # What was found out serves the newer revision too.
            self._checker.poke()

    def _with_last(self, resolved: Resolved, observation: Observation) -> Observation:
        """With what nodes made last that have a problem now: the engine leaves these out."""
        last = dict(observation.last)
        for node in resolved.nodes.keys() - last.keys():
            if before := self._studio.store.newest_of_node(resolved.pipeline.name, node):
                last[node] = before
        return replace(observation, last=last)

    def _resolved(self, doc: Doc) -> Resolved:
        return resolve(doc_to_pipeline(doc), self._catalogue.catalog, base=self._studio.base)
