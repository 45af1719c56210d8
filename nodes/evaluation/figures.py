"""The figures of predictions against the volumes' own labels: of a classifier, and of a regression."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.datasets import Predictions, id_digests
from engine.declare.progress import enter_phase
from engine.errors import DataError
from engine.text import label_text, plural
from nodes.prediction.predictions_table import read_scores
from nodes.reporting.classification_metrics import (
    Calibration,
    ClassFigures,
    Counts,
    best_threshold,
    class_aucs,
    confusion_matrix,
    figures_at,
    log_loss,
    mean_known,
)
from nodes.reporting.page import figure_text, first_of, predicted_text
from nodes.reporting.plots import (
    Picture,
    draw_calibration,
    draw_class_counts,
    draw_matrix,
    draw_numbers,
    draw_roc,
    draw_thresholds,
)
from nodes.splitting.missing_labels import one_class_only

MISTAKES = 20
CLASS_FIGURES = 20
"""Classes that get figures of their own in the report's figures; all of them are in its JSON."""
_CLASSES_SHOWN = 200
WORST = 20
IMBALANCED = 10.0
"""From so many times as many volumes in the largest class as in the smallest, accuracy says little."""


@dataclass
class Tally:
    """What was read. `data` is a sum of hashes of ids and labels: equal for the same volumes in any order."""

    volumes: int = 0
    unlabelled: int = 0
    not_finite: int = 0
    evaluated: int = 0
    data: int = 0

    def figures(self) -> dict[str, float | int | str]:
        return {
            "evaluated": self.evaluated,
            "volumes": self.volumes,
            "unlabelled": self.unlabelled,
            "not_finite": self.not_finite,
            "data": f"{self.data:016x}",
        }


@dataclass(frozen=True)
class Labelled:
    """Some rows: ids, scores float32 (n, width), labels float64 (n,)."""

    ids: pa.Array
    scores: NDArray[np.float32]
    labels: NDArray[np.float64]


def labelled_rows(predictions: Predictions, tally: Tally) -> Iterator[Labelled]:
    """The rows that have a finite label and finite scores, batch by batch; the tally counts on.

    Raises `DataError` when there are none at all, and says which of the two is missing, or the table cannot be read.
    """
    for ids, scores, labels in read_scores(predictions):
        labelled, finite = np.isfinite(labels), np.isfinite(scores).all(axis=1)
        keep = labelled & finite
        tally.volumes += len(labels)
        tally.unlabelled += int((~labelled).sum())
        tally.not_finite += int((labelled & ~finite).sum())
        tally.evaluated += int(keep.sum())
        rows = Labelled(ids.filter(pa.array(keep)), scores[keep], labels[keep])
        tally.data = (tally.data + _hash_of(rows)) % 2**64
        yield rows
    if tally.not_finite and not tally.evaluated:
        raise DataError(
            f"the model gave none of the {plural(tally.not_finite, 'labelled volumes')} in {predictions.uri} a finite"
            " score, so there is nothing to compare",
            hint="Look at the model's training: where its loss became NaN or infinite, train again with a lower"
            " learning rate. Else the volumes' values are not finite, or far from those that it was trained on.",
        )
    if not tally.evaluated:
        raise DataError(
            f"no volume in {predictions.uri} has a label, so there is nothing to compare with",
            hint="Predict volumes that have labels.",
        )


def _hash_of(rows: Labelled) -> int:
    pairs = zip(rows.ids.to_pylist(), rows.labels.tolist(), strict=True)
    digests = id_digests((f"{label_text(label)} {volume}".encode() for volume, label in pairs), "evaluated")
    return int(np.frombuffer(digests, ">u8").astype(np.uint64).sum(dtype=np.uint64))


@dataclass(frozen=True)
class Scored:
    """Scores float32 (n, classes), class numbers (n,), and digests of the ids uint64 (n,), of the labelled volumes."""

    tally: Tally
    scores: NDArray[np.float32]
    labels: Counts
    ids: NDArray[np.uint64]

    @classmethod
    def of(cls, predictions: Predictions) -> Scored:
        """Read them. Raises `DataError` when nothing has a label, or one is no class number."""
        tally = Tally()
        scores, labels, ids = [], [], []
        for rows in labelled_rows(predictions, tally):
            scores.append(rows.scores)
            labels.append(_class_numbers(rows.labels, len(predictions.classes), predictions.uri))
            ids.append(_id_digests(rows.ids))
        return cls(tally, np.concatenate(scores), np.concatenate(labels), np.concatenate(ids))


