"""Predictions by a model that is a function of NumPy, for tests that need no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from delta_tables import context
from numpy.typing import NDArray
from volume_sets import Labels, Volumes, make_delta

from engine.declare.datasets import Predictions
from nodes.prediction.inputs import ModelCard, open_rows
from nodes.prediction.parts import Division, Ledger, PartWork
from nodes.prediction.predictions_table import commit
from nodes.prediction.table_folder import ChosenTable


def card(folder: Path, classes: tuple[str, ...] = ("no", "yes")) -> ModelCard:
    (folder / "model.keras").write_bytes(b"a model")
    return ModelCard(folder / "model.keras", (3, 4, 2), classes)


def of_the_sum(volumes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores by which each volume can be known again."""
    yes = 1 / (1 + np.exp(-volumes.sum(axis=(1, 2, 3), dtype=np.float64) / 100))
    return np.stack([1 - yes, yes], axis=1).astype(np.float32)


def work(tmp_path: Path, data: Any, ledger: Ledger, **change: Any) -> int:
    """Make all parts that are not done; how many volumes were predicted."""
    seen: list[int] = []
    own = card(tmp_path)
    with open_rows(data, own, cores=2) as opened:
        division = Division.of(4, 6)
        making = PartWork(opened, division, own, own.digest(), ledger, of_the_sum, **change)
        making(range(division.parts(len(opened.rows))), seen.append)
    return sum(seen)


def make_predictions(tmp_path: Path, volumes: Volumes, labels: Labels) -> Predictions:
    """A table of predictions of these volumes."""
    ctx = context(tmp_path)
    ledger = Ledger(ctx.scratch / "prediction")
    ledger.begin("one", ChosenTable)
    work(tmp_path, make_delta(tmp_path, volumes, labels), ledger)
    return commit(ctx.out / "predictions", ledger, [*ledger.done().values()], -1, card(tmp_path), "digest", ctx)
