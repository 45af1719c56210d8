"""What each event of a run becomes in MLflow, and what the tracker remembers of that between two starts.

The pipeline's run is the parent. A node that reports metrics or a model gets a nested run of its
own, with its parameters, its curves, its datasets and its models; all other nodes' figures and files
stand in the parent under the node's name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from engine.declare.dataset_type import details_of
from engine.declare.datasets import Dataset
from engine.declare.events import (
    Artifact,
    Event,
    Facts,
    Failure,
    Metrics,
    Outputs,
    RunState,
    RunStateChanged,
    SystemSample,
    TaskState,
    TaskStateChanged,
)
from engine.environment import Environment, kept_environment
from engine.store.runs import ACTIVE, Run, RunStore
from engine.tracking.description import Described, dataset_inputs, outputs_of_tasks
from engine.tracking.mlflow_api import file_name, find_or_create_run, is_number, key, line, may_pass, milliseconds
from engine.tracking.mlflow_run import MlflowRun
from engine.tracking.models import is_mlflow_model, log_model

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_NOTES = 20
"""Problems kept for people to read; the tracker's log has them all."""
STATUS: Mapping[RunState, str] = {
    "starting": "RUNNING",
    "running": "RUNNING",
    "stuck": "RUNNING",
    "done": "FINISHED",
    "failed": "FAILED",
    "cancelled": "KILLED",
    "lost": "KILLED",
}
_TASK_STATUS: Mapping[TaskState, str] = {"done": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_FOLDERS = {"plot": "plots", "table": "files", "file": "files", "model": "models"}
DOCUMENT, ENVIRONMENT, REQUIREMENTS = "pipeline.json", "environment.json", "requirements.txt"
"""Artifacts of the pipeline's run: what it takes to do it again."""
SYSTEM = "system/"
"""MLflow's pages show metrics with this prefix under "System metrics"."""
FACTS = "facts/"


class ChildState(BaseModel):
    """The MLflow run of one node."""

    # A loss may be NaN, which JSON has no word for.
    model_config = ConfigDict(ser_json_inf_nan="strings")

    run: str
    status: str = "RUNNING"
    samples: int = 0
    """System samples sent, the step of the next one."""
    replayed: bool = False
    """The node was started again: steps that were sent before come again."""
    last: dict[str, tuple[int, int, float]] = {}
    """By metric: step, time in ms and value of the newest point."""
    models: dict[str, str] = {}
    """MLflow model ids by the model's name."""


class NodeState(BaseModel):
    """What is needed of a node's past to understand its next event. Times in seconds since the epoch."""

    started: float | None = None
    running: bool = False


class TrackState(BaseModel):
    """What of a run is in MLflow. Ids are empty until made."""

    location: str = ""
    """Where it was sent, without secrets: ids mean nothing anywhere else."""
    experiment: str = ""
    run: str = ""
    status: str = "RUNNING"
    described: bool = False
    """Document and parameters were sent."""
    samples: int = 0
    ended: float | None = None
    nodes: dict[str, NodeState] = {}
    children: dict[str, ChildState] = {}
    notes: list[str] = []

    def node(self, name: str) -> NodeState:
        """The node's state, made when it is first asked for."""
        return self.nodes.setdefault(name, NodeState())

    def note(self, text: str) -> None:
        """Keep a problem that was passed over, once."""
        if text not in self.notes:
            self.notes = [*self.notes, text][-_NOTES:]


class Recorder:
    """Turns a run's events into calls of MLflow, for as long as one connection lasts.

    `state` is changed as events are recorded; the caller keeps the old one until all was sent.
    """

    def __init__(
        self, client: MlflowClient, store: RunStore, run: Run, described: Described, note: Callable[[str], None]
    ) -> None:
        self._client, self._store, self._run, self._described = client, store, run, described
        self._note = note
        self._runs: dict[str, MlflowRun] = {}
        self.state = TrackState()

    @property
    def parent(self) -> MlflowRun:
        """The MLflow run of the whole pipeline."""
        return self._open(self.state.run)

    def describe(self) -> None:
        """Send what is known of the run from the start: document, parameters and environment."""
        parent = self.parent
        for name, value in self._described.settings.items():
            parent.param(name, value)
        for node, params in self._described.params.items():
            for name, value in params.items():
                parent.param(f"{node}.{name}", value)
        parent.flush()
        self._guarded(DOCUMENT, lambda: self._client.log_text(parent.id, self._run.document, DOCUMENT))
        environment = kept_environment(self._store.workspace, self._run.run_id)
        if environment is not None:
            self._guarded("the environment", lambda: self._environment(environment))

    def _environment(self, environment: Environment) -> None:
        parent, git = self.parent, environment.git
        if git.commit:
            parent.tag("mlflow.source.git.commit", git.commit)
            parent.tag("voxelflow.git.uncommitted_changes", git.changes or "none")
        if git.branch:
            parent.tag("mlflow.source.git.branch", git.branch)
        parent.tag("voxelflow.machine", environment.machine.describe())
        parent.flush()
        self._client.log_text(parent.id, environment.requirements, REQUIREMENTS)
        self._client.log_text(parent.id, environment.model_dump_json(indent=1) + "\n", ENVIRONMENT)

    def record(self, seq: int, event: Event) -> None:
        """Take one event. What has many points waits for `flush`; the rest is sent at once."""
        node = event.node or ""
        if isinstance(event, RunStateChanged):
            self.state.ended = None if event.state in ACTIVE else event.time
        elif isinstance(event, TaskStateChanged):
            self._task_state(node, event)
        elif isinstance(event, Metrics):
            self._metrics(seq, node, event)
        elif isinstance(event, Facts):
            self._facts(node, event)
        elif isinstance(event, Outputs):
            self._outputs(node, event.datasets(), event.time)
        elif isinstance(event, Artifact):
            self._artifact(seq, node, event)
        elif isinstance(event, Failure):
            self.parent.tag(
                f"voxelflow.last_failure.{node}", " ".join(f"{event.code}: {event.message} {event.hint}".split())
            )
        elif isinstance(event, SystemSample):
            self._system(event)

    def flush(self) -> None:
        """Send what waits. Raises as `MlflowRun.flush` does."""
        for run in self._runs.values():
            run.flush()

    def settle(self, run: Run) -> None:
        """All events are recorded: bring the MLflow runs' states in line with the run's."""
        status, parent = STATUS[run.state], self.parent
        parent.tag("voxelflow.state", run.state)
        parent.tag("voxelflow.attempt", str(run.attempt))
        if run.error:
            parent.tag("voxelflow.error", run.error)
        elif run.attempt > 1:
            parent.untag("voxelflow.error")  # that of the attempt before
        if run.active:
            if self.state.status != status:
                parent.reopen()
        else:
            ended = self.state.ended or run.ended or run.heartbeat or run.created
            for child in self.state.children.values():
                if child.status == "RUNNING":
                    self._close(child, "KILLED" if status == "KILLED" else "FAILED", ended)
            parent.close(status, ended)
        self.state.status = status

    # --- tasks -------------------------------------------------------------------------------

    def _task_state(self, node: str, event: TaskStateChanged) -> None:
        parent, about, child = self.parent, self.state.node(node), self.state.children.get(node)
        parent.tag(f"voxelflow.task.{node}", event.state)
        if event.state == "done" and about.running and about.started is not None:
            parent.point(f"{node}.seconds", event.time - about.started, event.time)
        if event.state == "cached":
            self._outputs(node, outputs_of_tasks(self._store, self._run.run_id).get(node, {}), event.time)
        about.running = event.state == "running"
        if about.running:
            about.started = event.time
        if child is None:
            return
        if about.running:
            self._open(child.run).replay()
            child.replayed = True
            if child.status != "RUNNING":
                self._open(child.run).reopen()
                child.status = "RUNNING"
        elif event.state in _TASK_STATUS:
            self._close(child, _TASK_STATUS[event.state], event.time)

    def _close(self, child: ChildState, status: str, ended: float) -> None:
        self._open(child.run).close(status, ended)
        child.status = status

    def _outputs(self, node: str, outputs: Mapping[str, Dataset], time: float) -> None:
        for port, reference in outputs.items():
            where = node if len(outputs) == 1 else f"{node}.{port}"
            for name, value in details_of(reference).items():
                if is_number(value):
                    self.parent.point(f"{where}.{name}", value, time)
                elif name in self._described.params.get(node, {}):
                    # The parameter of that name has this key, perhaps with another spelling of the value.
                    self.parent.param(f"{node}.{port}.{name}", value)
                else:
                    self.parent.param(f"{where}.{name}", value)

    def _facts(self, node: str, event: Facts) -> None:
        child = self.state.children.get(node)
        for name, value in event.values.items():
            if is_number(value):
                self.parent.point(f"{node}.{name}", float(value), event.time)
            else:
                self.parent.param(f"{node}.{name}", value)
            if child is not None:
                self._child_fact(self._open(child.run), name, value, event.time)

    def _child_fact(self, run: MlflowRun, name: str, value: Any, time: float) -> None:
        run.param(name, value)
        if is_number(value):
            # Apart from the curves: a fact may have the name of one.
            run.point(FACTS + name, float(value), time)

    # --- what a node reports while it runs ---------------------------------------------------

    def _metrics(self, seq: int, node: str, event: Metrics) -> None:
        child = self._child(seq, node, event.time)
        run = self._open(child.run)
        for name, value in event.values.items():
            run.point(name, value, event.time, event.step, series=True)
            newest = child.last.get(key(name))
            # A step that is replayed keeps its first point, here as in MLflow.
            if newest is None or event.step > newest[0]:
                child.last[key(name)] = (event.step, milliseconds(event.time), float(value))

    def _system(self, event: SystemSample) -> None:
        for name, value in event.values.items():
            self.parent.point(SYSTEM + name, value, event.time, self.state.samples)
        self.state.samples += 1
        for node, child in self.state.children.items():
            if not self.state.node(node).running:
                continue
            for name, value in event.values.items():
                self._open(child.run).point(SYSTEM + name, value, event.time, child.samples)
            child.samples += 1

    def _child(self, seq: int, node: str, time: float) -> ChildState:
        """The node's own MLflow run, made when it is first needed, with what was known of it before."""
        found = self.state.children.get(node)
        if found is not None:
            return found
        mlflow_id, created = find_or_create_run(
            self._client,
            self.state.experiment,
            self._run.run_id,
            node=node,
            parent=self.state.run,
            name=f"{node} {self._run.run_id}",
            started=self.state.node(node).started or time,
            tags={
                "voxelflow.pipeline": self._run.pipeline,
                "voxelflow.node_type": self._described.types.get(node, ""),
                "voxelflow.profile": self._run.profile,
            },
        )
        child = self.state.children[node] = ChildState(run=mlflow_id)
        run = self._runs[mlflow_id] = MlflowRun(self._client, mlflow_id, self._note, created=created)
        for name, value in self._described.params.get(node, {}).items():
            run.param(name, value)
        for earlier_seq, earlier in self._store.events(self._run.run_id, kinds=("facts",)):
            if isinstance(earlier, Facts) and earlier.node == node and earlier_seq < seq:
                for name, value in earlier.values.items():
                    self._child_fact(run, name, value, earlier.time)
        outputs = outputs_of_tasks(self._store, self._run.run_id)
        inputs = dataset_inputs(self._described.into(node), outputs)
        if inputs:
            self._guarded(f"the datasets of {node}", lambda: self._client.log_inputs(mlflow_id, inputs))
        return child

    # --- files -------------------------------------------------------------------------------

    def _artifact(self, seq: int, node: str, event: Artifact) -> None:
        path = Path(event.path)
        if not path.exists():
            self._note(f"{event.role} {event.name} of {node} is not there any more: {path}")
            return
        if event.role == "model" and is_mlflow_model(path):
            self._guarded(f"model {event.name} of {node}", lambda: self._model(seq, node, event))
            return
        child = self.state.children.get(node)
        folder = _FOLDERS[event.role] if child else f"{_FOLDERS[event.role]}/{file_name(node, '')}"
        mlflow_id = child.run if child else self.state.run
        self._guarded(f"{event.role} {event.name} of {node}", lambda: self._upload(mlflow_id, path, event.name, folder))

    def _model(self, seq: int, node: str, event: Artifact) -> None:
        child = self._child(seq, node, event.time)
        run = self._open(child.run)
        # The model takes over the run's parameters and newest figures: they must be there.
        run.flush()
        child.models[event.name] = log_model(
            self._client,
            self.state.experiment,
            child.run,
            Path(event.path),
            event.name,
            known=child.models.get(event.name),
            params=run.params_on_server(),
            last=child.last,
        )

    def _upload(self, mlflow_id: str, path: Path, name: str, folder: str) -> None:
        if path.is_dir():
            self._client.log_artifacts(mlflow_id, str(path), f"{folder}/{file_name(name, '')}")
            return
        with tempfile.TemporaryDirectory() as own:
            # MLflow names an artifact after its file.
            named = Path(own) / file_name(name, path.suffix)
            named.symlink_to(path.absolute())
            self._client.log_artifact(mlflow_id, str(named), folder)

    def _guarded(self, what: str, send: Callable[[], Any]) -> None:
        """Send one thing; what can never be sent is noted and passed over, so that the rest is."""
        try:
            send()
        except Exception as exc:
            if may_pass(exc):
                raise
            self._note(f"MLflow did not get {what}: {line(exc)}")

    def _open(self, mlflow_id: str) -> MlflowRun:
        found = self._runs.get(mlflow_id)
        if found is None:
            replayed = any(c.run == mlflow_id and c.replayed for c in self.state.children.values())
            found = self._runs[mlflow_id] = MlflowRun(self._client, mlflow_id, self._note, replayed=replayed)
        return found
