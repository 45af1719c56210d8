"""Charts: Vega-Lite specifications made with Altair, and the points of curves.

A chart's data goes beside its specification, never inside: so new points are put into the chart on the page,
and nothing flickers while a run is live.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import streamlit as st

from ui.runs.feed import Series
from ui.shell.blocks import Html, heading, tag, text
from ui.shell.theme import SERIES, STATE_COLOURS, SURFACE, Mode, current_mode

MOST_POINTS = 2_000
"""Of one line on a chart. A screen has no more columns to show them in."""
MIN_CHART_WIDTH = 420
_CURVE_HEIGHT = 270
_ROW_HEIGHT = 30
_AROUND_ROWS = 110
"""Pixels of legend, axis and title: Streamlit takes a chart's height as that of all of it."""
_LONGEST_LABEL_PX = 240
_LEGEND_PX, _SIGN_PX, _LETTER_PX = 340, 24, 8
"""The width of a legend in a chart of `MIN_CHART_WIDTH`; of an entry's sign with what is around it, and of a letter of
its name."""
_SETS = ("training", "validation", "test")
"""Lines that have one colour in all charts, whichever of them a chart has."""
_POINT_PX = 8
"""Room at the ends of an axis: else half of a line or point that lies there is cut off."""
_MOST_MARKED = 60
"""Points of a line up to which each is marked."""
_FORMAT = ".6~g"
"""Of an axis of values: with fewer digits it would have 1.2e+4 above 8000."""
_COUNTED = ("epoch", "step")
"""What steps may count: whole numbers from 1 on. Others are times."""


@dataclass(frozen=True)
class Line:
    """One curve; `label` is its entry in the legend. `dashed` is one that others are compared with.

    `place` is that of its colour, which it then has in all charts, whatever others they have; None: its place there.
    """

    label: str
    series: Series
    dashed: bool = False
    place: int | None = None


Bounds = tuple[float, float | None]
"""Where the axis of values begins and ends; None: with the data."""


def draw_curves(
    title: str,
    lines: Sequence[Line],
    axis: str,
    *,
    key: str,
    unit: str = "",
    logarithmic: bool = False,
    smoothing: float = 0.0,
    bounds: Bounds | None = None,
) -> None:
    """Draw one chart of curves with its title; `axis` says what the steps count. `smoothing` is as in `smoothed`."""
    st.html(heading(heading_of(title, unit, lines, current_mode())))
    import pandas as pd

    rows = points(lines, positive=logarithmic, smoothing=smoothing)
    data = pd.DataFrame(rows, columns=["step", "value", "line", "raw"])
    specification = curves(lines, axis, "", current_mode(), logarithmic=logarithmic, smoothing=smoothing, bounds=bounds)
    st.vega_lite_chart(data, specification, key=key, alt=f"{title} by {axis}")


def heading_of(title: str, unit: str, lines: Sequence[Line], mode: Mode) -> Html:
    """A chart's title and its unit. Where that is the name of its only line, for which there is no legend, it has the
    line's colour beside it, as in one."""
    if not unit:
        return text(title)
    dot = None
    if [line.label for line in lines] == [unit]:
        dot = tag("span", "", class_="vf-dot", style=f"--vf-key: {line_colours(lines, mode)[0]}")
    return Html(text(title) + tag("span", " ", dot, unit, class_="vf-muted"))


def points(
    lines: Iterable[Line], *, positive: bool = False, smoothing: float = 0.0, most: int = MOST_POINTS
) -> list[dict[str, object]]:
    """The points to draw as records of step, value, line and, with `smoothing`, the raw value.

    A value that is not finite, or with `positive` (for a logarithmic scale) not above zero, is a gap.
    """
    out: list[dict[str, object]] = []

    def drawn(value: float) -> float | None:
        return value if math.isfinite(value) and (value > 0 or not positive) else None

    for line in lines:
        steps, values = thinned(line.series.steps, line.series.values, most)
        even = smoothed(values, smoothing) if smoothing else values
        for step, value, raw in zip(steps, even, values, strict=True):
            out.append({"step": step, "value": drawn(value), "line": line.label})
            if smoothing:
                out[-1]["raw"] = drawn(raw)
    return out


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """Exponential moving average; `weight`, from 0 to below 1, is that of what came before.

    The first values count no more than others do: the sum is divided by the weights so far, as Adam and TensorBoard
    do. What is not finite stays as it is and moves nothing.
    """
    out: list[float] = []
    mean = total = 0.0
    for value in values:
        if not math.isfinite(value):
            out.append(value)
            continue
        mean = weight * mean + (1 - weight) * value
        total = weight * total + (1 - weight)
        out.append(mean / total)
    return out


