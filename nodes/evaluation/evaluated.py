"""The figures of a table of predictions, from the rows that have a label."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.datasets import Predictions, id_digests
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
from nodes.prediction.predictions_table import read_predictions

MISTAKES = 20
CLASS_FIGURES = 20
"""Classes that get figures of their own in the report's figures; all of them are on the page."""
_COLUMNS = ("id", "scores", "label")


@dataclass(frozen=True)
class Mistake:
    """A volume of another class than the model says, and how sure the model was."""

    id: str
    label: int
    predicted: int
    score: float


@dataclass
class Rows:
    """The labelled rows of a table: scores float32 (n, classes), labels int64 (n,). The others are counted."""

    scores: NDArray[np.float32]
    labels: Counts
    volumes: int = 0
    unlabelled: int = 0
    not_finite: int = 0
    mistakes: list[Mistake] = field(default_factory=list)
    """The surest ones first."""
    data: int = 0
    """Sum of hashes of the evaluated ids and labels: equal for the same volumes in any order."""


def read_rows(predictions: Predictions) -> Rows:
    """Read the rows to evaluate. Raises `DataError` when there are none, or their labels are no class numbers."""
    width = len(predictions.classes)
    rows = Rows(np.empty((predictions.labelled, width), np.float32), np.empty(predictions.labelled, np.int64))
    at = 0
    worst: list[tuple[float, str, int, int]] = []
    for ids, scores, labels in _batches(predictions, width):
        rows.volumes += len(labels)
        labelled = ~np.isnan(labels)
        finite = np.isfinite(scores).all(axis=1)
        keep = labelled & finite
        rows.unlabelled += int((~labelled).sum())
        rows.not_finite += int((labelled & ~finite).sum())
        kept = _class_numbers(labels[keep], width, predictions.uri)
        rows.scores[at : at + len(kept)] = scores[keep]
        rows.labels[at : at + len(kept)] = kept
        at += len(kept)
        names = ids.filter(pa.array(keep))
        rows.data = (rows.data + _hash_of(names, kept)) % 2**64
        worst = heapq.nlargest(MISTAKES, [*worst, *_mistakes(names, scores[keep], kept)])
    if not at:
        raise DataError(
            f"no volume in {predictions.uri} has a label, so there is nothing to compare with",
            hint="Predict volumes with labels of the model's classes.",
        )
    rows.scores, rows.labels = rows.scores[:at], rows.labels[:at]
    rows.mistakes = [Mistake(volume, label, said, score) for score, volume, label, said in worst]
    return rows


def _batches(
    predictions: Predictions, width: int
) -> Iterator[tuple[pa.Array, NDArray[np.float32], NDArray[np.float64]]]:
    for batch in read_predictions(predictions, _COLUMNS):
        flat = batch.column("scores").flatten().to_numpy(zero_copy_only=False)
        if len(flat) != batch.num_rows * width:
            raise DataError(f"{predictions.uri} has rows without {width} scores", hint="Run BatchPredict again.")
        labels = batch.column("label").to_numpy(zero_copy_only=False).astype(np.float64)
        yield batch.column("id"), flat.reshape(-1, width), labels


def _class_numbers(labels: NDArray[np.float64], classes: int, where: str) -> Counts:
    odd = labels[(labels < 0) | (labels >= classes) | (labels != np.rint(labels))]
    if len(odd):
        raise DataError(
            f"{where} has the label {odd[0]:g}, the model knows the classes 0 to {classes - 1}",
            hint="Evaluate with volumes whose labels are the classes that the model was trained on.",
        )
    return labels.astype(np.int64)


def _mistakes(ids: pa.Array, scores: NDArray[np.float32], labels: Counts) -> list[tuple[float, str, int, int]]:
    said = scores.argmax(axis=1)
    wrong = np.flatnonzero(said != labels)
    surest = wrong[np.argsort(-scores[wrong, said[wrong]], kind="stable")[:MISTAKES]]
    return [(float(scores[i, said[i]]), ids[int(i)].as_py(), int(labels[i]), int(said[i])) for i in surest]


def _hash_of(ids: pa.Array, labels: Counts) -> int:
    texts = (f"{label} {volume}".encode() for volume, label in zip(ids.to_pylist(), labels.tolist(), strict=True))
    return int(np.frombuffer(id_digests(texts, "evaluated"), ">u8").astype(np.uint64).sum(dtype=np.uint64))


@dataclass(frozen=True)
class Evaluated:
    """What is known of the predictions. `aucs` are by class, None where it cannot be told."""

    predictions: Predictions
    rows: Rows
    confusion: Counts
    classes: ClassFigures
    aucs: Sequence[float | None]
    calibration: Calibration
    loss: float

    @classmethod
    def of(cls, predictions: Predictions, bins: int) -> Evaluated:
        rows = read_rows(predictions)
        said = rows.scores.argmax(axis=1)
        confusion = confusion_matrix(rows.labels, said, len(predictions.classes))
        confidence = rows.scores[np.arange(len(said)), said]
        return cls(
            predictions,
            rows,
            confusion,
            ClassFigures.of(confusion),
            class_aucs(rows.scores, rows.labels),
            Calibration.of(confidence, said == rows.labels, bins),
            log_loss(rows.scores, rows.labels),
        )

    @property
    def count(self) -> int:
        return len(self.rows.labels)

    def summary(self) -> dict[str, float | int | str]:
        """The figures of the whole. `auc` is missing where the volumes are all of one class."""
        out: dict[str, float | int | str] = {
            "accuracy": int(np.trace(self.confusion)) / self.count,
            **self.classes.macro(),
            "log_loss": self.loss,
            "calibration_error": self.calibration.error(),
            "evaluated": self.count,
            "volumes": self.rows.volumes,
            "unlabelled": self.rows.unlabelled,
            "not_finite": self.rows.not_finite,
            "data": f"{self.rows.data:016x}",
            "model": self.predictions.model,
        }
        known = mean_known(self.aucs)
        return out if known is None else {"auc": known, **out}

    def by_class(self) -> list[dict[str, float | int | str | None]]:
        figures = self.classes
        return [
            {
                "class": name,
                "precision": float(figures.precision[k]),
                "recall": float(figures.recall[k]),
                "f1": float(figures.f1[k]),
                "auc": self.aucs[k],
                "volumes": int(figures.support[k]),
            }
            for k, name in enumerate(self.predictions.classes)
        ]

    def figures(self) -> dict[str, float | int | str]:
        """The summary, and precision and recall of the first classes."""
        out = self.summary()
        for row in self.by_class()[:CLASS_FIGURES]:
            for name in ("precision", "recall"):
                value = row[name]
                assert value is not None
                out[f"{name} {row['class']}"] = value
        return out
