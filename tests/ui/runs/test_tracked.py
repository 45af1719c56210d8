"""Where a run is in MLflow."""

from __future__ import annotations

import pytest

from engine.runs import RunStore
from engine.tracking.state import TrackState
from engine.workspace import Workspace
from ui.runs.tracked import tracked


def _sent(store: RunStore, location: str) -> str:
    run_id = store.create_run("p", "{}", {}, "local")
    state = TrackState(location=location, experiment="7", run="abc", notes=["a name was cut"])
    store.set_tracking(run_id, 1, state.model_dump(mode="json"), finished=True)
    return run_id


def test_on_a_server_it_has_a_page(workspace: Workspace, store: RunStore) -> None:
    found = tracked(workspace, _sent(store, "https://mlflow.example"))
    assert found.url == "https://mlflow.example/#/experiments/7/runs/abc"
    assert (found.run, found.command, found.sent, found.notes) == ("abc", "", True, ["a name was cut"])


def test_in_a_file_there_is_a_command_to_see_it(workspace: Workspace, store: RunStore) -> None:
    found = tracked(workspace, _sent(store, "sqlite:////a folder/mlflow.db"))
    assert (found.url, found.command) == ("", "mlflow ui --backend-store-uri 'sqlite:////a folder/mlflow.db'")


def test_before_anything_was_sent_the_place_is_known(
    workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://user:secret@mlflow.example")
    found = tracked(workspace, store.create_run("p", "{}", {}, "local"))
    assert (found.place, found.run) == ("https://mlflow.example", "")
