"""Models in MLflow: a run's own, which anyone can load, and versions in the registry, each once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from npy_folders import context
from summing_model import save_summing_model
from tracked_runs import QUICK, FakeRun, Reader, TrackerProcess
from training_scenarios import PROCESSES

from engine.declare.events import Artifact, Facts, TaskStateChanged
from engine.errors import TrackingError, UsageError
from engine.tracking import location, run_link, track_run
from engine.tracking.models import Candidate, Registered, fetched, register
from engine.workspace import Workspace
from nodes.load_model import load_model

pytestmark = pytest.mark.slow
Read = Callable[[Workspace], Reader]


def _in_another_process(work: Callable[..., object], *arguments: str) -> None:
    process = PROCESSES.Process(target=work, args=arguments)
    process.start()
    process.join(200)
    assert process.exitcode == 0


def _predict(location: str, model_id: str) -> None:
    import mlflow
    import numpy as np

    mlflow.set_tracking_uri(location)
    model = mlflow.pyfunc.load_model(f"models:/{model_id}")
    answers = np.asarray(model.predict(np.ones((2, 4, 4, 4, 1), "float32")))
    assert float(answers[1, 0]) == 64.0


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    _in_another_process(save_summing_model, str(folder))
    return folder


def _run(workspace: Workspace, folder: Path) -> FakeRun:
    run = FakeRun(workspace).begin()
    run.emit(TaskStateChanged(node="train", state="running"), Facts(node="train", values={"weights": 65}))
    run.step(0, 1, 2)
    run.emit(Artifact(node="train", role="model", name="resnet18 v1.0", path=str(folder)))
    run.finish()
    return run


def test_the_model_is_found_described_and_loaded(local: Workspace, reader: Read, saved: Path) -> None:
    before = {p.relative_to(saved): p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    run = _run(local, saved)
    heavy = {"tensorflow", "keras"}
    there = heavy & sys.modules.keys()  # another test of this process may have trained
    assert track_run(local, run.id, patience=QUICK)
    assert heavy & sys.modules.keys() == there
    read = reader(local)
    child, link = read.runs(run.id)["train"], run_link(local, run.id)
    (model_id,) = link["models"]["train"]
    assert child.models == [model_id]

    import mlflow

    mlflow.set_tracking_uri(location(local))
    try:
        (model,) = mlflow.search_logged_models([link["experiment_id"]], output_format="list")
        described = mlflow.models.Model.load(f"models:/{model_id}")
    finally:
        mlflow.set_tracking_uri(None)
    assert model.model_id == model_id
    assert model.name == "resnet18_v1_0"
    assert str(model.status) == "READY"
    assert model.source_run_id == child.id
    assert model.params == {"epochs": "2", "note": "", "weights": "65"}
    assert {m.key: (m.step, m.value) for m in model.metrics} == {
        "loss": (2, pytest.approx(1 / 3)),
        "accuracy": (2, 0.02),
    }
    assert described.run_id == child.id
    assert described.model_id == model_id
    assert json.loads(described.signature.to_dict()["inputs"])[0]["tensor-spec"]["shape"] == [-1, 4, 4, 4, 1]
    # Giving the model its figures added no points to the run, and its folder is as it was.
    assert child.steps("loss") == [0, 1, 2]
    assert before == {p.relative_to(saved): p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    _in_another_process(_predict, location(local), model_id)


def test_killed_while_the_model_is_sent(
    local: Workspace,
    reader: Read,
    tracker: Callable[..., TrackerProcess],
    saved: Path,
) -> None:
    run = _run(local, saved)
    for point in ("tracking:model-created", "tracking:model-uploaded"):
        assert tracker(run, VOXELFLOW_KILL_AT=point).wait() == -9, point
    assert tracker(run).wait() == 0
    read = reader(local)
    child = read.runs(run.id)["train"]
    (model,) = read.client.search_logged_models([run_link(local, run.id)["experiment_id"]])
    assert child.models == [model.model_id]
    assert str(model.status) == "READY"
    assert child.steps("loss") == [0, 1, 2]


def test_a_model_sent_again_by_a_resumed_training_is_the_same_one(local: Workspace, reader: Read, saved: Path) -> None:
    run = FakeRun(local).begin().training(0, 1)
    run.emit(Artifact(node="train", role="model", name="model", path=str(saved)))
    run.lose()
    assert track_run(local, run.id, patience=QUICK)
    run.begin().training(1, shift=0.5, attempt=2)
    run.emit(Artifact(node="train", role="model", name="model", path=str(saved)))
    run.finish(attempt=2)
    assert track_run(local, run.id, patience=QUICK)
    read = reader(local)
    child = read.runs(run.id)["train"]
    assert len(child.models) == len(read.client.search_logged_models([run_link(local, run.id)["experiment_id"]])) == 1
    assert child.steps("loss") == [0, 1]


def test_a_folder_that_is_no_mlflow_model_is_kept_as_files(local: Workspace, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "weights.bin").write_bytes(b"1")
    run = _run(local, tmp_path / "plain")
    assert track_run(local, run.id, patience=QUICK)
    read = reader(local)
    child = read.runs(run.id)["train"]
    assert child.models == []
    assert read.artifacts(child.id) == ["models/resnet18 v1.0/weights.bin"]


def test_a_broken_model_folder_holds_nothing_up(local: Workspace, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "MLmodel").write_text("flavors: [")
    run = _run(local, tmp_path / "broken")
    assert track_run(local, run.id, patience=QUICK)
    assert reader(local).runs(run.id)[""].status == "FINISHED"
    assert any("resnet18" in note for note in run_link(local, run.id)["notes"])


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


def registered(workspace: Workspace, candidate: Candidate) -> Registered:
    return register(workspace, candidate, lambda name: None)[0]


def test_the_alias_is_with_the_best(local: Workspace, reader: Read, candidate: Callable[..., Candidate]) -> None:
    assert registered(local, candidate("a", 0.8)) == Registered("1", True)
    assert registered(local, candidate("a", 0.8)) == Registered("1", True)
    assert registered(local, candidate("b", 0.8)) == Registered("2", False, "1", 0.8, "d1")
    assert registered(local, candidate("c", 0.9)) == Registered("3", True, "1", 0.8, "d1")
    assert registered(local, candidate("c", 0.9)).previous == "1"
    # Another metric was never measured of the one that has the alias: nobody knows, so it stays.
    assert registered(local, candidate("d", 0.1, metric="log_loss", higher_is_better=False)) == Registered(
        "4", False, "3", None, "d1"
    )
    assert registered(local, candidate("c", 0.3, metric="log_loss")).aliased
    assert registered(local, candidate("d", 0.1, metric="log_loss", higher_is_better=False)).aliased
    client = reader(local).client
    assert str(client.get_model_version_by_alias("brains", "champion").version) == "4"
    assert len(client.search_model_versions("name = 'brains'")) == 4
    assert client.get_model_version("brains", "3").tags["voxelflow.metric.auc"] == "0.9"
    assert "MLFLOW_TRACKING_URI" not in os.environ


def test_a_model_below_the_threshold_never_gets_the_alias(
    local: Workspace, candidate: Callable[..., Candidate]
) -> None:
    assert registered(local, candidate("a", 0.5, threshold=0.6)) == Registered("1", False)
    assert registered(local, candidate("b", 0.6, threshold=0.6)) == Registered("2", True)
    assert registered(local, candidate("c", 0.7, threshold=0.8)) == Registered("3", False, "2", 0.6, "d1")


@pytest.mark.parametrize("point", POINTS)
def test_stopped_and_done_again_registers_once(
    local: Workspace, reader: Read, candidate: Callable[..., Candidate], point: str
) -> None:
    registered(local, candidate("a", 0.8))

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
    out = registered(local, candidate("b", 0.9))
    assert (out.version, out.aliased, out.previous, out.previous_value) == ("2", True, "1", 0.8)
    assert len(client.search_model_versions("name = 'brains'")) == 2
    experiments = [e.experiment_id for e in client.search_experiments()]
    assert len(client.search_logged_models(experiments)) == 2


def test_a_registered_model_is_fetched_whole(local: Workspace, candidate: Callable[..., Candidate]) -> None:
    registered(local, candidate("a", 0.8))
    for uri in ("models:/brains@champion", "models:/brains/1"):
        with fetched(local, uri) as folder:
            assert (folder / "data" / "model.keras").read_bytes() == b"weights"
            assert (folder / "MLmodel").is_file()
        assert not folder.exists()
    for uri in ("models:/brains@nobody", "models:/brains/7", "models:/others@champion", "models:/brains"):
        with pytest.raises(UsageError), fetched(local, uri):
            pass


def test_load_model_takes_a_version_or_an_alias(
    local: Workspace, candidate: Callable[..., Candidate], tmp_path: Path
) -> None:
    from mlflow.models import Model

    metadata = {"task": "classification", "class_names": ["no", "yes"], "input": {"shape": [4, 3, 2]}}
    for number, value in (("1", 0.8), ("2", 0.9)):
        folder = tmp_path / number
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "model.keras").write_bytes(f"weights {number}".encode())
        Model(metadata=metadata).save(str(folder / "MLmodel"))
        registered(local, candidate(number, value, folder=folder))
    for uri, weights in (("models:/brains/1", b"weights 1"), ("models:/brains@champion", b"weights 2")):
        said: list[str] = []
        ctx = context(tmp_path, weights.decode()[-1] + "it", workspace=local.root)
        object.__setattr__(ctx, "emit", lambda event, said=said: said.append(event.text))
        model = load_model(registered=uri, ctx=ctx)
        assert Path(model.uri, "model.keras").read_bytes() == weights
        assert (model.spec.shape, model.spec.classes) == ((4, 3, 2), ("no", "yes"))
        assert said == (["models:/brains@champion is models:/brains/2 now"] if "@" in uri else [])
    with pytest.raises(UsageError, match="no model models:/brains@nobody"):
        load_model(registered="models:/brains@nobody", ctx=ctx)


def test_an_unreachable_mlflow_is_reported_without_its_password(
    workspace: Workspace, candidate: Callable[..., Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret-word@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"not registered: MLflow at http://127\.0\.0\.1:9") as caught:
        registered(workspace, candidate("a", 0.8))
    assert "secret-word" not in caught.value.line()
    assert os.environ["MLFLOW_TRACKING_URI"] == "http://me:secret-word@127.0.0.1:9"