def thinned(
    steps: Sequence[float], values: Sequence[float], most: int = MOST_POINTS
) -> tuple[list[float], list[float]]:
    """At most `most` points of the curve, with the lowest and the highest value of every stretch among them.

    Peaks stay as high as they were; a mean or every n-th point would hide them. The first and the
    last point stay. Values that are not finite are left out where a stretch has others.
    """
    count = len(steps)
    if count <= most:
        return list(steps), list(values)
    stretches = (most - 2) // 2
    kept = {0, count - 1}
    for stretch in range(stretches):
        low, high = stretch * count // stretches, (stretch + 1) * count // stretches
        finite = [i for i in range(low, high) if math.isfinite(values[i])]
        if not finite:
            kept.add(low)
            continue
        kept.add(min(finite, key=values.__getitem__))
        kept.add(max(finite, key=values.__getitem__))
    order = sorted(kept)
    return [steps[i] for i in order], [values[i] for i in order]


def curves(
    lines: Sequence[Line],
    axis: str,
    unit: str,
    mode: Mode,
    *,
    logarithmic: bool = False,
    smoothing: float = 0.0,
    bounds: Bounds | None = None,
    height: int = _CURVE_HEIGHT,
) -> dict[str, Any]:
    """The specification of lines over steps. The data has the columns `step`, `value` and `line`; with `smoothing`
    also `raw`, which is drawn faintly. Shift and the wheel zoom, dragging moves, a double click goes back."""
    names = [line.label for line in lines]
    few = max((len(line.series) for line in lines), default=0) <= _MOST_MARKED
    if logarithmic:
        scale = alt.Scale(type="log", nice=False)
    elif bounds is None:
        scale = alt.Scale(zero=False, nice=False, padding=_POINT_PX)
    else:
        # `domainMin` alone lets the data decide where the axis ends.
        low, high = bounds
        if high is None and not any(value > low for line in lines for value in line.series.values):
            high = low + 1  # nothing but zeros would lie in the middle of an axis of no length
        if high is None:
            # Rounded, an axis with room at its ends would begin below `low`.
            scale = alt.Scale(domainMin=low, nice=False, padding=_POINT_PX)
        else:
            scale = alt.Scale(domain=[low, high], nice=False, padding=_POINT_PX)
    padding = 12 if axis in _COUNTED else _POINT_PX if few else 0
    step = alt.X("step:Q", title=axis, scale=_step_scale(lines, padding), axis=_step_axis(axis))
    value = alt.Y("value:Q", title=unit or None, scale=scale, axis=_value_axis())
    colour = alt.Color(
        "line:N",
        title=None,
        scale=alt.Scale(domain=names, range=line_colours(lines, mode)),
        legend=_legend(columns=_columns(names)) if len(names) > 1 else None,
    )
    tooltip = [
        alt.Tooltip("line:N", title="line"),
        alt.Tooltip("step:Q", title=axis, format=".6~g"),
        alt.Tooltip("value:Q", title="smoothed" if smoothing else "value", format=".6~g"),
        *([alt.Tooltip("raw:Q", title="value", format=".6~g")] if smoothing else []),
    ]
    base = alt.Chart().encode(x=step, y=value, color=colour)
    nearest = alt.selection_point(
        name="nearest", on="pointerover", clear="pointerout", nearest=True, fields=["step", "line"], empty=False
    )
    # With Shift: without, the wheel scrolls the page as everywhere else on it.
    zoom = alt.selection_interval(name="zoom", bind="scales", zoom="wheel![event.shiftKey]", clear="dblclick")
    drawn = base.mark_line(strokeWidth=1.8, interpolate="linear", point={"size": 36, "filled": True} if few else False)
    if any(line.dashed for line in lines):
        dashes = alt.Scale(domain=names, range=[[5, 3] if line.dashed else [1, 0] for line in lines])
        drawn = drawn.encode(strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=None))
    touched = (
        base.mark_point(size=70, filled=True)
        .encode(opacity=alt.condition(nearest, alt.value(1), alt.value(0)), tooltip=tooltip)
        .add_params(nearest)
    )
    behind = [base.mark_line(strokeWidth=1, opacity=0.3).encode(y=alt.Y("raw:Q"))] if smoothing else []
    chart = alt.layer(*behind, drawn.add_params(zoom), touched).properties(height=height)
    return specification(chart, mode)


