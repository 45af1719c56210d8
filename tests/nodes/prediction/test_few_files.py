"""What is answered where the network gives no finite scores: the network is a stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nodes.prediction import few_files
from nodes.tensorflow_keras.served_model import ServedModel


class _Blind:
    """Sees nothing in volumes with values beyond 1e16."""

    def scores(self, volumes: NDArray[Any]) -> NDArray[np.float32]:
        seen = np.abs(volumes).reshape(len(volumes), -1).max(axis=1) < 1e16
        one = np.where(seen, np.float32(0.25), np.float32(np.nan))
        return np.stack([1 - one, one], axis=1)


FAR = "its values are too far from those that the model was trained on: the scores are not finite"
BEYOND = "holds values beyond 1e+18, which no model can compute with"


@pytest.mark.parametrize(("value", "said"), [(1e17, FAR), (1e39, BEYOND), (-3.4028235e38, BEYOND), (2e18, BEYOND)])
def test_a_volume_without_finite_scores_has_an_error_and_no_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, said: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.keras").touch()
    (model / "model.json").write_text(json.dumps({"class_names": ["healthy", "tumour"], "input": {"shape": [3, 3, 3]}}))
    good, bad = tmp_path / "good.npy", tmp_path / "bad.npy"
    np.save(good, np.ones((3, 3, 3)))
    odd = np.ones((3, 3, 3))
    odd[0, 0, 0] = value
    np.save(bad, odd)
    monkeypatch.setattr(few_files, "_predictor", lambda *_: _Blind())
    monkeypatch.setattr(few_files, "require", lambda *_: None)
    first, second = few_files.ask(model, [good, bad]).answers
    assert (first.name, first.error) == ("healthy", "")
    assert (second.name, second.scores) == (None, {})
    assert second.error == said


@pytest.mark.parametrize("value", [np.nan, np.inf, -3.4e38])
def test_a_served_model_has_no_answer_to_values_that_it_does_not_show(value: float) -> None:
    """Max pooling drops NaN."""
    served = object.__new__(ServedModel)
    served._shape, served._transforms, served._steps = (2, 2, 2), None, ()
    served._model = lambda volumes, training: np.full((len(volumes), 1), 0.25, np.float32)
    volumes = np.zeros((2, 2, 2, 2))
    volumes[1, 0, 1, 0] = value
    served._classes = ("healthy", "tumour")
    assert served.predict(volumes)["class"].tolist() == ["healthy", None]
    served._classes = ()
    assert served.predict(volumes)["value"].tolist() == [0.25, pytest.approx(np.nan, nan_ok=True)]


def test_a_served_model_names_no_class_without_finite_scores() -> None:
    served = object.__new__(ServedModel)
    served._classes, served._shape, served._transforms, served._steps = ("healthy", "tumour"), (2, 2, 2), None, ()
    served._model = lambda volumes, training: volumes[:, :1, 0, 0]
    volumes = np.zeros((2, 2, 2, 2), np.float32)
    volumes[1] = np.nan
    found = served.predict(volumes)
    assert found["class"].tolist() == ["healthy", None]
    assert found["probability tumour"].tolist() == [0, pytest.approx(np.nan, nan_ok=True)]


@pytest.mark.parametrize("classes", [(), ("healthy", "tumour"), ("a", "b", "c")])
def test_a_served_model_has_a_table_without_rows_for_no_volumes(classes: tuple[str, ...]) -> None:
    served = object.__new__(ServedModel)
    served._classes, served._shape, served._transforms, served._steps = classes, (2, 2, 2), None, ()
    outputs = len(classes) if len(classes) > 2 else 1
    served._model = lambda volumes, training: np.full((len(volumes), outputs), 0.25, np.float32)
    volumes = np.zeros((1, 2, 2, 2))
    some, none = served.predict(volumes), served.predict(volumes[:0])
    assert len(none) == 0
    assert none.dtypes.to_dict() == some.dtypes.to_dict()
