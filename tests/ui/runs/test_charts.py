"""What is drawn of curves: thin enough without losing a peak, and gaps for what no chart can show."""

from __future__ import annotations

import math
import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.runs.charts import MOST_POINTS, Line, curves, heading_of, points, smoothed, stack, thinned
from ui.runs.feed import Series
from ui.shell.theme import SERIES, Mode


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
    began = time.process_time()
    steps, kept = thinned(range(100_000), values)
    assert time.process_time() - began < 1
    assert len(kept) <= MOST_POINTS
    assert dict(zip(steps, kept, strict=True)) | {56_789: 7.0, 20_000: -7.0} == dict(zip(steps, kept, strict=True))


def test_values_that_are_not_finite_do_not_hide_those_that_are() -> None:
    values = [math.nan, math.inf, 3.0, -math.inf] * 100
    _, kept = thinned(range(400), values, 40)
    assert 3.0 in kept


def test_nothing_is_thinned_to_nothing() -> None:
    assert thinned([], []) == ([], [])


def test_points_that_cannot_be_drawn_are_gaps() -> None:
    line = Line("loss", Series([1, 2, 3, 4], [1.0, math.nan, -1.0, math.inf]))
    assert [p["value"] for p in points([line])] == [1.0, None, -1.0, None]
    assert [p["value"] for p in points([line], positive=True)] == [1.0, None, None, None]
    assert points([line])[0] == {"step": 1, "value": 1.0, "line": "loss"}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80), st.floats(0.05, 0.95))
def test_smoothing_stays_within_what_was_measured(values: list[float], weight: float) -> None:
    even = smoothed(values, weight)
    assert len(even) == len(values)
    assert math.isclose(even[0], values[0], rel_tol=1e-9, abs_tol=1e-6)
    assert min(values) - 1e-6 <= min(even) <= max(even) <= max(values) + 1e-6


def test_smoothing_steps_over_what_is_not_finite_and_keeps_the_values() -> None:
    assert math.isnan(smoothed([1.0, math.nan, 3.0], 0.5)[1])
    line = Line("loss", Series([1, 2], [1.0, 3.0]))
    drawn = points([line], smoothing=0.5)
    assert [p["raw"] for p in drawn] == [1.0, 3.0]
    assert drawn[1]["value"] not in (1.0, 3.0)


def test_a_chart_is_zoomed_with_shift_and_comes_back_with_a_double_click() -> None:
    """The wheel alone scrolls the page."""
    specification = curves([Line("loss", Series([1, 2], [0.5, 0.4]))], "epoch", "", "light")
    found = [parameter for layer in specification["layer"] for parameter in layer.get("params", ())]
    (zoom,) = (parameter for parameter in [*found, *specification.get("params", ())] if parameter["name"] == "zoom")
    assert zoom["bind"] == "scales"
    assert (zoom["select"]["zoom"], zoom["select"]["clear"]) == ("wheel![event.shiftKey]", "dblclick")


@pytest.mark.slow
def test_epochs_are_whole_also_when_there_is_only_one() -> None:
    specification = curves([Line("loss", Series([1], [0.5]))], "epoch", "", "light")
    x = specification["layer"][0]["encoding"]["x"]
    assert x["scale"]["domain"] == [0, 1]
    assert x["axis"]["tickMinStep"] == 1
    assert "% 1 === 0" in x["axis"]["labelExpr"]


@pytest.mark.slow
def test_the_axis_of_values_has_the_given_limits() -> None:
    def scale(bounds: tuple[float, float | None] | None) -> dict[str, object]:
        found = curves([Line("a", Series([1], [0.5]))], "minutes", "", "light", bounds=bounds)
        return dict(found["layer"][0]["encoding"]["y"]["scale"])

    assert scale((0, None))["domainMin"] == 0
    # The highest point is drawn whole, and a line at 100 %.
    assert scale((0, 100)) == {"domain": [0, 100], "nice": False, "padding": 8}
    assert scale(None) == {"zero": False, "nice": False, "padding": 8}


def test_zeros_alone_lie_at_the_beginning_of_their_axis() -> None:
    def scale(*values: float) -> dict[str, object]:
        series = Series(list(range(len(values))), list(values))
        found = curves([Line("a", series)], "minutes", "", "light", bounds=(0, None))
        return dict(found["layer"][0]["encoding"]["y"]["scale"])

    assert scale(0, 0, math.nan)["domain"] == scale()["domain"] == [0, 1]
    assert scale(0, 0.01) == {"domainMin": 0, "nice": False, "padding": 8}, "the highest point is whole"


