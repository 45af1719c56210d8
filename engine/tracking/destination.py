"""Where MLflow is, connecting to it, and keeping its secrets out of every text.

`MLFLOW_TRACKING_URI` wins; without it, MLflow is a SQLite file in the workspace. MLflow stores the absolute address of
every experiment's, run's and model's artifacts there; when the workspace was moved or copied, they are rewritten.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from engine.errors import TrackingError, UsageError
from engine.extras import require
from engine.processes.lean_import import without
from engine.storage import parse_url
from engine.storage.files import new_file
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

ENVIRONMENT = "MLFLOW_TRACKING_URI"
CREDENTIALS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
"""What a server may ask for; MLflow reads them itself."""
_SQL = frozenset(["sqlite", "postgresql", "mysql", "mssql"])
_LOCK_PATIENCE_S = 120.0
"""Making or migrating the local file takes seconds; a process that hangs must not block us for ever."""
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Waiting is the tracker's own work: it must notice meanwhile that the run has ended.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""MLflow's settings while we use it, where the person has none of their own."""
_UNUSED = ("matplotlib", "pandas", "polars", "pyspark", "scipy", "sklearn")
"""What MLflow's client imports where it is installed, and a tracker has no use for."""
_ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "storage_location"),
    ("model_versions", "source"),
)
_REFERENCES = (("datasets", "dataset_source"), ("datasets", "dataset_profile"))
"""JSON texts with the paths of datasets, from which a run is done again."""
_FIRST_EXPERIMENT = "0"
_BUSY_S = 30.0


@dataclass(frozen=True)
class Destination:
    """`uri` may contain a password: it goes to MLflow and nowhere else. `shown` is for people."""

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


def destination(workspace: Workspace | None) -> Destination:
    """Where this workspace's runs go. Imports nothing of MLflow.

    Without a workspace, as in an exported program, `MLFLOW_TRACKING_URI` must name a server. Raises `UsageError` where
    it does not.
    """
    uri = os.environ.get(ENVIRONMENT, "").strip()
    # A database that we talk to directly has no server that chooses a place for artifacts: MLflow
    # would take a folder below whatever directory this process happens to be in.
    is_database = _split(uri).scheme.partition("+")[0] in _SQL
    if workspace is None:
        if not uri or is_database:
            where = f"{ENVIRONMENT} is not set" if not uri else f"{shown(uri)} is no MLflow server"
            raise UsageError(
                f"it is not known where MLflow keeps its models: there is no workspace, and {where}",
                hint=f"Set {ENVIRONMENT} to the address of an MLflow server, or use `voxelflow run`.",
            )
        return Destination(uri, shown(uri), None)
    artifacts = workspace.mlflow_artifacts.absolute().as_uri()
    if not uri:
        path = workspace.mlflow_database.absolute()
        return Destination(_sqlite_uri(path), f"sqlite:///{path}", artifacts, workspace.mlflow_database)
    return Destination(uri, shown(uri), artifacts if is_database else None)


def _sqlite_uri(path: Path) -> str:
    """The address of a SQLite file for SQLAlchemy, which reads `?` and, from version 2.1 on, `%` as in any URL."""
    text = str(path)
    if ("?" in text or "%" in text) and tuple(map(int, version("sqlalchemy").split(".")[:2])) >= (2, 1):
        text = quote(text, safe=" +/")
    return f"sqlite:///{text}"


def without_userinfo(text: str) -> str:
    """The text with `scheme://user:password@host` as `scheme://host`; a container before its account's host stays."""

    def cleaned(found: re.Match[str]) -> str:
        try:
            return str(parse_url(found[0]))
        except UsageError:
            return f"{found[1]}://{found[2]}"

    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*)://[^/\s@'\"]+@([^/\s@'\"]*)", cleaned, text)


def load_client() -> None:
    """Import MLflow's client, in a process that does nothing but track, without what it can do without.

    That is what MLflow's data sets and models of other libraries take: 0.8 instead of 1.4 seconds of processor time
    (two measurements of each). Does nothing where MLflow is missing or broken: `connect` says so.
    """
    _set_up()
    with without(_UNUSED), warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        import mlflow.tracking  # noqa: F401


def _set_up() -> None:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)


def connect(target: Destination, workspace: Workspace | None) -> MlflowClient:
    """A client of MLflow there. Makes and migrates the workspace's own SQLite file when it must.

    An unreachable server is not noticed here. Raises `TrackingError` when another process holds
    the file's lock too long, `MissingPackage` without MLflow, and what MLflow and SQLAlchemy raise.
    """
    require(f"reaching {target.shown}", "mlflow")
    _set_up()
    with warnings.catch_warnings():
        # MLflow warns about its own libraries.
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

        # What goes wrong is raised too, and is reported once, in our words.
        for name in ("mlflow", "alembic", "urllib3", "sqlalchemy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if workspace is not None and target.database is not None:
            with _locked(workspace):
                _make_current(target)
                move_artifacts(target.database, workspace.mlflow_artifacts)
        return MlflowClient(tracking_uri=target.uri)


@contextmanager
def _locked(workspace: Workspace) -> Iterator[None]:
    lock = ProcessLock(workspace.locks / "mlflow")
    if not lock.acquire_within(_LOCK_PATIENCE_S):
        raise TrackingError(
            f"another process has held {lock.path} for {_LOCK_PATIENCE_S:g} s",
            hint="Wait until it has sent its runs, or end it.",
        )
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
        # When it is there at the end, someone started MLflow's own server on it meanwhile.
        with contextlib.suppress(FileExistsError), new_file(path) as temporary:
            stores.SqlAlchemyStore(_sqlite_uri(temporary), target.artifacts).engine.dispose()
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


def move_artifacts(database: Path, artifacts: Path) -> None:
    """Let all addresses name the folder `artifacts` if they name the one of another place. One transaction.

    Addresses elsewhere, as of experiments with a location of their own, stay. Raises `sqlite3.Error`.
    """
    now = artifacts.absolute().as_uri()
    with closing(sqlite3.connect(database, timeout=_BUSY_S, isolation_level=None)) as db:
        if _before(db, artifacts.name) in (None, now):
            return
        db.execute("BEGIN IMMEDIATE")
        before = _before(db, artifacts.name)
        if before not in (None, now):  # else another program was faster
            _rewrite(db, str(before), now)
        db.execute("COMMIT")


def _before(db: sqlite3.Connection, folder: str) -> str | None:
    """Where the artifacts were; None when the first experiment was deleted or has a location of the person's own."""
    sql = "SELECT artifact_location FROM experiments WHERE experiment_id = ?"
    for (location,) in db.execute(sql, (_FIRST_EXPERIMENT,)):
        text = str(location).removesuffix(f"/{_FIRST_EXPERIMENT}")
        if text.startswith("file:///") and text.endswith(f"/{folder}"):
            return text
    return None


def _rewrite(db: sqlite3.Connection, before: str, now: str) -> None:
    columns = {(table, row[1]) for table, _ in (*_ADDRESSES, *_REFERENCES) for row in _columns(db, table)}
    for table, column in columns & set(_ADDRESSES):
        db.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (now, len(before) + 1, before, len(before) + 1, f"{before}/"),
        )
    roots = [Path(unquote(urlsplit(address).path)).parent for address in (before, now)]
    old, new = (json.dumps(f"{root}/")[:-1] for root in roots)
    for table, column in columns & set(_REFERENCES):
        db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))


def _columns(db: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    return db.execute(f"PRAGMA table_info({table})").fetchall()
