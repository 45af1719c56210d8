"""The experiment of a pipeline, and the runs in it: found again by their tags, never made twice."""

from __future__ import annotations

import getpass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from engine.failpoints import failpoint
from engine.tracking.naming import milliseconds, tag_text

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

RUN_ID, NODE, ROLE = "voxelflow.run_id", "voxelflow.node", "voxelflow.role"
PIPELINE_ROLE, NODE_ROLE = "pipeline", "node"


def find_or_create_experiment(client: MlflowClient, name: str, artifacts: str | None) -> str:
    """The id of the experiment `name`. One that was deleted is restored, as MLflow asks for."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifacts))
        except MlflowException:
            # Another run of the pipeline made it meanwhile; anything else is for the caller.
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def find_or_create_run(
    client: MlflowClient,
    experiment: str,
    run_id: str,
    *,
    node: str | None = None,
    parent: str | None = None,
    name: str,
    started: float,
    tags: dict[str, str],
) -> tuple[str, bool]:
    """The MLflow run of a run, or of one `node` of it: (its id, whether it was made now).

    Found by its tags, so that a tracker that died before it could note the id makes no second one.
    `started` is in seconds since the epoch.
    """
    role = PIPELINE_ROLE if node is None else NODE_ROLE
    wanted = f"tags.`{RUN_ID}` = '{run_id}' and tags.`{ROLE}` = '{role}'"
    if node is not None:
        wanted += f" and tags.`{NODE}` = '{node}'"
    found = client.search_runs([experiment], wanted, order_by=["attributes.start_time ASC"], max_results=1)
    if found:
        return str(found[0].info.run_id), False
    own = {
        RUN_ID: run_id,
        ROLE: role,
        "voxelflow.version": _version(),
        "mlflow.user": _user(),
        "mlflow.source.name": "voxelflow",
        "mlflow.source.type": "LOCAL",
    }
    if node is not None:
        own[NODE] = node
    if parent is not None:
        own["mlflow.parentRunId"] = parent
    texts = {k: tag_text(v) for k, v in (tags | own).items()}
    made = client.create_run(experiment, start_time=milliseconds(started), tags=texts, run_name=name)
    failpoint("tracking:run-created")
    return str(made.info.run_id), True


@cache
def _version() -> str:
    try:
        return version("voxelflow")
    except PackageNotFoundError:
        return "unknown"


@cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an account without a name, as in many containers
        return "unknown"
