"""The page that puts runs side by side: what differs in parameters, graph, figures and durations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from engine.declare.dataset_type import scores_of
from engine.declare.figures import HEADLINES, lower_is_better
from engine.errors import UsageError
from engine.history.comparison import (
    Curves,
    Row,
    duration_rows,
    final_rows,
    labels,
    node_title,
    parameter_rows,
    shared_name,
)
from engine.history.details import Details, read_details, short_id
from engine.store.runs import Run
from engine.text import duration, moment
from engine.wording import figure_name
from ui.runs import graph_changes
from ui.runs.charts import MIN_CHART_WIDTH, Line, draw_curves
from ui.runs.comparison_charts import (
    Confusion,
    axes_of_rows,
    confusion_cells,
    confusion_chart,
    confusion_width,
    confusions,
    parallel_axes,
    parallel_chart,
    parallel_points,
)
from ui.runs.feed import Feed, feed_of
from ui.runs.metrics import (
    chart_order,
    choose_smoothing,
    common_axis,
    link_to_makers,
    may_be_logarithmic,
    may_be_smoothed,
    say_beginnings,
)
from ui.runs.sweeps import MOST_COMPARED, objectives_of
from ui.shell import navigation
from ui.shell.blocks import Content, Html, chip, heading, notice, shortened, table, tag, text, unbroken
from ui.shell.outlined import outlined
from ui.shell.place_in_turn import place_in_turn
from ui.shell.redraw import is_request_waiting
from ui.shell.theme import current_mode, follow_mode
from ui.studio_context import studio

_FEW = 3
"""Runs of which two tables have room beside each other; of more a table needs the window's width."""
_MANY = 8
"""With more runs the chart of all comes first: columns side by side are wide."""
_CHOICES = 500
_TICK_S = 2.0
_HELD_OUT = ("val_", "validation_", "test_")
_SCORES = (*_HELD_OUT, "loss", "accuracy", "auc", "f1", "mae", "rmse", "r2", "precision", "recall", "log_loss")
"""How the names of figures begin that say how good a model is, and not how it was trained."""
_KEY, _ADDRESS = "compare_runs", "compare_address"


def metric_lines(runs: Sequence[Details], feeds: Sequence[Feed]) -> dict[str, list[Line]]:
    """By metric, a curve for each run that has it: in the run's colour, unless one has several."""
    several = {name for feed in feeds for name, nodes in _nodes_of(feed).items() if len(nodes) > 1}
    out: dict[str, list[Line]] = {}
    for at, (details, feed, label) in enumerate(zip(runs, feeds, labels(runs), strict=True)):
        nodes_of = _nodes_of(feed)
        for (node, name), series in sorted(feed.metrics.items()):
            full = f"{label}, {details.names.get(node, node)}" if len(nodes_of[name]) > 1 else label
            out.setdefault(name, []).append(Line(full, series, place=None if name in several else at))
    return dict(sorted(out.items()))


def _nodes_of(feed: Feed) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for node, name in feed.metrics:
        out.setdefault(name, []).append(node)
    return out


# --- the page ----------------------------------------------------------------------------------


def show() -> None:
    """Draw the page for the runs that the address names."""
    chosen = _choose()
    if len(chosen) < 2:
        hint = "Choose one more run above." if chosen else "Choose two or more above, or tick them in the history."
        st.html(notice("info", "Nothing to compare yet.", hint))
        if st.button("Go to Runs", key="compare_to_history"):
            navigation.go_to_runs()
        return
    follow_mode()
    active = any(studio().store.run(run_id).active for run_id in chosen)
    # Of other runs all tables have other columns.
    with place_in_turn("comparison", tuple(chosen)):
        st.fragment(_comparison, run_every=_TICK_S if active else None)(chosen, active)


def _choose() -> list[str]:
    """The ids of the runs; the list on the page and the address say the same."""
    recent = {run.run_id: run for run in studio().store.runs(_CHOICES)}
    address = st.query_params.get("runs", "")
    if st.session_state.get(_ADDRESS) != address:
        st.session_state[_KEY] = _runs_named(address, recent)[:MOST_COMPARED]
    known = {**recent, **{i: studio().store.run(i) for i in st.session_state.get(_KEY, []) if i not in recent}}
    chosen = st.multiselect(
        "Runs to compare",
        list(known),
        key=_KEY,
        format_func=lambda run_id: _choice(known[run_id]),
        max_selections=MOST_COMPARED,
        placeholder="Choose runs to compare",
        label_visibility="collapsed",
    )
    written = ",".join(chosen)
    if written != address:
        if written:
            st.query_params["runs"] = written
        else:
            st.query_params.pop("runs", None)
    st.session_state[_ADDRESS] = written
    return list(chosen)


def _runs_named(address: str, recent: dict[str, Run]) -> list[str]:
    out = []
    for name in dict.fromkeys(part.strip() for part in address.split(",") if part.strip()):
        if name in recent:
            out.append(name)
            continue
        try:
            out.append(studio().store.run(name).run_id)
        except UsageError as error:
            st.html(notice("warning", text(error.message)))
    return list(dict.fromkeys(out))


