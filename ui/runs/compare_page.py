"""The page that puts runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.cli.wording import moment, safe
from engine.errors import UsageError
from engine.runs import Run
from ui.runs.comparison import (
    Row,
    duration_rows,
    final_rows,
    graph_changes,
    labels,
    metric_lines,
    parameter_rows,
)
from ui.runs.details import Details, read_details
from ui.runs.feed import Feed
from ui.runs.history import short_id
from ui.runs.metrics import axis_of, chart_order, family_name
from ui.runs.metrics_tab import MIN_CHART_WIDTH, draw_curves
from ui.runs.watching import feed_of
from ui.shell import navigation
from ui.shell.blocks import Content, Html, chip, heading, notice, table, tag, text
from ui.shell.style import follow_mode
from ui.studio_context import studio

MOST = 8
_CHOICES = 500
_TICK_S = 2.0
_KEY, _ADDRESS = "compare_runs", "compare_address"


def show() -> None:
    """Draw the page for the runs that the address names."""
    chosen = _choose()
    if len(chosen) < 2:
        told = "Choose one more run above." if chosen else "Choose two or more above, or tick them in the history."
        st.html(notice("info", "Nothing to compare yet.", told))
        if st.button("Go to Runs", key="compare_to_history"):
            navigation.go_to_runs()
        return
    follow_mode()
    active = any(studio().store.run(run_id).active for run_id in chosen)
    st.fragment(_comparison, run_every=_TICK_S if active else None)(chosen, active)


def _choose() -> list[str]:
    """The ids of the runs; the list on the page and the address say the same."""
    recent = {run.run_id: run for run in studio().store.runs(_CHOICES)}
    address = st.query_params.get("runs", "")
    if st.session_state.get(_ADDRESS) != address:
        st.session_state[_KEY] = _named(address, recent)[:MOST]
    known = {**recent, **{i: studio().store.run(i) for i in st.session_state.get(_KEY, []) if i not in recent}}
    chosen = st.multiselect(
        "Runs to compare",
        list(known),
        key=_KEY,
        format_func=lambda run_id: _choice(known[run_id]),
        max_selections=MOST,
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


def _named(address: str, recent: dict[str, Run]) -> list[str]:
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
    return f"{short_id(run.run_id)} {safe(run.pipeline)[:40]}, {run.state}, {moment(run.started or run.created)}"


def _comparison(chosen: Sequence[str], was_active: bool) -> None:
    runs = [read_details(studio().workspace, studio().store, run_id) for run_id in chosen]
    if was_active and not any(d.run.active for d in runs):
        st.rerun()
    feeds = [feed_of(run_id) for run_id in chosen]
    _heads(runs)
    _parameters(runs)
    _graph(runs)
    _metrics(runs, feeds)
    _side_by_side("Final figures", final_rows(runs, feeds), runs, "None of these runs has figures.")
    _side_by_side("Durations", duration_rows(runs), runs, "")


def _heads(runs: Sequence[Details]) -> None:
    rows: list[list[Content]] = [
        ["state", *(chip(d.run.state) for d in runs)],
        ["started", *(moment(d.run.started or d.run.created) for d in runs)],
        ["profile", *(d.run.profile for d in runs)],
    ]
    st.html(table(["", *labels(runs)], rows, "Runs"))
    with st.container(horizontal=True, key="compare_open"):
        for d in runs:
            run_id = d.run.run_id
            if st.button(f"Open {short_id(run_id)}", key=f"compare-open-{run_id}", icon=":material/open_in_full:"):
                navigation.go_to_run(run_id)


def _parameters(runs: Sequence[Details]) -> None:
    rows = parameter_rows(runs)
    differing = [row for row in rows if row.differs]
    with st.container(horizontal=True, vertical_alignment="center", key="compare_parameters"):
        st.html(heading("Parameters"), width="content")
        everything = st.toggle("Show equal ones too", key="compare_all", bind="query-params")
    shown = rows if everything else differing
    if not shown:
        st.html(notice("info", "All parameters are equal." if rows else "These runs have no parameters."))
        return
    body = [[row.where, row.name, *_values(row)] for row in shown]
    st.html(table(["node", "parameter", *labels(runs)], body, "Parameters"))


def _values(row: Row) -> list[Html]:
    """The values of a row; those that are not as in the first run stand out."""
    first = row.values[0]
    return [tag("span", text(v), class_="vf-differs" if v != first else None) for v in row.values]


def _graph(runs: Sequence[Details]) -> None:
    st.html(heading("Graph"))
    first, *others = runs
    names = labels(runs)
    rows: list[list[Content]] = []
    for other, name in zip(others, names[1:], strict=True):
        for change in graph_changes(first, other):
            rows.append([name, chip_of(change.change), change.what, change.name, change.detail])
    if any(d.pipeline is None for d in runs):
        st.html(notice("warning", "A document of these runs cannot be read.", "It was written by another Voxelflow."))
    if rows:
        st.html(table(["run", f"against {names[0]}", "", "name", "detail"], rows, "Graph differences"))
    else:
        st.html(notice("info", "All have the same nodes and edges."))


def chip_of(change: str) -> Html:
    """A change in its colour."""
    state = {"added": "done", "removed": "failed", "changed": "waiting"}[change]
    return tag("span", change, class_=f"vf-chip vf-state-{state}")


def _metrics(runs: Sequence[Details], feeds: Sequence[Feed]) -> None:
    found = metric_lines(runs, feeds)
    st.html(heading("Metrics"))
    if not found:
        st.html(notice("info", "None of these runs has metrics."))
        return
    logarithmic = False
    if any("loss" in name for name in found):
        logarithmic = st.toggle("Logarithmic loss", key="compare_log_loss", bind="query-params")
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="compare_charts") as grid:
        for name in sorted(found, key=lambda n: chart_order(n, found)):
            lines = found[name]
            with grid.cell():
                log = logarithmic and "loss" in name and any(v > 0 for line in lines for v in line.series.values)
                draw_curves(name, lines, axis_of(family_name(name), found), key=f"compare-{name}", logarithmic=log)


def _side_by_side(title: str, rows: Sequence[Row], runs: Sequence[Details], otherwise: str) -> None:
    st.html(heading(title))
    if not rows:
        st.html(notice("info", otherwise))
        return
    body = [[f"{row.where}: {row.name}" if row.where else row.name, *row.values] for row in rows]
    st.html(table(["", *labels(runs)], body, title, numeric=range(1, len(runs) + 1)))
