"""Runs a plan: starts tasks whose inputs are there, receives their events, commits their results.

At-least-once execution, idempotent commit: a task publishes its output by one atomic step, then its
result is recorded under its fingerprint. A kill between the two makes the task run again and find
its own work.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

from engine.catalog import Catalog
from engine.declare.datasets import Dataset
from engine.declare.events import (
    Event,
    Failure,
    Message,
    Outputs,
    Progress,
    RunState,
    SparkSession,
    TaskStarted,
    TaskState,
    TaskStateChanged,
)
from engine.document.plan import Plan, PlannedTask
from engine.failpoints import failpoint
from engine.observe.results import change_problem, check_result
from engine.processes.messages import failure_of
from engine.run.heartbeat import Heartbeat
from engine.run.job import Job, RunContext, slow_import
from engine.run.reservations import Reservations
from engine.run.unchanged import changed_folders
from engine.run.worker_process import SparkWorker, WorkerProcess
from engine.storage.process_lock import ProcessLock
from engine.store.results import Cached, Result
from engine.store.runs import STOPPED, RunStore
from engine.workspace import Workspace, place_lock

CANCEL_GRACE_S = 10.0
"""Between the request to stop and SIGKILL."""
_TICK_S = 0.1
_MOST_AGAIN = 3
"""How often a task makes its table anew because another program, which knows no reservation, changed it."""


class Execution:
    """One attempt at a run's plan. `run()` returns the run's final state. `resumed`: it is not the first attempt."""

    def __init__(
        self, workspace: Workspace, store: RunStore, catalog: Catalog, run_id: str, plan: Plan, *, resumed: bool = False
    ) -> None:
        self._workspace, self._store, self._catalog = workspace, store, catalog
        self._run_id, self._plan, self._resumed = run_id, plan, resumed
        self._context = RunContext(workspace, store, run_id, plan)
        self._jobs = {t.node: Job(t, self._context) for t in plan.tasks}
        self._inbox: queue.Queue[tuple[WorkerProcess, Event | None]] = queue.Queue()
        self._warm: dict[str, WorkerProcess] = {}
        self._slow = {t.node: slow_import(t, catalog.find(t.node_type, t.version)) for t in plan.tasks}
        self._spark = SparkWorker(workspace, run_id, plan, lambda w, e: self._inbox.put((w, e)))
        self._places: list[ProcessLock] = []
        self._reserved = Reservations(workspace, run_id, plan, catalog)
        self._has_waited = False
        self._cancelled = ""
        self._heartbeat = Heartbeat(store, run_id)
        self.first_error = ""
        self.on_progress: Callable[[Progress], None] = lambda event: None
        """Called with every report of how far a task is."""

    @property
    def pids(self) -> dict[str, int]:
        """The processes of the tasks that run now, by node. Of a Spark session that waits for a task there is none."""
        return {node: job.worker.pid for node, job in self._jobs.items() if job.worker is not None}

    @property
    def java(self) -> dict[int, int]:
        """The process that holds Spark's Java, where it may outlive the run, with the worker that it works for."""
        return {java: worker.pid for worker, java in self._spark.java.items()}

    def cancel(self, why: str = "cancelled on request") -> None:
        """Ask every task to stop; those that do not within the grace are killed. `why` is the reason they show.

        Signal handlers may: `run` asks the tasks, when its loop turns. One that is just being started would not hear it
        here, and would then run to its end.
        """
        self._cancelled = self._cancelled or why

    def run(self, on_tick: Any = None, start: ProcessLock | None = None) -> RunState:
        """Run until every task has ended. `on_tick` is called about ten times a second.

        `start` keeps `clean` from moving folders (see `engine.run.start_lock`); released once the places are locked.
        """
        failpoint("supervisor:before-places")
        self._lock_places()
        if start is not None:
            start.release()
        self._decide()
        if self._resumed:
            self._refuse_changed_folders()
        try:
            while any(not j.has_ended for j in self._jobs.values()):
                self._beat()
                self._start_ready()
                self._warm_up()
                self._receive()
                self._reserved.give_back_unneeded(lambda node: self._jobs[node].has_ended)
                self._watch()
                if on_tick is not None:
                    on_tick()
            while self._spark.leave():
                self._beat()
                self._receive()
        except Exception:
            self._stop_tasks()
            raise
        finally:
            for worker in [*self._warm.values(), *(j.worker for j in self._jobs.values() if j.worker)]:
                worker.kill()
            self._spark.kill()
            self._reserved.give_back_all()
            for lock in self._places:
                lock.release()
        states = {j.state for j in self._jobs.values()}
        if "failed" in states:
            return "failed"
        return "cancelled" if "cancelled" in states else "done"

    def _stop_tasks(self) -> None:
        """End the tasks in good order after an error of the run itself, without the run store, which may be the cause.

        Each is asked to stop and has the grace to save what is half done; its last report is kept for `unrecorded`.
        """
        # The others have a worker that was not given its task yet.
        open_jobs = [j for j in self._jobs.values() if j.worker is not None and j.worker.node == j.task.node]
        for job in open_jobs:
            self._stop(job, "cancelled")
        until = time.monotonic() + CANCEL_GRACE_S
        while open_jobs and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                worker, event = self._inbox.get(timeout=_TICK_S)
                for job in [j for j in open_jobs if j.worker is worker]:
                    if isinstance(event, Failure) and event.code != "cancelled":
                        job.failure = event
                    if event is None or (worker.holds_spark and isinstance(event, Outputs | Failure)):
                        open_jobs.remove(job)

    def unrecorded(self) -> dict[str, dict[str, Any]]:
        """By node: how the tasks stand that had not ended when an error of the run itself ended `run`.

        From then on `first_error` names the first that failed.
        """
        out: dict[str, dict[str, Any]] = {}
        for job in self._jobs.values():
            if job.failure is not None and job.failure.code != "cancelled" and job.state not in ("done", "cached"):
                self._blame(job, job.failure)
                columns = {"state": "failed", "reason": job.failure.message, "failure": _failure_json(job.failure)}
                out[job.task.node] = columns
            elif not job.has_ended:
                out[job.task.node] = {"state": "cancelled", "reason": STOPPED}
        return {node: {**columns, "ended": time.time()} for node, columns in out.items()}

    def _blame(self, job: Job, failure: Failure) -> None:
        hint = f" {failure.hint}" if failure.hint else ""
        self.first_error = self.first_error or f"{job.task.node}: {failure.message.rstrip('.')}.{hint}"

    # --- what there is to do -------------------------------------------------------------------

    def _decide(self) -> None:
        """Settle which tasks stand already: cached ones, and those that an earlier attempt finished."""
        earlier = {t.node: t for t in self._store.tasks(self._run_id)}
        needed: set[str] = set()
        for task in reversed(self._plan.tasks):
            behind = [t.node for t in self._plan.tasks if any(s.node == task.node for s in t.inputs.values())]
            result = self._store.results.find(task.identity.fingerprint)
            found = None if result is None else self._check(task, result)
            usable = found is not None and not found.problem
            finished = usable and result is not None and result.run_id == self._run_id
            if (task.action == "cached" or finished) and usable:
                continue
            is_damaged = found is not None and found.damaged
            if task.action == "cached" and not is_damaged and behind and not any(n in needed for n in behind):
                continue
            needed.add(task.node)
        for task in self._plan.tasks:
            job = self._jobs[task.node]
            before = earlier.get(task.node)
            job.attempt = before.attempt if before else 0
            if task.node in needed:
                if before is None or before.state != "queued":
                    self._set(job, "queued", task.reason, outputs=None, failure=None, progress=None, ended=None)
                continue
            result = self._store.results.find(task.identity.fingerprint)
            job.outputs = dict(result.outputs) if result else {}
            if result:
                self._store.results.touch(result.fingerprint)
            self._drop_scratch(job)
            if before is not None and before.state in ("done", "cached"):
                job.state = before.state
            else:
                self._set(job, "cached", task.reason, outputs=job.outputs)

    def _refuse_changed_folders(self) -> None:
        """Fail the tasks that would read files which have changed since the run was planned.

        Not in the first attempt, which follows the planning at once: to list a folder takes time. Single files and the
        node's code a worker looks at before each task.
        """
        waiting = [job.task for job in self._jobs.values() if not job.has_ended]
        made = {node: job.outputs for node, job in self._jobs.items()}
        with self._heartbeat.long_step():
            changes = list(changed_folders(self._plan, waiting, made, self._catalog, self._workspace.observations))
        for task, change in changes:
            job, failure = self._jobs[task.node], failure_of(change, node=task.node)
            self._store.add_events(self._run_id, [failure])
            self._fail(job, failure)

    def _drop_scratch(self, job: Job) -> None:
        """Delete the half-done work of a task whose result stands: a kill between both has left it there."""
        scratch = self._context.scratch(job.task)
        if scratch.is_dir() and job.lock():  # else another run makes it anew there
            with self._heartbeat.long_step():
                shutil.rmtree(scratch, ignore_errors=True)
            job.unlock()

    def _warm_up(self) -> None:
        """Start workers before their turn: while one task runs, the next one's process starts and imports.

        Imports that take many seconds start with the run; the others wait until a task before them
        runs, so that they don't slow down the first ones.
        """
        for job in self._jobs.values():
            task = job.task
            if job.state != "queued" or job.worker is not None or task.node in self._warm or job.attempt:
                continue
            is_next = any(self._jobs[s.node].state == "running" for s in task.inputs.values())
            if task.backend == "spark":
                if is_next:
                    self._spark.warm_up()
            elif is_next or self._slow[task.node]:
                self._warm[task.node] = self._worker(task)

    def _worker(self, task: PlannedTask) -> WorkerProcess:
        return WorkerProcess(
            self._workspace.root, self._context.log(task), task.imports, lambda w, e: self._inbox.put((w, e))
        )

    def _start_ready(self) -> None:
        # First what another run may be waiting for.
        for job in sorted(self._jobs.values(), key=lambda job: not self._reserved.is_wanted(job.task)):
            if job.state not in ("queued", "waiting") or job.worker is not None:
                continue
            sources = [self._jobs[s.node] for s in job.task.inputs.values()]
            if self._cancelled:
                self._set(job, "cancelled", "the run was cancelled", ended=time.time())
            elif any(s.state in ("failed", "cancelled", "skipped") for s in sources):
                broken = next(s for s in sources if s.state in ("failed", "cancelled", "skipped"))
                self._set(job, "skipped", f"{broken.task.node} did not finish", ended=time.time())
            elif all(s.state in ("done", "cached") for s in sources) and self._may_start(job):
                self._start(job)

    def _may_start(self, job: Job) -> bool:
        running = [j for j in self._jobs.values() if j.worker is not None]
        if time.monotonic() < job.not_before or len(running) >= self._plan.profile.parallel_tasks:
            return False
        if job.task.backend == "spark" and any(j.task.backend == "spark" for j in running):
            return False  # one at a time: they share the session
        return not (job.task.uses_all_cores and any(j.task.uses_all_cores for j in running))

    def _start(self, job: Job) -> None:
        task = job.task
        inputs = self._inputs(job)
        if (reason := self._reserved.take(task, inputs)) is not None:
            if reason:
                self._wait(job, reason)
                if not any(j.worker is not None for j in self._jobs.values()):
                    self._reserved.give_back_idle()
            return
        if not job.lock():
            self._wait(job, job.waits_for())
            return
        if (result := self._made_elsewhere(job)) is not None:
            job.outputs = dict(result.outputs)
            job.unlock()
            self._set(job, "cached", "another run made it", outputs=job.outputs, ended=time.time())
            return
        if self._makes_table_anew(job, inputs):
            job.unlock()
            return
        on_spark = task.backend == "spark"
        # The process says nothing until it has imported what it needs.
        first = self._slow[task.node] if not on_spark else "" if self._spark.processes else "Spark"
        job.worker = self._spark.take() if on_spark else self._warm.pop(task.node, None) or self._worker(task)
        job.attempt += 1
        job.has_reported, job.failure, job.stopped_for, job.kill_at = False, None, "", None
        job.started = time.time()
        job.deadline = time.monotonic() + task.timeout_s if task.timeout_s else None
        columns: dict[str, Any] = {"attempt": job.attempt, "started": job.started, "ended": None, "pid": job.worker.pid}
        # What an earlier attempt had done is no progress of this one.
        columns["progress"] = Progress(done=0, phase=f"Starting {first}").model_dump_json() if first else None
        self._set(job, "running", task.reason, **columns)
        started = TaskStarted(
            node=task.node, pid=job.worker.pid, backend=task.backend, backend_reason=task.backend_reason
        )
        self._store.add_events(self._run_id, [started])
        job.worker.start(job.message(inputs).model_copy(update={"announced": bool(first)}))

    def _made_elsewhere(self, job: Job) -> Result | None:
        """The job's result, if another run has made it since this one was planned."""
        if job.task.forced or job.again:
            return None
        result = self._store.results.find(job.task.identity.fingerprint)
        found = None if result is None else self._check(job.task, result)
        # One whose table has moved on is why the task was planned, unless others had the table while this run waited.
        if found is None or found.problem or (found.moved_on and not self._has_waited):
            return None
        return result

    def _inputs(self, job: Job) -> dict[str, Dataset]:
        return {port: self._jobs[s.node].outputs[s.port] for port, s in job.task.inputs.items()}

    def _wait(self, job: Job, reason: str) -> None:
        self._has_waited = True
        if job.state == "waiting" and job.waits == reason:
            return
        job.waits = reason
        self._set(job, "waiting", reason)
        self._store.add_events(self._run_id, [Message(node=job.task.node, text=reason)])
        with contextlib.suppress(OSError), self._context.log(job.task).open("a", encoding="utf-8") as log:
            log.write(f"info: {reason}\n")

    # --- a table that others write to ------------------------------------------------------------

    def _makes_table_anew(self, job: Job, inputs: Mapping[str, Dataset]) -> bool:
        """Whether the task that made the job's table must bring it up to date first: then that one is queued again.

        Between the two another run may have had the table, if this one was interrupted, or took the first from the
        cache.
        """
        source = self._reserved.changes_table_of(job.task)
        if source is None or self._reserved.is_as_left(job.task, inputs):
            return False
        maker = self._jobs[source]
        if maker.again >= _MOST_AGAIN:
            return False
        with self._heartbeat.long_step():
            problem = change_problem(self._catalog.find(maker.task.node_type, maker.task.version), maker.outputs)
        if problem:
            self._do_over(maker, problem)
        return bool(problem)

    def _do_over(self, job: Job, reason: str) -> None:
        job.again += 1
        self._set(job, "queued", reason, outputs=None, failure=None, progress=None, ended=None)
        for source in job.task.inputs.values():
            if source.port not in self._jobs[source.node].outputs:
                self._do_over(self._jobs[source.node], "its result was removed")

    # --- locks ---------------------------------------------------------------------------------

    def _lock_places(self) -> None:
        """Lock everything this run writes or reads against `clean`, until the run ends."""
        for place in sorted(self._context.places()):
            lock = ProcessLock(place_lock(self._workspace, place))
            while not lock.acquire(shared=True):
                # A clean-up is just looking whether it is locked.
                self._beat()
                if self._cancelled:
                    return
                time.sleep(_TICK_S)
            self._places.append(lock)

    # --- what the workers send ------------------------------------------------------------------

    def _receive(self) -> None:
        events: list[Event] = []
        ended: list[WorkerProcess] = []
        done: list[tuple[Job, WorkerProcess]] = []
        with contextlib.suppress(queue.Empty):
            timeout = _TICK_S
            while len(events) < 2000:
                worker, event = self._inbox.get(timeout=timeout)
                timeout = 0.001
                if event is None:
                    ended.append(worker)
                    continue
                if isinstance(event, Failure) and event.node is None:
                    event = event.model_copy(update={"node": worker.node})  # it could not read which task it got
                events.append(event)
                if isinstance(event, Progress):
                    self.on_progress(event)
                if isinstance(event, SparkSession):
                    self._spark.note(worker, event)
                job = self._jobs.get(event.node or "")
                if job is None or job.worker is not worker:
                    continue
                if isinstance(event, Outputs):
                    job.outputs, job.has_reported = event.datasets(), True
                elif isinstance(event, Failure):
                    job.failure = event
                if worker.holds_spark and isinstance(event, Outputs | Failure):
                    done.append((job, worker))  # the task's end; the process goes on
        if events:
            self._store.add_events(self._run_id, events)
        for job, worker in done:
            self._end(job, worker, job.failure is None)
        for worker in ended:
            job = next((j for j in self._jobs.values() if j.worker is worker), None)
            if job is not None:
                self._end(job, worker, worker.exit_status == 0 and job.has_reported)
            if self._spark.has_ended(worker):
                # One that was killed could not report it.
                self._store.add_events(self._run_id, [SparkSession(state="ended", master=self._plan.profile.master)])
            self._warm = {n: w for n, w in self._warm.items() if w is not worker}

    def _end(self, job: Job, worker: WorkerProcess, good: bool) -> None:
        job.worker = None
        now = time.time()
        if good:
            failpoint("supervisor:before-result")
            self._store.results.put(job.result())
            self._reserved.left(job.task, self._inputs(job))
            with self._heartbeat.long_step():
                shutil.rmtree(self._context.scratch(job.task), ignore_errors=True)
            failpoint("supervisor:after-result")
            job.unlock()
            self._set(job, "done", job.task.reason, outputs=job.outputs, ended=now)
            return
        job.unlock()
        job.outputs = {}
        if self._cancelled:  # also where its process was ended before it was asked, as by a machine that shuts down
            self._set(job, "cancelled", self._cancelled, ended=now)
            return
        failure = job.failure
        if failure is None or job.stopped_for == "timeout":
            failure = job.death(worker.exit_status)
            self._store.add_events(self._run_id, [failure])
        job.failures += 1
        if job.failures <= job.task.retries:
            job.not_before = time.monotonic() + min(60.0, 2.0 ** (job.failures - 1))
            self._set(job, "queued", f"attempt {job.attempt} failed: {failure.message}", failure=_failure_json(failure))
            return
        self._fail(job, failure)

    def _fail(self, job: Job, failure: Failure) -> None:
        self._blame(job, failure)
        self._set(job, "failed", failure.message, failure=_failure_json(failure), ended=time.time())

    # --- time ----------------------------------------------------------------------------------

    def _beat(self) -> None:
        if self._heartbeat.beat():
            self.cancel()

    def _check(self, task: PlannedTask, result: Result) -> Cached:
        node_type = self._catalog.find(task.node_type, task.version)
        with self._heartbeat.long_step():
            return check_result(node_type, result, self._workspace.data)

    def _watch(self) -> None:
        now = time.monotonic()
        self._spark.look(
            busy=any(j.worker is not None and j.worker.holds_spark for j in self._jobs.values()),
            more=any(j.task.backend == "spark" and not j.has_ended for j in self._jobs.values()),
        )
        for job in self._jobs.values():
            if job.worker is None:
                continue
            if self._cancelled and job.stopped_for != "cancelled":
                self._stop(job, "cancelled")
            if job.deadline is not None and now > job.deadline and not job.stopped_for:
                self._stop(job, "timeout")
            if job.kill_at is not None and now > job.kill_at:
                job.worker.kill()

    def _stop(self, job: Job, why: str) -> None:
        assert job.worker is not None
        job.stopped_for = why
        job.kill_at = time.monotonic() + CANCEL_GRACE_S
        job.worker.cancel()

    def _set(self, job: Job, state: TaskState, reason: str, **columns: Any) -> None:
        job.state = state
        if job.has_ended and (worker := self._warm.pop(job.task.node, None)):
            worker.kill()  # it waits for a task which will not come
        if state in ("done", "cached"):
            columns["failure"] = None  # that of an earlier attempt
        columns |= {"state": state, "reason": reason, "fingerprint": job.task.identity.fingerprint}
        self._store.update_task(self._run_id, job.task.node, **columns)
        event = TaskStateChanged(node=job.task.node, state=state, attempt=max(1, job.attempt), reason=reason)
        self._store.add_events(self._run_id, [event])


def _failure_json(failure: Failure) -> str:
    return failure.model_dump_json(exclude_none=True)