def _columns(names: Sequence[str]) -> int:
    """How many entries of a legend have room beside each other in the narrowest chart, each as wide as the longest."""
    return max(3, _LEGEND_PX // (_SIGN_PX + _LETTER_PX * max(map(len, names))))


def _step_scale(lines: Sequence[Line], padding: int) -> alt.Scale:
    steps = {step for line in lines for step in line.series.steps[:2]}
    if len(steps) < 2:
        # The axis of a step alone would have no length, with a tick at "1.000000".
        return alt.Scale(domain=[0, max({1.0, *steps})], nice=False, padding=padding)
    return alt.Scale(zero=False, nice=False, padding=padding)


def line_colours(lines: Sequence[Line], mode: Mode) -> list[str]:
    """A colour for each line of a chart: its own; where all are of a set of volumes, that set's."""
    of_sets = {line.label for line in lines} <= set(_SETS)
    places = [
        line.place if line.place is not None else _SETS.index(line.label) if of_sets else at
        for at, line in enumerate(lines)
    ]
    return [SERIES[mode][place % len(SERIES[mode])] for place in places]


def _step_axis(axis: str) -> alt.Axis:
    if axis not in _COUNTED:
        # A label that would stand out at the end is left out: cut off, 110 would read 11.
        return alt.Axis(grid=False, tickCount=8, labelBound=True)
    # There is no epoch and a half, and none before the first.
    whole = "datum.value >= 1 && datum.value % 1 === 0 ? format(datum.value, ',d') : ''"
    return alt.Axis(grid=False, tickCount=8, tickMinStep=1, labelExpr=whole)


def _value_axis() -> alt.Axis:
    # Flush, as Streamlit would have them, the first and the last figure stand beside their lines.
    return alt.Axis(format=_FORMAT, tickCount=5, labelFlush=False)


def draw_stack(title: str, lines: Sequence[Line], axis: str, *, key: str) -> None:
    """Draw one chart of bars by step, the lines' values on top of one another."""
    st.html(heading(title))
    import pandas as pd

    data = pd.DataFrame(points(lines), columns=["step", "value", "line"])
    st.vega_lite_chart(data, stack(lines, axis, current_mode()), key=key, alt=f"{title} by {axis}")


def stack(lines: Sequence[Line], axis: str, mode: Mode, *, height: int = _CURVE_HEIGHT) -> dict[str, Any]:
    """The specification of stacked bars over steps. The data has the columns `step`, `value` and `line`."""
    names = [line.label for line in lines]
    many = max((len(line.series) for line in lines), default=0) > 40
    scale = alt.Scale(domain=names, range=[SERIES[mode][i % len(SERIES[mode])] for i in range(len(names))])
    x = alt.X("step:Q", title=axis, scale=_step_scale(lines, 14), axis=_step_axis(axis))
    chart = (
        alt.Chart(height=height)
        .mark_bar(size=3 if many else 12)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=None, axis=_value_axis()),
            color=alt.Color("line:N", title=None, scale=scale, legend=_legend(columns=4)),
            tooltip=[
                alt.Tooltip("line:N", title="part"),
                alt.Tooltip("step:Q", title=axis),
                alt.Tooltip("value:Q", title="seconds", format=_FORMAT),
            ],
        )
    )
    return specification(chart, mode)


def timeline(rows: Sequence[str], states: Sequence[str], unit: str, mode: Mode) -> dict[str, Any]:
    """The specification of bars over time.

    The data has the columns `task`, `state`, `start`, `end`, `took` and `attempt`.
    """
    scale = alt.Scale(domain=list(states), range=[STATE_COLOURS[mode][state] for state in states])
    rows_axis = alt.Axis(
        title=None, labelLimit=_LONGEST_LABEL_PX, grid=False, ticks=False, domain=False, labelPadding=8
    )
    base = alt.Chart().encode(
        # The title is for those who hear a bar: the axis has none.
        y=alt.Y("task:N", title="node", sort=None, scale=alt.Scale(domain=list(rows)), axis=rows_axis),
        x=alt.X("start:Q", title=f"{unit} since the run began", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=8)),
        color=alt.Color("state:N", title=None, scale=scale, legend=_legend()),
        tooltip=[
            alt.Tooltip("task:N", title="node"),
            alt.Tooltip("state:N", title="state"),
            alt.Tooltip("took:N", title="took"),
            alt.Tooltip("attempt:Q", title="attempt"),
        ],
    )
    timed = base.transform_filter("datum.state != 'cached'")
    bars = timed.mark_bar(cornerRadius=3, height=16, minBandSize=2).encode(x2="end:Q")
    cached = base.transform_filter("datum.state == 'cached'").mark_point(
        shape="diamond", size=90, filled=True, opacity=1
    )
    durations = (
        base.mark_text(align="left", dx=6, fontSize=11, color=SURFACE[mode]["muted"])
        .encode(x=alt.X("end:Q"), text="took:N", color=alt.value(SURFACE[mode]["muted"]))
        .transform_filter("datum.state != 'cached' && datum.state != 'waiting'")
    )
    chart = alt.layer(bars, cached, durations).properties(height=_AROUND_ROWS + _ROW_HEIGHT * len(rows))
    return specification(chart, mode)


def _legend(**more: Any) -> alt.Legend:
    return alt.Legend(
        orient="top", direction="horizontal", labelLimit=_LONGEST_LABEL_PX, symbolSize=70, symbolStrokeWidth=0, **more
    )


def specification(chart: Any, mode: Mode) -> dict[str, Any]:
    """An Altair chart as a specification, in the colours of the page."""
    surface = SURFACE[mode]
    chart = chart.configure_view(stroke=None).configure_axis(
        gridColor=surface["line"],
        domainColor=surface["line"],
        tickColor=surface["line"],
        labelColor=surface["muted"],
        titleColor=surface["muted"],
        titleFontWeight="normal",
    )
    out: dict[str, Any] = chart.to_dict()
    return out
