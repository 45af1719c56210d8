"""What a classifier said of rows, collected batch by batch: the figures beyond loss and accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodes.classification_metrics import ClassFigures, auc

AUC_BYTES = 256 << 20
"""Scores are kept as float32, 4 bytes a row and score (one score for two classes); more than this, and there is no
area under the curve. Two classes: 67 million rows; a thousand classes: 67 thousand rows."""
CONFUSION_CLASSES = 100
"""With more classes there is no confusion matrix: nobody could read it."""

Confusion = tuple[tuple[int, ...], ...]
"""Counts of rows: `matrix[true][said]`; empty where it was not counted."""


class Scores:
    """Scores of at most `rows` rows in `classes` classes. Give it every row once, in any order."""

    def __init__(self, classes: int, rows: int) -> None:
        self._classes = classes
        columns = 1 if classes == 2 else classes
        self._ranked = 4 * rows * columns <= AUC_BYTES
        self._scores = np.empty((rows if self._ranked else 0, columns), np.float32)
        self._labels = np.empty(rows if self._ranked else 0, np.int32)
        self._rows = 0
        self._true, self._said, self._right = (np.zeros(classes, np.int64) for _ in range(3))
        small = classes if classes <= CONFUSION_CLASSES else 0
        self._confusion = np.zeros((small, small), np.int64)

    def add(self, logits: NDArray[np.float32], labels: NDArray[np.float32]) -> None:
        """Logits (n, 1) for two classes or (n, classes), labels (n,)."""
        true = labels.astype(np.int32)
        said = (logits[:, 0] > 0).astype(np.int32) if logits.shape[1] == 1 else logits.argmax(axis=1)
        for counts, which in ((self._true, true), (self._said, said), (self._right, true[true == said])):
            counts += np.bincount(which, minlength=self._classes)
        if self._confusion.size:
            np.add.at(self._confusion, (true, said), 1)
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
        figures = {"f1": ClassFigures.of_counts(self._right, self._true, self._said).macro()["f1"]}
        areas = self._areas()
        if areas:
            figures["auc"] = float(np.mean(areas))
        return figures

    @property
    def confusion(self) -> Confusion:
        return tuple(tuple(row) for row in self._confusion.tolist())

    def _areas(self) -> list[float]:
        scores, labels = self._scores[: self._rows], self._labels[: self._rows]
        if not self._ranked or not np.isfinite(scores).all():
            return []
        numbers = [1] if self._classes == 2 else range(self._classes)
        areas = [auc(scores[:, column], labels == k) for column, k in enumerate(numbers)]
        return [area for area in areas if area is not None]


def _comparable(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores that can be compared between rows: one logit as it is, of several the probabilities."""
    if logits.shape[1] == 1:
        return logits
    with np.errstate(invalid="ignore"):  # a model that has diverged: there will be no area
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        out: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return out
