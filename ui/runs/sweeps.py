"""Sweeps on the page of all runs: each with its trials, best first, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from engine.errors import VoxelflowError
from engine.history.details import short_id
from engine.limit import Limit
from engine.store.runs import Run
from engine.store.sweeps import Sweep, Trial
from engine.sweep.changes import begun_anew, mixed
from engine.sweep.expected import SweepEstimate, came_to
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective, best_first, best_of, score_texts
from engine.sweep.space import settings_text, value_text
from engine.sweep.spent import Spent, spent, stopped_at_limit
from engine.sweep.start import cancel_sweep, resume_sweep
from engine.text import moment, plural, safe
from engine.wording import figure_name
from ui.shell import navigation
from ui.shell.blocks import (
    Content,
    Html,
    chip,
    count_line,
    failure,
    notice,
    plain,
    shortened,
    show_error,
    table,
    tag,
    text,
    with_commands,
)
from ui.studio_context import studio

MOST_COMPARED = 32
"""Runs that the page Compare takes."""
_FEW, _MANY = 3, 50
"""Sweeps that are listed at first, and when asked for more."""
_MOST_ROWS = 12
_LONGEST_VALUES = 80
_ALL, _AT_WORK = "sweeps_all", "sweeps_at_work"


def show(searched: str = "") -> None:
    """Draw the newest sweeps, closed so that the runs below them are in sight; nothing where there are none.

    Open are those at work and the one that is searched for.
    """
    most = _MANY if st.session_state.get(_ALL) else _FEW
    found = studio().store.sweeps.newest(_MANY + 1)
    if not found:
        return
    seen: set[str] = st.session_state.setdefault(_AT_WORK, set())
    with st.container(key="runs_sweeps"):
        for sweep in found[:most]:
            opened = is_open(sweep, seen, searched)
            trials = studio().store.sweeps.trials(sweep.sweep_id)
            with st.expander(
                title_of(sweep, trials), key=f"sweep-{sweep.sweep_id}", icon=":material/tune:", expanded=opened
            ):
                _sweep(sweep, trials)
        if len(found) > most:
            st.button("More sweeps", key="sweeps_more", type="tertiary", on_click=_more)


def is_open(sweep: Sweep, seen: set[str], searched: str = "") -> bool:
    """Whether it is at work, or has been while the page was open: it does not close as it ends. Also one that the
    search names, in the address too. `seen` keeps those at work."""
    if sweep.active:
        seen.add(sweep.sweep_id)
    return sweep.sweep_id in seen or searched.strip() in (sweep.sweep_id, short_id(sweep.sweep_id))


def title_of(sweep: Sweep, trials: Sequence[Trial]) -> str:
    """`Sweep 4c7ecd of quickstart: done, 4 of 4 trials, best Validation AUC 0.93`, as Markdown."""
    options = SweepOptions.from_json(sweep.options)
    ended = sum(trial.ended for trial in trials)
    parts = [sweep.state, f"{ended:,} of {plural(options.count, 'trials')}"]
    if best_of(trials, options.objective) is not None and options.objective is not None:
        parts.append(f"best {plain(_figure(options.objective))} {score_texts(_shown(sweep, trials))[0]}")
    return f"Sweep {short_id(sweep.sweep_id)} of {plain(sweep.pipeline, 40)}: {', '.join(parts)}"


def _figure(objective: Objective) -> str:
    """By what the trials are judged, as other pages call it: `Validation AUC`; of the node `train` alone
    `Validation AUC, train`."""
    node, _, name = objective.figure.rpartition(".")
    return ", ".join(filter(None, (figure_name(name), node)))


def objectives_of(runs: Iterable[Run]) -> set[str]:
    """The names of the figures by which the sweeps of these runs judge them, without their nodes."""
    names = {str(run.options["sweep"]) for run in runs if run.options.get("sweep")}
    found = set()
    for sweep in studio().store.sweeps.newest(-1) if names else ():
        objective = SweepOptions.from_json(sweep.options).objective
        if sweep.sweep_id in names and objective is not None:
            found.add(objective.figure.rpartition(".")[2])
    return found


def trial_rows(sweep: Sweep, trials: Sequence[Trial], runs: Mapping[int, str]) -> list[list[Content]]:
    """The table's rows, best first: trial, its values, score, state and run."""
    options, shown = SweepOptions.from_json(sweep.options), _shown(sweep, trials)
    return [
        [
            f"{trial.number}",
            *(value_text(trial.values[name]) if name in trial.values else "" for name in options.space.names),
            score,
            chip(trial.state),
            _link(runs[trial.number]) if trial.number in runs else "",
            shortened(trial.error, 120),
        ]
        for trial, score in zip(shown, score_texts(shown), strict=True)
    ]