def _choice(run: Run) -> str:
    return f"{short_id(run.run_id)} {shortened(run.pipeline, 40)}, {run.state}, {moment(run.started or run.created)}"


def _comparison(chosen: Sequence[str], was_active: bool) -> None:
    with outlined("comparison", tuple(chosen)):
        _compare(chosen, was_active)


def _compare(chosen: Sequence[str], was_active: bool) -> None:
    runs = [read_details(studio().workspace, studio().store, run_id) for run_id in chosen]
    if was_active and not any(d.run.active for d in runs) and not is_request_waiting():
        st.rerun()
    feeds = [feed_of(run_id) for run_id in chosen]
    left, right = st.columns(2, gap="medium") if len(runs) <= _FEW else [st.container()] * 2
    with left:
        _heads(runs)
        if len(runs) > _MANY:
            _parallel(runs, feeds)
        _parameters(runs)
    with right:
        _figures(final_rows(runs, _last_values(feeds)), runs)
    with left:
        _durations(runs)
    graph_changes.show(runs, labels(runs))
    _metrics(runs, feeds)
    _confusions(runs)
    if 2 < len(runs) <= _MANY:
        _parallel(runs, feeds)


def _last_values(feeds: Sequence[Feed]) -> list[Curves]:
    return [{key: s.last for key, s in feed.metrics.items() if s.last is not None} for feed in feeds]


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Content]],
    label: str,
    runs: Sequence[Details],
    narrow: Iterable[int] = (),
) -> Html:
    """A table with these columns and one for each run. It is read across: a run's values begin at one place in all the
    tables that have the window's width."""
    even = len(runs) if _FEW < len(runs) <= _MANY else 0
    return table([*columns, *labels(runs)], rows, label, narrow=narrow, even=even)


def _heads(runs: Sequence[Details]) -> None:
    rows: list[list[Content]] = [
        ["state", *(chip(d.run.state) for d in runs)],
        ["started", *(moment(d.run.started or d.run.created) for d in runs)],
        ["duration", *(duration(d.run.seconds) if d.run.seconds is not None else "" for d in runs)],
        ["profile", *(d.run.profile for d in runs)],
    ]
    st.html(heading("Runs"))
    # Here once, where all have the same pipeline: every other head would repeat it.
    st.html(_table([shared_name(runs)], rows, "Runs", runs, narrow=range(1, len(runs) + 1)))
    with st.container(horizontal=True, key="compare_open"):
        for d in runs:
            run_id = d.run.run_id
            if st.button(f"Open {short_id(run_id)}", key=f"compare-open-{run_id}", icon=":material/open_in_full:"):
                navigation.go_to_run(run_id)


def _parameters(runs: Sequence[Details]) -> None:
    rows = parameter_rows(runs)
    differing = [row for row in rows if row.differs]
    with st.container(horizontal=True, vertical_alignment="center", key="compare_parameters"):
        st.html(heading("Parameters", in_row=True), width="content")
        everything = st.toggle("Show equal ones too", key="compare_all", bind="query-params")
    shown = rows if everything else differing
    if not shown:
        st.html(notice("info", "All parameters are equal." if rows else "These runs have no parameters."))
        return
    body = [[_node(row), row.name, *_values(row)] for row in shown]
    st.html(_table(["node", "parameter"], body, "Parameters", runs, narrow=(1,)))


def _node(row: Row, before: str = "") -> Html:
    return tag("bdi", before, unbroken(row.where))


def _values(row: Row) -> list[Html]:
    """The values of a row; those that are not as in the first run stand out."""
    first = row.values[0]
    return [tag("span", text(v), class_="vf-differs" if v != first else None) for v in row.values]


def _metrics(runs: Sequence[Details], feeds: Sequence[Feed]) -> None:
    found = metric_lines(runs, feeds)
    st.html(heading("Metrics"))
    if not found:
        st.html(notice("info", "None of these runs has metrics."))
        return
    for details, feed, label in zip(runs, feeds, labels(runs), strict=True):
        link_to_makers(feed, details.names, {node for node, _ in feed.metrics}, label)
        say_beginnings(feed, details.names, label=label)
    axes = {name: common_axis(name, [feed.metrics for feed in feeds]) for name in found}
    logarithmic, smoothing = False, 0.0
    with st.container(key="compare_metric_bar", horizontal=True, vertical_alignment="center", gap="medium"):
        if any("loss" in name for name in found):
            logarithmic = st.toggle("Logarithmic loss", key="compare_log_loss", bind="query-params")
        if any(may_be_smoothed(axes[name], lines) for name, lines in found.items()):
            smoothing = choose_smoothing("compare_smoothing")
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="compare_charts") as grid:
        for name in sorted(found, key=lambda n: chart_order(n, axes[n])):
            lines = found[name]
            with grid.cell():
                log = logarithmic and may_be_logarithmic(name, lines)
                even = smoothing if may_be_smoothed(axes[name], lines) else 0.0
                key = f"compare-{name}"
                draw_curves(figure_name(name), lines, axes[name], key=key, logarithmic=log, smoothing=even)


