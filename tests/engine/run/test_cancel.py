"""A request to cancel that comes at any moment, as signals do, with processes that are pretended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from building import box, pipeline
from in_process import PROFILE

from engine.catalog import Catalog
from engine.declare.events import Event
from engine.run import execute, launch
from engine.run.execute import Execution
from engine.run.task import TaskMessage
from engine.store.runs import RunStore
from engine.workspace import Workspace

_LONGEST_TURNS = 50
"""Turns of the loop after which the test gives up waiting for the task to stop."""


class _Endless:
    """Stands for a `WorkerProcess`; its task goes on until it is asked to stop."""

    holds_spark = False
    pid = 0

    def __init__(self, workspace: Path, log: Path, imports: tuple[str, ...], listener: Callable[..., None]) -> None:
        self.node = ""
        self.heard: list[str] = []
        self.exit_status: int | None = None
        self._listener: Callable[[_Endless, Event | None], None] = listener

    def start(self, message: TaskMessage) -> None:
        self.node = message.node
        self.heard.append("start")

    def cancel(self) -> None:
        self.heard.append("cancel")
        self.end(1)

    def kill(self) -> None:
        if self.exit_status is None:
            self.end(-9)

    def end(self, status: int) -> None:
        self.exit_status = status
        self._listener(self, None)


@pytest.mark.parametrize("moment", ["while its process is started", "before its task is sent", "as its process ends"])
def test_a_task_that_runs_or_begins_just_then_is_stopped(
    moment: str, probes: Catalog, workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[_Endless] = []

    class Worker(_Endless):
        def __init__(self, workspace: Path, log: Path, imports: tuple[str, ...], listener: Callable[..., None]) -> None:
            super().__init__(workspace, log, imports, listener)
            workers.append(self)
            if moment == "while its process is started":
                execution.cancel()

        def start(self, message: TaskMessage) -> None:
            if moment == "before its task is sent":
                execution.cancel()
            super().start(message)
            if moment == "as its process ends":
                self.end(-15)
                execution.cancel()

    turns = 0

    def on_tick() -> None:
        nonlocal turns
        turns += 1
        if turns > _LONGEST_TURNS:
            raise AssertionError("the task was not stopped")

    monkeypatch.setattr(execute, "WorkerProcess", Worker)
    monkeypatch.setattr(execute, "_TICK_S", 0.001)
    monkeypatch.setattr(execute, "CANCEL_GRACE_S", 0.01)
    document = pipeline(box("a", "Make", retries=1))
    plan = launch.prepare(document, probes, workspace, store, profile=PROFILE).plan
    run_id = store.create_run("test", "{}", {}, PROFILE.name)
    store.set_tasks(run_id, [(task.node, task.node_type, task.title) for task in plan.tasks])
    store.begin_attempt(run_id)
    execution = Execution(workspace, store, probes, run_id, plan)
    assert execution.run(on_tick) == "cancelled"
    (task,) = store.tasks(run_id)
    assert (task.state, task.reason) == ("cancelled", "cancelled on request")
    (worker,) = workers
    # Never asked before it has its task: it would not know which one is meant.
    assert worker.heard == (["start"] if moment == "as its process ends" else ["start", "cancel"])
