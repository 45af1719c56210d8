"""The charts' Vega-Lite specifications, made with Altair.

A chart's data goes beside its specification, never inside: so new points are put into the chart
that stands already, and nothing flickers while a run is live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from ui.runs.metrics import Line
from ui.shell.theme import SERIES, STATE_COLOURS, SURFACE, Mode

CURVE_HEIGHT = 270
_ROW_HEIGHT = 30
_AROUND_ROWS = 110
"""Pixels of legend, axis and title: Streamlit takes a chart's height as that of all of it."""
_LONGEST_LABEL_PX = 240


def curves(
    lines: Sequence[Line], axis: str, unit: str, mode: Mode, *, logarithmic: bool = False, height: int = CURVE_HEIGHT
) -> dict[str, Any]:
    """Lines over steps. The data has the columns `step`, `value` and `line`."""
    names = [line.label for line in lines]
    few = max((len(line.series) for line in lines), default=0) <= 60
    scale = alt.Scale(type="log", nice=False) if logarithmic else alt.Scale(zero=False, nice=True)
    counted = axis in ("epoch", "step")
    step = alt.X(
        "step:Q",
        title=axis,
        scale=alt.Scale(zero=not counted, nice=False),
        axis=alt.Axis(tickMinStep=1 if counted else 0, grid=False, tickCount=8),
    )
    value = alt.Y("value:Q", title=unit or None, scale=scale, axis=alt.Axis(format=".4~g", tickCount=5))
    colour = alt.Color(
        "line:N",
        title=None,
        scale=alt.Scale(domain=names, range=[SERIES[mode][i % len(SERIES[mode])] for i in range(len(names))]),
        legend=_legend(columns=3) if len(names) > 1 else None,
    )
    tooltip = [
        alt.Tooltip("line:N", title="line"),
        alt.Tooltip("step:Q", title=axis, format=".6~g"),
        alt.Tooltip("value:Q", title="value", format=".6~g"),
    ]
    base = alt.Chart().encode(x=step, y=value, color=colour)
    nearest = alt.selection_point(
        name="nearest", on="pointerover", clear="pointerout", nearest=True, fields=["step", "line"], empty=False
    )
    drawn = base.mark_line(strokeWidth=1.8, interpolate="linear", point={"size": 36, "filled": True} if few else False)
    touched = (
        base.mark_point(size=70, filled=True)
        .encode(opacity=alt.condition(nearest, alt.value(1), alt.value(0)), tooltip=tooltip)
        .add_params(nearest)
    )
    return _specification(alt.layer(drawn, touched).properties(height=height), mode)


def timeline(rows: Sequence[str], states: Sequence[str], unit: str, mode: Mode) -> dict[str, Any]:
    """Bars over time. The data has the columns `task`, `state`, `start`, `end`, `took` and `attempt`."""
    scale = alt.Scale(domain=list(states), range=[STATE_COLOURS[mode][state] for state in states])
    rows_axis = alt.Axis(
        title=None, labelLimit=_LONGEST_LABEL_PX, grid=False, ticks=False, domain=False, labelPadding=8
    )
    base = alt.Chart().encode(
        y=alt.Y("task:N", sort=None, scale=alt.Scale(domain=list(rows)), axis=rows_axis),
        x=alt.X("start:Q", title=f"{unit} since the run began", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=8)),
        color=alt.Color("state:N", title=None, scale=scale, legend=_legend()),
        tooltip=[
            alt.Tooltip("task:N", title="task"),
            alt.Tooltip("state:N", title="state"),
            alt.Tooltip("took:N", title="took"),
            alt.Tooltip("attempt:Q", title="attempt"),
        ],
    )
    timed = base.transform_filter("datum.state != 'cached'")
    bars = timed.mark_bar(cornerRadius=3, height=16, minBandSize=2).encode(x2="end:Q")
    cached = base.transform_filter("datum.state == 'cached'").mark_point(shape="diamond", size=90, filled=True)
    told = (
        base.mark_text(align="left", dx=6, fontSize=11, color=SURFACE[mode]["muted"])
        .encode(x=alt.X("end:Q"), text="took:N", color=alt.value(SURFACE[mode]["muted"]))
        .transform_filter("datum.state != 'cached' && datum.state != 'waiting'")
    )
    chart = alt.layer(bars, cached, told).properties(height=_AROUND_ROWS + _ROW_HEIGHT * len(rows))
    return _specification(chart, mode)


def _legend(**more: Any) -> alt.Legend:
    return alt.Legend(
        orient="top", direction="horizontal", labelLimit=_LONGEST_LABEL_PX, symbolSize=70, symbolStrokeWidth=0, **more
    )


def _specification(chart: Any, mode: Mode) -> dict[str, Any]:
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
