"""Charts that put runs side by side: confusion matrices, and a line for each run through its values and figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from engine.declare.dataset_type import Dataset
from engine.declare.datasets import Report, TrainedModel
from engine.history.comparison import ABSENT, Row
from engine.storage import is_url
from ui.runs.charts import specification
from ui.shell.theme import SERIES, SURFACE, Mode

MOST_CLASSES = 30
"""With more of them the cells are too small to be read."""
MOST_AXES = 9
_LARGEST_FILE, _MOST_FILES = 1 << 20, 20
_CELL, _LEAST_SIDE, _MOST_SIDE, _LETTER = 46, 150, 420, 10
_LONGEST_ANSWER, _LONGEST_NAME, _TURNED = 120, 140, 60
"""Of names in pixels, above and beside a matrix; the angle of those above."""
_AROUND_MATRIX = 60
"""Pixels of the title beside the names, and of the padding."""
_HEIGHT = 300
_STRONG_FROM: Mapping[Mode, float] = {"light": 0.89, "dark": 0.67}
"""Above this share what is written on the full colour can be read better on a cell than the page's text."""


# --- confusion matrices ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Confusion:
    """How often each label (a row) got each answer (a column); `of` says of which volumes."""

    of: str
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def accuracy(self) -> float:
        """The share that was right; NaN of none."""
        total = sum(map(sum, self.counts))
        return sum(row[i] for i, row in enumerate(self.counts)) / total if total else math.nan


def confusions(made: Dataset) -> list[Confusion]:
    """The matrices in the JSON files beside a model, by the name of the data, or beside an evaluation's report.

    No other dataset has any, and the folder of a source may hold millions of files: it is not listed.
    """
    if not isinstance(made, (TrainedModel, Report)) or is_url(made.uri):
        return []
    folder = Path(made.uri).parent if made.is_file else Path(made.uri)
    out = []
    for path in sorted(folder.glob("*.json"))[:_MOST_FILES]:
        try:
            found = json.loads(path.read_bytes()) if path.stat().st_size <= _LARGEST_FILE else None
        except (OSError, ValueError):
            continue  # freed, or of another program
        if isinstance(found, Mapping):
            out += _matrices(found)
    return out


def _matrices(found: Mapping[str, Any]) -> list[Confusion]:
    classes = found.get("classes")
    if not isinstance(classes, list):
        return []
    names = tuple(str(each.get("class", "")) if isinstance(each, Mapping) else str(each) for each in classes)
    matrices = [(str(name), value) for name, value in found.items() if _is_matrix(value, len(names))]
    return [
        Confusion("evaluation" if name == "confusion" else name, names, tuple(tuple(row) for row in value))
        for name, value in matrices
    ]


def _is_matrix(value: object, size: int) -> bool:
    return (
        0 < size <= MOST_CLASSES
        and isinstance(value, list)
        and len(value) == size
        and all(isinstance(row, list) and len(row) == size for row in value)
        and all(isinstance(count, int) and count >= 0 for row in value for count in row)
    )


def confusion_cells(found: Confusion) -> list[dict[str, object]]:
    """Records of label, answer, count, and the share of the label's volumes."""
    return [
        {"label": found.classes[i], "answer": found.classes[j], "count": count, "share": count / max(1, sum(row))}
        for i, row in enumerate(found.counts)
        for j, count in enumerate(row)
    ]


