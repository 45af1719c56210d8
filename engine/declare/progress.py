"""`track(...)`: the one call with which a node reports progress and can be cancelled.

A task with several phases names each (`enter_phase`). One that knows beforehand how much work they are has the time
left counted over all of them (`Phases`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engine.declare.events import Progress
from engine.errors import Cancelled

T = TypeVar("T")
INTERVAL_S = 0.2
"""Least time between two progress events of one task: five a second look live and cost nothing."""
_MEMORY_S = 60.0
"""A pace is that of the last minute or so: the time left follows a change of speed, and one slow step is forgotten."""


class Reporter(Protocol):
    """Where progress goes, and whether someone asked to stop."""

    def emit(self, event: Progress, /) -> None: ...

    def cancelled(self) -> bool: ...


current_reporter: ContextVar[Reporter | None] = ContextVar("current_reporter", default=None)


class Meter:
    """Counts work done and reports it, at most every `INTERVAL_S`, with its rate.

    The rate is that of the last ten seconds or so, so that the time left follows a change of speed. `label` may be
    changed on the way.
    """

    def __init__(self, total: float | None, unit: str, label: str, start: float = 0) -> None:
        self._reporter = current_reporter.get()
        self._total, self._unit, self.label = total, unit, label
        self._done = start
        now = time.monotonic()
        self._sent_at = now - INTERVAL_S
        self._marks = [(now, float(start))]

    def add(self, amount: float = 1) -> None:
        """Report `amount` more done. Raises `Cancelled` when someone asked to stop."""
        self._done += amount
        now = time.monotonic()
        if now - self._sent_at >= INTERVAL_S:
            self._send(now)

    def finish(self) -> None:
        """Report what is done, however recent the last report is. Raises `Cancelled` as `add` does."""
        self._send(time.monotonic())

    def _send(self, now: float) -> None:
        reporter = self._reporter
        if reporter is None:
            return
        self._sent_at = now
        self._marks = [m for m in self._marks if now - m[0] < 10] or self._marks[-1:]
        since, before = self._marks[0]
        rate = (self._done - before) / (now - since) if now > since else None
        self._marks.append((now, self._done))
        reporter.emit(
            Progress(done=self._done, total=self._total, unit=self._unit, label=self.label, rate=rate or None)
        )
        if reporter.cancelled():
            raise Cancelled("cancelled on request")


@dataclass(frozen=True)
class PlannedWork:
    """Work of one kind: `total` units in the whole task, of which earlier attempts did `done`.

    `weight` is what a unit takes beside one of another kind: for the share that is done, and for the time left until
    the kind itself was measured. Work of weight 0 is no part of the share; its time counts once it is known.
    """

    total: float
    done: float = 0.0
    weight: float = 1.0


class Phases:
    """Names what a task does now, and says how far the whole of it is and how long the rest takes.

    While it is `reporting`, every report of a `Meter` carries both. What an earlier attempt did counts as done and not
    as done in these seconds: the time left goes by what this process has measured. The first measurement of a kind is
    not counted, since frameworks compile something then. The share never falls.
    """

    def __init__(
        self, reporter: Reporter | None = None, *, phase: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reporter = reporter or current_reporter.get()
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}
        self._phase, self._kind, self._start = phase, "", 0.0
        self._since, self._sent_at = clock(), -math.inf
        self._share = 0.0
        self.waited: Callable[[], float] | None = None
        """Gives the seconds that this process has waited for data so far."""

    @contextmanager
    def reporting(self) -> Iterator[Phases]:
        """Be what meters report to while the block runs."""
        token = current_reporter.set(self)
        try:
            yield self
        finally:
            current_reporter.reset(token)

    def plan(self, kinds: Mapping[str, PlannedWork]) -> None:
        """Say how much work there is, by kind."""
        self._kinds = {name: _Kind(work) for name, work in kinds.items()}

    def enter(self, phase: str, kind: str = "", start: float = 0.0) -> None:
        """Begin the phase and report its name. Meters made in it count work of `kind`, of which `start` came before.

        Phases with a kind that follow one another fast are reported with what their meters report.
        """
        now = self._clock()
        self._phase, self._kind, self._start, self._since = phase, kind, start, now
        if not kind or now - self._sent_at >= INTERVAL_S:
            self._sent_at = now
            self._send(Progress(done=0.0))

    def advance(self, done: float) -> None:
        """Count `done` units of the phase's work without a report; for what is over too fast for a meter."""
        self._measure(done)

    def done(self, kind: str) -> float:
        """The units of this kind that are done; 0 when none were planned."""
        return self._kinds[kind].done if kind in self._kinds else 0.0

    def drop_rest(self, kind: str, kept: float = 0.0) -> None:
        """What is left of this kind is not needed after all, but for `kept` units."""
        if (found := self._kinds.get(kind)) is not None:
            found.total = min(found.total, found.done + kept)

    @property
    def share(self) -> float | None:
        """The share of the planned work that is done, from 0 to 1; None without a plan."""
        whole = sum(kind.weight * kind.total for kind in self._kinds.values())
        if not whole:
            return None
        done = sum(kind.weight * kind.done for kind in self._kinds.values())
        self._share = max(self._share, min(1.0, done / whole))
        return self._share

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest of the planned work takes at the pace of this process; None until that is known."""
        paces = [kind.pace / kind.weight for kind in self._kinds.values() if kind.pace is not None and kind.weight]
        if not paces:
            return None
        return sum(
            (kind.pace if kind.pace is not None else paces[0] * kind.weight) * (kind.total - kind.done)
            for kind in self._kinds.values()
        )

    def emit(self, event: Progress, /) -> None:
        """Pass on a meter's report with the phase, the share and the time left."""
        self._measure(event.done)
        self._send(event)

    def cancelled(self) -> bool:
        """Whether someone asked to stop."""
        return self._reporter is not None and self._reporter.cancelled()

    def _measure(self, done: float) -> None:
        kind = self._kinds.get(self._kind)
        if kind is not None and kind.reach(self._start + done, self._clock() - self._since):
            self._since = self._clock()

    def _send(self, event: Progress) -> None:
        if self._reporter is None:
            return
        waited = self.waited() if self.waited is not None else None
        known = {
            "phase": self._phase,
            "share": self.share,
            "left_s": self.seconds_left,
            "samples": self._samples(),
            "waited_s": waited,
        }
        self._reporter.emit(event.model_copy(update=known))

    def _samples(self) -> float | None:
        """What was done of the kind that the task is about, while it does that: others, such as an evaluation, go at
        another pace."""
        now = self._kinds.get(self._kind)
        if now is None or now.weight < max(kind.weight for kind in self._kinds.values()):
            return None
        return now.done - now.begun


