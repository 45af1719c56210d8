"""The page of all runs: search, filter, open one, compare several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.cli.wording import duration, moment, safe
from engine.runs import Run
from ui.runs.history import STATES, Filters, Results, chosen, pipelines_of, positions, reselected, result_of, short_id
from ui.shell import navigation
from ui.shell.bars import count_line, search_box
from ui.shell.blocks import notice
from ui.shell.theme import STATE_COLOURS
from ui.studio_context import studio

PAGE = 200
"""Rows that are shown at first, and that "Show more" adds."""
_MOST_READ = 5_000
_LIVE_S, _IDLE_S = 2.0, 10.0
_TABLE, _OPEN, _SELECTED, _SHOWN = "runs_table", "runs_open", "runs_selected", "runs_shown"
_MOST, _OPENED = "runs_most", "runs_opened"
_ROW_HEIGHT, _TALLEST = 34, 18
_results = Results()
"""Shared by all who look: what a run came to is the same for everyone."""


def show() -> None:
    """Draw the page."""
    st.session_state.setdefault(_SELECTED, [])
    active = any(run.active for run in studio().store.runs(_MOST_READ))
    st.fragment(_list, run_every=_LIVE_S if active else _IDLE_S)(active)


def _list(was_active: bool) -> None:
    runs = studio().store.runs(_MOST_READ)
    if any(run.active for run in runs) != was_active:
        st.rerun()  # the pace changes
    if opened := st.session_state.pop(_OPENED, None):
        navigation.go_to_run(opened)
    if not runs:
        _empty()
        return
    with st.container(key="runs_bar", horizontal=True, vertical_alignment="bottom"):
        filters = _filters(runs)
    found = chosen(runs, filters)
    most = st.session_state.setdefault(_MOST, PAGE)
    _selection_bar(runs, found, filters)
    if not found:
        st.html(notice("info", "No run matches.", "Search for less, or clear the filters."))
        return
    _table(found[:most])
    if len(found) > most:
        left = len(found) - most
        st.button(f"Show {min(PAGE, left):,} more", key="runs_more", on_click=_more, help=f"{left:,} older runs match")


def _empty() -> None:
    st.html(
        notice(
            "info",
            "There are no runs yet.",
            "Draw a pipeline on the page Build and press Run, or type “voxelflow run quickstart” in a terminal.",
        )
    )
    if st.button("Go to Build", key="runs_build", type="primary"):
        navigation.go_to_build()


def _filters(runs: Sequence[Run]) -> Filters:
    text = search_box(
        "Search", key="q", placeholder="Search by pipeline, run or message", width=320, bind="query-params"
    )
    states = st.multiselect(
        "State",
        STATES,
        key="state",
        placeholder="Any state",
        label_visibility="collapsed",
        width=230,
        bind="query-params",
    )
    pipelines = st.multiselect(
        "Pipeline",
        pipelines_of(runs),
        key="pipeline",
        placeholder="Any pipeline",
        label_visibility="collapsed",
        width=300,
        format_func=safe,
    )
    return Filters(text, states, pipelines)


def _selection_bar(runs: Sequence[Run], found: Sequence[Run], filters: Filters) -> None:
    known = {run.run_id for run in runs}
    selected = [run_id for run_id in st.session_state[_SELECTED] if run_id in known]
    with st.container(key="runs_actions", horizontal=True, vertical_alignment="center"):
        total = f"{len(found):,} of {len(runs):,} runs" if filters.any else f"{len(runs):,} runs"
        total = "1 run" if total == "1 runs" else total
        running = sum(run.active for run in found)
        told = total + (f", {running} active" if running else "") + (f", {len(selected)} selected" if selected else "")
        count_line(told)
        if len(selected) == 1 and st.button("Open", key="runs_open_selected", icon=":material/open_in_full:"):
            navigation.go_to_run(selected[0])
        if st.button(
            "Compare",
            key="runs_compare",
            icon=":material/compare_arrows:",
            disabled=len(selected) < 2,
            help="Tick two or more runs to compare them.",
        ):
            navigation.go_to_comparison(selected)
        if selected:
            st.button("Clear selection", key="runs_clear", type="tertiary", on_click=_clear)


def _table(runs: Sequence[Run]) -> None:
    shown = [run.run_id for run in runs]
    st.session_state[_SHOWN] = shown
    rows = positions(shown, st.session_state[_SELECTED])
    before = st.session_state.get(_TABLE)
    if before is not None and sorted(before["selection"]["rows"]) != rows:
        # New runs stand above those that were ticked: the ticks move down with them.
        st.session_state[_TABLE] = {"selection": {"rows": rows}}
    st.dataframe(
        _frame(runs),
        key=_TABLE,
        hide_index=True,
        on_select=_select,
        selection_mode="multi-row",
        selection_default=None if before is not None else {"selection": {"rows": rows}},
        column_config=_columns(),
        row_height=_ROW_HEIGHT,
        height="content" if len(runs) <= _TALLEST else (_TALLEST + 1) * _ROW_HEIGHT,
        placeholder="",
        alt="Runs, newest first",
    )


def _select() -> None:
    rows = st.session_state[_TABLE]["selection"]["rows"]
    st.session_state[_SELECTED] = reselected(st.session_state[_SHOWN], rows, st.session_state[_SELECTED])


def _clear() -> None:
    st.session_state[_SELECTED] = []
    st.session_state[_TABLE] = {"selection": {"rows": []}}


def _more() -> None:
    st.session_state[_MOST] += PAGE


def _open() -> None:
    click = st.session_state[_OPEN]
    shown = st.session_state[_SHOWN]
    # By its label: the row may have moved since the page was drawn.
    at = click["row"] if click["row"] < len(shown) and short_id(shown[click["row"]]) == click["label"] else None
    found = shown[at] if at is not None else next((r for r in shown if short_id(r) == click["label"]), None)
    if found:
        st.session_state[_OPENED] = found


def _frame(runs: Sequence[Run]) -> Any:
    import pandas as pd

    return pd.DataFrame(
        {
            "run": [short_id(run.run_id) for run in runs],
            "state": [[run.state] for run in runs],
            "pipeline": [safe(run.pipeline) for run in runs],
            "result": [_result(run) for run in runs],
            "started": [moment(run.started or run.created) for run in runs],
            "duration": [duration(run.seconds) if run.seconds is not None else "" for run in runs],
            "profile": [safe(run.profile) for run in runs],
            "attempt": [run.attempt for run in runs],
        }
    )


def _result(run: Run) -> str:
    known = _results.known(run)
    if known is None:
        known = result_of(run, studio().store.tasks(run.run_id))
        _results.keep(run, known)
    return known


def _columns() -> dict[str, Any]:
    config = st.column_config
    # White letters stand on them, in both modes.
    colours = STATE_COLOURS["light"]
    return {
        "run": config.ButtonColumn("Run", type="secondary", key=_OPEN, on_click=_open, alignment="left", width=95),
        "state": config.MultiselectColumn("State", options=list(STATES), color=[colours[s] for s in STATES], width=100),
        "pipeline": config.TextColumn("Pipeline", width="medium"),
        "result": config.TextColumn("Result", width="large"),
        "started": config.TextColumn("Started", width=150),
        "duration": config.TextColumn("Duration", width=90, alignment="right"),
        "profile": config.TextColumn("Profile", width=80),
        "attempt": config.NumberColumn("Attempt", width=70),
    }
