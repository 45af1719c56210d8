"""Trainings that are killed, cancelled, resumed and extended, compared bit for bit with undisturbed ones."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_scenarios import DROPOUT, REPLICAS, Place, run_training
from volume_sets import labels_for, make_delta, make_files, make_parquet, some_volumes

from engine.declare.datasets import Dataset, Selection, TrainedModel, VolumeDelta, dataset_from_json
from nodes.viewing import open_view

pytestmark = pytest.mark.slow

# The validation loss is lowest after epoch 2, so the rate is lowered twice and the training ends after epoch 4.
PARAMS: dict[str, Any] = {
    "epochs": 5,
    "batch_size": 6,
    "warmup_steps": 3,
    "seed": 13,
    "learning_rate": 0.03,
    "schedule": "plateau",
    "plateau_patience": 1,
    "early_stopping_epochs": 2,
    "class_weights": "balanced",
    "keep": "best",
}
VOLUMES = some_volumes(60, (6, 6, 5, 2))
LABELS = labels_for(VOLUMES, unlabelled=2)
KILLED = -signal.SIGKILL


@pytest.fixture(autouse=True, scope="module")
def dropout() -> Iterator[None]:
    """The network has a random state, which a checkpoint must hold."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in DROPOUT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    return make_delta(tmp_path_factory.mktemp("table"), VOLUMES, LABELS, rows=25)


