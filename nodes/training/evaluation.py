"""What a model knows of rows that it does not learn from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import DataError
from engine.progress import Meter
from nodes.loaders.interface import Batch, Loader, LoaderState
from nodes.training.objective import CLASSIFICATION, Objective
from nodes.training.running_sums import NOTHING
from nodes.training.scores import Confusion, Scores

if TYPE_CHECKING:
    from nodes.training.learner import Learner

NAMED = 3
"""So many volumes stand in an error."""


@dataclass(frozen=True)
class Evaluation:
    """`figures`: those of the `objective`; of classes also F1 and, where there is one, the area under the curve.

    These are of `scores`, as is the confusion matrix, which is empty where it was not counted.
    """

    figures: dict[str, float]
    confusion: Confusion


def evaluate(
    learner: Learner,
    loader: Loader,
    *,
    classes: int,
    rows: int,
    label: str,
    objective: Objective = CLASSIFICATION,
) -> Evaluation:
    """Look at every row of `loader` once; a batch of this process has at most `rows`. A regression has no classes.

    Raises `DataError` naming volumes that hold values that are not finite.
    """
    loader.restore(LoaderState(loader.reading.seed))
    scores, total = Scores(classes, len(loader)) if classes else None, NOTHING
    meter = Meter(len(loader), "volumes", label)
    for step, batch in enumerate(loader.batches()):
        seen = learner.evaluate(batch, rows=rows)
        if not math.isfinite(seen.sums.loss):
            bad = not_finite(loader, batch, LoaderState(loader.reading.seed, 0, step))[0]
            if bad:
                raise values_error(f"{label}: the loss is not a number", bad)
        if scores is not None:
            scores.add(seen.logits, seen.labels)
        total += seen.sums
        meter.add(seen.sums.rows)
    meter.finish()
    figures = objective.figures(total)
    return Evaluation(figures | scores.figures, scores.confusion) if scores is not None else Evaluation(figures, ())


def not_finite(loader: Loader, batch: Batch, at: LoaderState) -> tuple[list[str], list[str]]:
    """The ids of the volumes of the global batch `at` that hold values that are not finite, and those of all.

    `batch` is this process' part of it.
    """
    if loader.reading.ranks > 1:
        # The loss is everybody's, so the volume to blame may be another worker's: look at the whole batch.
        whole = loader.source.loader(loader.chosen, replace(loader.reading, rank=0, ranks=1))
        whole.restore(at)
        batch = next(whole.batches())
    bad = [row for row, volume in zip(batch.rows, batch.volumes, strict=True) if not np.isfinite(volume).all()]
    return loader.source.ids(bad), loader.source.ids(batch.rows)


def values_error(what: str, bad: list[str]) -> DataError:
    return DataError(
        f"{what}: {', '.join(bad[:NAMED])} {'holds' if len(bad) == 1 else 'hold'} values that are not finite",
        hint="Convert the volumes again with not_finite set to quarantine, or mend them.",
    )
