"""A folder in MLflow's model format becomes an MLflow model of a run, without loading the model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from engine.failpoints import failpoint
from engine.tracking.naming import model_name

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.tracking import MlflowClient

MLMODEL = "MLmodel"
ARTIFACT = "voxelflow.artifact"


def is_mlflow_model(folder: Path) -> bool:
    return (folder / MLMODEL).is_file()


def log_model(
    client: MlflowClient,
    experiment: str,
    mlflow_run: str,
    folder: Path,
    name: str,
    *,
    known: str | None,
    params: Mapping[str, str],
    last: Mapping[str, tuple[int, int, float]],
) -> str:
    """Upload `folder` as the model `name` of an MLflow run; gives the MLflow model's id.

    Does what `mlflow.models.Model.log` does, but for a model that was saved by someone else, and so
    that doing it again after a kill changes nothing: the model is found again by its tag, files
    are written over with the same ones. `known` is the id where it was noted, `params` are the
    run's, `last` the newest point (step, time in ms, value) of each of its metrics.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric

    model = client.get_logged_model(known) if known else _find_or_create(client, experiment, mlflow_run, name, params)
    step = max((step for step, _, _ in last.values()), default=0)
    outputs = client.get_run(mlflow_run).outputs
    if model.model_id not in {o.model_id for o in (outputs.model_outputs if outputs else [])}:
        client.log_outputs(mlflow_run, [LoggedModelOutput(model.model_id, step)])
    # The same points as the run's own, which MLflow's stores know by all that is in them: the run
    # keeps one of each, the model gets its figures.
    points = [Metric(k, value, at, step, model_id=model.model_id) for k, (step, at, value) in last.items()]
    for start in range(0, len(points), 1000):
        client.log_batch(mlflow_run, metrics=points[start : start + 1000])
    upload_model(client, model, folder, mlflow_run)
    failpoint("tracking:model-uploaded")
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    return str(model.model_id)


def _find_or_create(
    client: MlflowClient, experiment: str, mlflow_run: str, name: str, params: Mapping[str, str]
) -> LoggedModel:
    mark = f"{mlflow_run}/{model_name(name)}"
    found = client.search_logged_models([experiment], f"tags.`{ARTIFACT}` = '{mark}'", max_results=1)
    if found:
        return found[0]
    model = client.create_logged_model(
        experiment,
        name=model_name(name),
        source_run_id=mlflow_run,
        tags={ARTIFACT: mark},
        params=dict(params),
    )
    failpoint("tracking:model-created")
    return model


def upload_model(client: MlflowClient, model: LoggedModel, folder: Path, mlflow_run: str | None = None) -> None:
    """Upload the files of `folder`, in MLflow's format, as those of `model`; doing it again changes nothing."""
    from mlflow.models import Model

    client.log_model_artifacts(model.model_id, str(folder))
    # Whoever saved the folder knew neither run nor model. The folder belongs to a result and stays as it is.
    description = Model.load(str(folder))
    description.run_id = mlflow_run
    description.model_id = description.model_uuid = model.model_id
    description.artifact_path = model.artifact_location
    with tempfile.TemporaryDirectory() as own:
        path = Path(own) / MLMODEL
        description.save(str(path))
        client.log_model_artifact(model.model_id, str(path))
