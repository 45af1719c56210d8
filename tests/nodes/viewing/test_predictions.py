"""What the editor shows of predictions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.declare.datasets import Predictions
from nodes.viewing.predictions import PredictionTable, Rows


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
