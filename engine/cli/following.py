"""Watching a run until it ends. The run does not depend on us: we only read the run store."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Protocol

from engine.events import Event
from engine.run_lock import is_held
from engine.runs import Run, RunStore, Task
from engine.workspace import Workspace

POLL_S = 0.1
_TRACKING_PATIENCE_S = 60.0
_TRACKER_GONE_S = 10.0
"""A tracker that does not hold its lock for so long has ended: it needs a moment to start."""
_BATCH = 10_000


@dataclass(frozen=True)
class Moment:
    """The run as it stands, and the events since the moment before."""

    run: Run
    tasks: list[Task]
    events: list[Event]


class View(Protocol):
    """One way to show a run: on a terminal, as lines, as JSON."""

    kinds: tuple[str, ...]
    """The events it wants; empty for all."""

    def __enter__(self) -> View: ...

    def __exit__(self, *_: Any) -> None: ...

    def show(self, moment: Moment) -> None: ...

    def note(self, text: str) -> None:
        """Say something beside the run's own news."""

    def sending(self, to: str) -> AbstractContextManager[Any]:
        """Say, while it lasts, that the rest is being sent to MLflow at `to`."""


@dataclass(frozen=True)
class Followed:
    """How following ended: with the run, or (`left`) because the person went away from it."""

    run: Run
    left: bool = False


def watch(store: RunStore, run_id: str, after: int, kinds: tuple[str, ...] = ()) -> Iterator[Moment]:
    """The run about ten times a second until it has ended; events from behind the sequence number `after`."""
    while True:
        # The run first: once it says that it has ended, all its events are there.
        run = _certain(store, run_id)
        events: list[Event] = []
        while batch := store.events(run_id, after, kinds, _BATCH):
            after = batch[-1][0]
            events += [event for _, event in batch]
            if len(batch) < _BATCH:
                break
        yield Moment(run, store.tasks(run_id), events)
        if not run.active:
            return
        time.sleep(POLL_S)


def _certain(store: RunStore, run_id: str) -> Run:
    run = store.run(run_id)
    # A run that ended between the look at its row and the look at its lock seems lost for a moment.
    return store.run(run_id) if run.state == "lost" else run


class Interrupts:
    """Counts Ctrl-C instead of raising: one that comes amid drawing or a query must not break it."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._count)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt


def follow(store: RunStore, run_id: str, view: View, interrupts: Interrupts, after: int = 0) -> Followed:
    """Show the run until it ends. The first Ctrl-C asks it to stop, the second leaves it to itself."""
    asked = False
    with view:
        for moment in watch(store, run_id, after, view.kinds):
            view.show(moment)
            if not moment.run.active:
                return Followed(moment.run)
            if interrupts.count and not asked:
                asked = True
                store.request_cancel(run_id)
                view.note("cancelling; Ctrl-C again leaves the run to itself")
            if interrupts.count > 1:
                return Followed(moment.run, left=True)
    raise AssertionError("watch ends with a run that has ended")


def wait_for_tracking(workspace: Workspace, store: RunStore, run_id: str, interrupts: Interrupts) -> bool:
    """Wait until MLflow has all of the run; False when that takes too long, or nobody sends it any more."""
    presses = interrupts.count
    started = seen = time.monotonic()
    while not store.tracking(run_id)[2]:
        now = time.monotonic()
        if is_held(workspace.run_folder(run_id) / "tracker.lock"):
            seen = now
        if now - started > _TRACKING_PATIENCE_S or now - seen > _TRACKER_GONE_S or interrupts.count > presses:
            return False
        time.sleep(POLL_S)
    return True


def is_tracked() -> bool:
    """Whether runs go to MLflow (see `engine.supervisor.TRACKING`)."""
    return os.environ.get("VOXELFLOW_TRACKING", "").lower() != "off"
