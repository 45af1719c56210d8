"""A run as MLflow has it: all that another workspace or machine needs to do it over."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine.datasets import Dataset
from engine.environment import Environment, read_environment
from engine.errors import TrackingError, UsageError, VoxelflowError
from engine.pipeline import load
from engine.reproduction.recorded import Recorded, Told
from engine.tracking.destination import Destination, connect, destination
from engine.tracking.experiment import NODE, NODE_ROLE, PIPELINE_ROLE, ROLE, RUN_ID
from engine.tracking.inputs import recorded_reference
from engine.tracking.recorder import DOCUMENT, ENVIRONMENT, FACTS, SYSTEM
from engine.tracking.troubles import is_gone, is_refusal, line
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun
    from mlflow.tracking import MlflowClient

_STATES = {"FINISHED": "done", "FAILED": "failed", "KILLED": "cancelled", "RUNNING": "running", "SCHEDULED": "running"}


def read_from_mlflow(workspace: Workspace, name: str) -> Recorded:
    """The run with MLflow's id or Voxelflow's id `name`, in the MLflow of this workspace.

    An id of a node's own run means the whole. Raises `UsageError` when there is none, or when it is not one of
    Voxelflow's; `TrackingError` when MLflow is away; `PipelineError` when its document cannot be read.
    """
    target = destination(workspace)
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
        raise UsageError(f"the run {name} in MLflow was not made by Voxelflow", hint="Only those can be reproduced.")
    if found.data.tags.get(ROLE) == NODE_ROLE:
        return client.get_run(found.data.tags["mlflow.parentRunId"])
    return found


def _by_our_id(client: MlflowClient, name: str, target: Destination) -> MlflowRun:
    wanted = f"tags.`{RUN_ID}` = '{name}' and tags.`{ROLE}` = '{PIPELINE_ROLE}'"
    experiments = [e.experiment_id for e in client.search_experiments()]
    # An id never holds a quote, which would end the text of the search.
    found = client.search_runs(experiments, wanted, max_results=1) if "'" not in name else []
    if not found:
        raise UsageError(
            f"there is no run {name}, neither in this workspace nor in MLflow at {target.shown}",
            hint="`voxelflow runs list` shows those of the workspace; MLFLOW_TRACKING_URI names another MLflow.",
        )
    return found[0]


def _read(client: MlflowClient, run: MlflowRun, target: Destination) -> Recorded:
    mlflow_run, run_id = run.info.run_id, run.data.tags[RUN_ID]
    document = _artifact(client, mlflow_run, DOCUMENT)
    if document is None:
        raise TrackingError(
            f"MLflow at {target.shown} has no {DOCUMENT} of run {run_id}",
            hint="Where it ran, `voxelflow runs show` says whether all of it was sent.",
        )
    text = _artifact(client, mlflow_run, ENVIRONMENT)
    environment = read_environment(text) if text else None
    of_this = f"tags.`{RUN_ID}` = '{run_id}' and tags.`{ROLE}` = '{NODE_ROLE}'"
    inputs: dict[str, dict[str, Dataset]] = {}
    told: dict[str, Told] = {}
    for child in client.search_runs([run.info.experiment_id], of_this):
        node = child.data.tags[NODE]
        told[node] = _told(client, child, environment, node)
        inputs[node] = _inputs(child)
    return Recorded(
        run_id,
        _STATES.get(run.info.status, run.info.status),
        run.data.tags.get("voxelflow.profile", "local"),
        load(document),
        environment,
        inputs,
        told,
        mlflow_run,
    )


def _told(client: MlflowClient, child: MlflowRun, environment: Environment | None, node: str) -> Told:
    curves: dict[str, dict[int, float]] = {}
    for name in child.data.metrics:
        if name.startswith((SYSTEM, FACTS)):
            continue
        points = client.get_metric_history(child.info.run_id, name)
        for point in sorted(points, key=lambda p: (p.step, p.timestamp)):
            curves.setdefault(name, {}).setdefault(point.step, point.value)
    code = environment.nodes.get(node) if environment else None
    figures = {} if code is None else {k: v for k, v in child.data.params.items() if k not in code.params}
    return Told(curves, figures)


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
