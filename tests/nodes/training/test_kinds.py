"""Regression, augmentation and a person's own model: killed and resumed, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_models import readme_model
from training_scenarios import Place, run_training
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.datasets import VolumeDelta
from engine.workspace import Workspace, trust

pytestmark = pytest.mark.slow

PARAMS: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 6,
    "warmup_steps": 3,
    "learning_rate": 0.01,
    "checkpoint_every_s": 0,
    "flips": "XYZ",
    "quarter_turns": True,
    "intensity": 0.1,
    "noise": 0.1,
}
VOLUMES = some_volumes(60, (6, 6, 5, 2))
KILL = {"VOXELFLOW_KILL_AT": "train:step#11"}
"""In the second epoch, so that the resumed training begins in the middle of it."""


def killed_and_resumed(root: Path, table: VolumeDelta, **params: Any) -> Place:
    """A training that was killed, goes on, and ends as one that was not."""
    place, undisturbed = Place(root / "killed"), Place(root / "undisturbed")
    trusted = {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}
    params = PARAMS | params
    assert run_training(place, table, environment=trusted | KILL, **params) == -signal.SIGKILL
    assert run_training(place, table, environment=trusted, **params) == 0
    assert run_training(undisturbed, table, environment=trusted, **params) == 0
    assert place.state() == undisturbed.state()
    return place


def description(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place.out / "model.json").read_text())
    return found


def test_a_regression_reports_numbers_in_their_own_units(tmp_path: Path) -> None:
    # Far from 0 and spread little: without the labels' mean and deviation it would take for ever to get there.
    labels: dict[str, float | None] = {i: 500 + float(v[..., 0].mean()) / 9 for i, v in VOLUMES.items()}
    place = killed_and_resumed(tmp_path, make_delta(tmp_path, VOLUMES, labels), task="regression")
    history = json.loads((place.out / "history.json").read_text())
    names = ["loss", "mae", "rmse", "val_loss", "val_mae", "val_rmse"]
    assert [sorted(figures) for figures in history] == [names] * 2
    described = description(place)
    assert described["task"] == "regression"
    assert described["class_names"] == []
    values = np.array(list(labels.values()))
    assert described["labels"]["mean"] == pytest.approx(values.mean(), abs=0.5)
    assert history[0]["rmse"] == pytest.approx(history[0]["loss"] ** 0.5 * described["labels"]["deviation"])
    assert (place.out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert history[-1]["val_mae"] < 20


def test_an_own_model_with_dropout_goes_on_exactly(workspace: Workspace, tmp_path: Path) -> None:
    """Its dropout draws from a state that must be in the checkpoint."""
    workspace.my_models.mkdir()
    file = workspace.my_models / "net.py"
    file.write_text(readme_model())
    table = make_delta(tmp_path, VOLUMES, labels_for(VOLUMES, classes=3))
    untrusted = Place(tmp_path / "untrusted")
    environment = {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}
    assert run_training(untrusted, table, environment=environment, **PARAMS, model_file=str(file)) == 3
    assert "not trusted" in untrusted.events()[-1]["message"]
    trust(workspace)
    place = killed_and_resumed(tmp_path, table, model_file=str(file))
    described = description(place)
    assert described["architecture"] == "own model net"
    assert described["training"]["model_file"] == {"path": str(file), "text": readme_model()}
    artifacts = {event["name"]: event["role"] for event in place.events() if event["event"] == "artifact"}
    assert artifacts["net"] == "model"
    # Another content is another training: it does not go on from the states of this one.
    file.write_text(readme_model().replace("0.3", "0.4"))
    before = len(place.events())
    assert run_training(place, table, environment=environment, **PARAMS, model_file=str(file)) == 0
    assert not any("going on" in event.get("text", "") for event in place.events()[before:])


def test_augmentation_changes_what_is_learned(tmp_path: Path) -> None:
    table = make_delta(tmp_path, VOLUMES, labels_for(VOLUMES))
    states = []
    for name, params in {"all": {}, "no noise": {"noise": 0.0}, "no flips": {"flips": "none"}}.items():
        place = Place(tmp_path / name)
        assert run_training(place, table, **PARAMS | {"epochs": 1} | params) == 0
        states.append(next(value for name, value in place.state().items() if name.endswith("weight-0000")))
    assert len(set(states)) == 3
