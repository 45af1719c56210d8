"""Models in MLflow's registry: each once, and the alias with the best one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracked_runs import Reader

from engine.errors import TrackingError, UsageError
from engine.tracking.registry import Candidate, Registered, fetched, register
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
Read = Callable[[Workspace], Reader]
POINTS = ("register:model-uploaded", "register:version-made", "register:alias-set")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in MLflow's format, as far as the registry looks at it."""
    from mlflow.models import Model

    made = tmp_path / "packed"
    (made / "data").mkdir(parents=True)
    Model(flavors={"python_function": {"loader_module": "none"}}).save(str(made / "MLmodel"))
    (made / "data" / "model.keras").write_bytes(b"weights")
    return made


@pytest.fixture
def candidate(folder: Path) -> Callable[..., Candidate]:
    def make(digest: str, value: float, **change: Any) -> Candidate:
        fields: dict[str, Any] = {
            "name": "brains",
            "alias": "champion",
            "folder": folder,
            "digest": digest,
            "metric": "auc",
            "value": value,
            "higher_is_better": True,
            "tags": {"voxelflow.data": "d1"},
        }
        return Candidate(**fields | change)

    return make


def told(workspace: Workspace, candidate: Candidate) -> Registered:
    return register(workspace, candidate, lambda name: None)[0]


def test_the_alias_is_with_the_best(local: Workspace, reader: Read, candidate: Callable[..., Candidate]) -> None:
    assert told(local, candidate("a", 0.8)) == Registered("1", True)
    assert told(local, candidate("a", 0.8)) == Registered("1", True)
    assert told(local, candidate("b", 0.8)) == Registered("2", False, "1", 0.8, "d1")
    assert told(local, candidate("c", 0.9)) == Registered("3", True, "1", 0.8, "d1")
    assert told(local, candidate("c", 0.9)).previous == "1"
    # Another metric was never measured of the one that has the alias: nobody knows, so it stays.
    assert told(local, candidate("d", 0.1, metric="log_loss", higher_is_better=False)) == Registered(
        "4", False, "3", None, "d1"
    )
    assert told(local, candidate("c", 0.3, metric="log_loss")).aliased
    assert told(local, candidate("d", 0.1, metric="log_loss", higher_is_better=False)).aliased
    client = reader(local).client
    assert str(client.get_model_version_by_alias("brains", "champion").version) == "4"
    assert len(client.search_model_versions("name = 'brains'")) == 4
    assert client.get_model_version("brains", "3").tags["voxelflow.metric.auc"] == "0.9"
    assert "MLFLOW_TRACKING_URI" not in os.environ


@pytest.mark.parametrize("point", POINTS)
def test_stopped_and_done_again_registers_once(
    local: Workspace, reader: Read, candidate: Callable[..., Candidate], point: str
) -> None:
    told(local, candidate("a", 0.8))

    class Stopped(Exception):
        pass

    def stop(name: str) -> None:
        if name == point:
            raise Stopped

    with pytest.raises(TrackingError):
        register(local, candidate("b", 0.9), stop)
    client = reader(local).client
    # A version is there whole or not at all.
    for version in client.search_model_versions("name = 'brains'"):
        assert version.tags["voxelflow.model"] in "ab"
    out = told(local, candidate("b", 0.9))
    assert (out.version, out.aliased, out.previous, out.previous_value) == ("2", True, "1", 0.8)
    assert len(client.search_model_versions("name = 'brains'")) == 2
    experiments = [e.experiment_id for e in client.search_experiments()]
    assert len(client.search_logged_models(experiments)) == 2


def test_a_registered_model_is_fetched_whole(local: Workspace, candidate: Callable[..., Candidate]) -> None:
    told(local, candidate("a", 0.8))
    for uri in ("models:/brains@champion", "models:/brains/1"):
        with fetched(local, uri) as folder:
            assert (folder / "data" / "model.keras").read_bytes() == b"weights"
            assert (folder / "MLmodel").is_file()
        assert not folder.exists()
    for uri in ("models:/brains@nobody", "models:/brains/7", "models:/others@champion", "models:/brains"):
        with pytest.raises(UsageError), fetched(local, uri):
            pass


def test_an_mlflow_that_is_away_is_told_without_its_password(
    workspace: Workspace, candidate: Callable[..., Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret-word@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"not registered: MLflow at http://127\.0\.0\.1:9") as caught:
        told(workspace, candidate("a", 0.8))
    assert "secret-word" not in caught.value.line()
    assert os.environ["MLFLOW_TRACKING_URI"] == "http://me:secret-word@127.0.0.1:9"
