"""Looking at predictions: the surest mistakes and what the model is least sure of, with their volumes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.datasets import Dataset, Predictions
from engine.declare.view import (
    Chart,
    ChartPanel,
    Choice,
    DatasetView,
    Gallery,
    GalleryItem,
    Option,
    Panel,
    Picked,
    Table,
    TableColumn,
    TablePage,
    TableRow,
)
from engine.errors import DataError, VoxelflowError
from engine.text import label_text, number
from engine.wording import figure_name
from nodes.evaluation.figures import ClassEvaluation, NumberEvaluation, Tally
from nodes.prediction.predictions_table import read_scores
from nodes.reporting.classification_metrics import ranking, roc_curve
from nodes.reporting.page import predicted_text
from nodes.viewing.histograms import histogram
from nodes.viewing.models import matrix_chart, roc_chart
from nodes.viewing.volume_rows import VolumeRows
from nodes.viewing.volumes import volume_rows

_ROC_POINTS = 101
_MOST_CURVES = 6
_CALIBRATION_BINS = 10
_MOST_POINTS = 3_000
"""Of a scatter: some 100 kB of JSON, which the browser draws in well under a second."""
_FIGURES_OF_NUMBERS = ("r2", "mae", "rmse")
_SCORES = ("0.5", "0.7", "0.9", "0.99")


@dataclass(frozen=True)
class Rows:
    """The predictions, a row each: ids, labels (NaN for none), what is predicted, and its score.

    Of classes `predicted` is a number of a class, -1 for none, and `scores` its probability; of a regression both are
    the value.
    """

    predictions: Predictions
    ids: pa.Array
    labels: NDArray[np.float64]
    predicted: NDArray[np.float64]
    scores: NDArray[np.float64]

    @classmethod
    def of(cls, predictions: Predictions) -> Rows:
        """Read them all but the scores of the other classes. Raises `DataError`."""
        ids, labels, predicted, scores = [], [], [], []
        for names, of_classes, known in read_scores(predictions):
            found = of_classes.astype(np.float64)
            finite = np.asarray(np.isfinite(found).all(axis=1))
            best = np.where(finite[:, np.newaxis], found, 0).argmax(axis=1)
            score = found[np.arange(len(found)), best]
            ids.append(names.cast(pa.string()))
            labels.append(known)
            predicted.append(np.where(finite, best, -1).astype(np.float64) if predictions.classes else score)
            scores.append(np.where(finite, score, math.nan))
        if not ids:
            raise DataError(f"{predictions.uri} holds no predictions", hint="Run BatchPredict again.")
        return cls(
            predictions, pa.chunked_array(ids).combine_chunks(), *map(np.concatenate, (labels, predicted, scores))
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return self.predictions.classes

    @cached_property
    def wrong(self) -> NDArray[np.float64]:
        """How wrong each is: the score of a mistake, or how far a number is off; below zero where it is right, NaN
        where that is not known."""
        if not self.classes:
            return np.abs(self.predicted - self.labels)
        known = np.where(np.isnan(self.labels) | np.isnan(self.scores), math.nan, self.scores)
        return np.where(self.predicted == self.labels, -known, known)

    def label(self, row: int) -> str:
        """Its class, or its number; "" for none."""
        return self._name(float(self.labels[row]))

    def said(self, row: int) -> str:
        """What is predicted, the same way; a number reads otherwise than a label that it is not."""
        value = float(self.predicted[row])
        if self.classes or math.isnan(value):
            return self._name(value)
        return predicted_text(value, float(self.labels[row]))

    def _name(self, value: float) -> str:
        if math.isnan(value) or (self.classes and value < 0):
            return ""
        return self.classes[int(value)] if self.classes and int(value) < len(self.classes) else label_text(value)

    def note(self, row: int) -> str:
        """`says cat (98%), is dog`"""
        said = f"says {self.said(row) or 'none'}"
        score, label = float(self.scores[row]), self.label(row)
        said = f"{said} ({score:.0%})" if self.classes and math.isfinite(score) else said
        if not label or (self.classes and self.predicted[row] == self.labels[row]):
            return said
        return f"{said}, is {label}"

    def order(self, seed: int, chosen: Mapping[str, str]) -> NDArray[np.int64]:
        """Numbers of the rows that are wanted, in the order that is wanted."""
        keep = np.ones(len(self.labels), bool)
        for name, values in (("label", self.labels), ("predicted", self.predicted)):
            if chosen.get(name):
                keep &= values == _number(chosen[name])
        if chosen.get("score"):
            keep &= self.scores >= _number(chosen["score"])
        show = chosen.get("show", "mistakes")
        with np.errstate(invalid="ignore"):
            if show == "mistakes":
                # Of numbers all are a little wrong: the most first.
                keep &= self.wrong > (0 if self.classes else -1)
        rows = np.flatnonzero(keep)
        if show == "random":
            return np.random.default_rng(seed).permutation(rows).astype(np.int64)
        by = -self.wrong[rows] if show == "mistakes" else self.scores[rows]
        return rows[np.argsort(by, kind="stable")].astype(np.int64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as exc:
        raise DataError(f"{text[:40]!r} is no number", hint="Write a number, as 0.5.") from exc


def _choices(rows: Rows) -> list[Choice]:
    shows = [("mistakes", "Surest mistakes" if rows.classes else "Farthest off"), ("random", "Random")]
    if rows.classes:
        shows.insert(1, ("unsure", "Least sure"))
    out = [Choice(name="show", title="Show", options=tuple(Option(value=v, text=t) for v, t in shows))]
    if not rows.classes:
        return out
    any_one = Option(value="", text="Any")
    names = [Option(value=str(at), text=name) for at, name in enumerate(rows.classes)]
    for name, title in (("label", "Label"), ("predicted", "Predicted")):
        out.append(Choice(name=name, title=title, options=(any_one, *names)))
    scores = [Option(value=text, text=f"at least {float(text):.0%}") for text in _SCORES]
    return [*out, Choice(name="score", title="Score", options=(any_one, *scores))]


class PredictedVolumes(Gallery):
    """Volumes with what the model says of them."""

    title = "Volumes"

    def __init__(self, rows: Rows, volumes: VolumeRows) -> None:
        self._rows, self._volumes = rows, volumes
        self.shape, self.dtype = volumes.spec.shape, volumes.spec.dtype

    def choices(self) -> Sequence[Choice]:
        return _choices(self._rows)

    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        order = self._rows.order(seed, chosen)
        items = tuple(self.item(row) for row in order[offset : offset + count].tolist())
        return Picked(items=items, total=len(order))

    def item(self, row: int) -> GalleryItem:
        rows = self._rows
        return GalleryItem(row=row, id=rows.ids[row].as_py(), label=rows.label(row), note=rows.note(row))

    def volume(self, row: int) -> NDArray[Any]:
        return self._volumes.volume(self._found(row))

    def sample(self, count: int) -> Sequence[NDArray[Any]]:
        # Of all that the data has: mistakes look as their volumes do on the card of the table.
        return self._volumes.sample(count)

    def spacing(self, row: int) -> tuple[float, float, float] | None:
        return self._volumes.spacing(self._found(row))

    def _found(self, row: int) -> int:
        if not 0 <= row < len(self._rows.ids):
            raise DataError(f"there is no prediction {row:,}", hint="Choose one from the table.")
        volume_id = str(self._rows.ids[row])
        found = self._volumes.find(volume_id)
        if found is None:
            raise DataError(f"the data no longer has the volume {volume_id}", hint="Run BatchPredict again.")
        return found


class Scores(ChartPanel):
    """How good the predictions are, and how sure."""

    title = "Figures"

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._made: list[Chart] = []

    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        if not self._made:
            self._made = list(self._charts())
        return self._made

    def _charts(self) -> Iterator[Chart]:
        rows = self._rows
        finite = rows.scores[np.isfinite(rows.scores)]
        if rows.classes and rows.predictions.labelled:
            measured = ClassEvaluation.of(rows.predictions, _CALIBRATION_BINS)
            yield matrix_chart("Confusion", rows.classes, measured.confusion)
            yield _roc(measured)
        if not rows.classes:
            yield from _numbers(rows)
        if len(finite):
            counts, edges = histogram(finite, (0, 1) if rows.classes else None)
            title = "Score of the predicted class" if rows.classes else "Predicted values"
            yield Chart(
                title=title, kind="histogram", x=tuple(edges.tolist()), series={"volumes": tuple(counts.tolist())},
                y_title="volumes",
            )  # fmt: skip


def _numbers(rows: Rows) -> Iterator[Chart]:
    """Predicted numbers over labels, as the report of EvaluateModel has them, and how far they are off; nothing where
    no volume has both."""
    known = np.isfinite(rows.labels) & np.isfinite(rows.predicted)
    labels, predicted = rows.labels[known], rows.predicted[known]
    if not len(labels):
        return
    # No sum of squares is infinite but where labels come near the end of their type.
    with np.errstate(over="ignore", invalid="ignore"):
        summary = NumberEvaluation(rows.predictions, Tally(evaluated=len(labels)), predicted, labels, ()).summary()
        errors = predicted - labels
    figures = [
        f"{figure_name(name)} {number(float(summary[name]))}"
        for name in _FIGURES_OF_NUMBERS
        if name in summary and math.isfinite(float(summary[name]))
    ]
    some, note = np.arange(len(labels)), ""
    if len(labels) > _MOST_POINTS:
        # The same ones whenever it is opened.
        some = np.sort(np.random.default_rng(0).choice(len(labels), _MOST_POINTS, replace=False))
        note = f"{_MOST_POINTS:,} of {len(labels):,} volumes, chosen at random; the figures are of all"
    yield Chart(
        title=", ".join(["Predicted and true", *figures]), kind="scatter", x=tuple(labels[some].tolist()),
        series={"volumes": tuple(predicted[some].tolist())}, x_title="label", y_title="predicted", note=note,
    )  # fmt: skip
    if np.isfinite(errors).all():
        counts, edges = histogram(errors)
        yield Chart(
            title="Errors", kind="histogram", x=tuple(edges.tolist()), series={"volumes": tuple(counts.tolist())},
            x_title="predicted minus label", y_title="volumes",
        )  # fmt: skip


def _roc(measured: ClassEvaluation) -> Chart:
    """Of two classes the curve of the second one; of more the curves of the first few, each against the rest."""
    classes = measured.predictions.classes
    numbers = [1] if len(classes) == 2 else list(range(min(len(classes), _MOST_CURVES)))
    x = np.linspace(0, 1, _ROC_POINTS)
    series: dict[str, tuple[float | None, ...]] = {}
    for one in numbers:
        area = measured.aucs[one]
        if area is None:
            continue
        false, true = roc_curve(ranking(measured.scores, one), measured.labels == one)
        series[f"{classes[one]}, area {area:.3f}"] = tuple(np.interp(x, false, true).tolist())
    note = f"the first {len(numbers)} of {len(classes)} classes" if 1 < len(numbers) < len(classes) else ""
    if not series:
        among = f", and only {note} are looked at" if note else ""
        note = f"no curve: it takes volumes of a class and of others{among}"
    return roc_chart("ROC", x.tolist(), series, note)


class PredictionTable(Table):
    """Each volume's id, label and prediction."""

    title = "Rows"

    def __init__(self, rows: Rows, *, with_volumes: bool) -> None:
        self._rows, self._with_volumes = rows, with_volumes

    def choices(self) -> Sequence[Choice]:
        return _choices(self._rows)

    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        rows = self._rows
        order = rows.order(0, {"show": "mistakes", **chosen})
        titles = ("id", "label", "predicted", "score") if rows.classes else ("id", "label", "predicted")
        shown = []
        for row in order[offset : offset + count].tolist():
            score = float(rows.scores[row])
            cells: tuple[str | float | None, ...] = (rows.ids[row].as_py(), rows.label(row), rows.said(row))
            cells = (*cells, score if math.isfinite(score) else None) if rows.classes else cells
            shown.append(TableRow(cells=cells, volume=row if self._with_volumes else None))
        columns = tuple(TableColumn(title=title) for title in titles)
        return TablePage(columns=columns, rows=tuple(shown), offset=offset, total=len(order))


