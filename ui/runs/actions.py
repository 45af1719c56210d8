"""What a person can do with a run: open its results, cancel, resume, run again, change and run, open as pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st
from pydantic import JsonValue

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline, load
from engine.document.plan import Choice
from engine.document.values import read_texts
from engine.errors import VoxelflowError
from engine.history.details import Details, saved_as
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import Run
from ui.runs import results
from ui.shell import navigation
from ui.shell.blocks import notice, plain, show_error
from ui.studio_context import Studio, studio

_DIALOG = "rerun_open"


def show(details: Details) -> None:
    """Draw the buttons, and below them the error of one that was pressed."""
    run = details.run
    with st.container(key="run_actions", horizontal=True):
        results.show(details)
        pressed = _buttons(details)
        if st.button("Compare", key="run_compare", icon=":material/compare_arrows:", help="Put runs side by side."):
            navigation.go_to_comparison([run.run_id])
    if pressed is not None:
        try:
            pressed(run)
        except VoxelflowError as error:
            show_error(error)
    if st.session_state.get(_DIALOG) == run.run_id:
        _dialog(details)


def _buttons(details: Details) -> Callable[[Run], None] | None:
    """Draw the buttons that change something; returns what the pressed one does."""
    run = details.run
    out: Callable[[Run], None] | None = None
    if run.active:
        # A stuck run never reads the request; asked again, it is ended.
        asked = run.cancel and run.state != "stuck"
        label = "Cancelling" if asked else "Cancel"
        if st.button(label, key="run_cancel", icon=":material/stop_circle:", disabled=asked):
            out = _cancel
    elif run.state != "done":
        limited = run.stopped_at_limit
        help_text = "Go on with this run. What is done stays."
        if limited:
            help_text += " Its limit has stopped it; it then has as much again."
        label = f"Resume for another {run.limit.text(run.currency)}" if limited else "Resume"
        if st.button(label, key="run_resume", icon=":material/resume:", type="primary", help=help_text):
            out = _resume_run
    if st.button("Re-run", key="run_again", icon=":material/replay:", help="A new run of the same pipeline."):
        out = _run_again
    if details.pipeline is None:  # the page says why
        return out
    if st.button("Re-run with changes", key="run_changed", icon=":material/tune:"):
        out = _change
    if st.button("Open as pipeline", key="run_open", icon=":material/account_tree:", help="Edit what this run ran."):
        out = _open
    return out


def _cancel(run: Run) -> None:
    launch.cancel(studio().store, run.run_id)
    st.rerun()


def _resume_run(run: Run) -> None:
    with st.spinner("Starting"):
        resume(studio(), run)
    st.rerun()


def _run_again(run: Run) -> None:
    with st.spinner("Checking and planning"):
        run_id = run_again(studio(), run)
    navigation.go_to_run(run_id)


def _change(run: Run) -> None:
    st.session_state[_DIALOG] = run.run_id


def _open(run: Run) -> None:
    # Only now: the editor is much to load for a page that rarely needs it.
    from ui.build.page import import_document, open_document

    saved = saved_as(studio().workspace, run.document)
    if saved is not None:
        open_document(saved)
    else:
        import_document(run.document, f"the document of run {run.run_id}")
    navigation.go_to_build()


def _closed() -> None:
    st.session_state.pop(_DIALOG, None)


@st.dialog("Re-run with changes", width="medium", on_dismiss=_closed)
def _dialog(details: Details) -> None:
    pipeline = details.pipeline
    assert pipeline is not None
    catalog = studio().make_catalog(studio().workspace)
    with st.form("rerun_form", border=False):
        if not pipeline.parameters:
            st.html(notice("info", "This pipeline has no parameters.", "“Open as pipeline” changes its nodes."))
        texts = {
            name: st.text_input(
                plain(name),
                value=shown_value(parameter.value),
                key=f"rerun-{details.run.run_id}-{name}",
                help=plain(parameter.help) or None,
            )
            for name, parameter in sorted(pipeline.parameters.items())
        }
        fresh = st.checkbox(
            "Do everything again",
            key="rerun_fresh",
            help="Ignore cached results.",
            value=bool(details.run.options.get("fresh")),
        )
        pressed = st.form_submit_button("Run", type="primary", icon=":material/play_arrow:", key="rerun_start")
    if not pressed:
        return
    try:
        with st.spinner("Checking and planning"):
            values = read_values(texts, pipeline, catalog, studio().base)
            run_id = run_again(studio(), details.run, values, fresh=fresh)
    except VoxelflowError as error:
        show_error(error)
        return
    _closed()
    navigation.go_to_run(run_id)


# --- running again ------------------------------------------------------------------------------


def shown_value(value: JsonValue) -> str:
    """A parameter's value as a person edits it in a text field; nothing where there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_values(texts: Mapping[str, str], pipeline: Pipeline, catalog: Catalog, base: Path) -> dict[str, JsonValue]:
    """Values by parameter from what the person wrote, read as the command line reads them; paths are made absolute.

    A field left as it was keeps the document's value and type. An empty one where the document has no value stays
    without.
    """
    held = {name: pipeline.parameters[name].value for name in texts}
    # A text that was left as it was is that text, whatever it looks like.
    typed = {name: json.dumps(held[name]) if text == shown_value(held[name]) else text for name, text in texts.items()}
    return {name: value for name, value in read_texts(typed, pipeline, catalog, base).items() if value is not None}


def run_again(
    studio: Studio, run: Run, values: Mapping[str, JsonValue] | None = None, *, fresh: bool | None = None
) -> str:
    """Start a run of the same document with the same profile; gives its id.

    It runs the same part of the pipeline. The values that the first run was given are still the person's own, so the
    folders they name stay allowed. Raises as `launch.start` does, `PipelineError` when this Voxelflow cannot read the
    document, and `UsageError` when the profile is gone.
    """
    pipeline = load(run.document, f"the document of run {run.run_id}")
    kept = {name: p.value for name, p in pipeline.parameters.items() if p.value is not None}
    options = run.options
    choice = Choice(
        start=options.get("start"),
        end=options.get("end"),
        fresh=bool(options.get("fresh")) if fresh is None else fresh,
    )
    run_id, _ = launch.start(
        pipeline,
        studio.make_catalog(studio.workspace),
        studio.workspace,
        studio.store,
        values={**kept, **(values or {})},
        profile=find_profile(run.profile, studio.workspace),
        choice=choice,
        base=studio.base,
        limit=run.limit or None,
    )
    return run_id


def resume(studio: Studio, run: Run) -> None:
    """Go on with a run, and wait until it does, so that the page does not show it as ended still.

    One that its limit has stopped goes on for as much again.

    Raises `UsageError` when there is nothing to go on with, `ExecutionError` when it does not start.
    """
    limit = run.limit.more(run.worked_s, run.cost) if run.stopped_at_limit else None
    launch.resume(studio.workspace, studio.store, run.run_id, limit)
    launch.wait_started(studio.workspace, studio.store, run.run_id, run.attempt + 1, timeout_s=20)
