"""The page of one run: its header, and the tab that is open."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from engine.document.pipeline import display_names
from engine.errors import UsageError
from engine.history.details import Details, document_of, failure_lines, named, read_details, short_id
from engine.store.estimates import Estimated
from engine.store.runs import Run, Task
from engine.text import duration, moment
from engine.wording import against_estimate, cost_text, expected_text, summary
from ui.runs import actions
from ui.shell import navigation
from ui.shell.blocks import chip, facts, failure, notice, shortened, tag, text
from ui.shell.outlined import outlined
from ui.shell.place_in_turn import place_in_turn
from ui.shell.redraw import is_request_waiting
from ui.shell.theme import follow_mode
from ui.studio_context import studio

TICK_S = 1.0


def show() -> None:
    """Draw the run that the address names."""
    wanted = st.query_params.get("run", "")
    try:
        if not wanted:  # an empty id is the beginning of every other
            raise UsageError("no run is chosen", hint="Choose one from the list.")
        details = read_details(studio().workspace, studio().store, wanted)
    except UsageError:
        _missing(wanted)
        return
    run = details.run
    navigation.set_title(f"{shortened(run.pipeline, 60)} {short_id(run.run_id)}")
    every = TICK_S if run.active else None
    # Links lead from run to run: a tab of the one before would stand below the head of this one.
    with place_in_turn("run", run.run_id):
        st.fragment(_header, run_every=every)(run.run_id, _version(run))
        actions.show(details)
        st.fragment(_parts)(run.run_id, every)
    follow_mode()


def _parts(run_id: str, every: float | None) -> None:
    # A fragment, so that the answer to a click comes at once: Streamlit's tabs take the answer for the person's
    # newest choice, and a second click before it would be lost.
    tabs = st.tabs(list(TABS), key="view", on_change="rerun", bind="query-params")
    for tab, module in zip(tabs, TABS.values(), strict=True):
        with tab:
            if tab.open:
                st.fragment(_part, run_every=every)(run_id, module)


def _part(run_id: str, module: str) -> None:
    with outlined("run", (run_id, module)):
        draw: Callable[[Details], None] = importlib.import_module(f"ui.runs.{module}").show
        draw(read_details(studio().workspace, studio().store, run_id))


def _missing(wanted: str) -> None:
    title = f"There is no run {wanted}." if wanted else "No run is chosen."
    st.html(notice("info", text(title), "Choose one from the history."))
    if st.button("Go to Runs", key="run_to_history", type="primary"):
        navigation.go_to_runs()


def _version(run: Run) -> tuple[object, ...]:
    """When this changes, so do the buttons and the page's pace."""
    return (run.state, run.attempt, run.cancel)


def _header(run_id: str, version: tuple[object, ...]) -> None:
    run = studio().store.run(run_id)
    if _version(run) != version and not is_request_waiting():
        st.rerun()
    tasks = studio().store.tasks(run_id)
    st.html(
        tag(
            "div",
            tag("h1", text(run.pipeline), title=run.pipeline),
            chip("cancelling" if run.cancel and run.active and run.state != "stuck" else run.state),
            tag("span", run.run_id, class_="vf-id"),
            class_="vf-title",
        )
    )
    st.html(facts(_facts(run, tasks)))
    failed = [task for task in tasks if task.state == "failed"]
    for message, hint in failure_lines(run, named(failed, document_of(run)) if failed else []):
        st.html(failure(message, hint))


def _titled(run: Run) -> Run:
    """The run, its options naming nodes as the canvas does. The document is read only when they name one."""
    expected = run.estimated or Estimated()
    ends = {each: run.options[each] for each in ("start", "end") if run.options.get(each)}
    pipeline = document_of(run) if ends or expected.unknown else None
    if pipeline is None:
        return run
    titles = display_names(pipeline.nodes)
    ends = {each: titles.get(node, node) for each, node in ends.items()}
    unknown = replace(expected, unknown=tuple(titles.get(node, node) for node in expected.unknown))
    return replace(run, options={**run.options, **ends, **unknown.as_options()})


def _facts(run: Run, tasks: list[Task]) -> list[tuple[str, str]]:
    run = _titled(run)
    out = [
        ("Started", moment(run.started or run.created)),
        ("Duration", duration(run.seconds) if run.seconds is not None else ""),
        ("Profile", run.profile),
        ("Attempt", str(run.attempt)),
        ("Nodes", summary(run, tasks).partition(": ")[2]),
    ]
    if (backend := run.options.get("backend", "embedded")) != "embedded":
        out.insert(3, ("Backend", str(backend)))
    if cost := cost_text(run):
        out.append(("Cost", cost))
    if compared := against_estimate(run):
        # What it took and has cost stands there already.
        out.append(("Expected", compared.removeprefix("expected: ").partition("; it took ")[0]))
    elif run.state != "done" and (expected := expected_text(run)):
        out.append(("Expected", expected.removeprefix("expected ")))
    if run.limit:
        out.append(("Limit", f"{run.limit.text(run.currency)}; at work for {duration(run.worked_s)}"))
    ends = (("from", "start"), ("to", "end"))
    if parts := [f"{word} {run.options[name]}" for word, name in ends if run.options.get(name)]:
        out.append(("Part", ", ".join(parts)))
    return out


TABS: dict[str, str] = {
    "Overview": "overview",
    "Graph": "graph",
    "Timeline": "timeline",
    "Metrics": "metrics",
    "Monitor": "monitor",
    "Logs": "logs",
    "Pipeline": "document",
}
"""The module in this folder that draws each tab. Imported when it is first opened: charts alone take a second."""
