"""What a run's events add up to. A feed remembers its position in the event log and reads only what is new."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import streamlit as st

from engine.declare.events import Artifact, Event, Facts, Metrics, RunStateChanged, SystemSample, TaskStateChanged
from engine.store.runs import RunStore
from engine.store.stretches import Move
from ui.studio_context import studio

_KINDS = ("metrics", "system", "task-state", "run-state", "facts", "artifact")
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

    def read(self, store: RunStore) -> bool:
        """Take in the events since the last reading; False when there were none."""
        taken = 0
        while taken < _MOST_AT_ONCE:
            page = store.events(self.run_id, self.cursor, _KINDS, _PAGE)
            for _, event in page:
                self._take(event)
            taken += len(page)
            if page:
                self.cursor = page[-1][0]
            if len(page) < _PAGE:
                break
        return taken > 0

    def _take(self, event: Event) -> None:
        node = event.node or ""
        match event:
            case Metrics():
                for name, value in event.values.items():
                    self.metrics.setdefault((node, name), Series()).add(event.step, value)
            case SystemSample():
                for name, value in event.values.items():
                    self.system.setdefault(name, Series()).add(event.time, value)
            case TaskStateChanged():
                before = self._before_attempt or self._last_event
                self.moves.append(Move(event.time, node, event.state, event.attempt, event.reason, before))
            case RunStateChanged(state="running"):
                self._before_attempt = self._last_event
            case Facts():
                self.facts.setdefault(node, {}).update(event.values)
            case Artifact():
                self.artifacts.setdefault(node, []).append(event)
        self._last_event = event.time


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
