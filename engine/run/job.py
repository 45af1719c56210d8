"""One task of a run as its supervisor sees it: its state, its lock, the message to its worker, its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.catalog import AnyNodeType
from engine.declare.datasets import Dataset
from engine.declare.events import Failure, TaskState
from engine.document.plan import Plan, PlannedTask
from engine.observe.results import protected_versions, still_there
from engine.processes.messages import death_of
from engine.run.task import TaskMessage
from engine.run.unchanged import code_planned, files_planned
from engine.run.worker_process import WorkerProcess
from engine.storage.io_errors import full_disk
from engine.storage.process_lock import ProcessLock
from engine.store.results import Result
from engine.store.runs import RunStore
from engine.workspace import Workspace, place_of, scratch_name

SLOW_IMPORTS = {"tensorflow": "TensorFlow", "pyspark": "Spark", "mlflow": "MLflow"}
"""Packages that take seconds to import (tensorflow 5-16 s on two cores), the slowest first, with their names."""
ENDED: frozenset[TaskState] = frozenset(["done", "cached", "failed", "cancelled", "skipped"])


def scratch_of(plan: Plan, workspace: Workspace, task: PlannedTask) -> Path:
    """The folder of half-done work of a task of the plan."""
    return plan.scratch_root(workspace) / scratch_name(task.identity.fingerprint, task.shared, task.forced)


@dataclass(frozen=True)
class RunContext:
    """What the tasks of a run share."""

    workspace: Workspace
    store: RunStore
    run_id: str
    plan: Plan

    def scratch(self, task: PlannedTask) -> Path:
        """The folder of the task's half-done work."""
        return scratch_of(self.plan, self.workspace, task)

    def places(self) -> set[Path]:
        """The folders that the run writes, and those of earlier results in the workspace that it reads."""
        out = {self.plan.data_root(self.workspace) / task.shared for task in self.plan.tasks}
        out |= {self.scratch(task) for task in self.plan.tasks}
        for task in self.plan.tasks:
            result = self.store.results.find(task.identity.fingerprint)
            read = [*(result.outputs.values() if result else ()), *task.previous.values(), *task.extends.values()]
            found = (place_of(self.workspace, Path(dataset.uri)) for dataset in read)
            out.update(place for place in found if place is not None)
        return out

    def log(self, task: PlannedTask) -> Path:
        """The file of what the task's worker prints, in a folder that is there."""
        log = self.workspace.log_file(self.run_id, task.node)
        log.parent.mkdir(parents=True, exist_ok=True)
        return log


@dataclass
class Job:
    """One task and its state. `not_before`, `deadline` and `kill_at` are of the monotonic clock."""

    task: PlannedTask
    run: RunContext
    state: TaskState = "queued"
    attempt: int = 0
    failures: int = 0
    """How often it failed in this attempt of the run: only these count against its `retries`."""
    not_before: float = 0.0
    worker: WorkerProcess | None = None
    started: float = 0.0
    deadline: float | None = None
    kill_at: float | None = None
    stopped_for: str = ""
    outputs: dict[str, Dataset] = field(default_factory=dict)
    has_reported: bool = False
    """Whether its worker has sent outputs: a node may have none, and a library may end the process with status 0."""
    failure: Failure | None = None
    waits: str = ""
    """What it waits for, in words, while its state is "waiting"."""
    again: int = 0
    """How often it was done over in this attempt of the run, because its table had changed since."""
    _locked: ProcessLock | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it in this attempt."""
        return self.state in ENDED

    def lock(self) -> bool:
        """Take the fingerprint: two runs never make one result at once. False while another run has it."""
        lock = self._lock()
        if not lock.acquire():
            return False
        lock.note(self.run.run_id)
        self._locked = lock
        return True

    def unlock(self) -> None:
        """Give the fingerprint back; nothing if it was not taken."""
        if self._locked is not None:
            self._locked.release()
            self._locked = None

    def waits_for(self) -> str:
        """Why `lock` said no, for people."""
        other = self._lock().noted()
        return f"run {other} is making the same result" if other else "another run is making the same result"

    def _lock(self) -> ProcessLock:
        return ProcessLock(self.run.workspace.locks / f"result-{self.task.identity.fingerprint}")

    def message(self, inputs: Mapping[str, Dataset]) -> TaskMessage:
        """What its worker needs to know. `inputs` are datasets by port."""
        task, run, profile = self.task, self.run, self.run.plan.profile
        data = run.plan.data_root(run.workspace)
        return TaskMessage(
            run_id=run.run_id,
            node=task.node,
            node_type=task.node_type,
            version=task.version,
            backend=task.backend,
            params=task.params,
            inputs=dict(inputs),
            fingerprint=task.identity.fingerprint,
            out=str(data / task.out),
            shared=str(data / task.shared),
            scratch=str(run.scratch(task)),
            cores=profile.cores,
            memory_bytes=profile.memory_bytes // profile.parallel_tasks,
            gpus=profile.gpus,
            seed=task.given_seed,
            previous=still_there(task.previous),
            extends=still_there(task.extends),
            listings=task.listings,
            protected=protected_versions(run.store.results),
            workspace=str(run.workspace.root),
            former_workspaces=run.store.former_roots,
            log=str(run.log(task)),
            about_bytes=task.about_bytes,
            code=code_planned(task),
            files=files_planned(task),
        )

    def result(self) -> Result:
        """What the run store keeps of its outputs."""
        task = self.task
        return Result(
            fingerprint=task.identity.fingerprint,
            lineage=task.identity.lineage,
            base=task.identity.base,
            node_type=task.node_type,
            identity=task.identity.parts,
            outputs=self.outputs,
            out=task.out,
            shared=task.shared,
            pipeline=self.run.plan.pipeline,
            node=task.node,
            run_id=self.run.run_id,
        )

    def death(self, status: int | None) -> Failure:
        """The report on a worker that ended without one, or was stopped after its time. `status` as of `Popen`."""
        node, run = self.task.node, self.run
        if self.stopped_for == "timeout":
            return Failure(
                node=node,
                code="timeout",
                message=f"did not finish within {self.task.timeout_s:g} s",
                hint="Raise the node's timeout_s; what it did so far is kept.",
            )
        failure = death_of(status, run.log(self.task), node=node)
        if (full := full_disk(run.plan.data_root(run.workspace), run.workspace.root)) is None:
            return failure
        # As by SIGBUS, when a mapped file cannot grow.
        message = f"{failure.message}, perhaps because there is {full.message}"
        return failure.model_copy(update={"message": message, "hint": full.hint})


def slow_import(task: PlannedTask, node_type: AnyNodeType | None) -> str:
    """What the task's worker takes seconds to import, by its name; "" for nothing.

    Known by the packages, which modules of ours hide.
    """
    packages = {name.partition(".")[0] for name in task.imports}
    if node_type is not None:
        packages.update(*(names for _, names in node_type.packages(task.params)))
    return next((name for package, name in SLOW_IMPORTS.items() if package in packages), "")
