"""A learner of another framework, in the training, the checkpoints and the predictions that Keras' learner has."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import forked_programs
import numpy as np
import numpy_learner
import pytest
from training_scenarios import Place
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.datasets import Predictions, Selection, VolumeDelta
from nodes.prediction.predictions_table import read_predictions
from nodes.testing.learner import LearnerConformance
from nodes.training.learner import Framework
from nodes.training.session import train_and_publish
from nodes.training.settings import Settings

VOLUMES = some_volumes(40, (4, 4, 3, 2))
PARAMS: dict[str, Any] = {
    "batch_size": 6,
    "epochs": 40,
    "learning_rate": 0.003,
    "schedule": "constant",
    "keep": "best",
    "early_stopping_epochs": 3,
    "class_weights": "balanced",
    "checkpoint_every_s": 0,
    "flips": "XY",
}


class TestNumpyLearner(LearnerConformance):
    def framework(self) -> Framework:
        return numpy_learner.NumpyFramework()


def run(place: Path, table: VolumeDelta, kill_at: str = "") -> int:
    place.mkdir(exist_ok=True)
    arguments = (str(place), table.model_dump_json(), json.dumps(PARAMS))
    code = f"import numpy_learner; numpy_learner.main(*{arguments!r})"
    return forked_programs.run(code, {"VOXELFLOW_KILL_AT": kill_at}, timeout=120).returncode


def arrays(place: Path) -> dict[str, bytes]:
    with np.load(place / "out" / "training_state.npz") as last, np.load(place / "out" / "best_state.npz") as best:
        return {f"{file}/{n}": of[n].tobytes() for file, of in (("last", last), ("best", best)) for n in of.files}


@pytest.mark.slow
def test_it_trains_is_killed_stops_early_and_predicts_without_tensorflow(tmp_path: Path) -> None:
    whole = make_delta(tmp_path / "table", VOLUMES, labels_for(VOLUMES, unlabelled=2))
    table = whole.select(Selection(salt="split", low=0, high=1, by=("id",)))  # as SplitDataset makes it, of groups
    assert run(tmp_path / "undisturbed", table) == 0
    wanted = arrays(tmp_path / "undisturbed")
    for point in ("train:step#7", "train:best-renamed", "train:after-save"):
        place = tmp_path / point.replace(":", "-")
        assert run(place, table, point) == -signal.SIGKILL
        assert run(place, table) == 0
        assert arrays(place) == wanted, point
    report = json.loads((tmp_path / "undisturbed" / "report.json").read_text())
    assert report["imported"] == []
    history = json.loads((tmp_path / "undisturbed" / "out" / "history.json").read_text())
    losses = [figures["val_loss"] for figures in history]
    best = losses.index(min(losses)) + 1
    assert len(history) == best + PARAMS["early_stopping_epochs"] < PARAMS["epochs"]
    described = json.loads((tmp_path / "undisturbed" / "out" / "model.json").read_text())
    assert (described["framework"], described["file"], described["epoch"]) == ("numpy", "model.npz", best)
    assert described["held_back_by"] == ["id"], "of the split; by it the viewer finds what was held back"
    assert report["model"]["metrics"] == history[best - 1]
    made = Predictions.model_validate(report["predictions"])
    rows = [row for batch in read_predictions(made, ["id", "scores"]) for row in batch.to_pylist()]
    assert {row["id"] for row in rows} == VOLUMES.keys()
    assert all(sum(row["scores"]) == pytest.approx(1, abs=1e-6) for row in rows)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_one_that_stopped_early_and_gets_more_epochs_is_published_as_it_was(tmp_path: Path, keep: str) -> None:
    table = make_delta(tmp_path / "table", VOLUMES, labels_for(VOLUMES))
    learner = numpy_learner.NumpyFramework()
    params = {name: value for name, value in PARAMS.items() if name != "flips"} | {"keep": keep}
    short, longer = Place(tmp_path / "short"), Place(tmp_path / "longer")
    made = train_and_publish(table, None, Settings(**params), short.context(), learner)
    assert len(json.loads((short.out / "history.json").read_text())) < PARAMS["epochs"]
    more = Settings(**params | {"epochs": PARAMS["epochs"] + 20})
    again = train_and_publish(table, None, more, longer.context(extends={"out": made}), learner)
    assert again.metrics == made.metrics
    assert longer.state() == short.state()
