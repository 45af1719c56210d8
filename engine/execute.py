"""Runs a plan: starts tasks whose inputs are there, hears their events, commits their results.

At-least-once execution, idempotent commit: a task publishes its output by one atomic step, then its
result is recorded under its fingerprint. A kill between the two makes the task run again and find
its own work.
"""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.catalog import Catalog
from engine.datasets import Dataset, VolumeDelta
from engine.events import Event, Failure, Outputs, RunState, SparkSession, TaskStarted, TaskState, TaskStateChanged
from engine.failpoints import failpoint
from engine.observe import check_result
from engine.plan import Plan, PlannedTask
from engine.run_lock import ProcessLock
from engine.runs import Result, RunStore
from engine.spark_worker import SparkWorker
from engine.worker import TaskMessage
from engine.worker_process import WorkerProcess
from engine.workspace import Workspace, place_lock, place_of

CANCEL_GRACE_S = 10.0
"""Between the request to stop and SIGKILL."""
_TICK_S = 0.1
_HEARTBEAT_S = 1.0
SLOW_IMPORTS = frozenset(["mlflow", "pyspark", "tensorflow"])
"""Packages that take seconds to import (tensorflow 5-16 s on two cores)."""
ENDED: frozenset[TaskState] = frozenset(["done", "cached", "failed", "cancelled", "skipped"])


@dataclass
class _Job:
    """One task as it stands."""

    task: PlannedTask
    state: TaskState = "queued"
    attempt: int = 0
    not_before: float = 0.0
    worker: WorkerProcess | None = None
    started: float = 0.0
    deadline: float | None = None
    kill_at: float | None = None
    stopped_for: str = ""
    outputs: dict[str, Dataset] = field(default_factory=dict)
    failure: Failure | None = None
    locks: list[ProcessLock] = field(default_factory=list)


