"""Where runs go, that no text on the way has a secret, and the local database: made, upgraded, moved."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from tracked_runs import QUICK, ROOT, FakeRun
from training_scenarios import PROCESSES
from waiting import WAIT_S

from engine.errors import UsageError
from engine.tracking import location, run_link, track_run
from engine.tracking.destination import connect, destination
from engine.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient


def test_the_workspace_is_the_default(workspace: Workspace) -> None:
    target = destination(workspace)
    assert target.uri == target.shown == location(workspace) == f"sqlite:///{workspace.root}/mlflow.db"
    assert target.artifacts == workspace.mlflow_artifacts.as_uri()
    assert target.database == workspace.mlflow_database


@pytest.mark.parametrize(
    ("uri", "shown", "own_artifacts"),
    [
        ("http://host:5000/", "http://host:5000", False),
        ("https://me:s3cret@host/mlflow/?token=abcdef", "https://host/mlflow", False),
        ("postgresql+psycopg2://me:s3cret@host/db?sslpassword=abcdef", "postgresql+psycopg2://host/db", True),
        ("sqlite:////somewhere/else.db", "sqlite:////somewhere/else.db", True),
        ("databricks://profile", "databricks://profile", False),
        ("http://[broken", "an-address-that-cannot-be-read", False),
    ],
)
def test_the_environment_wins_and_is_shown_without_secrets(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, uri: str, shown: str, own_artifacts: bool
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    target = destination(workspace)
    assert (target.uri, target.shown, location(workspace)) == (uri, shown, shown)
    assert (target.artifacts is not None) == own_artifacts
    assert target.database is None


def test_without_a_workspace_it_is_a_server_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for uri, why in (
        ("", "MLFLOW_TRACKING_URI is not set"),
        ("sqlite:////x/y.db", "sqlite:////x/y.db is no MLflow server"),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(UsageError, match=f"there is no workspace, and {why}"):
            destination(None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:s3cret@host/mlflow")
    target = destination(None)
    assert (target.shown, target.artifacts, target.database) == ("https://host/mlflow", None, None)


def test_messages_are_cleaned(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:p%40ss-word@host/mlflow?token=abcdef")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "tok-123")
    clean = destination(workspace).clean
    text = clean(
        "GET https://me:p%40ss-word@host/mlflow?token=abcdef failed for p@ss-word with tok-123, s3://key:secret@bucket/x"
    )
    for secret in ("p%40ss", "p@ss", "abcdef", "tok-123", "secret", "me:"):
        assert secret not in text
    assert "failed for" in text
    assert "bucket/x" in text


@pytest.mark.slow
def test_a_server_that_refuses_is_reported_without_the_password(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:s3cret-word@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = FakeRun(workspace).begin()
    run.end("done")
    assert not track_run(workspace, run.id, patience=QUICK)
    kept = (workspace.run_folder(run.id) / "tracker.log").read_text() + workspace.database.read_bytes().decode(
        "latin-1"
    )
    assert "127.0.0.1:9" in kept
    assert "s3cret" not in kept
    assert run_link(workspace, run.id) == {}


@pytest.mark.slow
def test_importing_the_package_imports_nothing_heavy(workspace: Workspace) -> None:
    code = (
        "import sys; from pathlib import Path; from engine.tracking import location, run_link\n"
        "from engine.workspace import open_workspace; workspace = open_workspace(Path(sys.argv[1]))\n"
        "location(workspace); run_link(workspace, 'none')\n"
        "heavy = {'mlflow', 'numpy', 'pandas', 'pyarrow', 'sqlalchemy', 'tensorflow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, str(workspace.root)], cwd=ROOT, check=True, timeout=WAIT_S)


@pytest.mark.slow
def test_several_processes_make_one_database(workspace: Workspace) -> None:
    # Forked from a process that has imported MLflow.
    started = [PROCESSES.Process(target=_create_run, args=(workspace,)) for _ in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(WAIT_S)
    assert [process.exitcode for process in started] == [0, 0, 0]
    assert sorted(p.name for p in workspace.root.glob("*mlflow.db*")) == ["mlflow.db"]
    assert list(workspace.root.glob(".mlflow.db*")) == []


def _create_run(workspace: Workspace) -> None:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    connect(destination(workspace), workspace).create_run("0")


@pytest.mark.slow
def test_an_older_database_is_upgraded_and_backed_up(local: Workspace) -> None:
    _downgrade(local)
    before = _version(local.mlflow_database)
    connect(destination(local), local).create_run("0")
    assert _version(local.mlflow_database) != before
    assert _version(local.mlflow_database.with_name("mlflow.db.before-upgrade")) == before


def _version(database: Path) -> str:
    with closing(sqlite3.connect(database)) as db:
        return str(db.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def _downgrade(workspace: Workspace) -> None:
    """Replace the database by one of an earlier schema, made by MLflow's own migrations."""
    import warnings

    workspace.mlflow_database.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sqlalchemy
        from alembic import command
        from mlflow.store.db.utils import _get_alembic_config
        from mlflow.store.tracking.dbmodels.initial_models import Base

        uri = f"sqlite:///{workspace.mlflow_database}"
        engine = sqlalchemy.create_engine(uri)
        Base.metadata.create_all(engine)
        with engine.begin() as connection:
            config = _get_alembic_config(uri)
            config.attributes["connection"] = connection
            command.upgrade(config, "heads")
            command.downgrade(config, "-1")
        engine.dispose()


