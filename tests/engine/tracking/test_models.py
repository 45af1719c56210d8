"""A model folder saved by a training becomes a model in MLflow that anyone can load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from summing_model import save_summing_model
from tracked_runs import QUICK, FakeRun, Reader, TrackerProcess
from training_scenarios import PROCESSES

from engine.events import Artifact, Facts, TaskStateChanged
from engine.tracking import location, run_link, track_run
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
_LOAD = """
import sys, numpy as np, mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(f"models:/{sys.argv[2]}")
print(model.metadata.signature.to_dict())
print("answer", float(np.asarray(model.predict(np.ones((2, 4, 4, 4, 1), "float32")))[1, 0]))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    process = PROCESSES.Process(target=save_summing_model, args=(str(folder),))
    process.start()
    process.join(200)
    assert process.exitcode == 0
    return folder


def _run(workspace: Workspace, folder: Path) -> FakeRun:
    run = FakeRun(workspace).begin()
    run.emit(TaskStateChanged(node="train", state="running"), Facts(node="train", values={"weights": 65}))
    run.step(0, 1, 2)
    run.emit(Artifact(node="train", role="model", name="resnet18 v1.0", path=str(folder)))
    run.emit(TaskStateChanged(node="train", state="done"))
    run.end("done")
    return run


def test_the_model_is_found_described_and_loaded(
    local: Workspace, reader: Callable[[Workspace], Reader], saved: Path
) -> None:
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

    loaded = subprocess.run(
        [sys.executable, "-c", _LOAD, location(local), model_id],
        check=True,
        timeout=200,
        capture_output=True,
        text=True,
    )
    assert "answer 64.0" in loaded.stdout


def test_killed_while_the_model_is_sent(
    local: Workspace,
    reader: Callable[[Workspace], Reader],
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


def test_a_model_sent_again_by_a_resumed_training_is_the_same_one(
    local: Workspace, reader: Callable[[Workspace], Reader], saved: Path
) -> None:
    run = FakeRun(local).begin()
    run.emit(TaskStateChanged(node="train", state="running"))
    run.step(0, 1)
    run.emit(Artifact(node="train", role="model", name="model", path=str(saved)))
    run.lose()
    assert track_run(local, run.id, patience=QUICK)
    run.begin()
    run.emit(TaskStateChanged(node="train", state="running", attempt=2))
    run.step(1, shift=0.5)
    run.emit(Artifact(node="train", role="model", name="model", path=str(saved)))
    run.emit(TaskStateChanged(node="train", state="done", attempt=2))
    run.end("done")
    assert track_run(local, run.id, patience=QUICK)
    read = reader(local)
    child = read.runs(run.id)["train"]
    assert len(child.models) == len(read.client.search_logged_models([run_link(local, run.id)["experiment_id"]])) == 1
    assert child.steps("loss") == [0, 1]


def test_a_folder_that_is_no_mlflow_model_is_kept_as_files(
    local: Workspace, reader: Callable[[Workspace], Reader], tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "weights.bin").write_bytes(b"1")
    run = _run(local, tmp_path / "plain")
    assert track_run(local, run.id, patience=QUICK)
    read = reader(local)
    child = read.runs(run.id)["train"]
    assert child.models == []
    assert read.artifacts(child.id) == ["models/resnet18 v1.0/weights.bin"]


def test_a_broken_model_folder_holds_nothing_up(
    local: Workspace, reader: Callable[[Workspace], Reader], tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "MLmodel").write_text("flavors: [")
    run = _run(local, tmp_path / "broken")
    assert track_run(local, run.id, patience=QUICK)
    assert reader(local).runs(run.id)[""].status == "FINISHED"
    assert any("resnet18" in note for note in run_link(local, run.id)["notes"])
