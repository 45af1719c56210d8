"""MLflow's rules: names and values it takes, errors it gives, and experiments and runs found again by their tags."""

from __future__ import annotations

import getpass
import json
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from engine.errors import TrackingError, with_causes
from engine.failpoints import failpoint

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

NAME_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 5000
"""Servers take 8,000 characters today; older ones 5,000."""
_BAD = re.compile(r"[^\w/.\- ]")
_BAD_IN_MODEL_NAME = re.compile(r"[/:.%\"'\s]+")
# Not BAD_REQUEST: MLflow gives it for any trouble of its database, and proxies for theirs.
_REFUSALS = frozenset(["INVALID_PARAMETER_VALUE", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"])
_GONE = frozenset(["RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"])
_LINE = 400
RUN_ID, NODE, ROLE = "voxelflow.run_id", "voxelflow.node", "voxelflow.role"
PIPELINE_ROLE, NODE_ROLE, SWEEP_ROLE = "pipeline", "node", "sweep"


def key(*parts: str) -> str:
    """A name of a metric, parameter or tag: the parts joined by dots, other characters than MLflow's replaced.

    A slash groups names in MLflow's pages; it stays, but never so that the name reads as another path.
    """
    text = _BAD.sub("_", ".".join(parts))
    pieces = [p for p in text.split("/") if p.strip(". ")]
    return "/".join(pieces)[:NAME_LENGTH].rstrip("/") or "_"


def model_name(text: str) -> str:
    """`text` as the name of a model: without the characters that MLflow refuses there."""
    return _BAD_IN_MODEL_NAME.sub("_", text).strip("_")[:NAME_LENGTH] or "model"


def file_name(name: str, suffix: str) -> str:
    """`name` as the name of one file with `suffix`: it cannot lead to another folder."""
    text = re.sub(r"[\\/\x00-\x1f]+", "_", name).strip(" .") or "file"
    return text if not suffix or text.endswith(suffix) else text + suffix


def param_text(value: Any) -> str:
    """A value as a parameter's text: text as it is, all else as JSON, as in the pipeline's document."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text, PARAM_LENGTH)


def tag_text(value: str) -> str:
    """A value as a tag's text."""
    return shorten(value, TAG_LENGTH)


def shorten(text: str, length: int) -> str:
    """The text with at most `length` characters."""
    return text if len(text) <= length else text[: length - 3] + "..."


def is_number(value: Any) -> bool:
    """Whether the value can be a point of a metric."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def milliseconds(seconds: float) -> int:
    """MLflow's unit of time."""
    return round(seconds * 1000)


class RunDeleted(TrackingError):
    """The run was deleted in MLflow. It is not made again."""


def is_refusal(exc: BaseException) -> bool:
    """MLflow was there, and will never take this."""
    return getattr(exc, "error_code", None) in _REFUSALS


def is_gone(exc: BaseException) -> bool:
    """What we refer to is not there: the store was emptied or replaced."""
    return getattr(exc, "error_code", None) in _GONE


def may_pass(exc: BaseException) -> bool:
    """Whether the trouble is with the way or the server, so that the same thing may work later.

    Recognised by what the libraries of all artifact stores have in common, without importing any.
    """
    for one in with_causes(exc, suppressed=True):
        status = getattr(getattr(one, "response", None), "status_code", None)
        if isinstance(status, int):
            return status >= 500 or status in (401, 403, 408, 429)
        if isinstance(one, (ConnectionError, TimeoutError)):
            return True
        if any(word in type(one).__name__ for word in ("Connect", "Timeout", "OperationalError")):
            return True
    code = getattr(exc, "error_code", None)
    return isinstance(code, str) and not is_refusal(exc) and not is_gone(exc)


def line(exc: BaseException) -> str:
    """The exception's message, as one line that is not too long."""
    message = getattr(exc, "message", None)
    text = " ".join(str(message if isinstance(message, str) else exc).split()) or type(exc).__name__
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."


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
    role: str | None = None,
    name: str,
    started: float,
    tags: dict[str, str],
) -> tuple[str, bool]:
    """The MLflow run of a run, of one `node` of it, or of what else `role` says: (its id, whether it was made now).

    Found by its tags, so that a tracker that died before it could note the id makes no second one.
    `started` is in seconds since the epoch.
    """
    role = role or (PIPELINE_ROLE if node is None else NODE_ROLE)
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
