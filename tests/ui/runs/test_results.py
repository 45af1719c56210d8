"""Where a version in MLflow's registry is looked at."""

from __future__ import annotations

import pytest
from building import box, pipeline

from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.document.pipeline import MAX_NAME, dump, load
from ui.runs import results
from ui.runs.outputs import Made
from ui.runs.results import Version, registering


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("sqlite:///own", "voxelflow/mlflow/model/small%20brains%2F2/7"),
        ("sqlite:///other", ""),
        ("https://mlflow.example/", "https://mlflow.example/#/models/small%20brains%2F2/versions/7"),
    ],
)
def test_a_version_is_shown_by_the_app_or_by_its_server(
    place: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "can_serve", lambda: True)
    assert Version("small brains/2", 7, place).address("sqlite:///own") == address
    monkeypatch.setattr(results, "can_serve", lambda: False)
    assert Version("small brains/2", 7, "sqlite:///own").address("sqlite:///own") == ""


@pytest.mark.parametrize("length", [5, MAX_NAME - 10, MAX_NAME - 9, MAX_NAME])
def test_the_pipeline_that_registers_a_model_can_be_loaded_however_long_its_name(length: int) -> None:
    model = TrainedModel(uri="/models/1", spec=VolumeSpec(shape=(2, 2, 2), dtype="float32", classes=("a", "b")))
    made = Made("train", "model", "Train", model, {})
    document, node = registering(pipeline(box("train", "Make"), name="n" * length), made, "volumes", "champion", None)
    assert load(dump(document)).name == f"{'n' * min(length, MAX_NAME - 10)}: register"
    assert (node, str(document.edges[-1].target)) == ("register", "register.model")
