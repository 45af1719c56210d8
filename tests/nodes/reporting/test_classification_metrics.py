"""Figures of classifiers, beside scikit-learn's."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import examples
from numpy.typing import NDArray

from nodes.reporting.classification_metrics import (
    Calibration,
    ClassFigures,
    auc,
    best_threshold,
    class_aucs,
    confusion_matrix,
    f1_curve,
    figures_at,
    log_loss,
    mean_known,
    ranking,
    roc_curve,
)


@pytest.mark.slow
def test_it_needs_numpy_alone() -> None:
    code = (
        "import sys, nodes.reporting.classification_metrics\n"
        "print({'tensorflow', 'scipy', 'pyarrow', 'matplotlib', 'sklearn'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), st.booleans()), min_size=1, max_size=40))
def test_the_auc_counts_pairs_with_ties_as_half(rows: list[tuple[float, bool]]) -> None:
    scores, positive = np.array([s for s, _ in rows], np.float32), np.array([p for _, p in rows])
    pairs = [(a, b) for a in scores[positive] for b in scores[~positive]]
    found = auc(scores, positive)
    if not pairs:
        assert found is None
    else:
        assert found == sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
        assert auc(-scores, positive) == pytest.approx(1 - found)
        false, true = roc_curve(scores, positive)
        assert np.trapezoid(true, false) == pytest.approx(found)


def some_predictions(rows: int, classes: int, digits: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(rows * classes)
    scores = rng.dirichlet(np.ones(classes), rows).round(digits).astype(np.float32)
    return scores, rng.integers(0, classes, rows)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "classes", "digits"), [(500, 2, 2), (300, 3, 6), (200, 5, 1), (12, 6, 3)])
def test_as_scikit_learn_says(rows: int, classes: int, digits: int) -> None:
    from sklearn import metrics

    scores, labels = some_predictions(rows, classes, digits)
    said = scores.argmax(axis=1)
    confusion = confusion_matrix(labels, said, classes)
    assert confusion.tolist() == metrics.confusion_matrix(labels, said, labels=range(classes)).tolist()
    found = ClassFigures.of(confusion)
    theirs = metrics.precision_recall_fscore_support(labels, said, labels=range(classes), zero_division=0)
    for ours, wanted in zip((found.precision, found.recall, found.f1, found.support), theirs, strict=True):
        assert ours.tolist() == pytest.approx(wanted.tolist())
    macro = metrics.f1_score(labels, said, average="macro", zero_division=0)
    assert found.macro()["f1"] == pytest.approx(macro)
    wanted_aucs = [metrics.roc_auc_score(labels == k, scores[:, k]) for k in np.unique(labels)]
    if classes == 2:
        wanted_aucs = wanted_aucs[-1:]
    assert mean_known(class_aucs(scores, labels)) == pytest.approx(np.mean(wanted_aucs))
    false, true, _ = metrics.roc_curve(labels == 1, scores[:, 1], drop_intermediate=False)
    ours_false, ours_true = roc_curve(scores[:, 1], labels == 1)
    assert ours_false.tolist() == pytest.approx(false.tolist())
    assert ours_true.tolist() == pytest.approx(true.tolist())


def test_of_two_classes_the_area_is_that_of_the_second() -> None:
    """A rare class has scores that are all tiny, and 1 minus those is 1 for each."""
    one = np.array([1e-12, 2e-12, 1e-10, 3e-10], np.float32)
    scores = np.stack([1 - one, one], axis=1)
    assert (scores[:, 0] == 1).all()
    assert class_aucs(scores, np.array([0, 0, 1, 1])) == [1.0, 1.0]


def test_a_class_that_is_likelier_than_float32_can_say_has_an_area() -> None:
    """The first class is the rare one: for all volumes the second has the probability 1."""
    zero = np.array([3e-10, 1e-12, 1e-10, 0], np.float32)
    scores, labels = np.stack([zero, 1 - zero], axis=1), np.array([0, 1, 0, 1])
    assert (scores[:, 1] == 1).all()
    assert class_aucs(scores, labels) == [1.0, 1.0]
    false, true = roc_curve(ranking(scores, 1), labels == 1)
    assert (false.tolist(), true.tolist()) == ([0, 0, 0, 0.5, 1], [0, 0.5, 1, 1, 1])


@settings(max_examples=examples(20))
@given(st.integers(1, 3000), st.integers(2, 50))
def test_a_thinned_curve_keeps_its_ends(rows: int, points: int) -> None:
    scores, labels = some_predictions(rows, 2, 6)
    false, true = roc_curve(scores[:, 1], labels == 1, points)
    assert len(false) <= points + 1
    assert (false[0], true[0]) == (0, 0)
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()
    assert {float(false[-1]), float(true[-1])} <= {0.0, 1.0}


def test_calibration_and_loss_by_hand() -> None:
    confidence, right = np.array([0.55, 0.58, 0.95, 1.0], np.float32), np.array([True, False, True, True])
    found = Calibration.of(confidence, right, 10)
    assert found.count.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    assert found.accuracy[[5, 9]].tolist() == [0.5, 1.0]
    assert found.error() == pytest.approx((2 * 0.065 + 2 * 0.025) / 4)
    scores = np.array([[0.25, 0.75], [1, 0]], np.float32)
    assert log_loss(scores, np.array([1, 1])) == pytest.approx((-np.log(0.75) - np.log(1e-7)) / 2)
    assert mean_known([None, None]) is None


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 1.0]), st.booleans()), min_size=1, max_size=30),
    st.lists(st.floats(0, 1), max_size=5),
)
def test_the_best_threshold_beats_every_other(rows: list[tuple[float, bool]], others: list[float]) -> None:
    scores, positive = np.array([s for s, _ in rows], np.float32), np.array([p for _, p in rows])

    def f1(threshold: float) -> float:
        said = scores >= threshold
        return 2 * int((said & positive).sum()) / max(1, int(said.sum() + positive.sum()))

    best = best_threshold(scores, positive)
    if best is None:
        assert positive.all() or not positive.any()
        return
    thresholds, curve = f1_curve(scores, positive)
    assert [f1(t) for t in thresholds] == pytest.approx(curve.tolist())
    assert f1(best) == pytest.approx(curve.max())
    assert all(f1(best) >= f1(other) - 1e-9 for other in [*others, *scores.tolist(), 0.0, 1.0])


def test_figures_at_thresholds_are_those_of_each_class_alone() -> None:
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], np.float32)
    found = figures_at(scores, np.array([0, 1, 1, 0]), [0.5, None])
    assert found.precision.tolist() == [0.5, 0.0]
    assert found.recall.tolist() == [0.5, 0.0]
    assert found.support.tolist() == [2, 2]