class Execution:
    """One attempt at a run's plan. `run()` returns the run's final state."""

    def __init__(self, workspace: Workspace, store: RunStore, catalog: Catalog, run_id: str, plan: Plan) -> None:
        self._workspace, self._store, self._catalog = workspace, store, catalog
        self._run_id, self._plan = run_id, plan
        self._jobs = {t.node: _Job(t) for t in plan.tasks}
        self._inbox: queue.SimpleQueue[tuple[WorkerProcess, Event | None]] = queue.SimpleQueue()
        self._warm: dict[str, WorkerProcess] = {}
        self._spark = SparkWorker(workspace, run_id, plan, lambda w, e: self._inbox.put((w, e)))
        self._places: list[ProcessLock] = []
        self._cancelled = False
        self._beat_at = 0.0
        self.first_error = ""

    @property
    def pids(self) -> list[int]:
        """The workers that live now."""
        return [w.pid for w in {*(j.worker for j in self._jobs.values() if j.worker), *self._spark.processes}]

    def cancel(self) -> None:
        """Ask every task to stop; those that do not within the grace are killed."""
        if self._cancelled:
            return
        self._cancelled = True
        for job in self._jobs.values():
            if job.worker is not None:
                self._stop(job, "cancelled")

    def run(self, on_tick: Any = None) -> RunState:
        """Run until every task has ended. `on_tick` is called about ten times a second."""
        self._hold_places()
        self._decide()
        try:
            while any(j.state not in ENDED for j in self._jobs.values()):
                self._beat()
                self._start_ready()
                self._warm_up()
                self._hear()
                self._watch()
                if on_tick is not None:
                    on_tick()
            while self._spark.leave():
                self._hear()
        finally:
            for worker in [*self._warm.values(), *(j.worker for j in self._jobs.values() if j.worker)]:
                worker.kill()
            self._spark.kill()
            for lock in self._places:
                lock.release()
        states = {j.state for j in self._jobs.values()}
        if "failed" in states:
            return "failed"
        return "cancelled" if "cancelled" in states else "done"

    # --- what there is to do -------------------------------------------------------------------

    def _decide(self) -> None:
        """Settle which tasks stand already: cached ones, and those that an earlier attempt finished."""
        earlier = {t.node: t for t in self._store.tasks(self._run_id)}
        needed: set[str] = set()
        for task in reversed(self._plan.tasks):
            behind = [t.node for t in self._plan.tasks if any(s.node == task.node for s in t.inputs.values())]
            result = self._store.result(task.identity.fingerprint)
            node_type = self._catalog.find(task.node_type, task.version)
            usable = result is not None and not check_result(node_type, result).problem
            finished = usable and result is not None and result.run_id == self._run_id
            if (task.action == "cached" or finished) and usable:
                continue
            if task.action == "cached" and behind and not any(n in needed for n in behind):
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
            result = self._store.result(task.identity.fingerprint)
            job.outputs = dict(result.outputs) if result else {}
            if result:
                self._store.touch_result(result.fingerprint)
            if before is not None and before.state in ("done", "cached"):
                job.state = before.state
            else:
                self._set(job, "cached", task.reason, outputs=_outputs_json(job.outputs))

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
            elif is_next or SLOW_IMPORTS & {name.split(".")[0] for name in task.imports}:
                self._warm[task.node] = self._worker(task)

    def _worker(self, task: PlannedTask) -> WorkerProcess:
        return WorkerProcess(self._workspace.root, self._log(task), task.imports, lambda w, e: self._inbox.put((w, e)))

    def _start_ready(self) -> None:
        for job in self._jobs.values():
            if job.state not in ("queued", "waiting") or job.worker is not None:
                continue
            sources = [self._jobs[s.node] for s in job.task.inputs.values()]
            if self._cancelled:
                self._set(job, "cancelled", "the run was cancelled", ended=time.time())
            elif any(s.state in ("failed", "cancelled", "skipped") for s in sources):
                broken = next(s for s in sources if s.state in ("failed", "cancelled", "skipped"))
                self._set(job, "skipped", f"{broken.task.node} did not finish", ended=time.time())
            elif all(s.state in ("done", "cached") for s in sources) and self._has_room(job):
                self._start(job)

    def _drop_warm(self, node: str) -> None:
        """End a worker that waits for a task which will not come."""
        if worker := self._warm.pop(node, None):
            worker.kill()

    def _has_room(self, job: _Job) -> bool:
        running = [j for j in self._jobs.values() if j.worker is not None]
        if time.monotonic() < job.not_before or len(running) >= self._plan.profile.parallel_tasks:
            return False
        if job.task.backend == "spark" and any(j.task.backend == "spark" for j in running):
            return False  # one at a time: they share the session
        return not (job.task.uses_all_cores and any(j.task.uses_all_cores for j in running))

    def _start(self, job: _Job) -> None:
        task = job.task
        if not self._lock(job):
            if job.state != "waiting":
                self._set(job, "waiting", "another run is making the same result")
            return
        result = self._store.result(task.identity.fingerprint)
        if result is not None and job.state == "waiting" and not task.forced:
            node_type = self._catalog.find(task.node_type, task.version)
            if not check_result(node_type, result).problem:
                job.outputs = dict(result.outputs)
                self._unlock(job)
                self._set(job, "cached", "another run made it", outputs=_outputs_json(job.outputs), ended=time.time())
                return
        on_spark = task.backend == "spark"
        job.worker = self._spark.take() if on_spark else self._warm.pop(task.node, None) or self._worker(task)
        job.attempt += 1
        job.failure, job.stopped_for, job.kill_at = None, "", None
        job.started = time.time()
        job.deadline = time.monotonic() + task.timeout_s if task.timeout_s else None
        self._set(job, "running", task.reason, attempt=job.attempt, started=job.started, ended=None, pid=job.worker.pid)
        started = TaskStarted(
            node=task.node, pid=job.worker.pid, backend=task.backend, backend_reason=task.backend_reason
        )
        self._store.add_events(self._run_id, [started])
        job.worker.start(self._message(job))

    def _message(self, job: _Job) -> TaskMessage:
        task, profile = job.task, self._plan.profile
        inputs: dict[str, Any] = {port: self._jobs[s.node].outputs[s.port] for port, s in task.inputs.items()}
        return TaskMessage(
            run_id=self._run_id,
            node=task.node,
            node_type=task.node_type,
            version=task.version,
            backend=task.backend,
            params=task.params,
            inputs=inputs,
            fingerprint=task.identity.fingerprint,
            out=str(self._plan.data_root(self._workspace) / task.out),
            shared=str(self._plan.data_root(self._workspace) / task.shared),
            scratch=str(self._scratch(task)),
            cores=profile.cores,
            memory_bytes=profile.memory_bytes // profile.parallel_tasks,
            gpus=profile.gpus,
            seed=task.given_seed,
            previous=task.previous,
            extends=task.extends,
            listings=task.listings,
            protected=_protected(self._store.results()),
            workspace=str(self._workspace.root),
            log=str(self._log(task)),
        )

    def _scratch(self, task: PlannedTask) -> Path:
        return self._plan.scratch_root(self._workspace) / task.identity.fingerprint

    def _log(self, task: PlannedTask) -> Path:
        log = self._workspace.log_file(self._run_id, task.node)
        log.parent.mkdir(parents=True, exist_ok=True)
        return log

    # --- locks ---------------------------------------------------------------------------------

    def _hold_places(self) -> None:
        """Keep `clean` away from everything this run writes or reads, until it ends."""
        places = {self._plan.data_root(self._workspace) / t.shared for t in self._plan.tasks}
        places |= {self._scratch(t) for t in self._plan.tasks}
        for task in self._plan.tasks:
            result = self._store.result(task.identity.fingerprint)
            for dataset in result.outputs.values() if result else ():
                if place := place_of(self._workspace, Path(dataset.uri)):
                    places.add(place)
        for place in sorted(places):
            lock = ProcessLock(place_lock(self._workspace, place))
            while not lock.acquire(shared=True):
                time.sleep(_TICK_S)  # a clean-up is just freeing it
            self._places.append(lock)

    def _lock(self, job: _Job) -> bool:
        """Take the fingerprint: two runs never make one result at once."""
        lock = ProcessLock(self._workspace.locks / f"result-{job.task.identity.fingerprint}")
        if not lock.acquire():
            return False
        job.locks = [lock]
        return True

    def _unlock(self, job: _Job) -> None:
        while job.locks:
            job.locks.pop().release()

    # --- what the workers say ------------------------------------------------------------------

    def _hear(self) -> None:
        heard: list[Event] = []
        ended: list[WorkerProcess] = []
        done: list[tuple[_Job, WorkerProcess]] = []
        with contextlib.suppress(queue.Empty):
            timeout = _TICK_S
            while len(heard) < 2000:
                worker, event = self._inbox.get(timeout=timeout)
                timeout = 0.001
                if event is None:
                    ended.append(worker)
                    continue
                heard.append(event)
                if isinstance(event, SparkSession) and event.state == "ended":
                    self._spark.dismiss(worker)
                job = self._jobs.get(event.node or "")
                if job is None or job.worker is not worker:
                    continue
                if isinstance(event, Outputs):
                    job.outputs = event.datasets()
                elif isinstance(event, Failure):
                    job.failure = event
                if worker.holds_spark and isinstance(event, Outputs | Failure):
                    done.append((job, worker))  # its last word; the process goes on
        if heard:
            self._store.add_events(self._run_id, heard)
        for job, worker in done:
            self._end(job, worker, job.failure is None)
        for worker in ended:
            job = next((j for j in self._jobs.values() if j.worker is worker), None)
            if job is not None:
                self._end(job, worker, worker.exit_status == 0 and (bool(job.outputs) or job.failure is None))
            if self._spark.has_ended(worker):
                # One that was killed could not say so itself.
                self._store.add_events(self._run_id, [SparkSession(state="ended", master=self._plan.profile.master)])
            self._warm = {n: w for n, w in self._warm.items() if w is not worker}

    def _end(self, job: _Job, worker: WorkerProcess, good: bool) -> None:
        job.worker = None
        now = time.time()
        if good:
            failpoint("supervisor:before-result")
            self._commit(job)
            failpoint("supervisor:after-result")
            self._unlock(job)
            self._set(job, "done", job.task.reason, outputs=_outputs_json(job.outputs), ended=now)
            return
        self._unlock(job)
        job.outputs = {}
        if job.stopped_for == "cancelled":
            self._set(job, "cancelled", "cancelled on request", ended=now)
            return
        failure = job.failure
        if failure is None or job.stopped_for == "timeout":
            failure = self._death(job, worker)
            self._store.add_events(self._run_id, [failure])
        if job.attempt <= job.task.retries and not self._cancelled:
            job.not_before = time.monotonic() + min(60.0, 2.0 ** (job.attempt - 1))
            self._set(job, "queued", f"attempt {job.attempt} failed: {failure.message}", failure=_failure_json(failure))
            return
        hint = f" {failure.hint}" if failure.hint else ""
        self.first_error = self.first_error or f"{job.task.node}: {failure.message.rstrip('.')}.{hint}"
        self._set(job, "failed", failure.message, failure=_failure_json(failure), ended=now)

    def _death(self, job: _Job, worker: WorkerProcess) -> Failure:
        node = job.task.node
        if job.stopped_for == "timeout":
            return Failure(
                node=node,
                code="timeout",
                message=f"did not finish within {job.task.timeout_s:g} s",
                hint="Raise the node's timeout_s; what it did so far is kept.",
            )
        status = worker.exit_status
        how = f"signal {signal.Signals(-status).name}" if status and status < 0 else f"exit status {status}"
        killed = status == -signal.SIGKILL
        return Failure(
            node=node,
            code="worker-died",
            message=f"its process ended without a word ({how})",
            hint="Perhaps the machine ran out of memory. `voxelflow runs resume` goes on from what is done."
            if killed
            else "Its log may say more (`voxelflow runs logs`); `voxelflow runs resume` goes on from what is done.",
        )

    def _commit(self, job: _Job) -> None:
        task = job.task
        self._store.put_result(
            Result(
                fingerprint=task.identity.fingerprint,
                lineage=task.identity.lineage,
                base=task.identity.base,
                node_type=task.node_type,
                identity=task.identity.parts,
                outputs=job.outputs,
                out=task.out,
                shared=task.shared,
                pipeline=self._plan.pipeline,
                node=task.node,
                run_id=self._run_id,
            )
        )
        shutil.rmtree(self._scratch(task), ignore_errors=True)

    # --- time ----------------------------------------------------------------------------------

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beat_at >= _HEARTBEAT_S:
            self._beat_at = now
            if self._store.heartbeat(self._run_id):
                self.cancel()

    def _watch(self) -> None:
        now = time.monotonic()
        self._spark.look(
            busy=any(j.worker is not None and j.worker.holds_spark for j in self._jobs.values()),
            more=any(j.task.backend == "spark" and j.state not in ENDED for j in self._jobs.values()),
        )
        for job in self._jobs.values():
            if job.worker is None:
                continue
            if job.deadline is not None and now > job.deadline and not job.stopped_for:
                self._stop(job, "timeout")
            if job.kill_at is not None and now > job.kill_at:
                job.worker.kill()

    def _stop(self, job: _Job, why: str) -> None:
        assert job.worker is not None
        job.stopped_for = why
        job.kill_at = time.monotonic() + CANCEL_GRACE_S
        job.worker.cancel()

    def _set(self, job: _Job, state: TaskState, reason: str, **columns: Any) -> None:
        job.state = state
        if state in ENDED:
            self._drop_warm(job.task.node)
        self._store.update_task(
            self._run_id,
            job.task.node,
            state=state,
            reason=reason,
            fingerprint=job.task.identity.fingerprint,
            **columns,
        )
        event = TaskStateChanged(node=job.task.node, state=state, attempt=max(1, job.attempt), reason=reason)
        self._store.add_events(self._run_id, [event])


def _protected(results: list[Result]) -> dict[str, tuple[int, ...]]:
    """By table: the versions that some result in the cache refers to."""
    out: dict[str, set[int]] = {}
    for result in results:
        for dataset in result.outputs.values():
            if isinstance(dataset, VolumeDelta):
                out.setdefault(dataset.uri, set()).add(dataset.version)
    return {uri: tuple(sorted(versions)) for uri, versions in out.items()}


def _outputs_json(outputs: Mapping[str, Dataset]) -> str:
    return json.dumps({k: v.model_dump(mode="json") for k, v in outputs.items()})


def _failure_json(failure: Failure) -> str:
    return failure.model_dump_json(exclude_none=True)
