"""`track(...)`: the one call with which a node reports progress and can be cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

from engine.errors import Cancelled
from engine.events import Progress

T = TypeVar("T")
INTERVAL_S = 0.2
"""Least time between two progress events of one task: five a second look live and cost nothing."""


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
