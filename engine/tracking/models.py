"""Models in MLflow: a run's own, and versions in the registry with an alias for the best one.

A version comes into being by one call, when the model's files are all there, and an alias moves by one call. Each is
looked for before it is made, by a tag with the hash of the model, so a task that runs again registers nothing twice.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import TrackingError, UsageError, VoxelflowError
from engine.failpoints import failpoint
from engine.tracking.destination import ENVIRONMENT, Destination, connect, destination
from engine.tracking.mlflow_api import find_or_create_experiment, is_gone, key, line, model_name, tag_text
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

MLMODEL = "MLmodel"
ARTIFACT = "voxelflow.artifact"
EXPERIMENT = "voxelflow registered models"
"""Holds the files of registered models, so that deleting a pipeline's experiment leaves them alone."""
MODEL, REPLACED = "voxelflow.model", "voxelflow.replaced"
_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_EXISTS = "RESOURCE_ALREADY_EXISTS"


def is_mlflow_model(folder: Path) -> bool:
    """Whether the folder is in MLflow's model format."""
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
    # When the folder was saved, run and model were not known. It belongs to a result and is not changed.
    description = Model.load(str(folder))
    description.run_id = mlflow_run
    description.model_id = description.model_uuid = model.model_id
    description.artifact_path = model.artifact_location
    with tempfile.TemporaryDirectory() as own:
        path = Path(own) / MLMODEL
        description.save(str(path))
        client.log_model_artifact(model.model_id, str(path))


@dataclass(frozen=True)
class Candidate:
    """A model to register: `folder` in MLflow's format, `digest` the hash that identifies it.

    `value` of `metric` decides about the alias; one that does not reach the `threshold` never gets it. `tags` are kept
    on the version beside them.
    """

    name: str
    alias: str
    folder: Path
    digest: str
    metric: str
    value: float
    higher_is_better: bool
    tags: Mapping[str, str]
    threshold: float | None = None

    @property
    def reaches(self) -> bool:
        """Whether its figure is as good as the threshold."""
        return self.threshold is None or self.value == self.threshold or self.beats(self.threshold)

    def beats(self, other: float) -> bool:
        """Whether its figure is better than `other`."""
        return self.value > other if self.higher_is_better else self.value < other


@dataclass(frozen=True)
class Registered:
    """The model's version, whether the alias is its own now, and which version had it before (empty: none).

    `previous_value` is None where none had it, or MLflow does not know that version's figure.
    """

    version: str
    aliased: bool
    previous: str = ""
    previous_value: float | None = None
    previous_data: str = ""


def register(
    workspace: Workspace | None, candidate: Candidate, commit_point: Callable[[str], None]
) -> tuple[Registered, str]:
    """Register the candidate where the workspace's runs are tracked; also gives that place, without secrets.

    Raises `TrackingError` when MLflow cannot be reached or refuses: then a version is there whole, or not at all.
    `UsageError` as `destination` does.
    """
    with _connected(workspace, "the model was not registered") as (client, target):
        version = _version_of(client, candidate) or _make_version(client, target, candidate, commit_point)
        commit_point("register:version-made")
        for name, value in _tags(candidate).items():
            if version.tags.get(name) != value:
                client.set_model_version_tag(candidate.name, version.version, name, value)
        out = _move_alias(client, candidate, str(version.version))
        commit_point("register:alias-set")
        return out, target.shown


@contextmanager
def fetched(workspace: Workspace | None, uri: str) -> Iterator[Path]:
    """The files of a registered model (`models:/NAME@ALIAS` or `models:/NAME/VERSION`), for as long as the block lasts.

    Raises `UsageError` for another URI or a model that is not there, `TrackingError` when MLflow cannot be reached.
    """
    wanted = _parsed(uri)
    with tempfile.TemporaryDirectory() as own:
        with _connected(workspace, f"{uri} was not fetched") as (client, target):
            import mlflow.artifacts  # from here on it is known to be installed

            name, version = _version(client, target, wanted)
            with _named(uri, target):
                place = client.get_model_version_download_uri(name, version)
            found = mlflow.artifacts.download_artifacts(artifact_uri=place, dst_path=own, tracking_uri=target.uri)
        yield Path(found)


def pinned(workspace: Workspace | None, uri: str) -> str:
    """What `models:/NAME@ALIAS` means now, as `models:/NAME/VERSION`; a version as it is. Raises as `fetched` does."""
    wanted = _parsed(uri)
    if wanted["version"] is not None:
        return uri
    with _connected(workspace, f"{uri} was not looked up") as (client, target):
        name, version = _version(client, target, wanted)
    return f"models:/{name}/{version}"


