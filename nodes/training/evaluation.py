"""The figures of a model: sums of losses made into figures, and every row of a loader evaluated once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.declare.progress import Meter
from nodes.loaders.interface import Loader, LoaderState
from nodes.reporting.classification_metrics import ClassFigures, auc, roc_curve
from nodes.training.labels import Target
from nodes.training.learner import NOTHING, Learner, Sums
from nodes.training.usable_values import checked

AUC_BYTES = 256 << 20
"""Scores are kept as float32, 4 bytes a row and score (one score for two classes); more than this, and there is no
area under the curve. Two classes: 67 million rows; a thousand classes: 67 thousand rows."""
CONFUSION_CLASSES = 100
"""With more classes there is no confusion matrix, which nobody could read."""

ROC_CLASSES = 10
"""Of so many classes there is a ROC curve each; more curves cannot be distinguished."""
ROC_FALSE_RATES = tuple(i / 100 for i in range(101))

Confusion = tuple[tuple[int, ...], ...]
"""Counts of rows: `matrix[true][predicted]`; empty where it was not counted."""
Roc = tuple[tuple[float, ...], ...]
"""ROC curves, of class 1 where there are two, else of each class against the rest: the true positive rate that is
reached at each of `ROC_FALSE_RATES`. A curve is empty where it is not defined; no curves at all where there is no area
under them."""


def figures_of(sums: Sums, target: Target | None = None) -> dict[str, float]:
    """The figures of the rows that were added up: `loss` and `accuracy`; of a regression `loss`, `mae` and `rmse`.

    The loss of a regression is counted in deviations of the training labels: 1 for a model that always gives the
    mean, 0 for a perfect one. `mae`, the mean absolute error, and `rmse`, the root of the mean squared one, are in
    the labels' own units.
    """
    loss, right = sums.loss / sums.rows, sums.right / sums.rows
    if target is None:
        return {"loss": loss, "accuracy": right}
    return {"loss": loss, "mae": target.deviation * right, "rmse": target.deviation * math.sqrt(loss)}


class Scores:
    """Scores of at most `rows` rows in `classes` classes. Give it every row once, in any order."""

    def __init__(self, classes: int, rows: int) -> None:
        self._classes = classes
        columns = 1 if classes == 2 else classes
        self._ranked = 4 * rows * columns <= AUC_BYTES
        self._scores = np.empty((rows if self._ranked else 0, columns), np.float32)
        self._labels = np.empty(rows if self._ranked else 0, np.int32)
        self._rows = 0
        self._true, self._predicted, self._right = (np.zeros(classes, np.int64) for _ in range(3))
        small = classes if classes <= CONFUSION_CLASSES else 0
        self._confusion = np.zeros((small, small), np.int64)

    def add(self, logits: NDArray[np.float32], labels: NDArray[np.float32]) -> None:
        """Logits (n, 1) for two classes or (n, classes), labels (n,)."""
        true = labels.astype(np.int32)
        predicted = (logits[:, 0] > 0).astype(np.int32) if logits.shape[1] == 1 else logits.argmax(axis=1)
        for counts, which in ((self._true, true), (self._predicted, predicted), (self._right, true[true == predicted])):
            counts += np.bincount(which, minlength=self._classes)
        if self._confusion.size:
            np.add.at(self._confusion, (true, predicted), 1)
        if self._ranked:
            here = slice(self._rows, self._rows + len(true))
            self._scores[here], self._labels[here] = _comparable(logits), true
        self._rows += len(true)

    @property
    def figures(self) -> dict[str, float]:
        """`f1` and, where it is defined and not too large to compute, `auc`.

        As `EvaluateModel` has them, means over the classes: of F1 over those that occur among labels or predictions, of
        the area under the curve (one class against the rest) over those that some rows have and some do not.
        """
        figures = {"f1": ClassFigures.of_counts(self._right, self._true, self._predicted).macro()["f1"]}
        areas = self._areas()
        if areas:
            figures["auc"] = float(np.mean(areas))
        return figures

    @property
    def confusion(self) -> Confusion:
        return tuple(tuple(row) for row in self._confusion.tolist())

    @property
    def roc(self) -> Roc:
        """The curves of the first `ROC_CLASSES` classes."""
        scores, labels = self._scores[: self._rows], self._labels[: self._rows]
        if not self._ranked or not len(labels) or not np.isfinite(scores).all():
            return ()
        numbers = [1] if self._classes == 2 else range(min(self._classes, ROC_CLASSES))
        return tuple(_roc(scores[:, column], labels == k) for column, k in enumerate(numbers))

    def _areas(self) -> list[float]:
        scores, labels = self._scores[: self._rows], self._labels[: self._rows]
        if not self._ranked or not np.isfinite(scores).all():
            return []
        numbers = [1] if self._classes == 2 else range(self._classes)
        areas = [auc(scores[:, column], labels == k) for column, k in enumerate(numbers)]
        return [area for area in areas if area is not None]


def _roc(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> tuple[float, ...]:
    if not 0 < int(positive.sum()) < len(positive):
        return ()
    false, true = roc_curve(scores, positive, 10_000)
    reached = np.searchsorted(false, ROC_FALSE_RATES, side="right") - 1
    return tuple(round(rate, 4) for rate in true[reached].tolist())


def _comparable(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores that can be compared between rows: one logit as it is, of several the probabilities."""
    if logits.shape[1] == 1:
        return logits
    with np.errstate(invalid="ignore"):  # a model that has diverged: there will be no area
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        out: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return out


@dataclass(frozen=True)
class Evaluation:
    """`figures`: those of `figures_of`; of classes also `f1` and, where it is defined, `auc` (see `Scores`)."""

    figures: dict[str, float]
    confusion: Confusion = ()
    roc: Roc = ()


def evaluate(
    learner: Learner,
    loader: Loader,
    *,
    classes: int,
    rows: int,
    label: str,
    target: Target | None = None,
) -> Evaluation:
    """Evaluate every row of `loader` once; a batch of this process has at most `rows`. A regression has no classes.

    `label` says in an error what was evaluated. Raises `DataError` naming volumes whose values are not usable.
    """
    loader = checked(loader, label)
    loader.restore(LoaderState(loader.reading.seed))
    scores, total = Scores(classes, len(loader)) if classes else None, NOTHING
    meter = Meter(len(loader), "volumes", "")
    for batch in loader.batches():
        seen = learner.evaluate(batch, rows=rows)
        if scores is not None:
            scores.add(seen.logits, seen.labels)
        total += seen.sums
        meter.add(seen.sums.rows)
    meter.finish()
    figures = figures_of(total, target)
    return Evaluation(figures) if scores is None else Evaluation(figures | scores.figures, scores.confusion, scores.roc)
