"""Which curves share a chart, and what is drawn of them."""

from __future__ import annotations

import math

import pytest

from ui.runs.metrics import Line, families, family_name, points
from ui.runs.series import MOST_POINTS, Series

NAMES = ("loss", "val_loss", "accuracy", "val_accuracy", "step_loss", "step_accuracy", "learning_rate")


def _metrics(*names: str, node: str = "train") -> dict[tuple[str, str], Series]:
    return {(node, name): Series([1, 2], [0.5, 0.25]) for name in names}


@pytest.mark.parametrize(
    ("metric", "family"),
    [
        ("loss", "loss"),
        ("val_loss", "loss"),
        ("validation_loss", "loss"),
        ("train_loss", "loss"),
        ("step_loss", "step_loss"),
        ("val_", "val_"),
        ("interval_x", "interval_x"),
    ],
)
def test_a_metric_and_its_validation_are_one_family(metric: str, family: str) -> None:
    assert family_name(metric) == family


def test_families_come_by_epochs_then_steps_with_losses_first() -> None:
    found = families(_metrics(*NAMES), {"train": "Train"})
    assert [(f.name, f.axis, [line.label for line in f.lines]) for f in found] == [
        ("loss", "epoch", ["loss", "val_loss"]),
        ("accuracy", "epoch", ["accuracy", "val_accuracy"]),
        ("step_loss", "step", ["step_loss"]),
        ("learning_rate", "step", ["learning_rate"]),
        ("step_accuracy", "step", ["step_accuracy"]),
    ]


def test_where_several_nodes_train_their_titles_tell_the_curves_apart() -> None:
    both = _metrics("loss", node="a") | _metrics("loss", node="b")
    (family,) = families(both, {"a": "First", "b": "Second"})
    assert [line.label for line in family.lines] == ["First: loss", "Second: loss"]


def test_only_losses_above_zero_may_be_logarithmic() -> None:
    found = {f.name: f.may_be_logarithmic for f in families(_metrics(*NAMES), {})}
    assert found == {
        "loss": True,
        "accuracy": False,
        "step_loss": True,
        "learning_rate": False,
        "step_accuracy": False,
    }
    (negative,) = families({("t", "loss"): Series([1], [-1.0])}, {})
    assert not negative.may_be_logarithmic


def test_points_that_cannot_be_drawn_are_gaps() -> None:
    line = Line("loss", Series([1, 2, 3, 4], [1.0, math.nan, -1.0, math.inf]))
    assert [p["value"] for p in points([line])] == [1.0, None, -1.0, None]
    assert [p["value"] for p in points([line], positive=True)] == [1.0, None, None, None]
    assert points([line])[0] == {"step": 1, "value": 1.0, "line": "loss"}


def test_each_line_is_thinned_by_itself() -> None:
    long = Series(list(range(10_000)), [float(i % 7) for i in range(10_000)])
    drawn = points([Line("a", long), Line("b", long), Line("c", Series([1], [1.0]))])
    counts = {name: sum(p["line"] == name for p in drawn) for name in "abc"}
    assert counts["a"] == counts["b"] <= MOST_POINTS
    assert counts["c"] == 1