class _Kind:
    """Work of one kind with the seconds that a unit takes."""

    def __init__(self, work: PlannedWork) -> None:
        self.total, self.weight = work.total, work.weight
        self.begun = self.done = min(work.done, work.total)
        self._first = True
        self._units = self._seconds = 0.0

    @property
    def pace(self) -> float | None:
        """Seconds a unit; None until it was measured twice."""
        return self._seconds / self._units if self._units else None

    def reach(self, done: float, seconds: float) -> bool:
        """So much of it is done by now, the newest of it in so many seconds; False when that is nothing new."""
        units = min(done, self.total) - self.done
        if units <= 0:
            return False
        self.done += units
        if self._first:
            self._first = False
            return True
        kept = math.exp(-max(0.0, seconds) / _MEMORY_S)
        self._units = self._units * kept + units
        self._seconds = self._seconds * kept + max(0.0, seconds)
        return True


def enter_phase(name: str) -> None:
    """Name what the task does from here on, as in "Measuring the input". Outside a run it does nothing."""
    reporter = current_reporter.get()
    if isinstance(reporter, Phases):
        reporter.enter(name)
    elif reporter is not None:
        reporter.emit(Progress(done=0.0, phase=name))


def current_phases() -> Phases:
    """Those of the task that this is part of; new ones outside a run."""
    reporter = current_reporter.get()
    return reporter if isinstance(reporter, Phases) else Phases(reporter)


def track(
    items: Iterable[T],
    *,
    total: float | None = None,
    unit: str = "items",
    label: str = "",
    amount: Callable[[T], float] | None = None,
    start: float = 0,
) -> Iterator[T]:
    """Yield `items`, reporting each one as done when the next is asked for.

    `total` defaults to `len(items)` where there is one. `amount` gives the units in one item (a
    batch of 32 volumes counts 32); `start` is what was done before, when resuming. Raises
    `Cancelled` between two items once someone asked to stop. Outside a run it only yields.
    """
    if total is None:
        length = getattr(items, "__len__", None)
        total = length() if length else None
    meter = Meter(total, unit, label, start)
    for item in items:
        yield item
        meter.add(amount(item) if amount else 1)
    meter.finish()
