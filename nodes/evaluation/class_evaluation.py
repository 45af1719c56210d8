"""The figures of a classifier's predictions."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.datasets import Predictions
from engine.errors import DataError
from nodes.classification_metrics import (
    Calibration,
    ClassFigures,
    Counts,
    class_aucs,
    confusion_matrix,
    log_loss,
    mean_known,
)
from nodes.evaluation.labelled_rows import Labelled, Tally, labelled_rows
from nodes.evaluation.plots import Picture, draw_calibration, draw_matrix, draw_roc
from nodes.report_page import figure_text

MISTAKES = 20
CLASS_FIGURES = 20
"""Classes that get figures of their own in the report's figures; all of them are in its JSON."""
_CLASSES_SHOWN = 200


@dataclass(frozen=True)
class Mistake:
    """A volume of another class than the model says, and how sure the model was."""

    score: float
    id: str
    label: int
    predicted: int


@dataclass(frozen=True)
class ClassEvaluation:
    """What is known of the predictions. `aucs` are by class, None where the volumes are all of one kind."""

    predictions: Predictions
    tally: Tally
    scores: NDArray[np.float32]
    labels: Counts
    confusion: Counts
    classes: ClassFigures
    aucs: Sequence[float | None]
    calibration: Calibration
    loss: float
    mistakes: Sequence[Mistake]
    """The surest ones first."""

    @classmethod
    def of(cls, predictions: Predictions, bins: int) -> ClassEvaluation:
        """Read and measure. Raises `DataError` when nothing has a label, or one is no class number."""
        tally, at = Tally(), 0
        classes = len(predictions.classes)
        scores = np.empty((predictions.labelled, classes), np.float32)
        labels = np.empty(predictions.labelled, np.int64)
        worst: list[tuple[float, str, int, int]] = []
        for rows in labelled_rows(predictions, tally):
            own = _class_numbers(rows.labels, classes, predictions.uri)
            scores[at : tally.evaluated], labels[at : tally.evaluated] = rows.scores, own
            at = tally.evaluated
            worst = heapq.nlargest(MISTAKES, [*worst, *_mistakes(rows, own)])
        scores, labels = scores[:at], labels[:at]
        said = scores.argmax(axis=1)
        confusion = confusion_matrix(labels, said, classes)
        return cls(
            predictions,
            tally,
            scores,
            labels,
            confusion,
            ClassFigures.of(confusion),
            class_aucs(scores, labels),
            Calibration.of(scores[np.arange(at), said], said == labels, bins),
            log_loss(scores, labels),
            [Mistake(*mistake) for mistake in worst],
        )

    def summary(self) -> dict[str, float | int | str]:
        """The figures of the whole. `auc` is missing where the volumes are all of one class."""
        auc = mean_known(self.aucs)
        return {
            **({} if auc is None else {"auc": auc}),
            "accuracy": int(np.trace(self.confusion)) / self.tally.evaluated,
            **self.classes.macro(),
            "log_loss": self.loss,
            "calibration_error": self.calibration.error(),
        }

    def figures(self) -> dict[str, float | int | str]:
        """Precision and recall of the first classes."""
        out: dict[str, float | int | str] = {}
        for k, name in enumerate(self.predictions.classes[:CLASS_FIGURES]):
            out[f"precision {name}"] = float(self.classes.precision[k])
            out[f"recall {name}"] = float(self.classes.recall[k])
        return out

    def details(self) -> dict[str, Any]:
        return {
            "classes": list(self._by_class()),
            "confusion": self.confusion.tolist(),
            "mistakes": [vars(mistake) for mistake in self.mistakes],
        }

    def pictures(self) -> Mapping[str, Picture]:
        names = self.predictions.classes
        return {
            "roc": draw_roc(self.scores, self.labels, self.aucs, names),
            "confusion": draw_matrix(self.confusion, names),
            "calibration": draw_calibration(self.calibration),
        }

    def tables(self) -> Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]]:
        rows = [["" if v is None else figure_text(v) for v in row.values()] for row in self._by_class()]
        yield "Classes", ("class", "precision", "recall", "f1", "auc", "volumes"), rows[:_CLASSES_SHOWN]
        names = self.predictions.classes
        if self.mistakes:
            told = [(m.id, names[m.label], names[m.predicted], f"{m.score:.4f}") for m in self.mistakes]
            yield "Surest mistakes", ("volume", "label", "predicted", "probability"), told

    def _by_class(self) -> Iterable[dict[str, float | int | str | None]]:
        found = self.classes
        for k, name in enumerate(self.predictions.classes):
            yield {
                "class": name,
                "precision": float(found.precision[k]),
                "recall": float(found.recall[k]),
                "f1": float(found.f1[k]),
                "auc": self.aucs[k],
                "volumes": int(found.support[k]),
            }


def _class_numbers(labels: NDArray[np.float64], classes: int, where: str) -> Counts:
    odd = labels[(labels < 0) | (labels >= classes) | (labels != np.rint(labels))]
    if len(odd):
        raise DataError(
            f"{where} has the label {odd[0]:g}, the model knows the classes 0 to {classes - 1}",
            hint="Evaluate with volumes whose labels are the classes that the model was trained on.",
        )
    return labels.astype(np.int64)


def _mistakes(rows: Labelled, labels: Counts) -> list[tuple[float, str, int, int]]:
    said = rows.scores.argmax(axis=1)
    wrong = np.flatnonzero(said != labels)
    surest = wrong[np.argsort(-rows.scores[wrong, said[wrong]], kind="stable")[:MISTAKES]]
    return [(float(rows.scores[i, said[i]]), rows.ids[int(i)].as_py(), int(labels[i]), int(said[i])) for i in surest]
