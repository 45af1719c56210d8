"""What a run's events add up to, read once: a feed keeps its place in the event log and goes on from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.events import Artifact, Event, Facts, Metrics, SystemSample, TaskStateChanged
from engine.runs import RunStore
from ui.runs.series import Series

_KINDS = ("metrics", "system", "task-state", "facts", "artifact")
_PART = 10_000
_MOST_AT_ONCE = 200_000
"""Events of one reading: about a second. What is left comes with the next one."""


@dataclass(frozen=True)
class Move:
    """A task went over to `state`. `before` is when the run had last been heard of."""

    time: float
    node: str
    state: str
    attempt: int
    reason: str = ""
    before: float = 0.0


@dataclass
class Feed:
    """One run's metrics, system samples and moves. `read` takes in what is new."""

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
    _heard: float = 0.0

    def read(self, store: RunStore) -> bool:
        """Take in the events since the last reading; False when there were none."""
        taken = 0
        while taken < _MOST_AT_ONCE:
            part = store.events(self.run_id, self.cursor, _KINDS, _PART)
            for _, event in part:
                self._take(event)
            taken += len(part)
            if part:
                self.cursor = part[-1][0]
            if len(part) < _PART:
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
                self.moves.append(Move(event.time, node, event.state, event.attempt, event.reason, self._heard))
            case Facts():
                self.facts.setdefault(node, {}).update(event.values)
            case Artifact():
                self.artifacts.setdefault(node, []).append(event)
        self._heard = event.time