@dataclass(frozen=True)
class Thresholds:
    """For each class the score from which on it is said, chosen on `chosen_on`; `figures` are those of the judged
    volumes with them. `shared` of the judged volumes took part in the choice."""

    chosen_on: Scored
    values: Sequence[float | None]
    figures: ClassFigures
    shared: int

    @classmethod
    def of(
        cls, validation: Predictions, judged: Predictions, scores: NDArray[np.float32], labels: Counts
    ) -> Thresholds:
        """Choose on `validation`, apply to the judged `scores` and `labels`.

        Raises `DataError` when both are of the same volumes or of different models.
        """
        if (validation.model, validation.classes) != (judged.model, judged.classes):
            raise DataError(
                f"{validation.uri} and {judged.uri} are predictions of different models",
                hint="Predict both with the same model.",
            )
        found = Scored.of(validation)
        own = Scored.of(judged)
        if found.tally.data == own.tally.data:
            raise DataError(
                "the thresholds would be chosen on the volumes that they are judged by",
                hint="Wire predictions of a validation split into `validation`, of a test split into `predictions`.",
            )
        classes = range(len(judged.classes))
        values = [best_threshold(found.scores[:, k], found.labels == k) for k in classes]
        shared = int(np.isin(own.ids, found.ids).sum())
        return cls(found, values, figures_at(scores, labels, values), shared)


def _id_digests(ids: pa.Array) -> NDArray[np.uint64]:
    digests = id_digests((str(each).encode() for each in ids.to_pylist()), "volume")
    return np.frombuffer(digests, ">u8").astype(np.uint64)


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
    thresholds: Thresholds | None = None

    @classmethod
    def of(cls, predictions: Predictions, bins: int, validation: Predictions | None = None) -> ClassEvaluation:
        """Read and measure; with `validation` choose thresholds on it.

        Raises `DataError` when nothing has a label, or one is no class number, and as `Thresholds.of` does.
        """
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
        enter_phase("Comparing with the labels")
        predicted = scores.argmax(axis=1)
        confusion = confusion_matrix(labels, predicted, classes)
        return cls(
            predictions,
            tally,
            scores,
            labels,
            confusion,
            ClassFigures.of(confusion),
            class_aucs(scores, labels),
            Calibration.of(scores[np.arange(at), predicted], predicted == labels, bins),
            log_loss(scores, labels),
            [Mistake(*mistake) for mistake in worst],
            None if validation is None else Thresholds.of(validation, predictions, scores, labels),
        )

    @property
    def imbalance(self) -> float:
        """How many times as many volumes the largest class has as the smallest one that has any."""
        support = self.classes.support
        return float(support.max() / support[support > 0].min())

    def remarks(self) -> Iterator[str]:
        """What a person should know before believing the figures."""
        support, names = self.classes.support, self.predictions.classes
        largest = int(support.argmax())
        missing = [name for name, count in zip(names, support, strict=True) if not count]
        if len(names) - len(missing) == 1:
            only = one_class_only("judged", names[largest], int(support[largest]))
            yield f"{only}. Evaluate volumes of other classes too"
        elif missing:
            more = len(missing) - CLASS_FIGURES
            listed = ", ".join(missing[:CLASS_FIGURES]) + (f" and {more:,} more" if more > 0 else "")
            yield f"no volume is of {listed}: nothing is known of {'it' if len(missing) == 1 else 'these classes'}"
        if self.imbalance >= IMBALANCED:
            smallest = int(np.where(support > 0, support, support.max() + 1).argmin())
            yield (
                f"{names[largest]} has {support[largest]:,} volumes, {names[smallest]} {support[smallest]:,}:"
                f" to answer {names[largest]} always would be right for {support[largest] / self.tally.evaluated:.1%},"
                " so look at f1 and the recall of each class, not at accuracy"
            )
        if self.thresholds is not None and self.thresholds.shared:
            yield (
                f"{self.thresholds.shared:,} of {self.tally.evaluated:,} volumes took part in the choice of the"
                " thresholds, whose figures are better than they would be for new volumes"
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
            "imbalance": self.imbalance,
            "majority_share": int(self.classes.support.max()) / self.tally.evaluated,
            **({} if self.thresholds is None else {"f1_at_thresholds": self.thresholds.figures.macro()["f1"]}),
        }

    def figures(self) -> dict[str, float | int | str]:
        """Precision and recall of the first classes."""
        out: dict[str, float | int | str] = {}
        for k, name in enumerate(self.predictions.classes[:CLASS_FIGURES]):
            out[f"precision {name}"] = float(self.classes.precision[k])
            out[f"recall {name}"] = float(self.classes.recall[k])
            chosen = None if self.thresholds is None else self.thresholds.values[k]
            if chosen is not None:
                out[f"threshold {name}"] = chosen
        return out

    def details(self) -> dict[str, Any]:
        return {
            "classes": list(self._by_class()),
            "confusion": self.confusion.tolist(),
            "mistakes": [vars(mistake) for mistake in self.mistakes],
        }

    def pictures(self) -> Mapping[str, Picture]:
        names, chosen = self.predictions.classes, self.thresholds
        out = {
            "classes": draw_class_counts(self.classes.support, names),
            "roc": draw_roc(self.scores, self.labels, self.aucs, names),
            "confusion": draw_matrix(self.confusion, names),
            "calibration": draw_calibration(self.calibration),
        }
        if chosen is not None:
            on = chosen.chosen_on
            out["thresholds"] = draw_thresholds(on.scores, on.labels, chosen.values, names)
        return out

    def tables(self) -> Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]]:
        rows = [["" if v is None else figure_text(v) for v in row.values()] for row in self._by_class()]
        columns = next(iter(self._by_class())).keys()
        part = first_of(_CLASSES_SHOWN, len(rows), "classes")
        title = f"Classes, {part}; all are in evaluation.json" if part else "Classes"
        yield title, [name.replace("_", " ") for name in columns], rows[:_CLASSES_SHOWN]
        names = self.predictions.classes
        if self.mistakes:
            lines = [(m.id, names[m.label], names[m.predicted], f"{m.score:.4f}") for m in self.mistakes]
            yield "Surest mistakes", ("volume", "label", "predicted", "probability"), lines

    def _by_class(self) -> Iterable[dict[str, float | int | str | None]]:
        figures, chosen = self.classes, self.thresholds
        for k, name in enumerate(self.predictions.classes):
            at: dict[str, float | int | str | None] = {}
            if chosen is not None:
                at["threshold"] = chosen.values[k]
                at["precision_at_threshold"] = float(chosen.figures.precision[k])
                at["recall_at_threshold"] = float(chosen.figures.recall[k])
                at["f1_at_threshold"] = float(chosen.figures.f1[k])
            yield {
                "class": name,
                "precision": float(figures.precision[k]),
                "recall": float(figures.recall[k]),
                "f1": float(figures.f1[k]),
                "auc": self.aucs[k],
                "volumes": int(figures.support[k]),
                **at,
            }


