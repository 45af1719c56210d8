"""What a run's events add up to. A feed remembers its position in the event log and reads only what is new.

A task that was taken from the cache reports nothing. Its curves and files are those of the run that made its result,
which are read once. A task that went on from a shorter result, as a training of more epochs does, or from what a run
that was stopped has left of it, reports what it did itself: its curves begin with those of the runs before. So does
each attempt of a run that was resumed after another run had gone on from what it left.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby, pairwise
from typing import Any, TypeVar

import streamlit as st
from pydantic import ValidationError

from engine.declare.events import Artifact, Event, Facts, Metrics, RunStateChanged, SystemSample, TaskStateChanged
from engine.document.plan import Plan
from engine.store.reported import made_elsewhere
from engine.store.runs import RunStore
from engine.store.stretches import Move
from ui.runs.earlier import Earlier, gone_on_from
from ui.studio_context import studio

_KINDS = ("metrics", "system", "task-state", "run-state", "facts", "artifact")
_KINDS_ELSEWHERE = ("metrics", "artifact", "task-state")
_KINDS_BEFORE = ("metrics",)
_PAGE = 10_000
_MOST_AT_ONCE = 200_000
"""Events of one reading: about a second. The rest comes with the next one."""
_MOST_FEEDS = 36
_T = TypeVar("_T")


@dataclass
class Series:
    """A curve: values by step, steps rising."""

    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: float, value: float) -> None:
        """Add a value. A resumed run reports some steps again: the last value of a step counts."""
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
            self.values.append(value)
            return
        at = bisect_left(self.steps, step)
        if self.steps[at] == step:
            self.values[at] = value
        else:
            self.steps.insert(at, step)
            self.values.insert(at, value)

    @property
    def last(self) -> float | None:
        """The value of the highest step; None when there is none."""
        return self.values[-1] if self.values else None


@dataclass
class _Left:
    """What is still to be read of a run that made results: the events after `after`, of its `nodes`.

    By each of these: the nodes here that have its result, or `before` that, went on from it.
    """

    made_by: str
    nodes: Mapping[str, Sequence[str]]
    after: int = 0
    before: bool = False


@dataclass
class _Reported:
    """What an earlier run reported of a node, as it did: the numbers of the events, and by name the number of the
    event, the step and the value of each figure."""

    of: Earlier
    numbers: array[int] = field(default_factory=lambda: array("q"))
    figures: dict[str, tuple[array[int], array[float], array[float]]] = field(default_factory=dict)

    def add(self, number: int, event: Metrics) -> None:
        self.numbers.append(number)
        for name, value in event.values.items():
            numbers, steps, values = self.figures.setdefault(name, (array("q"), array("d"), array("d")))
            numbers.append(number)
            steps.append(event.step)
            values.append(value)

    def curves(self, first: int, last: int) -> dict[str, Series]:
        """The curves by name of the events from `first` to `last`."""
        out: dict[str, Series] = {}
        for name, (numbers, steps, values) in self.figures.items():
            begin, end = bisect_left(numbers, first), bisect_right(numbers, last)
            for at in range(begin, end):
                out.setdefault(name, Series()).add(steps[at], values[at])
        return out


@dataclass
class _Stretch:
    """The curves of work that a node may have gone on from, by name, each until it is joined to the node's own: to what
    this attempt of the node reported, or one after it."""

    of: Earlier
    curves: dict[str, Series]
    beginning: Beginning
    attempt: int


@dataclass(frozen=True)
class Beginning:
    """The figures of a node up to `steps`, by name: they are of the run `run_id`, which the node went on from.

    A run is there twice where another one went on from it, and it from that one, once it was resumed. `since`: the
    first of these steps, where the node has own ones before.
    """

    run_id: str
    steps: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)


@dataclass
class Feed:
    """One run's metrics, system samples, state changes, facts and artifacts."""

    run_id: str
    cursor: int = 0
    metrics: dict[tuple[str, str], Series] = field(default_factory=dict)
    """By node and metric."""
    system: dict[str, Series] = field(default_factory=dict)
    """By name; a step is the time of the sample in seconds since the epoch."""
    moves: list[Move] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By node."""
    artifacts: dict[str, list[Artifact]] = field(default_factory=dict)
    """By node."""
    _last_event: float = 0.0
    _before_attempt: float = 0.0
    """When the attempt before this one was last heard of; 0 in the first."""
    _cached: set[str] = field(default_factory=set)
    """Nodes that were taken from the cache since it was last asked where their results were made."""
    _made_by: dict[str, str] = field(default_factory=dict)
    """By node, the run that made the result which this one took from the cache."""
    _elsewhere: list[_Left] = field(default_factory=list)
    """What is still to be read of these runs."""
    _started: set[str] = field(default_factory=set)
    """Nodes that began to work, until they have figures and it is asked what they went on from."""
    _asked: dict[str, int] = field(default_factory=dict)
    """By node that was asked about, the number of the event with which it had begun to work the last time."""
    _begun: dict[str, list[int]] = field(default_factory=dict)
    """By node, the numbers of the events with which its attempts began, or those of the node that made its result."""
    _firsts: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    """By node and metric, the first step of each attempt, from 1, and of what is joined before it."""
    _reported: dict[str, list[_Reported]] = field(default_factory=dict)
    """By node, what the runs have reported that it may have gone on from, until all of it is read."""
    _before: dict[str, list[_Stretch]] = field(default_factory=dict)
    """By node, what it may have gone on from, the latest first."""
    _beginnings: dict[str, list[Beginning]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """After a click a page's old script may still be reading when the new one begins."""

    @property
    def makers(self) -> dict[str, str]:
        """By node, the id of the earlier run whose curves and files are shown for it, since that made its result."""
        shown = {node for node, _ in self.metrics} | self.artifacts.keys()
        return {node: run for node, run in self._made_by.items() if node in shown}

    @property
    def beginnings(self) -> dict[str, list[Beginning]]:
        """By node, what begins its curves and is of earlier runs, the latest first."""
        return {node: list(found) for node, found in self._beginnings.items() if found}

    @property
    def is_behind(self) -> bool:
        """Whether more is still to be read of earlier runs, which comes with the next reading."""
        return bool(self._elsewhere)

    def read(self, store: RunStore) -> bool:
        """Take in the events since the last reading; False when there were none."""
        with self._lock:
            return self._read(store)

    def _read(self, store: RunStore) -> bool:
        taken = 0
        while taken < _MOST_AT_ONCE:
            page = store.events(self.run_id, self.cursor, _KINDS, _PAGE)
            for number, event in page:
                self._take(number, event)
            taken += len(page)
            if page:
                self.cursor = page[-1][0]
            if len(page) < _PAGE:
                self._look_elsewhere(store)
                break
        while self._elsewhere and taken < _MOST_AT_ONCE:
            left, limit = self._elsewhere[0], min(_PAGE, _MOST_AT_ONCE - taken)
            found: list[tuple[int, Event]] = []
            # What another version has written may not be readable: then there is less to see of that run, no more.
            with suppress(ValidationError):
                kinds = _KINDS_BEFORE if left.before else _KINDS_ELSEWHERE
                found = store.events(left.made_by, left.after, kinds, limit, left.nodes)
            for left.after, event in found:
                for node in left.nodes[event.node or ""]:
                    if left.before:
                        self._keep_before(left.made_by, node, left.after, event)
                    elif self._made_by.get(node) == left.made_by:
                        self._keep(left.after, event.model_copy(update={"node": node}))
            taken += len(found)
            if len(found) < limit:
                self._elsewhere.pop(0)
        self._join()
        return taken > 0

    def _look_elsewhere(self, store: RunStore) -> None:
        """Find out which runs made the results of the nodes that were taken from the cache since the last time, and
        which runs those and the nodes at work went on from."""
        plans: dict[str, Plan | None] = {}  # of many nodes one plan is read once
        # Those without figures have no curves to begin, and may have been at work often, as what fails each time.
        begun = self._started.intersection(node for node, _ in self.metrics)
        for node in begun:
            self._look_before(store, self.run_id, node, node, plans, self._asked.get(node, 0))
            self._asked[node] = self._begun[node][-1]
        self._started -= begun
        if not self._cached:
            return
        for made_by, nodes_there in made_elsewhere(store, self.run_id).items():
            wanted: dict[str, list[str]] = {}
            for there, nodes in nodes_there.items():
                for node in self._cached.intersection(nodes):
                    self._forget(node)  # what an earlier attempt reported is not of this result
                    self._made_by[node] = made_by
                    wanted.setdefault(there, []).append(node)
            if wanted:
                self._elsewhere.append(_Left(made_by, wanted))
            for there, nodes in wanted.items():
                for node in nodes:
                    self._look_before(store, made_by, there, node, plans)
        self._cached.clear()

    def _look_before(
        self, store: RunStore, run_id: str, there: str, node: str, plans: dict[str, Plan | None], after: int = 0
    ) -> None:
        """Find out what the node went on from, which in `run_id` is called `there`; what was reported up to the event
        `after` is known."""
        for earlier in gone_on_from(store, run_id, there, plans):
            self._reported.setdefault(node, []).append(_Reported(earlier))
            self._elsewhere.append(_Left(earlier.run_id, {earlier.node: [node]}, after, before=True))

    def _keep_before(self, made_by: str, node: str, number: int, event: Event) -> None:
        if not isinstance(event, Metrics):
            return
        for reported in self._reported.get(node, ()):
            if (reported.of.run_id, reported.of.node) == (made_by, event.node):
                reported.add(number, event)

    def _join(self) -> None:
        """Have the curves of nodes that went on begin with those of before, once their own have begun: only then is
        known from where."""
        if self._elsewhere:
            return
        for node, reported in self._reported.items():
            stretches = _stretches(reported, self._begun.get(node, []))
            self._before[node] = [*stretches, *self._before.get(node, [])]
        self._reported.clear()
        for node, stretches in self._before.items():
            for before in stretches:
                for name in list(before.curves):
                    self._join_curve(node, name, before)
            self._beginnings[node] = [before.beginning for before in stretches if before.beginning.steps]

    def _join_curve(self, node: str, name: str, before: _Stretch) -> None:
        """Put what `before` has of a curve in front of what followed it, as far as the node has no steps there."""
        firsts = self._firsts.get((node, name), {})
        attempt = min((each for each in firsts if each >= before.attempt), default=None)
        if attempt is None:
            return  # it has not begun yet
        earlier, own = before.curves[name], self.metrics[node, name]
        at = bisect_left(own.steps, firsts[attempt])
        begin = bisect_right(earlier.steps, own.steps[at - 1]) if at else 0
        end = bisect_left(earlier.steps, firsts[attempt])
        steps, values = earlier.steps[begin:end], earlier.values[begin:end]
        if before.of.stopped and steps and not _meet(steps[-2:], own.steps[at : at + 2]):
            return  # its own next step may say that they do
        del before.curves[name]
        if steps:
            if at:
                before.beginning.since[name] = steps[0]
            before.beginning.steps[name] = steps[-1]
            own.steps[at:at], own.values[at:at] = steps, values
            firsts[attempt] = steps[0]

    def _forget(self, node: str) -> None:
        by_node: tuple[dict[str, Any], ...] = (
            self._made_by, self._reported, self._before, self._beginnings, self._asked, self._begun, self.artifacts,
        )  # fmt: skip
        for found in by_node:
            found.pop(node, None)
        for key in [key for key in self.metrics if key[0] == node]:
            del self.metrics[key], self._firsts[key]

    def _keep(self, number: int, event: Event) -> None:
        """Take in a figure, a file, or that an attempt began with the event of this number."""
        node = event.node or ""
        match event:
            case Metrics():
                attempt = len(self._begun.get(node, ()))
                for name, value in event.values.items():
                    self.metrics.setdefault((node, name), Series()).add(event.step, value)
                    self._firsts.setdefault((node, name), {}).setdefault(attempt, event.step)
            case Artifact():
                self.artifacts.setdefault(node, []).append(event)
            case TaskStateChanged(state="running"):
                self._begun.setdefault(node, []).append(number)

    def _take(self, number: int, event: Event) -> None:
        node = event.node or ""
        match event:
            case Metrics() | Artifact():
                self._keep(number, event)
            case SystemSample():
                for name, value in event.values.items():
                    self.system.setdefault(name, Series()).add(event.time, value)
            case TaskStateChanged():
                if event.state == "cached":
                    self._cached.add(node)
                    self._started.discard(node)
                else:
                    self._cached.discard(node)
                    if node in self._made_by:  # a resumed run: the node may work now
                        self._forget(node)
                if event.state == "running":
                    self._started.add(node)
                    self._keep(number, event)
                before = self._before_attempt or self._last_event
                self.moves.append(Move(event.time, node, event.state, event.attempt, event.reason, before))
            case RunStateChanged(state="running"):
                self._before_attempt = self._last_event
            case Facts():
                self.facts.setdefault(node, {}).update(event.values)
        self._last_event = event.time


