"""Figures of a classifier, exact and from NumPy alone.

Scores are taken as they are, 4 bytes each; beside them one sorted copy of one class's scores is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """Area under the ROC curve: how likely a positive row scores higher than a negative one, ties counting half.

    By ranks (Mann and Whitney 1947), in whole numbers, so that ties are exact. None without rows of both kinds.
    """
    positives, negatives = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(positives) or not len(negatives):
        return None
    below = np.searchsorted(negatives, positives, "left").sum(dtype=np.int64)
    up_to = np.searchsorted(negatives, positives, "right").sum(dtype=np.int64)
    return int(below + up_to) / (2 * len(positives) * len(negatives))


def ranking(scores: Floats, number: int) -> Floats:
    """Figures (n,) in the order of the probabilities of a class.

    Its own scores, but of two classes: a probability near 1 is known by how small the other one is, because float32
    has only 1 for all beyond 1 - 3e-8.
    """
    own = scores[:, number]
    if scores.shape[1] != 2:
        return own
    with np.errstate(divide="ignore"):
        return np.where(own < 0.5, own, 1 / scores[:, 1 - number].astype(np.float64))


def class_aucs(scores: Floats, labels: Counts) -> list[float | None]:
    """The AUC of each class against all others; scores (n, classes), labels (n,). Of two classes both have that of
    class 1."""
    if scores.shape[1] == 2:
        return [auc(ranking(scores, 1), labels == 1)] * 2
    return [auc(scores[:, number], labels == number) for number in range(scores.shape[1])]


def confusion_matrix(labels: Counts, predicted: Counts, classes: int) -> Counts:
    """int64 (classes, classes): rows by their label (first axis) and by what was predicted (second)."""
    return np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)


@dataclass(frozen=True)
class ClassFigures:
    """Of each class, (classes,): of those said to be it the share that is (precision), of those that are it the
    share that was found (recall), their harmonic mean (f1), and how many there are (support). 0 for 0/0."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    support: Counts
    seen: NDArray[np.bool_]
    """Whether any row is of the class, or was predicted to be."""

    @classmethod
    def of(cls, confusion: Counts) -> ClassFigures:
        return cls.of_counts(np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0))

    @classmethod
    def of_counts(cls, right: Counts, support: Counts, said: Counts) -> ClassFigures:
        """From (classes,) each: rows found, rows there are, rows said to be of the class."""
        return cls(
            precision=right / np.maximum(said, 1),
            recall=right / np.maximum(support, 1),
            f1=2 * right / np.maximum(said + support, 1),
            support=support,
            seen=(said + support) > 0,
        )

    def macro(self) -> dict[str, float]:
        """Plain means of precision, recall and f1 over the classes that are seen."""
        values = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {name: float(value[self.seen].mean()) if self.seen.any() else 0.0 for name, value in values.items()}


def roc_curve(scores: Floats, positive: NDArray[np.bool_], points: int = 1000) -> tuple[Floats, Floats]:
    """False and true positive rates at falling thresholds, from (0, 0) to (1, 1): at most about `points` of them.

    Thresholds lie between different scores only, so tied rows pass one together.
    """
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], positive[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    if len(ends) > points:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, points).round().astype(np.int64))]
    found = np.cumsum(hits, dtype=np.int64)[ends]
    false = ends + 1 - found
    true_rate = np.concatenate([[0.0], found / max(1, int(positive.sum()))])
    false_rate = np.concatenate([[0.0], false / max(1, int((~positive).sum()))])
    return false_rate, true_rate


def f1_curve(scores: Floats, positive: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Thresholds, falling, and the f1 of saying that rows with at least that score are of the class.

    A threshold lies midway between two different scores, so that none is decided by rounding; the last is the lowest
    score. Both are empty without rows of both kinds.
    """
    positives = int(positive.sum())
    if not 0 < positives < len(scores):
        return np.empty(0), np.empty(0)
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order].astype(np.float64), positive[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    found = np.cumsum(hits, dtype=np.int64)[ends]
    # The score of the next row, or for the last threshold its own.
    below = ordered[np.minimum(ends + 1, len(ordered) - 1)]
    return (ordered[ends] + below) / 2, 2 * found / (ends + 1 + positives)


def best_threshold(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """The threshold with the highest f1, of equals the highest; None without rows of both kinds."""
    thresholds, f1 = f1_curve(scores, positive)
    return float(thresholds[f1.argmax()]) if len(f1) else None


def figures_at(scores: Floats, labels: Counts, thresholds: Sequence[float | None]) -> ClassFigures:
    """Figures of each class on its own, said of all rows whose score reaches its threshold; None is never reached."""
    classes = scores.shape[1]
    reached = scores >= np.array([np.inf if t is None else t for t in thresholds])
    own = labels[:, None] == np.arange(classes)
    return ClassFigures.of_counts((reached & own).sum(axis=0), own.sum(axis=0), reached.sum(axis=0))


def log_loss(scores: Floats, labels: Counts) -> float:
    """Mean negative logarithm of the probability given to the right class; a probability of 0 counts as 1e-7."""
    given = scores[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.log(np.maximum(given, 1e-7)).mean())


@dataclass(frozen=True)
class Calibration:
    """How often the likeliest class was right where the model gave it such a probability, in bins of equal width."""

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    count: Counts

    @classmethod
    def of(cls, confidence: Floats, right: NDArray[np.bool_], bins: int) -> Calibration:
        place = np.clip((confidence.astype(np.float64) * bins).astype(np.int64), 0, bins - 1)
        count = np.bincount(place, minlength=bins)
        some = np.maximum(count, 1)
        return cls(
            np.bincount(place, confidence, bins) / some,
            np.bincount(place, right, bins) / some,
            count,
        )

    def error(self) -> float:
        """Expected calibration error: the mean distance of accuracy from confidence, weighted by rows."""
        return float((self.count * np.abs(self.accuracy - self.confidence)).sum() / max(1, self.count.sum()))


def mean_known(values: Sequence[float | None]) -> float | None:
    """The mean of those that are known; None when none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