def confusion_chart(found: Confusion, mode: Mode) -> dict[str, Any]:
    """The specification of a matrix; the data are `confusion_cells`. Colours are shares of each label's volumes."""
    side, names = _side(found), list(found.classes)
    background, full = SURFACE[mode]["raised"], SERIES[mode][0]
    # Flush, as Streamlit would have them, the first and the last name stand beside the middle of their cells.
    # It would also leave out names that are turned or many.
    answers = alt.Axis(
        orient="top",
        labelAngle=-_TURNED if _are_turned(found) else 0,
        labelLimit=_LONGEST_ANSWER,
        labelFlush=False,
        labelOverlap=False,
    )
    labels = alt.Axis(labelLimit=_LONGEST_NAME, labelFlush=False, labelOverlap=False)
    # Altair gives each layer an empty record beside the data.
    base = (
        alt.Chart()
        .transform_filter("isValid(datum.count)")
        .encode(
            x=alt.X("answer:N", title="predicted", scale=alt.Scale(domain=names), axis=answers),
            y=alt.Y("label:N", title="label", scale=alt.Scale(domain=names), axis=labels),
            tooltip=[
                alt.Tooltip("label:N", title="label"),
                alt.Tooltip("answer:N", title="predicted"),
                alt.Tooltip("count:Q", title="volumes", format=","),
                alt.Tooltip("share:Q", title="of the label", format=".1%"),
            ],
        )
    )
    cells = base.mark_rect(stroke=SURFACE[mode]["background"], strokeWidth=2).encode(
        color=alt.Color("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[background, full]))
    )
    # White on the full colour of the light theme; that of the dark one is bright.
    strong = "#ffffff" if mode == "light" else SURFACE[mode]["background"]
    by_share = alt.condition(f"datum.share > {_STRONG_FROM[mode]}", alt.value(strong), alt.value(SURFACE[mode]["text"]))
    texts = base.mark_text(fontSize=13).encode(text=alt.Text("count:Q", format=","), color=by_share)
    # Streamlit would else fit all of it, names of the classes too, into the side.
    return specification(alt.layer(cells, texts).properties(width=side, height=side, autosize="pad"), mode)


def confusion_width(found: Confusion) -> int:
    """Pixels that the chart of a matrix needs: names beside it, and what of the last turned one stands out."""
    side, longest = _side(found), max(map(len, found.classes)) * _LETTER
    # It begins above the middle of its cell.
    above = min(_LONGEST_ANSWER, longest) * math.cos(math.radians(_TURNED)) - side / len(found.classes) / 2
    out = max(0.0, above) if _are_turned(found) else 0.0
    return math.ceil(side + min(_LONGEST_NAME, longest) + out + _AROUND_MATRIX)


def _side(found: Confusion) -> int:
    return min(_MOST_SIDE, max(_LEAST_SIDE, _CELL * len(found.classes)))


def _are_turned(found: Confusion) -> bool:
    """Whether names are longer than a cell is wide: they would lie over each other."""
    return max(map(len, found.classes)) * _LETTER >= _side(found) / len(found.classes)


# --- parallel coordinates --------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """One value of all runs: as text, and where it stands from 0 (below) to 1; None where a run has none. A name may
    have two lines."""

    name: str
    texts: tuple[str, ...]
    places: tuple[float | None, ...]


def axes_of_rows(rows: Sequence[Row], words: Callable[[str], str] = str) -> list[Axis]:
    """The axes of rows that differ, in their order; `words` of a row's name are shown. Where another row has the name
    but other values, below it stands which node's it is."""
    names = Counter(name for name, _ in {(words(row.name), row.values) for row in rows})
    shown = [(words(row.name), row) for row in rows]
    axes = [
        axis_of_values(f"{name}\n{row.where}" if names[name] > 1 else name, row.values, ABSENT) for name, row in shown
    ]
    return [axis for axis in axes if axis is not None]


def axis_of_values(name: str, texts: Sequence[str], absent: str) -> Axis | None:
    """The axis of values that differ: by their size where all are figures, else by their order. None: they do not.

    What is infinite stands at an end of the others, what is not a number (`nan`) nowhere.
    """
    known = [text for text in texts if text != absent]
    if len(set(known)) < 2:
        return None
    figures = {text: value for text in known if (value := _figure_in(text)) is not None}
    if len(figures) < len(set(known)):
        figures = {text: float(at) for at, text in enumerate(dict.fromkeys(known))}
    finite = [value for value in figures.values() if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    places = tuple(_place(figures[text], low, high) if text != absent else None for text in texts)
    return Axis(name, tuple(texts), places)


def _figure_in(text: str) -> float | None:
    """The figure that a cell shows, `nan` and `inf` too; None where it shows something else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _place(value: float, low: float, high: float) -> float | None:
    """Where a value stands between the ends of its axis."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return 1.0 if value > 0 else 0.0
    return (value - low) / (high - low or 1.0)


def parallel_axes(parameters: Sequence[Axis], figures: Sequence[Axis]) -> list[Axis]:
    """The first of both, what was chosen before what came of it; at most `MOST_AXES`, of which each has half, and what
    the other leaves.

    Of axes with equal values in all runs there is the first: a parameter of the pipeline, and not the node's own that
    refers to it.
    """
    distinct: list[Axis] = []
    for axis in [*parameters, *figures]:
        if all(axis.name != other.name and axis.texts != other.texts for other in distinct):
            distinct.append(axis)
    first = [axis for axis in distinct if axis in parameters]
    second = distinct[len(first) :]
    half = max(MOST_AXES // 2, MOST_AXES - len(second))
    return [*first[:half], *second][:MOST_AXES]


def parallel_points(axes: Sequence[Axis], runs: Sequence[str]) -> list[dict[str, object]]:
    """Records of run, axis, place and value; those with an `end` ("high", "low") say what stands at that of an axis."""
    out: list[dict[str, object]] = [
        {"run": run, "axis": axis.name, "place": axis.places[at], "value": axis.texts[at], "end": ""}
        for at, run in enumerate(runs)
        for axis in axes
    ]
    for axis in axes:
        # An end is named after the figure that it stands for, not after what lies beyond it.
        placed = sorted(zip(axis.places, axis.texts, strict=True), key=lambda at: "inf" not in at[1].casefold())
        by_place = {place: text for place, text in placed if place is not None}
        ends = (("low", 0.0), ("high", 1.0))
        out += [{"run": "", "axis": axis.name, "place": at, "value": by_place.get(at, ""), "end": e} for e, at in ends]
    return out


def parallel_chart(axes: Sequence[Axis], runs: Sequence[str], mode: Mode) -> dict[str, Any]:
    """The specification of a line for each run over all axes. The data are `parallel_points`."""
    names, surface = [axis.name for axis in axes], SURFACE[mode]
    x = alt.X(
        "axis:N", title=None, sort=None, scale=alt.Scale(domain=names, padding=0.4),
        axis=alt.Axis(
            labelAngle=0, labelLimit=130, domain=False, ticks=False, grid=True, orient="top",
            labelExpr="split(datum.label, '\\n')", labelLineHeight=14, labelBaseline="line-bottom",
            labelPadding=22 + (14 if any("\n" in name for name in names) else 0),
        ),
    )  # fmt: skip
    y = alt.Y("place:Q", axis=None, scale=alt.Scale(domain=[0, 1]))
    palette = [SERIES[mode][i % len(SERIES[mode])] for i in range(len(runs))]
    chosen = alt.selection_point(name="run_of", fields=["run"], on="pointerover", clear="pointerout", nearest=True)
    root = alt.Chart()
    legend = alt.Legend(
        orient="bottom",
        direction="horizontal",
        labelLimit=240,
        columns=4,
        symbolType="stroke",
        symbolStrokeWidth=2,
        symbolSize=500,
    )
    base = root.encode(
        x=x,
        y=y,
        color=alt.Color("run:N", title=None, scale=alt.Scale(domain=list(runs), range=palette), legend=legend),
        tooltip=[alt.Tooltip("run:N"), alt.Tooltip("axis:N", title="of"), alt.Tooltip("value:N")],
    )  # fmt: skip
    of_runs = base.transform_filter("datum.end == ''")
    lines = of_runs.mark_line(strokeWidth=2, interpolate="monotone").encode(
        opacity=alt.condition(chosen, alt.value(1), alt.value(0.25)),
        # Dashes beside colours: lines stay apart for those who do not see the colours. The legend has both.
        strokeDash=alt.StrokeDash("run:N", title=None, scale=alt.Scale(domain=list(runs)), legend=legend),
    )
    dots = of_runs.mark_point(filled=True, size=60, opacity=1).add_params(chosen)
    ends = root.encode(x=x, y=y, text="value:N")
    # One layer for each end: they stand above and below their axis.
    high = ends.transform_filter("datum.end == 'high'").mark_text(fontSize=11, dy=-12, color=surface["muted"])
    low = ends.transform_filter("datum.end == 'low'").mark_text(fontSize=11, dy=13, color=surface["muted"])
    return specification(alt.layer(lines, dots, high, low).properties(height=_HEIGHT), mode)
