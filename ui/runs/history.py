"""The page of all runs: what each came to, search, filters, opening one, comparing several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from engine.declare.dataset_type import scores_of
from engine.declare.datasets import Dataset
from engine.history.details import document_of, named, short_id
from engine.history.summary import leading_figures
from engine.store.costs import costs_by_month
from engine.store.runs import Run, RunStore, Task
from engine.text import duration, moment, money, number, plural, safe
from engine.wording import COST_COLUMNS, cost_rows, failure_line, figure_name, made
from ui.runs import sweeps
from ui.shell import navigation
from ui.shell.blocks import count_line, notice, search_box, shortened, table
from ui.shell.redraw import is_request_waiting
from ui.shell.theme import current_mode, tints
from ui.studio_context import studio

STATES = ("running", "stuck", "done", "failed", "cancelled", "lost", "starting")
"""In the order in which a person looks for them."""
_MOST_FIGURES = 2
_LONGEST_RESULT = 200
PAGE = 200
"""Rows that are shown at first, and that "Show more" adds."""
_MOST_SHOWN = 20_000
"""Pandas writes no larger table in words."""
_MOST_READ = 50_000
"""Of more the page would take seconds each time it looks."""
_READ_ANEW = 500
"""The newest runs, which are read each time; of older ones only what has changed."""
_LIVE_S, _IDLE_S = 2.0, 10.0
_TABLE, _OPEN, _SELECTED, _SHOWN = "runs_table", "runs_open", "runs_selected", "runs_shown"
_MOST, _OPENED, _SUMS = "runs_most", "runs_opened", "runs_sums"
_ROW_HEIGHT, _TALLEST = 34, 18
_TABLE_WIDTH, _NARROWEST_RESULT = 1180, 300
"""Pixels: what the table's columns have in a window of 1280, and the least that a result has."""
_WIDTHS = {
    "run": 95,
    "state": 100,
    "pipeline": 175,
    "sweep": 75,
    "trial": 60,
    "started": 150,
    "duration": 90,
    "profile": 80,
    "attempt": 70,
    "cost": 90,
}
"""Of the other columns."""


@dataclass(frozen=True)
class Filters:
    """What the person wants to see; empty means all."""

    text: str = ""
    states: Sequence[str] = ()
    pipelines: Sequence[str] = ()

    @property
    def any(self) -> bool:
        """Whether something is asked for."""
        return bool(self.text.strip() or self.states or self.pipelines)


def chosen(runs: Iterable[Run], filters: Filters) -> list[Run]:
    """The runs that match, in the order given: every word of the text occurs somewhere in a run."""
    words = filters.text.casefold().split()
    states, pipelines = set(filters.states), set(filters.pipelines)

    def matches(run: Run) -> bool:
        if states and run.state not in states:
            return False
        if pipelines and run.pipeline not in pipelines:
            return False
        searched = f"{run.run_id} {run.pipeline} {run.profile} {run.state} {run.error} {trial_of(run)}".casefold()
        return all(word in searched for word in words)

    return [run for run in runs if matches(run)]


def trial_of(run: Run) -> str:
    """`4c7ecd, trial 3` of a run that a sweep made; else ""."""
    sweep = run.options.get("sweep")
    return f"{short_id(sweep)}, trial {run.options.get('trial')}" if isinstance(sweep, str) else ""


def pipelines_of(runs: Iterable[Run]) -> list[str]:
    """Names of the pipelines, each once, A to Z."""
    return sorted({run.pipeline for run in runs}, key=lambda name: (name.casefold(), name))