@pytest.fixture(scope="module")
def undisturbed(table: VolumeDelta, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    assert run_training(place, table, **PARAMS) == 0
    return place


def metrics(place: Place, name: str) -> dict[int, float]:
    return dict(place.metrics(name))


def texts(place: Place) -> str:
    return "\n".join(event["text"] for event in place.events() if event["event"] == "message")


def test_equal_trainings_are_equal_bit_for_bit(table: VolumeDelta, undisturbed: Place, tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert run_training(place, table, **PARAMS) == 0
    assert place.state() == undisturbed.state()
    other = Place(tmp_path / "other")
    assert run_training(other, table, **PARAMS | {"seed": 12}) == 0
    assert other.state() != undisturbed.state()


@pytest.mark.parametrize(
    ("points", "every_s"),
    [
        (("train:checkpoint-written#4", "train:checkpoint-renamed#4"), 0),
        (("train:best-renamed#2", "train:step#11", "train:before-save", "train:after-save"), 1000),
    ],
)
def test_killed_and_resumed_is_as_if_nothing_had_happened(
    table: VolumeDelta, undisturbed: Place, tmp_path: Path, points: tuple[str, ...], every_s: int
) -> None:
    """One training, killed at each point in turn."""
    place = Place(tmp_path)
    params = PARAMS | {"checkpoint_every_s": every_s}
    for point in points:
        assert run_training(place, table, environment={"VOXELFLOW_KILL_AT": point}, **params) == KILLED, point
    assert run_training(place, table, **params) == 0
    assert place.state() == undisturbed.state()
    for name in ("loss", "step_loss", "learning_rate"):
        assert metrics(place, name) == metrics(undisturbed, name)
    assert list(metrics(place, "epoch_seconds_data")) == [1, 2, 3, 4]
    assert [path.name for path in place.out.iterdir() if path.name.startswith(".")] == []
    assert len(list(place.scratch.iterdir())) == 3


def test_a_damaged_model_is_published_again_from_its_state(
    table: VolumeDelta, undisturbed: Place, tmp_path: Path
) -> None:
    place = Place(tmp_path / "place")
    shutil.copytree(undisturbed.out, place.out, dirs_exist_ok=True)
    whole = {path.name: path.stat().st_size for path in place.out.iterdir() if path.is_file()}
    (place.out / "model.keras").write_bytes(b"cut short")
    (place.out / "curves.png").unlink()
    assert run_training(place, table, **PARAMS) == 0
    assert place.state() == undisturbed.state()
    assert metrics(place, "step_loss") == {}, "no step was trained again"
    assert {path.name for path in place.out.iterdir() if path.is_file()} == whole.keys()
    assert (place.out / "model.keras").stat().st_size == whole["model.keras"]


def test_a_damaged_checkpoint_is_passed_over(table: VolumeDelta, undisturbed: Place, tmp_path: Path) -> None:
    place = Place(tmp_path)
    kill = {"VOXELFLOW_KILL_AT": "train:step#12"}
    assert run_training(place, table, environment=kill, **PARAMS, checkpoint_every_s=0) == KILLED
    older, newest = sorted(place.scratch.glob("checkpoint-*.npz"))
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    newest.write_bytes(data)
    assert run_training(place, table, **PARAMS) == 0
    assert place.state() == undisturbed.state()
    epoch, step = (int(part) for part in older.stem.split("-")[1:])
    assert f"going on after epoch {epoch}, step {step}\n" in texts(place)


def test_a_cancelled_training_goes_on_where_it_stopped(table: VolumeDelta, undisturbed: Place, tmp_path: Path) -> None:
    place = Place(tmp_path)
    before = 0
    for after in (4, 8):
        assert run_training(place, table, cancel_after=after, **PARAMS) == 3
        assert place.events()[-1]["code"] == "cancelled"
        assert len(metrics(place, "step_loss")) > before
        before = len(metrics(place, "step_loss"))
    assert run_training(place, table, **PARAMS) == 0
    assert place.state() == undisturbed.state()
    steps = [step for step, _ in place.metrics("step_loss")]
    assert len(steps) == len(set(steps)), "no step was taken twice: the cancel left a checkpoint"


def test_more_epochs_continue_a_shorter_training(table: VolumeDelta, undisturbed: Place, tmp_path: Path) -> None:
    short = Place(tmp_path / "short")
    assert run_training(short, table, **PARAMS | {"epochs": 2}) == 0
    result = dataset_from_json((short.root / "result.json").read_text())
    place = Place(tmp_path / "long")
    assert run_training(place, table, extends=result, **PARAMS) == 0
    assert place.state() == undisturbed.state()
    assert list(metrics(place, "loss")) == [3, 4]
    assert json.loads((place.out / "history.json").read_text()) == json.loads(
        (undisturbed.out / "history.json").read_text()
    )


def test_a_result_with_other_settings_is_not_continued(table: VolumeDelta, undisturbed: Place, tmp_path: Path) -> None:
    result = dataset_from_json((undisturbed.root / "result.json").read_text())
    place = Place(tmp_path / "long")
    params = PARAMS | {"epochs": 2, "learning_rate": 0.05}
    assert run_training(place, table, extends=result, **params) == 0
    assert list(metrics(place, "loss")) == [1, 2]
    assert "cannot be continued" in texts(place)


def test_what_a_trained_model_holds(undisturbed: Place) -> None:
    names = {path.name for path in undisturbed.out.iterdir()}
    assert names == {
        "model.keras",
        "model.json",
        "history.json",
        "curves.png",
        "confusion.json",
        "confusion.png",
        "roc.json",
        "mlflow_model",
        "training_state.npz",
        "best_state.npz",
    }
    roc = json.loads((undisturbed.out / "roc.json").read_text())
    assert [len(curve) for curve in roc["validation"]] == [len(roc["false_positive_rates"])]
    assert (undisturbed.out / "curves.png").read_bytes().startswith(b"\x89PNG")
    history = json.loads((undisturbed.out / "history.json").read_text())
    names = ["accuracy", "loss", "val_accuracy", "val_auc", "val_f1", "val_loss"]
    assert [sorted(figures) for figures in history] == [names] * 4
    description = json.loads((undisturbed.out / "model.json").read_text())
    assert description["class_names"] == ["0", "1"]
    assert description["training"]["unlabelled_volumes"] == 2
    assert description["training"]["volumes"] + description["training"]["validation_volumes"] == 58
    assert description["data"]["version"] == 1
    mean = np.mean([v for i, v in VOLUMES.items() if i in training_ids()], axis=(0, 1, 2, 3), dtype=float)
    assert np.allclose(description["normalisation"]["mean"], mean, rtol=1e-5)
    result = json.loads((undisturbed.root / "result.json").read_text())
    assert result["metrics"] == description["metrics"] == history[1]
    facts = next(event["values"] for event in undisturbed.events() if event["event"] == "facts")
    assert (facts["loader"], facts["read_path"]) == ("arrow", "mapped")
    artifacts = {event["name"]: event["role"] for event in undisturbed.events() if event["event"] == "artifact"}
    assert artifacts["curves.png"] == "plot"
    assert artifacts["resnet3d-18"] == "model"


def test_what_a_training_wrote_can_be_looked_at(undisturbed: Place) -> None:
    """By the names that it gives to files and figures, whatever these are."""
    model = dataset_from_json((undisturbed.root / "result.json").read_text())
    history = json.loads((undisturbed.out / "history.json").read_text())
    assert isinstance(model, TrainedModel)
    view = open_view(model, {})
    assert view is not None
    with closing(view):
        panels: Mapping[str, Any] = view.panels
        assert [panel.title for panel in panels.values()] == [
            "Curves", "Confusion", "ROC", "Layers", "What the network sees",
        ]  # fmt: skip
        curves = {chart.title: chart for chart in panels["curves"].charts({})}
        assert curves.keys() == {"Loss", "Accuracy", "AUC", "F1"}
        assert curves["Loss"].series == {
            "training": tuple(figures["loss"] for figures in history),
            "validation": tuple(figures["val_loss"] for figures in history),
        }
        (confusion,) = panels["confusion"].charts({})
        assert (confusion.title, confusion.x) == ("Validation", ("0", "1"))
        assert sum(sum(row) for row in confusion.series.values()) == 58 - len(training_ids())
        (roc,) = panels["roc"].charts({})
        assert roc.series.keys() == {"1", "chance"}
        layers = panels["layers"].page(0, 100, {})
        kinds = {row.cells[1] for row in layers.rows}
        assert {"Conv3D", "BatchNormalization", "Dense"} <= kinds
        assert sum(row.cells[4] or 0 for row in layers.rows) == model.parameters
        # The volumes of the training, as normalised as it says.
        seen = panels["seen"]
        picked = seen.pick(0, 100, 0, {"epoch": "plain"})
        assert {item.id for item in picked.items} == training_ids()
        values = np.stack([seen.volume(item.row) for item in picked.items])
        assert np.allclose(values.mean((0, 1, 2, 3)), 0, atol=1e-4)
        assert np.allclose(values.std((0, 1, 2, 3)), 1, atol=1e-3)


def test_the_best_epoch_is_published_and_an_early_end_reported(undisturbed: Place) -> None:
    history = json.loads((undisturbed.out / "history.json").read_text())
    losses = [figures["val_loss"] for figures in history]
    assert losses.index(min(losses)) == 1
    assert json.loads((undisturbed.out / "model.json").read_text())["epoch"] == 2
    assert "stopped after epoch 4" in texts(undisturbed)
    rates = metrics(undisturbed, "learning_rate")
    steps = len(training_ids()) // 6
    assert [rates[epoch * steps] for epoch in (2, 3, 4)] == pytest.approx([0.03, 0.03, 0.015])
    best, last = (undisturbed.out / f"{name}_state.npz" for name in ("best", "training"))
    with np.load(best) as weights, np.load(last) as state:
        assert set(weights.files) - {"meta"} == {name for name in state.files if name.startswith("weight-")}
        assert any(weights[name].tobytes() != state[name].tobytes() for name in weights.files)
        seeds = [name for name in weights.files if weights[name].dtype == np.int64]
        assert seeds
        assert all(weights[name].tobytes() != state[name].tobytes() for name in seeds)


def test_two_devices_of_one_process_share_each_batch(table: VolumeDelta, tmp_path: Path) -> None:
    """With SGD, because Adam hides gradients that were summed twice; with batch norm, which must be joined."""
    params = PARAMS | {"epochs": 2, "optimizer": "sgd"}
    one, two = Place(tmp_path / "one"), Place(tmp_path / "two")
    environment = dict.fromkeys(DROPOUT, "")  # other rows would be dropped on each device
    assert run_training(one, table, environment=environment, **params) == 0
    kill = {"VOXELFLOW_KILL_AT": "train:step#9"}
    assert run_training(two, table, environment=environment | REPLICAS | kill, **params) == KILLED
    assert run_training(two, table, environment=environment | REPLICAS, **params) == 0
    epochs = [
        event["values"]["replicas"]
        for place in (one, two)
        for event in place.events()
        if event["event"] == "facts" and "replicas" in event["values"]
    ]
    assert epochs == [1, 2, 2]
    for name in ("step_loss", "step_accuracy", "val_loss", "val_auc", "val_f1"):
        alone, together = metrics(one, name), metrics(two, name)
        assert alone.keys() == together.keys()
        assert np.allclose(list(alone.values()), list(together.values()), atol=1e-4), name


def training_ids() -> set[str]:
    from nodes.training.rows import SPLIT_SALT

    held = Selection(salt=SPLIT_SALT, low=0.2, high=1)
    return {i for i, label in LABELS.items() if label is not None and held.holds(i)}


def test_progress_is_reported_in_volumes(undisturbed: Place) -> None:
    last = {}
    for event in undisturbed.events():
        if event["event"] == "progress":
            last[event.get("phase", "")] = event
    steps = len(training_ids()) // 6
    assert last["Epoch 2 of at most 5"]["done"] == last["Epoch 2 of at most 5"]["total"] == 6 * steps
    assert last["Epoch 2 of at most 5"]["unit"] == "volumes"
    assert last["Epoch 2 of at most 5"]["label"].startswith("loss ")
    assert last["Epoch 3 of at most 5, validation"]["done"] == 58 - len(training_ids())
    assert list(last)[:4] == ["Starting TensorFlow", "Opening the data", "Measuring the input", "Building the model"]
    assert last["Saving the model"]["share"] == 1


@pytest.mark.parametrize("loader", ["arrow", "npy", "petastorm", "zstd"])
def test_every_loader_trains_three_classes_of_another_type(tmp_path: Path, loader: str) -> None:
    volumes = some_volumes(40, (5, 6, 4), "int16")
    labels = labels_for(volumes, classes=3)
    data: Dataset
    if loader == "npy":
        data = make_files(tmp_path, volumes, labels)
    elif loader == "zstd":
        data, loader = make_parquet(tmp_path, volumes, labels, compression="ZSTD"), "arrow"
    else:
        data = make_delta(tmp_path, volumes, labels)
    place = Place(tmp_path / "place")
    kill = {"VOXELFLOW_KILL_AT": "train:step#5"}
    params = {"epochs": 2, "batch_size": 4, "loader": loader, "checkpoint_every_s": 0}
    assert run_training(place, data, environment=kill, **params) == KILLED
    assert run_training(place, data, **params) == 0
    again = Place(tmp_path / "again")
    assert run_training(again, data, **params) == 0
    assert place.state() == again.state()
    assert json.loads((place.out / "model.json").read_text())["classes"] == 3


def test_a_validation_set_of_its_own(table: VolumeDelta, tmp_path: Path) -> None:
    low, high = Selection(salt="x", low=0, high=0.3), Selection(salt="x", low=0.3, high=1)
    place = Place(tmp_path)
    assert run_training(place, table.select(high), validation=table.select(low), **PARAMS) == 0
    training = json.loads((place.out / "model.json").read_text())["training"]
    held = sum(low.holds(i) for i, label in LABELS.items() if label is not None)
    assert training["validation_volumes"] == held
    assert training["volumes"] == 58 - held
    both = Place(tmp_path / "both")
    assert (
        run_training(both, table, validation=table.select(low), test=table.select(low), **PARAMS | {"epochs": 1}) == 0
    )
    assert "trained on and validated on" in texts(both)
    assert "trained on and tested with" in texts(both)
    assert "validated and tested with" in texts(both)
    # Tested with the volumes it was validated on, with the weights of that time, the model is what it was then.
    result = json.loads((both.root / "result.json").read_text())["metrics"]
    for name in ("loss", "accuracy", "auc", "f1"):
        assert result[f"test_{name}"] == pytest.approx(result[f"val_{name}"], abs=1e-6), name
        assert metrics(both, f"test_{name}") == {1: result[f"test_{name}"]}
    counted = json.loads((both.out / "confusion.json").read_text())
    assert counted["test"] == counted["validation"]
    assert np.sum(counted["test"]) == held


def test_volumes_that_are_not_finite_are_named(tmp_path: Path) -> None:
    volumes = {volume_id: volume.copy() for volume_id, volume in VOLUMES.items()}
    bad = sorted(training_ids())[7]
    volumes[bad][1, 2, 3, 0] = np.nan
    place = Place(tmp_path)
    assert run_training(place, make_delta(tmp_path, volumes, LABELS), **PARAMS) == 3
    failure = place.events()[-1]
    assert failure["code"] == "data"
    assert bad in failure["message"]
    assert "quarantine" in failure["hint"]
