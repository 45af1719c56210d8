"""Two runs beside each other: equal only when every point is, and the difference is given with its size."""

from __future__ import annotations

import math

import pytest
from building import pipeline
from hypothesis import given
from hypothesis import strategies as st

from engine.reproduction.comparison import compare, is_measured
from engine.reproduction.recorded import NodeRecord, Recorded

_VALUES = st.floats(allow_nan=True, allow_infinity=True)
_CURVES = st.dictionaries(
    st.sampled_from(["loss", "val_loss", "accuracy"]), st.dictionaries(st.integers(0, 9), _VALUES)
)


def _run(figures: dict[str, str] | None = None, **curves: dict[int, float]) -> Recorded:
    return Recorded("r", "done", "local", pipeline(), None, {}, {"train": NodeRecord(curves, figures or {})})


@pytest.mark.slow
@given(_CURVES)
def test_a_run_equals_itself(curves: dict[str, dict[int, float]]) -> None:
    compared = compare(_run(**curves), _run(**curves))
    assert all(c.equal for c in compared.curves)
    assert compared.equal == bool(curves)


@given(st.dictionaries(st.integers(0, 9), st.floats(-1e6, 1e6), min_size=1), st.data())
def test_one_other_point_is_found_with_its_size(curve: dict[int, float], data: st.DataObject) -> None:
    step = data.draw(st.sampled_from(sorted(curve)))
    other = curve | {step: math.nextafter(curve[step], math.inf)}
    (found,) = compare(_run(loss=curve), _run(loss=other)).curves
    assert (found.equal, found.differing, found.first, found.points) == (False, 1, step, len(curve))
    assert found.largest == other[step] - curve[step] > 0


def test_missing_and_extra_points_and_curves_are_differences() -> None:
    found = compare(_run(loss={1: 1.0, 2: 0.5}, old={1: 0.0}), _run(loss={2: 0.5, 3: 0.1}, new={1: 0.0}))
    by_name = {c.name: c for c in found.curves}
    assert (by_name["loss"].missing, by_name["loss"].extra, by_name["loss"].points) == ((1,), (3,), 1)
    assert (by_name["old"].missing, by_name["new"].extra) == ((1,), (1,))
    assert not found.equal


def test_what_a_continued_training_did_not_report_again_is_no_difference() -> None:
    found = compare(_run(loss={3: 0.3, 4: 0.2}), _run(loss={1: 1.0, 2: 0.5, 3: 0.3, 4: 0.2}))
    (curve,) = found.curves
    assert (found.equal, curve.points, curve.earlier, curve.extra) == (True, 2, 2, ())


def test_not_a_number_and_infinity() -> None:
    both = compare(_run(loss={1: math.nan, 2: math.inf}), _run(loss={1: math.nan, 2: 1.7976931348623157e308}))
    assert both.equal
    (one,) = compare(_run(loss={1: math.nan}), _run(loss={1: 1.0})).curves
    assert (one.equal, one.largest) == (False, math.inf)


def test_figures_are_compared_and_measurements_are_not() -> None:
    before, now = {"weights": "aa", "seconds": "1", "gone": "x"}, {"weights": "bb", "seconds": "2"}
    found = compare(_run(before, volumes_per_s={1: 10.0}), _run(now, volumes_per_s={1: 11.0}))
    assert [(f.name, f.before, f.now) for f in found.figures if not f.equal] == [
        ("gone", "x", None),
        ("weights", "aa", "bb"),
    ]
    assert found.measured == ("train.seconds", "train.volumes_per_s")
    assert found.curves == ()


def test_nothing_to_compare_is_not_equal() -> None:
    assert not compare(_run(), _run()).equal
    assert not compare(_run(epoch_seconds={1: 2.0}), _run(epoch_seconds={1: 2.0})).equal


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("loss", False),
        ("step_loss", False),
        ("val_accuracy", False),
        ("learning_rate", False),
        ("auc", False),
        ("f1_class", False),
        ("weights", False),
        ("volumes_per_s", True),
        ("waiting_s", True),
        ("time/waiting", True),
        ("epoch_seconds", True),
        ("epoch_seconds_data", True),
        ("samples_per_second", True),
        ("latency_p95", True),
        ("timeless", False),
        ("peak_memory_mb", True),
    ],
)
def test_names_say_what_is_measured(name: str, measured: bool) -> None:
    assert is_measured(name) is measured