def result_of(run: Run, tasks: Sequence[Task]) -> str:
    """What the run came to, in a few words: its leading figures, what was made last, or why it failed."""
    if run.state in ("failed", "lost"):
        failed = next((t for t in tasks if t.state == "failed"), None)
        if failed is not None:
            return shortened(
                failure_line(failed.title or failed.node, failed.failure or {"message": failed.reason}), _LONGEST_RESULT
            )
        lost = "the run's process died without reporting a result" if run.state == "lost" else ""
        return shortened(run.error or lost, _LONGEST_RESULT)
    if run.state == "stuck":
        return "the run's process does nothing: cancel the run, then resume it"
    outputs = [output for task in tasks if task.state in ("done", "cached") for output in task.outputs.values()]
    figures = leading_figures(tasks) or _unusual_figures(outputs)
    return _in_words(figures) if figures else shortened(_last_made(outputs, tasks), _LONGEST_RESULT)


def _unusual_figures(outputs: Sequence[Dataset]) -> dict[str, float]:
    """Those of the last model, by name, that have no order of importance, such as `iou` of a person's own training."""
    scores = next((scores for output in reversed(outputs) if (scores := scores_of(output))), {})
    return dict(sorted(scores.items()))


def _in_words(figures: Mapping[str, float]) -> str:
    """`Validation AUC 0.93, validation accuracy 0.84`: as many as there is room for."""
    first, *others = [f"{figure_name(name)} {number(value)}" for name, value in [*figures.items()][:_MOST_FIGURES]]
    # "F1" and "MAE" stay as they are.
    return ", ".join([first, *(word if word[:2].isupper() else f"{word[:1].lower()}{word[1:]}" for word in others)])


def _last_made(outputs: Sequence[Dataset], tasks: Sequence[Task]) -> str:
    counted = next((o for o in reversed(outputs) if getattr(o, "count", None) is not None), None)
    if counted is not None:
        return plural(getattr(counted, "count"), counted.counted)  # noqa: B009
    return next((text for t in reversed(tasks) if t.outputs and (text := made(t.outputs))), "")


