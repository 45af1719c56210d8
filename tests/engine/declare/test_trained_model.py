"""What is said of a trained model."""

from __future__ import annotations

import math

from engine.declare.datasets import TrainedModel, VolumeSpec


def test_small_figures_of_a_model_are_not_rounded_away() -> None:
    metrics = {"val_auc": 0.912345, "loss": 0.0000412345, "val_loss": 12345.67891, "bias": -0.00049, "zero": 0.0}
    details = TrainedModel(
        uri="/m", spec=VolumeSpec(shape=(1,), dtype="int8"), metrics={**metrics, "gone": math.nan}, parameters=7
    ).details()
    assert next(iter(details)) == "val_auc"
    assert math.isnan(details.pop("gone"))
    assert details == {
        "val_auc": 0.9123,
        "loss": 0.00004123,
        "val_loss": 12345.6789,
        "bias": -0.00049,
        "zero": 0.0,
        "parameters": 7,
    }