def note(client: MlflowClient, run_id: str) -> Path:
    # Not by downloading it: MLflow caches the place of a run's artifacts in the process.
    return Path(unquote(urlsplit(client.get_run(run_id).info.artifact_uri).path)) / "note.txt"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["what? #1", "100%41", "a b"])
def test_a_workspace_of_any_name_has_its_database(local: Workspace, tmp_path: Path, name: str) -> None:
    copy = Workspace(tmp_path / "there" / name)
    shutil.copytree(local.root, copy.root)
    workspace = open_workspace(copy.root)
    for _ in range(2):  # made, then opened
        client = connect(destination(workspace), workspace)
    run = client.create_run("0").info.run_id
    client.log_text(run, "what it says", "note.txt")
    assert note(client, run).read_text() == "what it says"
    assert location(workspace) == f"sqlite:///{workspace.root}/mlflow.db"
    # MLflow makes a folder of the name as it is written in the address, too.
    assert list((tmp_path / "there").rglob("mlflow.db")) == [workspace.mlflow_database]


@pytest.mark.slow
def test_artifacts_of_a_moved_and_of_a_copied_workspace_are_found(local: Workspace, tmp_path: Path) -> None:
    """Also those of models, and where somebody keeps some elsewhere, those stay there."""
    client = connect(destination(local), local)
    mine = client.create_experiment("mine", artifact_location=local.mlflow_artifacts.as_uri())
    elsewhere = client.create_experiment("elsewhere", artifact_location=(tmp_path / "elsewhere").as_uri())
    run, other = (client.create_run(experiment).info.run_id for experiment in (mine, elsewhere))
    for run_id in (run, other):
        client.log_text(run_id, "what it says", "note.txt")
    client.create_registered_model("volumes")
    source = f"{local.mlflow_artifacts.as_uri()}/models/m-1/artifacts"
    client.create_model_version("volumes", source, run_id=run)

    copy = Workspace(tmp_path / "a copy")
    shutil.copytree(local.root, copy.root)
    again = open_workspace(copy.root)
    of_copy = connect(destination(again), again)
    assert note(of_copy, run).is_relative_to(copy.root)
    assert note(of_copy, run).read_text() == "what it says"
    assert note(of_copy, other).is_relative_to(tmp_path / "elsewhere")
    place = of_copy.get_model_version_download_uri("volumes", "1")
    assert place == f"{copy.mlflow_artifacts.as_uri()}/models/m-1/artifacts"
    made = of_copy.create_run(mine)
    assert made.info.artifact_uri.startswith(copy.mlflow_artifacts.as_uri())
    # The original is as it was.
    assert note(connect(destination(local), local), run).is_relative_to(local.root)
