"""The supervisor's end of workers: start one, send it tasks, receive its events, stop it."""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from engine.declare.events import Event, SparkSession
from engine.document.plan import Plan
from engine.processes.child import Child
from engine.run.task import TaskMessage
from engine.run.worker import CANCEL, END, SparkOrder, WorkerStart
from engine.spark import yarn
from engine.workspace import Workspace

# -P: a file called voxelflow.py in the current directory must not be taken for ours.
PROGRAM = (sys.executable, "-P", "-m", "voxelflow")
"""How to start another Voxelflow process."""

Listener = Callable[["WorkerProcess", Event | None], None]
"""Called with each event, and with None once the process has ended. From another thread."""
IDLE_S = 60.0
"""How long a session is kept while tasks of other backends run: it occupies a cluster's executors."""
_END_S = 10.0
"""For a session to end in good order; then it is killed."""


class WorkerProcess(Child):
    """A worker in a session of its own. It starts importing at once and waits for its task.

    With `spark` it starts that session and takes one task after another, until `finish` is called. Its application on
    YARN, which may live on without its driver, ends with it, however this process ends.
    """

    def __init__(
        self,
        workspace: Path,
        log: Path,
        imports: tuple[str, ...],
        listener: Listener,
        spark: SparkOrder | None = None,
    ) -> None:
        self.node = ""
        self.holds_spark = spark is not None
        # Before the worker: this process may be killed at any time.
        self._guard = yarn.Guard(spark.tag, Path(spark.log)) if spark is not None and spark.tag else None
        arguments = [*PROGRAM[1:], "_worker", str(workspace)]

        def heard(event: Event | None) -> None:
            if event is None and self._guard is not None:
                if self.exit_status == 0:
                    self._guard.dismiss()
                else:
                    self._guard.end_applications()
            listener(self, event)

        super().__init__(arguments, log, listener=heard, session=True)
        self.send(WorkerStart(imports=imports, spark=spark).model_dump_json())

    def start(self, message: TaskMessage) -> None:
        """Send it the task, which it starts once its imports are done."""
        self.node = message.node
        self.send(message.model_dump_json())

    def cancel(self) -> None:
        """Ask it to stop at the next step."""
        self.send(CANCEL)

    def finish(self) -> None:
        """No further task comes: it ends its Spark session in good order, then itself."""
        self.send(END)


class SparkWorker:
    """Starts, hands out and ends the processes with a run's Spark session; at most one that takes tasks."""

    def __init__(self, workspace: Workspace, run_id: str, plan: Plan, listener: Listener) -> None:
        self._workspace, self._run_id, self._plan = workspace, run_id, plan
        self._listener = listener
        self._current: WorkerProcess | None = None
        self._started = 0
        self._used_at = 0.0
        self._leaving: dict[WorkerProcess, float] = {}
        self.java: dict[WorkerProcess, int] = {}
        """The processes that hold the Java of live sessions, where they are no children of the worker."""

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

    def note(self, worker: WorkerProcess, event: SparkSession) -> None:
        """Its session has begun, or is over: then it gets no further task."""
        self.java.pop(worker, None)
        if event.state == "ended":
            self.dismiss(worker)
        elif event.java:
            self.java[worker] = event.java

    def dismiss(self, worker: WorkerProcess) -> None:
        """Give this one no further task: its session is over."""
        if worker is self._current:
            self._current = None
            self._leaving[worker] = time.monotonic() + _END_S

    def has_ended(self, worker: WorkerProcess) -> bool:
        """Note that the process is gone; whether it had not said before that its session is over."""
        self._leaving.pop(worker, None)
        self.java.pop(worker, None)
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
        worker.finish()
        self.dismiss(worker)

    def _start(self) -> WorkerProcess:
        folder = self._workspace.run_folder(self._run_id)
        log = folder / "spark.log"
        self._started += 1
        profile, tag = self._plan.profile, ""
        if profile.master == yarn.MASTER:
            tag = f"voxelflow-{uuid.uuid4().hex}"
            tags = ",".join(filter(None, (profile.spark.get(yarn.TAGS), tag)))
            profile = profile.model_copy(update={"spark": {**profile.spark, yarn.TAGS: tags}})
        order = SparkOrder(
            profile=profile,
            name=f"Voxelflow {self._plan.pipeline} {self._run_id}",
            workspace=str(self._workspace.root),
            log=str(log),
            # With this process's number: what an earlier attempt has left may be removed just now.
            folder=str(folder / f"spark-{os.getpid()}-{self._started}"),
            tag=tag,
        )
        return WorkerProcess(self._workspace.root, log, (), self._listener, order)