def _parsed(uri: str) -> re.Match[str]:
    wanted = _URI.fullmatch(uri)
    if wanted is None:
        raise UsageError(f"{uri} names no registered model", hint="Write models:/NAME@ALIAS or models:/NAME/VERSION.")
    return wanted


def _version(client: MlflowClient, target: Destination, wanted: re.Match[str]) -> tuple[str, str]:
    if wanted["version"] is not None:
        return wanted["name"], wanted["version"]
    with _named(wanted[0], target):
        return wanted["name"], str(client.get_model_version_by_alias(wanted["name"], wanted["alias"]).version)


@contextmanager
def _named(uri: str, target: Destination) -> Iterator[None]:
    """Raises `UsageError` where MLflow does not know the model, the version or the alias."""
    try:
        yield
    except Exception as exc:
        if is_gone(exc) or "not found" in str(exc):
            raise UsageError(
                f"there is no model {uri} in MLflow at {target.shown}", hint="Register one with RegisterModel."
            ) from exc
        raise


def _version_of(client: MlflowClient, candidate: Candidate) -> ModelVersion | None:
    found = client.search_model_versions(
        f"name = '{candidate.name}' and tags.`{MODEL}` = '{candidate.digest}'", max_results=1
    )
    return found[0] if found else None


def _make_version(
    client: MlflowClient, target: Destination, candidate: Candidate, commit_point: Callable[[str], None]
) -> ModelVersion:
    from mlflow.entities import LoggedModelStatus
    from mlflow.exceptions import MlflowException

    experiment = find_or_create_experiment(client, EXPERIMENT, target.artifacts)
    made = client.search_logged_models([experiment], f"tags.`{MODEL}` = '{candidate.digest}'", max_results=1)
    model = (
        made[0]
        if made
        else client.create_logged_model(experiment, model_name(candidate.name), tags={MODEL: candidate.digest})
    )
    if str(model.status) != "READY":
        upload_model(client, model, candidate.folder)
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    commit_point("register:model-uploaded")
    try:
        client.create_registered_model(candidate.name)
    except MlflowException as exc:
        if exc.error_code != _EXISTS:
            raise
    return client.create_model_version(
        candidate.name, source=f"models:/{model.model_id}", tags=_tags(candidate), model_id=model.model_id
    )


def _move_alias(client: MlflowClient, candidate: Candidate, version: str) -> Registered:
    holder = client.get_registered_model(candidate.name).aliases.get(candidate.alias)
    if holder is not None and str(holder) == version:
        # It got it from an earlier try, which noted whom it replaced.
        own = client.get_model_version(candidate.name, version).tags
        previous, _, value = own.get(REPLACED, "").partition(" ")
        return Registered(version, True, previous, float(value) if value else None)
    if holder is None:
        if not candidate.reaches:
            return Registered(version, False)
        client.set_registered_model_alias(candidate.name, candidate.alias, version)
        return Registered(version, True)
    tags = client.get_model_version(candidate.name, str(holder)).tags
    known = _number(tags.get(_metric_tag(candidate.metric)))
    if known is not None and candidate.beats(known) and candidate.reaches:
        client.set_model_version_tag(candidate.name, version, REPLACED, f"{holder} {known!r}")
        client.set_registered_model_alias(candidate.name, candidate.alias, version)
        return Registered(version, True, str(holder), known, tags.get("voxelflow.data", ""))
    return Registered(version, False, str(holder), known, tags.get("voxelflow.data", ""))


def _tags(candidate: Candidate) -> dict[str, str]:
    own = {MODEL: candidate.digest, _metric_tag(candidate.metric): repr(candidate.value)}
    return {name: tag_text(value) for name, value in {**candidate.tags, **own}.items()}


def _metric_tag(metric: str) -> str:
    return key("voxelflow.metric", metric)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


@contextmanager
def _connected(workspace: Workspace | None, what: str) -> Iterator[tuple[MlflowClient, Destination]]:
    """A client of the MLflow that `destination` gives, whose errors become `TrackingError`."""
    target = destination(workspace)
    try:
        client = connect(target, workspace)
        with _as_default(target):
            yield client, target
    except VoxelflowError:
        raise
    except Exception as exc:
        raise TrackingError(
            target.clean(f"{what}: MLflow at {target.shown}: {line(exc)}"),
            hint="Run it again when MLflow answers; what is there already is found.",
        ) from exc


@contextmanager
def _as_default(target: Destination) -> Iterator[None]:
    """MLflow looks a version's source up where the process' own default is, whatever the client was given."""
    import mlflow

    before = os.environ.get(ENVIRONMENT)
    settings: Any = mlflow
    settings.set_tracking_uri(target.uri)
    try:
        yield
    finally:
        settings.set_tracking_uri(before)
