"""What is known of a run that is to be done over, read from this workspace's run store or from MLflow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.declare.datasets import Dataset
from engine.declare.events import Artifact, Event, Facts, Metrics
from engine.document.pipeline import Pipeline, load
from engine.document.plan import read_plan
from engine.environment import Environment, kept_environment, read_environment
from engine.errors import TrackingError, UsageError, VoxelflowError
from engine.store.runs import ACTIVE, Run, RunStore
from engine.tracking import tracked_here
from engine.tracking.description import recorded_reference, wires_of
from engine.tracking.destination import Destination, connect, destination
from engine.tracking.mlflow_api import (
    NODE,
    NODE_ROLE,
    PIPELINE_ROLE,
    ROLE,
    RUN_ID,
    is_gone,
    is_refusal,
    key,
    line,
    param_text,
)
from engine.tracking.recorder import DOCUMENT, ENVIRONMENT, FACTS, SYSTEM
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun
    from mlflow.tracking import MlflowClient


Curve = Mapping[int, float]
"""Value by step."""


@dataclass(frozen=True)
class NodeRecord:
    """What one node reported. `figures` are its facts, as text, but those named like a parameter of it."""

    curves: Mapping[str, Curve] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """One run. `nodes` are those that reported curves or made a model: they are done over.

    `inputs` are the references that such a node was given, by node and input port. `environment` is None for a run
    that was made before environments were kept.
    """

    run_id: str
    state: str
    profile: str
    pipeline: Pipeline
    environment: Environment | None
    inputs: Mapping[str, Mapping[str, Dataset]]
    nodes: Mapping[str, NodeRecord]
    mlflow_run: str = ""


def find_recorded(workspace: Workspace, store: RunStore, name: str) -> Recorded:
    """The run `name`: an id of this workspace (or the beginning or end of one, or "last"), or an id in MLflow.

    The run store comes first, since it never misses a point; MLflow for what ran elsewhere. Raises `UsageError` when
    neither knows it or it still runs, `TrackingError` when MLflow does not answer.
    """
    run_id = tracked_here(store, name) or name
    try:
        recorded = read_from_store(workspace, store, store.run(run_id))
    except UsageError:
        recorded = read_from_mlflow(workspace, name)
    if recorded.state == "stuck":
        raise UsageError(
            f"run {recorded.run_id} is stuck and has not ended",
            hint=f"`voxelflow runs cancel {recorded.run_id}` ends it.",
        )
    if recorded.state in ACTIVE:
        raise UsageError(f"run {recorded.run_id} is still running", hint="Wait until it has ended.")
    if not recorded.nodes:
        raise UsageError(
            f"run {recorded.run_id} reported no curves and made no model, so there is nothing to compare",
            hint="Where its training was up to date, name the run that trained; `voxelflow runs list` shows them.",
        )
    return recorded


_PAGE = 10_000


def read_from_store(workspace: Workspace, store: RunStore, run: Run) -> Recorded:
    """What the run store has of `run`. Names are spelled as MLflow has them. Raises `PipelineError`."""
    pipeline = load(run.document)
    environment = kept_environment(workspace, run.run_id)
    curves: dict[str, dict[str, dict[int, float]]] = {}
    figures: dict[str, dict[str, str]] = {}
    for event in _events(store, run.run_id):
        node = event.node or ""
        if isinstance(event, Metrics):
            for name, value in event.values.items():
                # A step that was repeated after a resume keeps its first value, as in MLflow.
                curves.setdefault(node, {}).setdefault(key(name), {}).setdefault(event.step, value)
        elif isinstance(event, Facts):
            for name, fact in event.values.items():
                figures.setdefault(node, {}).setdefault(key(name), param_text(fact))
        elif isinstance(event, Artifact) and event.role == "model":
            curves.setdefault(node, {})
    made = {task.node: task.outputs for task in store.tasks(run.run_id)}
    inputs: dict[str, dict[str, Dataset]] = {}
    for edge in wires_of(pipeline, read_plan(workspace, run.run_id)):
        if (reference := made.get(edge.source_node, {}).get(edge.source_port)) is not None:
            inputs.setdefault(edge.target_node, {})[edge.target_port] = reference
    nodes = {}
    for node, of_node in curves.items():
        code = environment.nodes.get(node) if environment else None
        named = {} if code is None else {k: v for k, v in figures.get(node, {}).items() if k not in code.params}
        nodes[node] = NodeRecord(of_node, named)
    return Recorded(run.run_id, run.state, run.profile, pipeline, environment, inputs, nodes)


def _events(store: RunStore, run_id: str) -> Iterator[Event]:
    after = 0
    while page := store.events(run_id, after, ("metrics", "facts", "artifact"), _PAGE):
        yield from (event for _, event in page)
        after = page[-1][0]


_STATES = {"FINISHED": "done", "FAILED": "failed", "KILLED": "cancelled", "RUNNING": "running", "SCHEDULED": "running"}


def read_from_mlflow(workspace: Workspace, name: str) -> Recorded:
    """The run with MLflow's id or Voxelflow's id `name`, in the MLflow of this workspace.

    An id of a node's own run means the whole. Raises `UsageError` when there is none, or when it is not one of
    Voxelflow's; `TrackingError` when MLflow does not answer; `PipelineError` when its document cannot be read.
    """
    target = destination(workspace)
    if target.database is not None and not target.database.exists():
        # Nothing was ever sent there: no need to import MLflow and to make its tables.
        raise _unknown(name, target)
    try:
        client = connect(target, workspace)
        return _read(client, _find(client, name, target), target)
    except VoxelflowError:
        raise
    except Exception as exc:
        problem = target.clean(f"MLflow at {target.shown}: {line(exc)}")
        raise TrackingError(problem, hint="See that it can be reached, then ask again.") from exc


def _find(client: MlflowClient, name: str, target: Destination) -> MlflowRun:
    """The pipeline's run in MLflow."""
    try:
        found = client.get_run(name)
    except Exception as exc:
        if not (is_gone(exc) or is_refusal(exc)):
            raise
        return _by_our_id(client, name, target)
    if RUN_ID not in found.data.tags:
        raise UsageError(
            f"the run {name} in MLflow was not made by Voxelflow", hint="Choose a run that Voxelflow sent there."
        )
    if found.data.tags.get(ROLE) == NODE_ROLE:
        return client.get_run(found.data.tags["mlflow.parentRunId"])
    return found


