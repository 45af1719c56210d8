"""Volumes of another unit or scale than those of the training: predicted, with a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from volume_sets import labels_for, make_delta, make_files, some_volumes

from engine.declare.datasets import Dataset
from nodes.prediction import few_files
from nodes.prediction.inputs import ModelCard, open_rows
from nodes.prediction.unlike import FAR, unlike, unlike_rows

VOLUMES = some_volumes(40, (6, 6, 5, 2))
EVERY = np.stack(list(VOLUMES.values())).reshape(-1, 2).astype(float)
CARD = ModelCard(
    Path("model.keras"),
    (6, 6, 5, 2),
    ("no", "yes"),
    means=tuple(EVERY.mean(axis=0)),
    deviations=tuple(EVERY.std(axis=0)),
)
ONE = ModelCard(Path("model.keras"), (4, 4, 4), ("no", "yes"), means=(0.5,), deviations=(0.25,))


def volume(mean: float, deviation: float) -> NDArray[np.float32]:
    values = np.random.default_rng(0).normal(size=(4, 4, 4))
    return np.asarray(mean + deviation * (values - values.mean()) / values.std(), np.float32)


@pytest.mark.parametrize(
    ("mean", "deviation", "odd"),
    [
        (0.5, 0.25, False),
        (0.0, 0.05, False),
        (0.5 + 0.99 * FAR * 0.25, 0.25, False),
        (500, 250, True),  # thousandths
        (-600, 400, True),  # Hounsfield units
        (0.5, 0.001, True),
    ],
)
def test_another_scale_is_unlike(mean: float, deviation: float, odd: bool) -> None:
    said = unlike(volume(mean, deviation), ONE)
    assert bool(said) == odd
    if odd:
        assert "(mean 0.5, deviation 0.25), so the answer may be wrong. Give it in the unit" in said


def test_a_volume_of_one_value_is_said_to_be_one() -> None:
    assert unlike(volume(0.0, 0.0), ONE) == "its values are all 0, so the answer may be wrong. Look at it"


def test_the_channel_is_named_and_what_is_not_known_says_nothing() -> None:
    two = next(iter(VOLUMES.values())).astype(np.float32).copy()
    assert unlike(two, CARD) == ""
    two[..., 1] = two[..., 1] * 1000 + 1e6
    assert unlike(two, CARD).startswith("its values in channel 1 (mean 1")
    assert unlike(two, ModelCard(Path("model.keras"), (6, 6, 5, 2), ())) == ""
    two[0, 0, 0, 0] = np.nan
    assert unlike(two, CARD) == ""


@pytest.mark.parametrize("make", [make_delta, make_files])
def test_a_dataset_of_another_scale_is_unlike(tmp_path: Path, make: Any) -> None:
    def looked_at(volumes: dict[str, Any], name: str) -> tuple[int, int, str] | None:
        (tmp_path / name).mkdir()
        data: Dataset = make(tmp_path / name, volumes, labels_for(volumes))
        with open_rows(data, CARD, cores=1) as opened:
            found = unlike_rows(opened, CARD)
            return None if found is None else (found.count, found.sampled, found.line())

    assert looked_at(VOLUMES, "same") is None
    other = {name: array.astype(np.float32) * 1000 + 1e6 for name, array in VOLUMES.items()}
    found = looked_at(other, "other")
    assert found is not None
    assert found[:2] == (16, 16)
    assert found[2].startswith("16 of 16 sampled volumes are unlike those that the model was trained on. ")


def test_a_file_of_another_scale_is_predicted_with_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def scores(self, volumes: NDArray[Any]) -> NDArray[np.float32]:
            return np.tile(np.array([0.25, 0.75], np.float32), (len(volumes), 1))

    described = {"class_names": ["no", "yes"], "input": {"shape": [4, 4, 4]}}
    (tmp_path / "model.keras").touch()
    (tmp_path / "model.json").write_text(
        json.dumps(described | {"normalisation": {"mean": [0.5], "variance": [0.0625]}})
    )
    np.save(tmp_path / "same.npy", volume(0.5, 0.2))
    np.save(tmp_path / "other.npy", (volume(0.5, 0.2) * 1000).astype(np.int16))
    monkeypatch.setattr(few_files, "_predictor", lambda *_: Model())
    monkeypatch.setattr(few_files, "require", lambda *_: None)
    same, other = few_files.ask(tmp_path, [tmp_path / "same.npy", tmp_path / "other.npy"]).answers
    assert (same.name, same.doubt) == ("yes", "")
    assert (other.name, other.error) == ("yes", "")
    assert other.doubt.startswith("its values (mean 499, deviation 200) are unlike")
