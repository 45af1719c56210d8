"""Runs in a run store as if they had run at given times: the pages show the same of them on each machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.declare.datasets import Dataset
from engine.declare.events import Event, Failure, Metrics, Progress, RunState, TaskState, TaskStateChanged
from engine.document.pipeline import Pipeline, dump
from engine.storage.process_lock import ProcessLock
from engine.store.runs import RunStore

Curves = Mapping[str, Callable[[int], float]]
"""By name of a figure: its value at each epoch, from 1."""
_OVER = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Did:
    """What became of a task. It was at work from `start` to `end`, in seconds since the run began."""

    state: TaskState
    start: float = 0.0
    end: float = 0.0
    waited: float = 0.0
    """Seconds before `start`."""
    reason: str = ""
    outputs: Mapping[str, Dataset] = field(default_factory=dict)
    failure: Failure | None = None
    progress: Progress | None = None
    curves: Curves = field(default_factory=dict)
    epochs: int = 0

    def events(self, node: str, began: float) -> Iterable[Event]:
        """What its process would have said."""
        if self.state == "cached":
            yield TaskStateChanged(node=node, state="cached", time=began + self.start)
        if self.waited:
            yield TaskStateChanged(node=node, state="waiting", time=began + self.start - self.waited)
        if self.state in (*_OVER, "running"):
            yield TaskStateChanged(node=node, state="running", time=began + self.start)
        for epoch in range(1, self.epochs + 1):
            at = began + self.start + (self.end - self.start) * epoch / self.epochs
            values = {name: curve(epoch) for name, curve in self.curves.items()}
            yield Metrics(node=node, step=epoch, values=values, time=at)
        if self.progress is not None:
            yield self.progress
        if self.state in _OVER:
            yield TaskStateChanged(node=node, state=self.state, time=began + self.end)

    def columns(self, began: float) -> dict[str, Any]:
        """Of its row."""
        worked = self.state in (*_OVER, "running")
        return {
            "state": self.state,
            "reason": self.reason,
            "attempt": 1,
            "started": began + self.start if worked else None,
            "ended": began + self.end if self.state in _OVER else None,
            "outputs": self.outputs,
            "failure": None if self.failure is None else json.dumps(self.failure.model_dump(mode="json")),
        }


def record(
    store: RunStore,
    run_id: str,
    document: Pipeline,
    state: RunState,
    tasks: Mapping[str, Did],
    *,
    began: float,
    took: float = 0.0,
    error: str = "",
) -> None:
    """Record a run that began at `began`, in seconds since the epoch, and took so many. One that is "lost" says that it
    runs, and has no process."""
    folder = store.workspace.run_folder(run_id)
    (folder / "logs").mkdir(parents=True)
    stored: RunState = "running" if state == "lost" else state
    store.put_run(
        run_id, document.name, dump(document), {}, "local", stored, error, created=began, ended=began + took
    )  # fmt: skip
    types = {node.id: (node.type, node.label) for node in document.nodes}
    store.set_tasks(run_id, [(node, *types[node]) for node in tasks])
    for node, did in tasks.items():
        store.update_task(run_id, node, **did.columns(began))
    events = [event for node, did in tasks.items() for event in did.events(node, began)]
    store.add_events(run_id, sorted(events, key=lambda event: event.time))
    if stored == "running":
        with store.write() as db:
            db.execute("UPDATE runs SET ended = NULL, heartbeat = ? WHERE run_id = ?", (began + took, run_id))


def at_work(store: RunStore, run_id: str) -> ProcessLock:
    """Make a run that says that it runs look as if a process worked on it, until the lock is released."""
    lock = ProcessLock(store.workspace.run_folder(run_id) / "lock")
    assert lock.acquire()
    return lock