def _by_our_id(client: MlflowClient, name: str, target: Destination) -> MlflowRun:
    wanted = f"tags.`{RUN_ID}` = '{name}' and tags.`{ROLE}` = '{PIPELINE_ROLE}'"
    experiments = [e.experiment_id for e in client.search_experiments()]
    # An id never holds a quote, which would end the text of the search.
    found = client.search_runs(experiments, wanted, max_results=1) if "'" not in name else []
    if not found:
        raise _unknown(name, target)
    return found[0]


def _unknown(name: str, target: Destination) -> UsageError:
    return UsageError(
        f"there is no run {name}, neither in this workspace nor in MLflow at {target.shown}",
        hint="`voxelflow runs list` shows those of the workspace; MLFLOW_TRACKING_URI names another MLflow.",
    )


def _read(client: MlflowClient, run: MlflowRun, target: Destination) -> Recorded:
    mlflow_run, run_id = run.info.run_id, run.data.tags[RUN_ID]
    document = _artifact(client, mlflow_run, DOCUMENT)
    if document is None:
        raise TrackingError(
            f"MLflow at {target.shown} has no {DOCUMENT} of run {run_id}",
            hint="Look there where it ran whether all of it was sent: `voxelflow runs show`.",
        )
    text = _artifact(client, mlflow_run, ENVIRONMENT)
    environment = read_environment(text) if text else None
    of_this = f"tags.`{RUN_ID}` = '{run_id}' and tags.`{ROLE}` = '{NODE_ROLE}'"
    inputs: dict[str, dict[str, Dataset]] = {}
    nodes: dict[str, NodeRecord] = {}
    for child in client.search_runs([run.info.experiment_id], of_this):
        node = child.data.tags[NODE]
        nodes[node] = _node_record(client, child, environment, node)
        inputs[node] = _inputs(child)
    return Recorded(
        run_id,
        _STATES.get(run.info.status, run.info.status),
        run.data.tags.get("voxelflow.profile", "local"),
        load(document),
        environment,
        inputs,
        nodes,
        mlflow_run,
    )


def _node_record(client: MlflowClient, child: MlflowRun, environment: Environment | None, node: str) -> NodeRecord:
    curves: dict[str, dict[int, float]] = {}
    for name in child.data.metrics:
        if name.startswith((SYSTEM, FACTS)):
            continue
        points = client.get_metric_history(child.info.run_id, name)
        for point in sorted(points, key=lambda p: (p.step, p.timestamp)):
            curves.setdefault(name, {}).setdefault(point.step, point.value)
    code = environment.nodes.get(node) if environment else None
    figures = {} if code is None else {k: v for k, v in child.data.params.items() if k not in code.params}
    return NodeRecord(curves, figures)


def _inputs(child: MlflowRun) -> dict[str, Dataset]:
    """References by the input port that they came through."""
    out: dict[str, Dataset] = {}
    for given in child.inputs.dataset_inputs if child.inputs else ():
        port = next((tag.value for tag in given.tags if tag.key == "mlflow.data.context"), "")
        reference = recorded_reference(given.dataset.profile or "")
        if port and reference is not None:
            out[port] = reference
    return out


def _artifact(client: MlflowClient, mlflow_run: str, name: str) -> str | None:
    """The text of a small artifact; None when there is none of that name."""
    if name not in {info.path for info in client.list_artifacts(mlflow_run)}:
        return None
    with tempfile.TemporaryDirectory() as folder:
        return Path(client.download_artifacts(mlflow_run, name, folder)).read_text(encoding="utf-8")