class Results:
    """Results of runs by what they depend on, so that a run that has ended is looked at once."""

    def __init__(self, capacity: int = 20_000) -> None:
        self._capacity = capacity
        self._known: dict[tuple[object, ...], str] = {}

    def known(self, run: Run) -> str | None:
        """The result kept of the run as it is now; None when there is none."""
        return self._known.get(_version(run))

    def keep(self, run: Run, result: str) -> None:
        """Keep a run's result; one that is active has none yet."""
        if run.active:
            return
        if len(self._known) >= self._capacity:
            # Oldest first; which ones go hardly matters, they are cheap to have again.
            for key in list(self._known)[: self._capacity // 10]:
                del self._known[key]
        self._known[_version(run)] = result


def _version(run: Run) -> tuple[object, ...]:
    return (run.run_id, run.state, run.attempt, run.ended)


def positions(shown: Sequence[str], selected: Iterable[str]) -> list[int]:
    """Where the selected runs stand among those shown."""
    wanted = set(selected)
    return [i for i, run_id in enumerate(shown) if run_id in wanted]


def reselected(shown: Sequence[str], rows: Iterable[int], before: Iterable[str]) -> list[str]:
    """The selection after the person marked `rows` of those shown; runs that are out of sight stay selected."""
    hidden = [run_id for run_id in before if run_id not in set(shown)]
    return hidden + [shown[i] for i in rows if 0 <= i < len(shown)]


class AllRuns:
    """The runs of a store. Older ones are kept, without their documents, and read again where they changed."""

    def __init__(self) -> None:
        self._kept: tuple[RunStore | None, Mapping[str, Run]] = None, {}

    def of(self, store: RunStore) -> list[Run]:
        """At most the `_MOST_READ` newest. May be called by several threads."""
        newest = store.runs(_READ_ANEW)
        if len(newest) < _READ_ANEW:
            return newest
        of, kept = self._kept
        # Several may have been created at one moment: those that come twice are left out here.
        older = store.older_runs(newest[-1].created, _MOST_READ, kept if of is store else {})
        self._kept = store, {run.run_id: run for run in older}
        known = {run.run_id for run in newest}
        return [*newest, *(run for run in older if run.run_id not in known)][:_MOST_READ]


_all_runs = AllRuns()
_results = Results()
"""Shared by all who look: what a run came to is the same for everyone."""


def show() -> None:
    """Draw the page."""
    st.session_state.setdefault(_SELECTED, [])
    active = _is_active(_all_runs.of(studio().store))
    st.fragment(_list, run_every=_LIVE_S if active else _IDLE_S)(active)


def _list(was_active: bool) -> None:
    runs = _all_runs.of(studio().store)
    if _is_active(runs) != was_active and not is_request_waiting():
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
    sweeps.show(filters.text)
    # One may have been created since.
    there_are = max(len(runs), studio().store.count()) if len(runs) >= _MOST_READ else len(runs)
    _selection_bar(runs, found, filters, there_are)
    if not found:
        st.html(notice("info", "No run matches.", "Search for less, or clear the filters."))
        return
    _table(found[:most])
    _costs(found, of_all=there_are == len(runs))
    if most < min(len(found), _MOST_SHOWN):
        left = len(found) - most
        st.button(
            f"Show {min(PAGE, left):,} more", key="runs_more", on_click=_more, help=f"older: {plural(left, 'runs')}"
        )


def counted(found: int | None, read: int, there_are: int) -> str:
    """How many runs the page has: `3 of 20 runs`, and `the newest 50,000 of 61,000 runs` where those are all it has
    read. `found`: how many of them match, None where nothing is asked for."""
    total = f"the newest {read:,} of {there_are:,} runs" if read < there_are else f"{read:,} runs"
    if found is not None:
        return f"{found:,} of {total}"
    return "1 run" if total == "1 runs" else total


def _is_active(runs: Sequence[Run]) -> bool:
    """Whether something on the page changes by itself. A sweep has moments between two of its runs."""
    return any(run.active for run in runs) or any(sweep.active for sweep in studio().store.sweeps.newest(10))


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


def _selection_bar(runs: Sequence[Run], found: Sequence[Run], filters: Filters, there_are: int) -> None:
    known = {run.run_id for run in runs}
    selected = [run_id for run_id in st.session_state[_SELECTED] if run_id in known]
    with st.container(key="runs_actions", horizontal=True, vertical_alignment="center"):
        total = counted(len(found) if filters.any else None, len(runs), there_are)
        running = sum(run.active for run in found)
        if running:
            total += f", {running} active"
        count_line(total + (f", {len(selected)} selected" if selected else ""))
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
    frame = frame_of(runs)
    st.dataframe(
        frame,
        key=_TABLE,
        hide_index=True,
        on_select=_select,
        selection_mode="multi-row",
        selection_default=None if before is not None else {"selection": {"rows": rows}},
        column_config=columns_of(frame.data),
        row_height=_ROW_HEIGHT,
        height="content" if len(runs) <= _TALLEST else (_TALLEST + 1) * _ROW_HEIGHT,
        placeholder="",
        alt="Runs, newest first",
    )


def _costs(runs: Sequence[Run], of_all: bool) -> None:
    """Below the table: what the runs that match have cost, by month and pipeline; nothing without a price."""
    ended = [run for run in runs if not run.active]
    # Of many runs it takes a second: only where others have ended since, or others match.
    kept, sums = st.session_state.get(_SUMS, ([], []))
    if kept != ended:
        sums = costs_by_month(ended)
        st.session_state[_SUMS] = ended, sums
    sums = costs_by_month((run for run in runs if run.active), sums)
    if not sums:
        return
    with st.expander("Cost by month and pipeline", key="runs_costs", icon=":material/payments:"):
        numeric = range(2, len(COST_COLUMNS))
        st.html(table(COST_COLUMNS, cost_rows(sums), "Cost by month and pipeline", numeric=numeric))
        count_line(
            "Idle is the time in which the machine's GPUs, or without any its cores, had nothing to do."
            " Runs without a price are left out."
            + ("" if of_all else f" These are of the newest {_MOST_READ:,} runs; “voxelflow runs costs” sums all.")
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

    frame = pd.DataFrame(
        {
            "run": [short_id(run.run_id) for run in runs],
            "state": [[run.state] for run in runs],
            "pipeline": [safe(run.pipeline) for run in runs],
            "result": [_result(run) for run in runs],
            "started": [moment(run.started or run.created) for run in runs],
            "duration": pd.Series([run.seconds for run in runs], dtype="float64").round(3),
            "profile": [safe(run.profile) for run in runs],
            "attempt": [run.attempt for run in runs],
        }
    )
    if any(trial_of(run) for run in runs):
        frame.insert(3, "sweep", [short_id(run.options["sweep"]) if trial_of(run) else "" for run in runs])
        # A number: as a text, trial 10 would come before trial 2.
        trials = [run.options.get("trial") if trial_of(run) else None for run in runs]
        frame.insert(4, "trial", pd.Series(trials, dtype="Int64"))
    if any(run.cost is not None for run in runs):
        frame["cost"] = pd.Series([_rounded(run.cost) for run in runs], dtype="float64")
    return frame


def frame_of(runs: Sequence[Run]) -> Any:
    """The table as Pandas styles it: times and amounts are shown in words, and a click on a header sorts by them.

    A screen reader and a copy get the numbers, which are rounded for that.
    """
    frame = _frame(runs)
    styled = frame.style.format(duration, subset=["duration"], na_rep="")
    if "trial" in frame:
        styled = styled.format(str, subset=["trial"], na_rep="")
    for currency in {run.currency for run in runs} if "cost" in frame else ():
        rows = [at for at, run in enumerate(runs) if run.currency == currency]
        styled = styled.format(partial(money, currency=currency), subset=(rows, ["cost"]), na_rep="")
    return styled


def _rounded(cost: float | None) -> float | None:
    """An amount with as many digits as are shown."""
    return cost if cost is None else round(cost, 2) if cost >= 1 else float(f"{cost:.2g}")


def _result(run: Run) -> str:
    known = _results.known(run)
    if known is None:
        tasks = studio().store.tasks(run.run_id)
        if run.state == "failed":
            # Older ones were read without the document, which has the names of nodes.
            tasks = named(tasks, document_of(run if run.document else studio().store.run(run.run_id)))
        known = result_of(run, tasks)
        _results.keep(run, known)
    return known


def columns_of(frame: Iterable[str]) -> dict[str, Any]:
    """How the columns of the table are shown. The result, which is cut where it is longer, has the room of the smallest
    usual window (1280 pixels) that the others leave."""
    config = st.column_config
    colours = tints(current_mode())
    others = sum(_WIDTHS.get(name, 0) for name in frame)
    # Figures on the left: the words above them cannot stand on the right.
    return {
        "run": config.ButtonColumn(
            "Run", type="secondary", key=_OPEN, on_click=_open, alignment="left", width=_WIDTHS["run"]
        ),
        "state": config.MultiselectColumn(
            "State", options=list(STATES), color=[colours[s] for s in STATES], width=_WIDTHS["state"]
        ),
        "pipeline": config.TextColumn("Pipeline", width=_WIDTHS["pipeline"]),
        "sweep": config.TextColumn("Sweep", width=_WIDTHS["sweep"]),
        "trial": config.NumberColumn("Trial", width=_WIDTHS["trial"], alignment="left"),
        "result": config.TextColumn("Result", width=max(_NARROWEST_RESULT, _TABLE_WIDTH - others)),
        "started": config.TextColumn("Started", width=_WIDTHS["started"]),
        "duration": config.NumberColumn("Duration", width=_WIDTHS["duration"], alignment="left"),
        "profile": config.TextColumn("Profile", width=_WIDTHS["profile"]),
        "attempt": config.NumberColumn("Attempt", width=_WIDTHS["attempt"], alignment="left"),
        "cost": config.NumberColumn("Cost", width=_WIDTHS["cost"], alignment="left"),
    }