def _class_numbers(labels: NDArray[np.float64], classes: int, where: str) -> Counts:
    odd = labels[(labels < 0) | (labels >= classes) | (labels != np.rint(labels))]
    if len(odd):
        raise DataError(
            f"{where} has the label {label_text(odd[0])}, the model knows the classes 0 to {classes - 1}",
            hint="Evaluate with volumes whose labels are the classes that the model was trained on.",
        )
    return labels.astype(np.int64)


def _mistakes(rows: Labelled, labels: Counts) -> list[tuple[float, str, int, int]]:
    predicted = rows.scores.argmax(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    surest = wrong[np.argsort(-rows.scores[wrong, predicted[wrong]], kind="stable")[:MISTAKES]]
    return [
        (float(rows.scores[i, predicted[i]]), rows.ids[int(i)].as_py(), int(labels[i]), int(predicted[i]))
        for i in surest
    ]


@dataclass(frozen=True)
class NumberEvaluation:
    """Predicted `values` and `labels`, float64 (n,); `worst` are (distance, id, label, value), the farthest first."""

    predictions: Predictions
    tally: Tally
    values: NDArray[np.float64]
    labels: NDArray[np.float64]
    worst: Sequence[tuple[float, str, float, float]]

    @classmethod
    def of(cls, predictions: Predictions) -> NumberEvaluation:
        """Read and measure. Raises `DataError` when nothing has a label."""
        tally = Tally()
        values: list[NDArray[np.float64]] = []
        labels: list[NDArray[np.float64]] = []
        worst: list[tuple[float, str, float, float]] = []
        for rows in labelled_rows(predictions, tally):
            own = rows.scores[:, 0].astype(np.float64)
            values.append(own)
            labels.append(rows.labels)
            distance = np.abs(own - rows.labels)
            far = np.argsort(-distance, kind="stable")[:WORST]
            rows_off = [
                (float(distance[i]), rows.ids[int(i)].as_py(), float(rows.labels[i]), float(own[i])) for i in far
            ]
            worst = heapq.nlargest(WORST, [*worst, *rows_off])
        return cls(predictions, tally, np.concatenate(values), np.concatenate(labels), worst)

    def remarks(self) -> Iterator[str]:
        """Nothing yet."""
        return iter(())

    def summary(self) -> dict[str, float | int | str]:
        """Mean absolute and root mean squared error, the mean error, and the share of the variance explained (r2).

        `r2` is missing where all labels are equal.
        """
        errors = self.values - self.labels
        spread = float(((self.labels - self.labels.mean()) ** 2).sum())
        out: dict[str, float | int | str] = {
            "mae": float(np.abs(errors).mean()),
            "rmse": float(np.sqrt((errors**2).mean())),
            "mean_error": float(errors.mean()),
        }
        return out | ({"r2": 1 - float((errors**2).sum()) / spread} if spread else {})

    def figures(self) -> dict[str, float | int | str]:
        return {}

    def details(self) -> dict[str, Any]:
        return {"worst": [dict(zip(("error", "id", "label", "value"), row, strict=True)) for row in self.worst]}

    def pictures(self) -> Mapping[str, Picture]:
        return {"numbers": draw_numbers(self.values, self.labels)}

    def tables(self) -> Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]]:
        lines = [(name, label_text(label), predicted_text(value, label)) for _, name, label, value in self.worst]
        yield "Farthest off", ("volume", "label", "predicted"), lines
