"""MLflow's pages within the app: one process behind a Unix socket, no port, nothing for other web sites."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from asgi_client import AsgiClient
from waiting import wait_until

from engine.store.runs import RunStore
from engine.tracking.recorder import TrackState
from engine.workspace import Workspace
from ui.mlflow_ui import MlflowUi


@pytest.fixture
def ui(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowUi]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = MlflowUi(workspace, "")
    yield out
    out.close()


@pytest.fixture
def client(ui: MlflowUi) -> AsgiClient:
    return AsgiClient(ui.routes)


def _sent(store: RunStore, location: str) -> str:
    run_id = store.create_run("p", "{}", {}, "local")
    state = TrackState(location=location, experiment="7", run="abc")
    store.tracking.record(run_id, 1, state.model_dump(mode="json"), finished=True)
    return run_id


def test_a_run_on_a_server_is_opened_there(client: AsgiClient, store: RunStore) -> None:
    got = client.ask(f"/voxelflow/mlflow/run/{_sent(store, 'https://mlflow.example')}")
    assert (got.status, got.headers["location"]) == (303, "https://mlflow.example/#/experiments/7/runs/abc")


def test_what_cannot_be_opened_is_reported(client: AsgiClient, store: RunStore, ui: MlflowUi) -> None:
    nothing = client.ask(f"/voxelflow/mlflow/run/{store.create_run('p', '{}', {}, 'local')}")
    assert b"Nothing of this run is in MLflow yet." in nothing.content
    assert nothing.headers["refresh"] == "3"
    assert client.ask("/voxelflow/mlflow/run/none-such").status == 404
    elsewhere = client.ask(f"/voxelflow/mlflow/run/{_sent(store, 'sqlite:////else/mlflow.db')}")
    assert elsewhere.status == 409
    assert b"sqlite:////else/mlflow.db" in elsewhere.content
    assert client.ask("/voxelflow/mlflow/ui/").status == 503
    assert ui.state() == "absent"


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}, {"host": "evil.example"}],
)
def test_other_web_sites_neither_start_it_nor_ask_it(
    client: AsgiClient, store: RunStore, ui: MlflowUi, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.views.route.is_host_allowed", lambda host: host == "127.0.0.1:8501")
    run_id = _sent(store, f"sqlite:///{ui._workspace.mlflow_database.absolute()}")
    assert client.ask(f"/voxelflow/mlflow/run/{run_id}", **headers).status == 403
    assert client.ask("/voxelflow/mlflow/model/brains/1", **headers).status == 403
    assert client.ask("/voxelflow/mlflow/ui/ajax-api/2.0/mlflow/runs/delete", "POST", **headers).status == 403
    assert ui.state() == "absent"


@pytest.mark.slow
def test_it_opens_the_run_opens_no_port_and_ends_with_the_app(
    client: AsgiClient, store: RunStore, ui: MlflowUi, workspace: Workspace
) -> None:
    run_id = _sent(store, f"sqlite:///{workspace.mlflow_database.absolute()}")
    address = f"/voxelflow/mlflow/run/{run_id}"
    first = client.ask(address)
    assert first.headers["refresh"] == "1"
    assert b"Starting MLflow" in first.content
    child = ui._child
    assert child is not None
    wait_until(lambda: client.ask(address).status == 303, "that MLflow answers")
    assert ui._child is child
    opened = client.ask(address)
    assert opened.headers["location"] == "/voxelflow/mlflow/ui/#/experiments/7/runs/abc"
    version = client.ask("/voxelflow/mlflow/model/small%20brains/2")
    assert version.headers["location"] == "/voxelflow/mlflow/ui/#/models/small%20brains/versions/2"
    page = client.ask("/voxelflow/mlflow/ui/")
    assert page.status == 200
    assert b"<title>MLflow</title>" in page.content
    body = b'{"max_results": 5}'
    found = client.ask(
        "/voxelflow/mlflow/ui/ajax-api/2.0/mlflow/experiments/search", "POST", body,
        content_type="application/json", origin="http://127.0.0.1:8501", cookie="voxelflow-8501=secret",
    )  # fmt: skip
    assert found.status == 200
    assert b"experiments" in found.content
    socket = Path(ui._socket)
    assert stat.S_IMODE(os.stat(socket.parent).st_mode) == 0o700
    all_of_it = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
    assert not any(c.status == "LISTEN" for p in all_of_it for c in p.net_connections("inet"))
    ui.close()
    wait_until(lambda: not any(p.is_running() and p.status() != "zombie" for p in all_of_it), "that it ends")
    assert not socket.parent.exists()
