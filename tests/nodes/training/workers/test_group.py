"""Trainings by two workers on this machine beside the same training by one."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_scenarios import Place, run_training, tiny_workers
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.datasets import VolumeDelta
from nodes.training.rows import held_back

__all__ = ["tiny_workers"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_workers")]

# SGD, because Adam hides gradients that were summed twice; a last validation batch that one worker alone has.
PARAMS: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 6,
    "warmup_steps": 3,
    "seed": 11,
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "checkpoint_every_s": 0,
    # What a volume becomes must not depend on whose part of a batch it is in.
    "flips": "XYZ",
    "quarter_turns": True,
    "intensity": 0.1,
    "noise": 0.1,
    "keep": "best",
    "schedule": "plateau",
    "plateau_patience": 1,
    "class_weights": "balanced",
}
VOLUMES = some_volumes(60, (6, 6, 5, 2))
LABELS = labels_for(VOLUMES, unlabelled=2)
KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    return make_delta(tmp_path_factory.mktemp("table"), VOLUMES, LABELS, rows=25)


@pytest.fixture(scope="module")
def one(table: VolumeDelta, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("one"))
    assert run_training(place, table, test=table, **PARAMS) == 0
    return place


@pytest.fixture(scope="module")
def two(table: VolumeDelta, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("two"))
    assert run_training(place, table, test=table, workers=2, **PARAMS) == 0, place.events()[-1]
    return place


def arrays(place: Place) -> dict[str, np.ndarray]:
    with np.load(place.out / "training_state.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files if name != "meta"}


def test_two_workers_learn_what_one_learns(one: Place, two: Place) -> None:
    names = ("step_loss", "step_accuracy", "learning_rate", "loss", "val_loss", "val_accuracy", "val_auc", "val_f1")
    for name in (*names, "test_loss", "test_accuracy", "test_auc", "test_f1"):
        alone, together = one.metrics(name), two.metrics(name)
        assert alone
        assert [step for step, _ in alone] == [step for step, _ in together]
        assert np.allclose([v for _, v in alone], [v for _, v in together], atol=1e-4), name
    alone, together = arrays(one), arrays(two)
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        assert np.allclose(value, together[name], atol=1e-4), name
    assert {path.name for path in one.out.iterdir()} == {path.name for path in two.out.iterdir()}
    described, other = (json.loads((place.out / "model.json").read_text()) for place in (one, two))
    figures, others = described.pop("metrics"), other.pop("metrics")
    assert figures == pytest.approx(others, abs=1e-4)
    assert "test_loss" in figures
    assert described == other
    assert 'synchronized": true' not in (two.out / "model.json").read_text()
    assert not (two.scratch / "workers").exists()


def failure(place: Place) -> dict[str, Any]:
    last = place.events()[-1]
    assert last["event"] == "failure"
    return last


def newest_step(place: Place, steps: int) -> int:
    _, epoch, step = max(path.stem for path in place.scratch.glob("checkpoint-*.npz")).split("-")
    return int(epoch) * steps + int(step)


def test_a_volume_that_one_worker_cannot_use_ends_all(tmp_path: Path) -> None:
    """Its value is finite, and no part of what the normalisation is measured on."""
    held, _ = held_back(0.2)
    bad = next(name for name, label in sorted(LABELS.items()) if label is not None and held.holds(name))
    volumes = {name: volume.copy() for name, volume in VOLUMES.items()}
    volumes[bad][1, 2, 3, 0] = -3.4e38
    place = Place(tmp_path)
    assert run_training(place, make_delta(tmp_path, volumes, LABELS), workers=2, **PARAMS) == 3
    error = failure(place)
    assert error["code"] == "data"
    assert error["message"].endswith(f"validation: {bad} holds values that are not finite, or beyond 1e18")


def test_killed_cancelled_and_resumed_is_as_if_nothing_had_happened(
    table: VolumeDelta, one: Place, two: Place, tmp_path: Path
) -> None:
    """One training that loses the second worker, the first, its driver, and is cancelled; each time it goes on."""
    place = Place(tmp_path / "place")
    steps = len(two.metrics("step_loss")) // 3
    for number, rank in enumerate((1, 0)):
        assert run_training(place, table, workers=2, kill_worker=(rank, 4), **PARAMS) == 3
        error = failure(place)
        assert error["code"] == "execution"
        assert f"worker {rank + 1} of 2 on 127.0.0.1 (process " in error["message"]
        assert error["message"].endswith("was ended by SIGKILL before it was done")
        at = newest_step(place, steps)
        assert f"`voxelflow runs resume run` goes on after step {at}." in error["hint"]
        assert at >= 3 * (number + 1)
        if number == 0:
            shutil.copytree(place.root, tmp_path / "by one")
    assert run_training(place, table, workers=2, cancel_after=3, **PARAMS) == 3
    assert failure(place)["code"] == "cancelled"
    assert run_training(place, table, workers=2, kill_worker=(-1, 3), **PARAMS) == KILLED
    assert run_training(place, table, workers=2, **PARAMS) == 0
    assert place.state() == two.state()
    for name in ("step_loss", "loss", "val_loss", "val_accuracy"):
        assert list(dict.fromkeys(place.metrics(name))) == two.metrics(name), name
    # Whatever was killed, every event was reported once, but that in the driver's hand when it was killed.
    metrics = [json.dumps(event["values"]) for event in place.events() if event["event"] == "metrics"]
    assert len(metrics) == len(set(metrics)) + 1

    # The same, gone on with by one worker after the first kill.
    other = Place(tmp_path / "by one")
    assert run_training(other, table, **PARAMS) == 0
    assert dict(other.metrics("step_loss")).keys() == dict(two.metrics("step_loss")).keys()
    expected, found = arrays(one), arrays(other)
    for name, value in expected.items():
        assert np.allclose(value, found[name], atol=1e-4), name
