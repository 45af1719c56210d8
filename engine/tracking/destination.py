"""Where MLflow is, connecting to it, and keeping its secrets out of every text.

`MLFLOW_TRACKING_URI` wins; without it, MLflow is a SQLite file in the workspace.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from engine.errors import TrackingError
from engine.run_lock import ProcessLock
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

ENVIRONMENT = "MLFLOW_TRACKING_URI"
_SQL = frozenset(["sqlite", "postgresql", "mysql", "mssql"])
_LOCK_PATIENCE_S = 120.0
"""Making or migrating the local file takes seconds; a process that hangs must not hold us for ever."""
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Waiting is the tracker's own work: it must notice meanwhile that the run has ended.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""MLflow's settings while we use it, where the person has none of their own."""


@dataclass(frozen=True)
class Destination:
    """`uri` may hold a password: it goes to MLflow and nowhere else. `shown` is for people."""

    uri: str
    shown: str
    artifacts: str | None
    """Where a new experiment keeps its artifacts; None leaves it to the server."""
    database: Path | None = None
    """The workspace's own SQLite file, which is ours to make and to migrate."""

    def clean(self, text: str) -> str:
        """`text` without what `uri` hides, nor user names and passwords in any other URL."""
        parts = _split(self.uri)
        secrets = [self.uri, parts.query, os.environ.get("MLFLOW_TRACKING_TOKEN", "")]
        secrets += [parts.password or "", os.environ.get("MLFLOW_TRACKING_PASSWORD", "")]
        for secret in secrets:
            for spelled in {secret, unquote(secret)}:
                # Shorter ones would blank out ordinary words.
                if len(spelled) > 3 and spelled != self.shown:
                    text = text.replace(spelled, "***")
        return without_userinfo(text)


def destination(workspace: Workspace) -> Destination:
    """Where this workspace's runs go. Imports nothing of MLflow."""
    artifacts = workspace.mlflow_artifacts.absolute().as_uri()
    uri = os.environ.get(ENVIRONMENT, "").strip()
    if not uri:
        uri = f"sqlite:///{workspace.mlflow_database.absolute()}"
        return Destination(uri, uri, artifacts, workspace.mlflow_database)
    scheme = _split(uri).scheme.partition("+")[0]
    # A database that we talk to directly has no server that chooses a place for artifacts: MLflow
    # would take a folder below whatever directory this process happens to be in.
    return Destination(uri, shown(uri), artifacts if scheme in _SQL else None)


def without_userinfo(text: str) -> str:
    return re.sub(r"(?<=://)[^/\s@'\"]+@", "", text)


def connect(target: Destination, workspace: Workspace) -> MlflowClient:
    """A client of MLflow there. Makes and migrates the workspace's own SQLite file when it must.

    A server that is away is not noticed here. Raises `TrackingError` when another process holds
    the file's lock too long, and what MLflow and SQLAlchemy raise.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        # MLflow's quarrels with its own libraries are nobody's business here.
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

        # What goes wrong is raised too, and is told once, in our words.
        for name in ("mlflow", "alembic", "urllib3", "sqlalchemy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if target.database is not None:
            with _locked(workspace):
                _make_current(target)
        return MlflowClient(tracking_uri=target.uri)


@contextmanager
def _locked(workspace: Workspace) -> Iterator[None]:
    lock = ProcessLock(workspace.locks / "mlflow")
    until = time.monotonic() + _LOCK_PATIENCE_S
    while not lock.acquire():
        if time.monotonic() > until:
            raise TrackingError(f"another process has held {lock.path} for {_LOCK_PATIENCE_S:g} s")
        time.sleep(0.1)
    try:
        yield
    finally:
        lock.release()


def _make_current(target: Destination) -> None:
    """The SQLite file, whole and of this MLflow's schema. Call it under the lock."""
    # Untyped; what `mlflow db upgrade` does, which is not to be had as a function.
    utils: Any = import_module("mlflow.store.db.utils")
    stores: Any = import_module("mlflow.store.tracking.sqlalchemy_store")
    path = target.database
    assert path is not None
    if not path.exists():
        # Made aside and linked: a kill while the tables are made must not leave half a database.
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink()
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        stores.SqlAlchemyStore(f"sqlite:///{temporary}", target.artifacts).engine.dispose()
        # When it is there now, someone started MLflow's own server on it meanwhile.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
        return
    engine = utils.create_sqlalchemy_engine(target.uri)
    try:
        if utils._get_schema_version(engine) != utils._get_latest_schema_revision():
            _back_up(path)
            utils._upgrade_db(engine)
    finally:
        engine.dispose()


def _back_up(path: Path) -> None:
    import sqlite3

    copy = path.with_name(f"{path.name}.before-upgrade")
    source, sink = sqlite3.connect(path), sqlite3.connect(copy)
    try:
        source.backup(sink)
    finally:
        source.close()
        sink.close()


def shown(uri: str) -> str:
    """An MLflow address to show to people: without user names, passwords, tokens and queries."""
    parts = _split(uri)
    if parts.scheme == "sqlite":
        return uri.partition("?")[0]  # urlunsplit would lose a slash of sqlite:////
    path = parts.path.rstrip("/") if parts.scheme in ("http", "https") else parts.path
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:
        return urlsplit("an-address-that-cannot-be-read")
