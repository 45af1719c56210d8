"""Of which figures less is better, by their names: those that runs are compared, swept and registered by."""

from __future__ import annotations

import pytest

from engine.declare.figures import lower_is_better


@pytest.mark.parametrize(
    "name",
    ["val_loss", "rmse", "mae", "MAE", "logloss", "log_loss", "test_brier", "mean_absolute_error", "epoch_seconds",
     "seconds_per_epoch", "val_errors", "losses", "errorRate", "mean error (mm)", "mse3d", "rmse-val"],
)  # fmt: skip
def test_of_errors_and_times_less_is_better(name: str) -> None:
    assert lower_is_better(name)


@pytest.mark.parametrize("name", ["val_auc", "accuracy", "dice", "r2", "samples_per_second", "lossless_share"])
def test_of_other_figures_more_is_better(name: str) -> None:
    assert not lower_is_better(name)