def _stretches(runs: Iterable[_Reported], begun: Sequence[int]) -> list[_Stretch]:
    """What was reported as stretches of work that followed one another, the latest first.

    Runs that were at the same work took turns where one of them was resumed after another had gone on: each of their
    turns is a stretch. `runs` are as `gone_on_from` gives them; the attempts of the one that went on from them began
    with the events `begun`. What was done after those is not what it went on from.
    """
    out: list[_Stretch] = []
    at_work: list[list[_Reported]] = [[]]
    for run in runs:
        if not run.of.stopped:  # it made a result; those that follow were stopped at that
            at_work.append([])
        at_work[-1].append(run)
    for same in at_work:
        events = merge(*([(number, at) for number in run.numbers] for at, run in enumerate(same)))
        turns = groupby(events, lambda event: (event[1], bisect_left(begun, event[0])))
        found = [(same[at], before, [number for number, _ in turn]) for (at, before), turn in turns]
        made = False
        for run, before, numbers in reversed(found):
            if before == len(begun) > 0:
                continue
            # Only the last turn of a run ended with its result.
            of = replace(run.of, stopped=True) if made else run.of
            made = made or not of.stopped
            attempt = min(before + 1, len(begun))
            out.append(_Stretch(of, run.curves(numbers[0], numbers[-1]), Beginning(of.run_id), attempt))
    return out


def _meet(before: Sequence[float], own: Sequence[float]) -> bool:
    """Whether no step is missing between the last steps of an earlier curve and the first ones of a later: as far as
    they tell, since a curve may have but every tenth."""
    apart = max([1.0, *(after - at for at, after in (*pairwise(before), *pairwise(own[:2])))])
    return own[0] - before[-1] <= apart


def feed_of(run_id: str) -> Feed:
    """The run's feed, up to date; this browser tab keeps it."""
    feed = kept_by_tab("run_feeds", run_id, lambda: Feed(run_id), _MOST_FEEDS)
    feed.read(studio().store)
    return feed


def kept_by_tab(name: str, run_id: str, make: Callable[[], _T], most: int) -> _T:
    """What this browser tab keeps of the run under `name`, made at first; of the `most` runs looked at last."""
    kept: OrderedDict[str, _T] = st.session_state.setdefault(name, OrderedDict())
    if run_id not in kept:
        kept[run_id] = make()
    kept.move_to_end(run_id)
    while len(kept) > most:
        kept.popitem(last=False)
    return kept[run_id]
