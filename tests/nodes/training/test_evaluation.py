from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.training import evaluation
from nodes.training.evaluation import Scores, figures_of
from nodes.training.labels import Target
from nodes.training.learner import Sums

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), max_size=30)


def collected(classes: int, logits: Any, labels: Any, parts: int = 1) -> Scores:
    out = Scores(classes, len(labels))
    logits, labels = np.asarray(logits, np.float32), np.asarray(labels, np.float32)
    for some, theirs in zip(np.array_split(logits, parts), np.array_split(labels, parts), strict=True):
        out.add(some.reshape(-1, 1 if classes == 2 else classes), theirs)
    return out


def test_two_classes() -> None:
    # Answers 1, 1, 0, 0, 1 to labels 1, 0, 0, 1, 1.
    seen = collected(2, [3, 0.5, -1, -2, 4], [1, 0, 0, 1, 1])
    assert seen.confusion == ((1, 1), (1, 2))
    assert seen.figures == {"f1": pytest.approx((2 * 1 / (2 + 2) + 2 * 2 / (3 + 3)) / 2), "auc": pytest.approx(4 / 6)}


def test_a_class_that_nobody_has_or_says_does_not_count() -> None:
    # Class 2 neither occurs nor is predicted.
    seen = collected(3, [[2, 1, 0], [0, 1, -1], [3, 1, 0]], [0, 1, 1])
    assert seen.confusion == ((1, 0, 0), (1, 1, 0), (0, 0, 0))
    assert seen.figures["f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert set(seen.figures) == {"f1", "auc"}


def test_one_class_alone_has_no_area() -> None:
    assert set(collected(2, [1, -1], [1, 1]).figures) == {"f1"}


def test_a_model_that_has_diverged_has_no_area() -> None:
    assert set(collected(3, [[np.inf, np.inf, 0], [1, 2, 3]], [0, 1]).figures) == {"f1"}
    assert set(collected(2, [np.nan, 1], [0, 1]).figures) == {"f1"}


@given(ROWS, st.integers(1, 4), st.randoms())
def test_the_order_and_the_batches_do_not_matter(rows: list[tuple[int, ...]], parts: int, random: Any) -> None:
    def seen(some: list[tuple[int, ...]], parts: int) -> Scores:
        logits = np.array([row[1:] for row in some], np.float32).reshape(-1, 3)
        return collected(3, logits, [row[0] for row in some], parts)

    if not rows:
        return
    one = seen(rows, 1)
    mixed = random.sample(rows, len(rows))
    other = seen(mixed, parts)
    assert one.confusion == other.confusion
    assert one.figures == pytest.approx(other.figures)
    assert np.sum(one.confusion) == len(rows)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limits there is no area and no matrix, and F1 all the same."""
    monkeypatch.setattr(evaluation, "AUC_BYTES", 4 * 3 * 2)
    monkeypatch.setattr(evaluation, "CONFUSION_CLASSES", 2)
    seen = collected(3, np.eye(3), [0, 1, 2])
    assert seen.figures == {"f1": 1.0}
    assert seen.confusion == ()
    assert Scores(10_000, 10**9)._scores.nbytes == 0


def test_figures() -> None:
    assert figures_of(Sums(2.0, 3.0, 4)) == {"loss": 0.5, "accuracy": 0.75}
    figures = figures_of(Sums(2.0, 2.4, 8), Target(100.0, 10.0))
    assert figures == pytest.approx({"loss": 0.25, "mae": 3.0, "rmse": 5.0})


def test_roc_curves_are_the_true_rates_at_each_hundredth_of_false_ones() -> None:
    # At falling scores: right, right, wrong, right, wrong.
    (curve,) = collected(2, [5, 4, 3, 2, 1], [1, 1, 0, 1, 0]).roc
    assert len(curve) == len(evaluation.ROC_FALSE_RATES)
    assert curve[0] == curve[49] == pytest.approx(2 / 3, abs=1e-4)
    assert curve[50] == curve[100] == 1
    three = collected(3, [[2, 1, 0], [0, 1, -1], [3, 1, 0]], [0, 1, 1]).roc
    assert [len(each) for each in three] == [101, 101, 0]  # nobody is of class 2
    assert collected(2, [float("nan"), 1], [0, 1]).roc == ()