class PredictionsView(DatasetView):
    """The panels of predictions; thumbnails where the data that was predicted is known."""

    def __init__(self, rows: Rows, volumes: VolumeRows | None) -> None:
        self._volumes = volumes
        if volumes is not None and volumes.note:
            # Of a sample hardly any would be found.
            self.note = f"no pictures: of the data is known {volumes.note}"
            volumes.close()
            self._volumes = volumes = None
        gallery: dict[str, Panel] = {} if volumes is None else {"volumes": PredictedVolumes(rows, volumes)}
        table = PredictionTable(rows, with_volumes=volumes is not None)
        self.panels = {**gallery, "figures": Scores(rows), "rows": table}

    def close(self) -> None:
        if self._volumes is not None:
            self._volumes.close()


def predictions_view(dataset: Predictions, made_from: Mapping[str, Dataset]) -> DatasetView:
    """A version of a table of predictions."""
    rows, data = Rows.of(dataset), made_from.get("data")
    try:
        return PredictionsView(rows, None if data is None else volume_rows(data))
    except (VoxelflowError, OSError) as exc:
        # What the model said can be looked at when the volumes are gone.
        view = PredictionsView(rows, None)
        view.note = f"no pictures: {exc.message if isinstance(exc, VoxelflowError) else exc}"
        return view
