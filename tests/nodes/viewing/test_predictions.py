"""What the editor shows of predictions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.declare.datasets import Predictions
from nodes.evaluation.figures import ClassEvaluation, Tally
from nodes.reporting.classification_metrics import Calibration, ClassFigures, class_aucs, confusion_matrix
from nodes.viewing.predictions import PredictionTable, Rows, _roc


def _rows(labels: list[float], predicted: list[float], classes: tuple[str, ...] = ()) -> Rows:
    """As they are read: of 32-bit floats."""
    known, said = (np.array(values, np.float32).astype(np.float64) for values in (labels, predicted))
    ids = pa.array([f"v{n}" for n in range(len(labels))])
    predictions = Predictions(uri="p", count=len(labels), bytes=1, version=1, model="m", classes=classes)
    return Rows(predictions, ids, known, said, np.full(len(labels), 0.75) if classes else said)


@pytest.mark.parametrize(
    ("label", "predicted", "note"),
    [
        (1234567, 1234999, "says 1234999, is 1234567"),
        (2345.61, 2345.94, "says 2345.9, is 2345.61"),
        (3, 2.98765, "says 2.988, is 3"),
        (0.3, 0.30001, "says 0.30001, is 0.3"),
        (0.3, 0.3, "says 0.3, is 0.3"),
        (float("nan"), 1234567.8, "says 1234568"),
        (3, float("nan"), "says none, is 3"),
    ],
)
def test_a_prediction_that_is_off_reads_so(label: float, predicted: float, note: str) -> None:
    rows = _rows([label], [predicted])
    assert rows.note(0) == note
    (row,) = PredictionTable(rows, with_volumes=False).page(0, 1, {"show": "random"}).rows
    said, *rest = note.removeprefix("says ").split(", is ")
    assert row.cells == ("v0", "".join(rest), said.replace("none", ""))


def test_classes_are_named_and_a_label_that_is_none_is_a_number() -> None:
    rows = _rows([0, 1, 7, float("nan")], [0, 0, 1, -1], ("cat", "dog"))
    assert [rows.note(row) for row in range(4)] == [
        "says cat (75%)",
        "says cat (75%), is dog",
        "says dog (75%), is 7",
        "says none (75%)",
    ]


def test_each_of_many_classes_can_be_chosen() -> None:
    classes = tuple(f"c{n}" for n in range(120))
    choices = {
        choice.name: choice for choice in PredictionTable(_rows([0], [0], classes), with_volumes=False).choices()
    }
    for name in ("label", "predicted"):
        assert [option.text for option in choices[name].options] == ["Any", *classes]


@pytest.mark.parametrize(
    ("classes", "labels", "note"),
    [
        (2, [0, 0], "no curve: it takes volumes of a class and of others"),
        (
            8,
            [6, 7],
            "no curve: it takes volumes of a class and of others, and only the first 6 of 8 classes are looked at",
        ),
    ],
)
def test_without_a_curve_the_chart_says_why(classes: int, labels: list[int], note: str) -> None:
    names = tuple(f"c{n}" for n in range(classes))
    predictions = Predictions(uri="p", count=2, bytes=1, version=1, model="m", labelled=2, classes=names)
    scores, known = np.full((2, classes), 1 / classes, np.float32), np.array(labels)
    counts = confusion_matrix(known, known, classes)
    sure = Calibration.of(scores.max(axis=1), known == 0, 10)
    chart = _roc(
        ClassEvaluation(
            predictions, Tally(evaluated=2), scores, known, counts, ClassFigures.of(counts),
            class_aucs(scores, known), sure, 0.0, [],
        )
    )  # fmt: skip
    assert (chart.series, chart.note) == ({}, note)
