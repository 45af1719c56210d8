"""MLflow's model registry: a version for a model, and an alias for the best one.

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
from engine.tracking.destination import ENVIRONMENT, Destination, connect, destination
from engine.tracking.experiment import find_or_create_experiment
from engine.tracking.logged_models import upload_model
from engine.tracking.naming import key, model_name, tag_text
from engine.tracking.troubles import is_gone, line
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

EXPERIMENT = "voxelflow registered models"
"""Holds the files of registered models, so that deleting a pipeline's experiment leaves them alone."""
MODEL, REPLACED = "voxelflow.model", "voxelflow.replaced"
_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_EXISTS = "RESOURCE_ALREADY_EXISTS"


@dataclass(frozen=True)
class Candidate:
    """A model to register: `folder` in MLflow's format, `digest` the hash that tells it from others.

    `value` of `metric` decides about the alias. `tags` are kept on the version beside them.
    """

    name: str
    alias: str
    folder: Path
    digest: str
    metric: str
    value: float
    higher_is_better: bool
    tags: Mapping[str, str]

    def beats(self, other: float) -> bool:
        return self.value > other if self.higher_is_better else self.value < other


@dataclass(frozen=True)
class Registered:
    """The model's version, whether the alias is its own now, and who had it before (empty: nobody).

    `previous_value` is None where nobody had it, or MLflow does not know that version's figure.
    """

    version: str
    aliased: bool
    previous: str = ""
    previous_value: float | None = None
    previous_data: str = ""


def register(workspace: Workspace, candidate: Candidate, commit_point: Callable[[str], None]) -> tuple[Registered, str]:
    """Register the candidate where the workspace's runs are tracked; also gives that place, without secrets.

    Raises `TrackingError` when MLflow cannot be reached or refuses: then a version is there whole, or not at all.
    """
    with _told(workspace, "the model was not registered") as (client, target):
        version = _version_of(client, candidate) or _make_version(client, target, candidate, commit_point)
        commit_point("register:version-made")
        for name, value in _tags(candidate).items():
            if version.tags.get(name) != value:
                client.set_model_version_tag(candidate.name, version.version, name, value)
        out = _let_the_best_have_the_alias(client, candidate, str(version.version))
        commit_point("register:alias-set")
        return out, target.shown


@contextmanager
def fetched(workspace: Workspace, uri: str) -> Iterator[Path]:
    """The files of a registered model (`models:/NAME@ALIAS` or `models:/NAME/VERSION`), for as long as the block lasts.

    Raises `UsageError` for another URI or a model that is not there, `TrackingError` when MLflow is away.
    """
    wanted = _URI.fullmatch(uri)
    if wanted is None:
        raise UsageError(f"{uri} names no registered model", hint="Write models:/NAME@ALIAS or models:/NAME/VERSION.")
    with tempfile.TemporaryDirectory() as own:
        with _told(workspace, f"{uri} was not fetched") as (client, target):
            folder = _download(client, target, uri, wanted, own)
        yield folder


def _download(client: MlflowClient, target: Destination, uri: str, wanted: re.Match[str], into: str) -> Path:
    import mlflow.artifacts

    try:
        version = wanted["version"]
        if version is None:
            version = str(client.get_model_version_by_alias(wanted["name"], wanted["alias"]).version)
        place = client.get_model_version_download_uri(wanted["name"], version)
    except Exception as exc:
        if is_gone(exc) or "not found" in str(exc):
            raise UsageError(
                f"there is no model {uri} in MLflow at {target.shown}", hint="RegisterModel puts models there."
            ) from exc
        raise
    return Path(mlflow.artifacts.download_artifacts(artifact_uri=place, dst_path=into, tracking_uri=target.uri))


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


def _let_the_best_have_the_alias(client: MlflowClient, candidate: Candidate, version: str) -> Registered:
    holder = client.get_registered_model(candidate.name).aliases.get(candidate.alias)
    if holder is not None and str(holder) == version:
        # It got it from an earlier try, which noted whom it replaced.
        own = client.get_model_version(candidate.name, version).tags
        previous, _, value = own.get(REPLACED, "").partition(" ")
        return Registered(version, True, previous, float(value) if value else None)
    if holder is None:
        client.set_registered_model_alias(candidate.name, candidate.alias, version)
        return Registered(version, True)
    tags = client.get_model_version(candidate.name, str(holder)).tags
    known = _number(tags.get(_metric_tag(candidate.metric)))
    if known is not None and candidate.beats(known):
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
def _told(workspace: Workspace, what: str) -> Iterator[tuple[MlflowClient, Destination]]:
    """A client of the workspace's MLflow, whose errors are told in our words."""
    target = destination(workspace)
    try:
        client = connect(target, workspace)
        with _as_the_default(target):
            yield client, target
    except VoxelflowError:
        raise
    except Exception as exc:
        raise TrackingError(
            target.clean(f"{what}: MLflow at {target.shown}: {line(exc)}"),
            hint="Run it again when MLflow answers; what is there already is found.",
        ) from exc


@contextmanager
def _as_the_default(target: Destination) -> Iterator[None]:
    """MLflow looks a version's source up where the process' own default is, whatever the client was told."""
    import mlflow

    before = os.environ.get(ENVIRONMENT)
    settings: Any = mlflow
    settings.set_tracking_uri(target.uri)
    try:
        yield
    finally:
        settings.set_tracking_uri(before)
