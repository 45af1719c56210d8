"""The one worker that a run's Spark tasks share: started when the first is next, ended when none is left."""

from __future__ import annotations

import shutil
import time

from engine.plan import Plan
from engine.worker import SparkOrder
from engine.worker_process import Listener, WorkerProcess
from engine.workspace import Workspace

IDLE_S = 60.0
"""How long a session is kept while tasks of other backends run: it holds a cluster's executors."""
_END_S = 10.0
"""For a session to end in good order; then it is killed."""


class SparkWorker:
    """Starts, hands out and ends the processes that hold a run's Spark session; at most one that takes tasks."""

    def __init__(self, workspace: Workspace, run_id: str, plan: Plan, listener: Listener) -> None:
        self._workspace, self._run_id, self._plan = workspace, run_id, plan
        self._listener = listener
        self._current: WorkerProcess | None = None
        self._started = 0
        self._used_at = 0.0
        self._leaving: dict[WorkerProcess, float] = {}

    @property
    def processes(self) -> list[WorkerProcess]:
        """Those that live, or have just died."""
        return [*([self._current] if self._current else []), *self._leaving]

    def warm_up(self) -> None:
        """Start it, if none ever was: a task is next. One that was ended for idleness waits for its task."""
        if not self._started:
            self.take()

    def take(self) -> WorkerProcess:
        """The process for the next task."""
        self._used_at = time.monotonic()
        if self._current is None:
            self._current = self._start()
        return self._current

    def dismiss(self, worker: WorkerProcess) -> None:
        """Give this one no further task: its session is over."""
        if worker is self._current:
            self._current = None
            self._leaving[worker] = time.monotonic() + _END_S

    def has_ended(self, worker: WorkerProcess) -> bool:
        """Note that the process is gone; whether it had not said before that its session is over."""
        self._leaving.pop(worker, None)
        if worker is not self._current:
            return False
        self._current = None
        return True

    def look(self, *, busy: bool, more: bool) -> None:
        """End what is not needed: no task left (`more`), or none that runs (`busy`) for a while."""
        now = time.monotonic()
        if busy:
            self._used_at = now
        elif self._current is not None and (not more or now - self._used_at > IDLE_S):
            self._end(self._current)
        for worker, until in self._leaving.items():
            if now > until:
                worker.kill()

    def leave(self) -> bool:
        """End the session in good order; whether it is still about it. To be called until then."""
        self.look(busy=False, more=False)
        return bool(self._leaving)

    def kill(self) -> None:
        """End what is left of it now, and remove what Spark has left on the disk."""
        for worker in self.processes:
            worker.kill()
        for folder in self._workspace.run_folder(self._run_id).glob("spark-*"):  # an earlier attempt's too
            shutil.rmtree(folder, ignore_errors=True)

    def _end(self, worker: WorkerProcess) -> None:
        worker.end()
        self.dismiss(worker)

    def _start(self) -> WorkerProcess:
        folder = self._workspace.run_folder(self._run_id)
        log = folder / "spark.log"
        self._started += 1
        order = SparkOrder(
            profile=self._plan.profile,
            name=f"Voxelflow {self._plan.pipeline} {self._run_id}",
            workspace=str(self._workspace.root),
            log=str(log),
            folder=str(folder / f"spark-{self._started}"),
        )
        return WorkerProcess(self._workspace.root, log, (), self._listener, order)
