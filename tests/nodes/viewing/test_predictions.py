"""What the editor shows of predictions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from engine.declare.datasets import Predictions
from nodes.evaluation.figures import ClassEvaluation, Tally
from nodes.reporting.classification_metrics import Calibration, ClassFigures, class_aucs, confusion_matrix
from nodes.viewing.predictions import PredictionTable, Rows, Scores, _roc


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


def test_numbers_are_shown_over_labels_with_the_figures_of_the_report() -> None:
    scatter, errors, values = Scores(_rows([1, 2, 3, 4, float("nan")], [1, 2, 3, 5, 9])).charts({})
    assert scatter.model_dump(mode="json") == {
        "title": "Predicted and true, R2 0.8, MAE 0.25, RMSE 0.5",
        "kind": "scatter",
        "x": [1, 2, 3, 4],
        "series": {"volumes": [1, 2, 3, 5]},
        "x_title": "label",
        "y_title": "predicted",
        "note": "",
    }
    assert (errors.title, errors.x, errors.series) == ("Errors", (-0.5, 0.5, 1.5), {"volumes": (3, 1)})
    assert (errors.x_title, errors.y_title) == ("predicted minus label", "volumes")
    assert values.title == "Predicted values"


def test_of_many_numbers_a_scatter_has_some_and_the_figures_are_of_all() -> None:
    labels = np.arange(20_000, dtype=np.float64)
    predicted = labels.copy()
    predicted[12_345] += 1_000
    charts = [Scores(_rows(labels.tolist(), predicted.tolist())).charts({}) for _ in range(2)]
    assert charts[0] == charts[1]
    scatter, errors, _ = charts[0]
    assert len(scatter.x) == len(scatter.series["volumes"]) == 3_000
    assert scatter.note == "3,000 of 20,000 volumes, chosen at random; the figures are of all"
    assert "MAE 0.05," in scatter.title
    assert sum(count or 0 for count in errors.series["volumes"]) == 20_000


_ANY = st.floats(width=32)


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(2)), elements=_ANY))
def test_a_scatter_has_each_volume_of_which_both_numbers_are_known(
    pairs: NDArray[np.float64],
) -> None:
    known = pairs[np.isfinite(pairs).all(axis=1)]
    found = Scores(_rows(pairs[:, 0].tolist(), pairs[:, 1].tolist())).charts({})
    scatters = [chart for chart in found if chart.kind == "scatter"]
    assert len(scatters) == (1 if len(known) else 0)
    for chart in scatters:
        assert list(zip(chart.x, chart.series["volumes"], strict=True)) == [(x, y) for x, y in known]
        assert not {"inf", "nan"} & set(chart.title.replace(",", "").split())


def test_classes_have_no_scatter() -> None:
    charts = Scores(_rows([0, 1], [0, 1], ("cat", "dog"))).charts({})
    assert [chart.title for chart in charts] == ["Score of the predicted class"]