def _confusions(runs: Sequence[Details]) -> None:
    """Draw the confusion matrices of all runs beside one another, a row for each that some runs have in common."""
    found = confusions_by_name(runs)
    if not found:
        return
    st.html(heading("Confusion matrices"))
    mode = current_mode()
    for name, matrices in found.items():
        st.html(tag("p", text(name), class_="vf-count"))
        width = max(confusion_width(matrix) for matrix in matrices if matrix is not None)
        # As many beside each other as have room: their names and cells do not get narrower.
        row = st.container(horizontal=True, gap="medium")
        for label, (at, matrix) in zip(labels(runs), enumerate(matrices), strict=True):
            with row.container(width=width):
                st.html(tag("p", text(label), class_="vf-muted"))
                if matrix is None:
                    st.html(tag("p", "This run has none.", class_="vf-muted"))
                    continue
                st.vega_lite_chart(
                    pd.DataFrame(confusion_cells(matrix)),
                    confusion_chart(matrix, mode),
                    key=f"compare-confusion-{name}-{at}",
                    width="content",
                    alt=f"Confusion matrix of {label}, {name}: {100 * matrix.accuracy:.1f} % right",
                )


def confusions_by_name(runs: Sequence[Details]) -> dict[str, list[Confusion | None]]:
    """By node and data (`Train: validation`): the matrix of each run; None where a run has none."""
    out: dict[str, list[Confusion | None]] = {}
    for at, details in enumerate(runs):
        for task in details.tasks:
            for output in task.outputs.values():
                for matrix in confusions(output):
                    name = f"{node_title(runs, task.node)}: {matrix.of}"
                    out.setdefault(name, [None] * len(runs))[at] = matrix
    return out


def _parallel(runs: Sequence[Details], feeds: Sequence[Feed]) -> None:
    """Draw a line for each run through what was chosen and what came of it."""
    outputs = [output for d in runs for task in d.tasks for output in task.outputs.values()]
    scored = {name for output in outputs for name in scores_of(output) if name.startswith(_SCORES)}
    scored |= objectives_of(d.run for d in runs)
    finals = [row for row in in_order(final_rows(runs, _last_values(feeds))) if row.name in scored]
    axes = parallel_axes(axes_of_rows(parameter_rows(runs)), axes_of_rows(finals, figure_name))
    if len(axes) < 2:
        return
    names = labels(runs)
    with st.container(key="compare_parallel"):
        st.html(heading("Parameters and figures together"))
        st.vega_lite_chart(
            pd.DataFrame(parallel_points(axes, names)),
            parallel_chart(axes, names, current_mode()),
            key="compare-parallel",
            alt=f"A line for each run through {', '.join(axis.name.replace(chr(10), ', ') for axis in axes)}",
        )


def _figures(rows: Sequence[Row], runs: Sequence[Details]) -> None:
    """Draw the table of final figures: how good the models are first, the best of each in bold."""
    st.html(heading("Final figures"))
    if not rows:
        st.html(notice("info", "None of these runs has figures."))
        return
    several = len({row.where for row in rows}) > 1
    body: list[list[Content]] = []
    for row in in_order(rows):
        best = best_of(row)
        values = [tag("b", text(v), class_="vf-better") if i in best else text(v) for i, v in enumerate(row.values)]
        name = text(figure_name(row.name))
        body.append([Html(name + tag("span", _node(row, " "), class_="vf-muted")) if several else name, *values])
    st.html(_table([""], body, "Final figures", runs))


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows of figures, what says most first."""
    return sorted(rows, key=lambda row: figure_order(row.name))


def figure_order(name: str) -> tuple[bool, bool, int, bool, str]:
    """Figures of volumes that were not trained on first, then those of the training, then how it went; among these what
    says most first, as on a run's own page."""
    rank = HEADLINES.index(name) if name in HEADLINES else len(HEADLINES)
    return (not name.startswith(_HELD_OUT), not name.startswith(_SCORES), rank, lower_is_better(name), name)


def best_of(row: Row) -> set[int]:
    """Places of the runs whose figure is the best; none where it says nothing of a model, or all are alike.

    Alike are figures that read alike: of two of them one in bold would say nothing.
    """
    values = {i: figure for i, figure in enumerate(row.figures) if figure is not None and math.isfinite(figure)}
    if not row.name.startswith(_SCORES) or len({row.values[i] for i in values}) < 2:
        return set()
    best = (min if lower_is_better(row.name) else max)(values, key=values.__getitem__)
    return {i for i in values if row.values[i] == row.values[best]}


def _durations(runs: Sequence[Details]) -> None:
    st.html(heading("Durations"))
    body = [[row.name, *row.values] for row in duration_rows(runs)]
    st.html(_table([""], body, "Durations", runs))