def _link(run_id: str) -> Html:
    return tag("a", short_id(run_id), href=navigation.address_of_run(run_id), class_="vf-link")


def _shown(sweep: Sweep, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that the table has room for, best first."""
    return best_first(trials, SweepOptions.from_json(sweep.options).objective)[:_MOST_ROWS]


def _sweep(sweep: Sweep, trials: Sequence[Trial]) -> None:
    options, runs = SweepOptions.from_json(sweep.options), studio().store.sweeps.runs_of_trials(sweep.sweep_id)
    figure = _figure(options.objective) if options.objective is not None else "score"
    names = options.space.names
    columns = ["trial", *(safe(name) for name in names), safe(figure), "state", "run", ""]
    st.html(table(columns, trial_rows(sweep, trials, runs), f"Trials of sweep {short_id(sweep.sweep_id)}"))
    if len(trials) > _MOST_ROWS:
        more = f"{len(trials) - _MOST_ROWS:,} more: `voxelflow sweep show {short_id(sweep.sweep_id)}` lists all"
        count_line(with_commands(more))
    if sweep.error:
        st.html(failure(sweep.error))
    if warning := mixed(sweep):
        st.html(notice("warning", text(warning)))
    if why := begun_anew(sweep):
        count_line(why)
    about = f"started {moment(sweep.created)}, profile {sweep.profile}, {plural(options.jobs, 'trials')} at a time"
    fixed = settings_text(options.space.fixed)
    count_line(f"{about}, {shortened(fixed, _LONGEST_VALUES)}" if fixed else about)
    used = spent(studio().store, sweep)
    if figures := figures_of(sweep, used):
        count_line("; ".join(figures))
    _buttons(sweep, trials, runs, used)


def figures_of(sweep: Sweep, used: Spent) -> list[str]:
    """What it has spent, its limit, and what is expected of it, or was; its time once."""
    expected = None if sweep.state == "done" else SweepEstimate.of(sweep.options)
    return [*came_to(sweep, used), *filter(None, [expected.line() if expected is not None else ""])]


def _buttons(sweep: Sweep, trials: Sequence[Trial], runs: Mapping[int, str], used: Spent) -> None:
    objective = SweepOptions.from_json(sweep.options).objective
    ranked = best_first(trials, objective)
    made = [runs[trial.number] for trial in ranked if trial.number in runs]
    key = sweep.sweep_id
    with st.container(horizontal=True, key=f"sweep-actions-{key}"):
        best = best_of(ranked, objective)
        if st.button(
            "Compare trials", key=f"sweep-compare-{key}", icon=":material/compare_arrows:", disabled=len(made) < 2
        ):
            navigation.go_to_comparison(made[:MOST_COMPARED])
        if (
            best is not None
            and best.number in runs
            and st.button("Open the best", key=f"sweep-best-{key}", icon=":material/trophy:")
        ):
            navigation.go_to_run(runs[best.number])
        try:
            if sweep.active:
                label = "Cancelling" if sweep.cancel else "Cancel"
                if st.button(label, key=f"sweep-cancel-{key}", icon=":material/stop_circle:", disabled=sweep.cancel):
                    cancel_sweep(studio().store, sweep.sweep_id)
                    st.rerun()
            elif can_go_on(sweep, trials) and st.button(
                "Resume", key=f"sweep-resume-{key}", icon=":material/resume:", help=_resume_help(sweep, used)
            ):
                with st.spinner("Starting"):
                    limit = higher_limit(sweep, used)
                    catalog = studio().make_catalog(studio().workspace)
                    resume_sweep(studio().workspace, studio().store, sweep.sweep_id, catalog, limit=limit)
                st.rerun()
        except VoxelflowError as error:
            show_error(error)


def can_go_on(sweep: Sweep, trials: Sequence[Trial]) -> bool:
    """Whether one that is not at work has something left to do."""
    return sweep.state != "done" or SweepOptions.from_json(sweep.options).is_left(trials)


def higher_limit(sweep: Sweep, used: Spent) -> Limit | None:
    """The limit with which a sweep that its own has stopped goes on: for as much again; None for others."""
    return sweep.limit.more(used.worked_s, used.cost) if stopped_at_limit(sweep, used) else None


def _resume_help(sweep: Sweep, used: Spent) -> str:
    limit = higher_limit(sweep, used)
    more = "" if limit is None else f" Its limit is then {limit.text(used.currency)}."
    return f"Trials that are done stay.{more}"


def _more() -> None:
    st.session_state[_ALL] = True
