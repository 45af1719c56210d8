"""A run and its tasks, as the run store gives them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.declare.datasets import Dataset
from engine.declare.events import Progress, RunState, TaskState
from engine.limit import Limit
from engine.store.estimates import Estimated

ACTIVE: tuple[RunState, ...] = ("starting", "running", "stuck")
"""A run in one of these states has not ended."""


@dataclass(frozen=True)
class Run:
    """One row of the history.

    `state` is "lost" when the run's process died without reporting a result; `error` is then the likely reason, if
    any. It is "stuck" when the process lives and has done nothing for `STUCK_AFTER_S` (`engine.store.liveness`): it
    reads no request to cancel either, so `launch.cancel` ends it.
    """

    run_id: str
    pipeline: str
    document: str
    options: Mapping[str, Any]
    profile: str
    state: RunState
    error: str
    created: float
    started: float | None
    ended: float | None
    heartbeat: float | None
    pid: int | None
    host: str | None
    attempt: int
    cancel: bool
    idle_s: float = 0.0
    measured_s: float = 0.0
    paused_s: float = 0.0

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ACTIVE

    @property
    def seconds(self) -> float | None:
        """How long its attempts have taken together, or take by now; None before its first start.

        The time between two attempts, `paused_s`, does not count.
        """
        if self.started is None:
            return None
        until = self.ended or (time.time() if self.active else self.heartbeat or self.started)
        return max(0.0, until - self.started - self.paused_s)

    def at_work_until(self, now: float) -> float:
        """When it ended; of one that was lost its last sign of life, of one at work `now`."""
        return now if self.active else self.ended or self.heartbeat or self.started or self.created

    @property
    def worked_s(self) -> float:
        """`seconds`, and 0 before its first start."""
        return self.seconds or 0.0

    @property
    def price(self) -> float | None:
        """What an hour cost by its profile when it was begun; None when no price was known."""
        price = self.options.get("price_per_hour")
        return price if isinstance(price, (int, float)) else None

    @property
    def limit(self) -> Limit:
        """The time and the cost at which it is stopped."""
        return Limit.of(self.options)

    @property
    def estimated(self) -> Estimated | None:
        """What was expected of it when it was begun; None of a run before there were estimates."""
        return Estimated.of(self.options)

    @property
    def stopped_at_limit(self) -> bool:
        """Whether it has ended before it was done and has nothing left of its limit: to go on it needs another."""
        ended = not self.active and self.state != "done"
        return ended and self.limit.seconds_left(self.worked_s, self.price) <= 0

    @property
    def cost(self) -> float | None:
        """What it has cost at the profile's price then, in that price's currency; None without a price.

        The time between two attempts does not count: it is unknown whether the machine was on.
        """
        return None if self.price is None or self.seconds is None else self.price * self.seconds / 3600

    @property
    def currency(self) -> str:
        """That of the price; "" when the person gave a number alone."""
        return str(self.options.get("currency") or "")

    @property
    def idle_share(self) -> float | None:
        """The share of the time in which the machine had nothing to do, from 0 to 1; None when it was not measured.

        That is what its GPUs, or without any its cores, were not used, by all programs together.
        """
        return min(1.0, self.idle_s / self.measured_s) if self.measured_s > 0 else None

    @property
    def idle_cost(self) -> float | None:
        """What the idle part of the time has cost; None without a price or a measurement."""
        return None if self.cost is None or self.idle_share is None else self.cost * self.idle_share


@dataclass(frozen=True)
class Task:
    """One task of a run and its state. Times are seconds since the epoch."""

    run_id: str
    node: str
    position: int
    node_type: str
    title: str
    state: TaskState
    reason: str
    fingerprint: str
    attempt: int
    started: float | None
    ended: float | None
    pid: int | None
    progress: Progress | None
    outputs: Mapping[str, Dataset]
    failure: Mapping[str, Any] | None
    worked_s: float | None = None
    """How long it was at work in all attempts together, where there were several and `RunStore.shown_tasks` read it."""

    @property
    def seconds(self) -> float | None:
        """How long it, or where `worked_s` is not known its last attempt, has taken by now; None before its start."""
        if self.worked_s is not None:
            return self.worked_s
        if self.started is None:
            return None
        return max(0.0, (self.ended or time.time()) - self.started)  # the clock may have been set back meanwhile


def as_it_is(task: Task, run: Run) -> Task:
    """A task of a run whose process is gone: whatever its row says, it does not run. Others as they are."""
    if run.state != "lost" or task.state not in ("running", "waiting", "queued"):
        return task
    ended = task.ended
    if task.started is not None and ended is None:
        ended = max(task.started, run.heartbeat or run.started or task.started)
    return replace(task, state="cancelled", reason="the run's process died without reporting a result", ended=ended)