@pytest.mark.parametrize(("step", "end"), [(0.0, 1.0), (3.5, 3.5)])
def test_the_axis_of_one_moment_has_a_length(step: float, end: float) -> None:
    found = curves([Line("a", Series([step], [1.0])), Line("b", Series([], []))], "seconds", "", "light")
    assert found["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, end]


def test_marked_points_at_the_ends_of_an_axis_of_time_are_drawn_whole() -> None:
    def padding(count: int, axis: str) -> object:
        found = curves([Line("a", Series(list(range(count)), [1.0] * count))], axis, "", "light")
        return found["layer"][0]["encoding"]["x"]["scale"]["padding"]

    assert (padding(60, "minutes"), padding(61, "minutes"), padding(61, "step")) == (8, 0, 12)


def test_figures_of_an_axis_stand_beside_their_lines() -> None:
    series = Series([1, 2], [0.0, 100.0])
    for found in (
        curves([Line("a", series)], "epoch", "", "light")["layer"][0],
        stack([Line("a", series)], "epoch", "light"),
    ):
        assert found["encoding"]["y"]["axis"]["labelFlush"] is False


def test_a_time_at_the_end_of_an_axis_is_not_cut_to_another() -> None:
    found = curves([Line("a", Series([0, 111], [1.0, 2.0]))], "seconds", "", "light")
    assert found["layer"][0]["encoding"]["x"]["axis"]["labelBound"] is True


def test_five_digits_before_the_point_are_written_out() -> None:
    series = Series([1, 2], [2000.0, 12_000.0])
    for found in (
        curves([Line("a", series)], "minutes", "", "light")["layer"][0],
        stack([Line("a", series)], "epoch", "light"),
    ):
        assert found["encoding"]["y"]["axis"]["format"] == ".6~g"  # ".4~g" of D3 has 1.2e+4


def test_bars_begin_with_the_first_epoch_that_a_run_has() -> None:
    def begins_at_zero(*epochs: float) -> bool:
        found = stack([Line("data", Series(list(epochs), [1.0] * len(epochs)))], "epoch", "light")
        return "domain" in found["encoding"]["x"]["scale"]

    assert begins_at_zero(5, 6, 7, 8) is False, "it goes on with another run's model"
    assert begins_at_zero(1) is True


def test_each_line_is_thinned_by_itself() -> None:
    long = Series(list(range(10_000)), [float(i % 7) for i in range(10_000)])
    drawn = points([Line("a", long), Line("b", long), Line("c", Series([1], [1.0]))])
    counts = {name: sum(p["line"] == name for p in drawn) for name in "abc"}
    assert counts["a"] == counts["b"] <= MOST_POINTS
    assert counts["c"] == 1


@pytest.mark.slow
def test_a_set_of_volumes_has_one_colour_in_all_charts() -> None:
    def colours(*names: str) -> dict[str, str]:
        lines = [Line(name, Series([1, 2], [0.5, 0.6])) for name in names]
        scale = curves(lines, "epoch", "", "light")["layer"][0]["encoding"]["color"]["scale"]
        return dict(zip(scale["domain"], scale["range"], strict=True))

    both, alone = colours("training", "validation"), colours("validation")
    assert both["validation"] == alone["validation"] != both["training"]
    assert list(colours("run a", "run b").values()) == list(both.values())


@pytest.mark.slow
def test_a_legend_has_as_many_entries_in_a_row_as_there_is_room_for() -> None:
    def columns(*names: str) -> int:
        lines = [Line(name, Series([1, 2], [0.5, 0.6])) for name in names]
        return int(curves(lines, "epoch", "", "light")["layer"][0]["encoding"]["color"]["legend"]["columns"])

    assert columns("6ea4bf", "6e90ae", "b1fc3f", "a04a93") >= 4
    assert columns("6ea4bf, Train ResNet-18", "6e90ae, Train ResNet-18") == 3


def test_a_curve_without_a_legend_shows_its_colour_beside_the_title() -> None:
    alone = [Line("validation", Series([1, 2], [0.5, 0.6]))]
    for mode in get_args(Mode):
        assert f"--vf-key: {SERIES[mode][1]}" in heading_of("AUC", "validation", alone, mode)
    assert "--vf-key" not in heading_of("CPU", "%", alone, "light"), "a unit has no line"
    assert "--vf-key" not in heading_of("Loss", "", alone, "light")
