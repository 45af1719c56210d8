"""Curves: steps in order, and thin enough to be drawn without losing a peak."""

from __future__ import annotations

import math
import time

from hypothesis import given
from hypothesis import strategies as st

from ui.runs.series import MOST_POINTS, Series, thinned


def test_a_resumed_run_tells_steps_again_and_the_last_word_counts() -> None:
    series = Series()
    for step, value in [(1, 1.0), (2, 2.0), (3, 3.0), (2, 20.0), (3, 30.0), (4, 40.0)]:
        series.add(step, value)
    assert series.steps == [1, 2, 3, 4]
    assert series.values == [1.0, 20.0, 30.0, 40.0]
    assert series.last == 40.0


def test_a_step_that_was_left_out_finds_its_place() -> None:
    series = Series([1, 5], [1.0, 5.0])
    series.add(3, 3.0)
    assert (series.steps, series.values) == ([1, 3, 5], [1.0, 3.0, 5.0])


def test_an_empty_series_has_no_last_value() -> None:
    assert Series().last is None
    assert thinned([], []) == ([], [])


@given(st.lists(st.floats(-1e9, 1e9), max_size=300), st.integers(6, 60))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int) -> None:
    steps = [float(i) for i in range(len(values))]
    kept_steps, kept = thinned(steps, values, most)
    assert len(kept) <= max(most, 0)
    assert kept_steps == sorted(set(kept_steps))
    assert [values[int(s)] for s in kept_steps] == kept
    if values:
        assert (kept_steps[0], kept_steps[-1]) == (steps[0], steps[-1])
        assert (min(kept), max(kept)) == (min(values), max(values))


def test_a_single_peak_among_100_000_points_stays_and_it_is_quick() -> None:
    values = [0.0] * 100_000
    values[56_789] = 7.0
    values[20_000] = -7.0
    began = time.perf_counter()
    steps, kept = thinned(range(100_000), values)
    assert time.perf_counter() - began < 1
    assert len(kept) <= MOST_POINTS
    assert dict(zip(steps, kept, strict=True)) | {56_789: 7.0, 20_000: -7.0} == dict(zip(steps, kept, strict=True))


def test_values_that_are_not_finite_do_not_hide_those_that_are() -> None:
    values = [math.nan, math.inf, 3.0, -math.inf] * 100
    _, kept = thinned(range(400), values, 40)
    assert 3.0 in kept
