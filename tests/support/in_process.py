"""Runs a pipeline in this process: the same planning, supervising and tasks, without a process for each.

For tests that run one pipeline dozens of times; starting the processes would take most of their time.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.catalog import Catalog
from engine.declare.events import Event
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice
from engine.profiles import Profile
from engine.run import execute, job, launch, supervisor, worker
from engine.run.task import TaskMessage
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace

PROFILE = Profile(name="test", cores=2, memory_bytes=1 << 30, parallel_tasks=1)


class InProcessWorker:
    """Stands in for `WorkerProcess`: does its task when it is given one, and is then over."""

    catalog: Catalog
    holds_spark = False
    pid = 0

    def __init__(self, workspace: Path, log: Path, imports: tuple[str, ...], listener: Callable[..., None]) -> None:
        self.exit_status: int | None = None
        self._listener = listener

    def send(self, event: Event) -> None:
        self._listener(self, event)

    def start(self, message: TaskMessage) -> None:
        good = worker._do(worker._Task(message, self), lambda: self.catalog)  # type: ignore[arg-type]
        self.exit_status = 0 if good else 1
        self._listener(self, None)

    def kill(self) -> None:
        pass


class InProcess:
    """Runs and resumes the pipelines of one workspace."""

    def __init__(self, workspace: Workspace, catalog: Catalog) -> None:
        self.workspace, self.catalog = workspace, catalog

    def run(self, document: Pipeline) -> Run:
        """The run once it has ended. Raises as `launch.start` does, and what its supervisor could not record."""
        store = RunStore(self.workspace)
        try:
            run_id, _ = launch.start(
                document, self.catalog, self.workspace, store, profile=PROFILE, choice=Choice(),
            )  # fmt: skip
            return store.run(run_id)
        finally:
            store.close()


@contextmanager
def in_process(catalog: Catalog) -> Iterator[None]:
    """Within it nothing starts a process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOXELFLOW_TRACKING", "off")
        patch.setattr(InProcessWorker, "catalog", catalog, raising=False)
        patch.setattr(execute, "WorkerProcess", InProcessWorker)
        patch.setattr(job, "SLOW_IMPORTS", {})
        patch.setattr(launch, "_spawn", lambda workspace, run_id: supervisor.supervise(workspace, run_id, catalog))
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
