"""What a person can do with a run: cancel, resume, run again, change and run, open as pipeline, find in MLflow."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from engine import launch
from engine.cli.following import is_tracked
from engine.errors import VoxelflowError
from engine.runs import Run
from ui.runs import rerun
from ui.runs.details import Details, saved_as
from ui.runs.tracked import tracked
from ui.shell import navigation
from ui.shell.blocks import facts, notice, tag, text
from ui.shell.telling import show_error
from ui.shell.text import plain
from ui.studio_context import studio

_DIALOG = "rerun_open"


def show(details: Details) -> None:
    """The buttons, and below them what became of one that was pressed."""
    run = details.run
    with st.container(key="run_actions", horizontal=True):
        pressed = _buttons(details)
        _mlflow(run)
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
    """Draw those that change something; gives what the one that was pressed does."""
    run = details.run
    out: Callable[[Run], None] | None = None
    if run.active:
        label = "Cancelling" if run.cancel else "Cancel"
        if st.button(label, key="run_cancel", icon=":material/stop_circle:", disabled=run.cancel):
            out = _cancel
    elif run.state != "done":
        told = "Go on with this run. What is done stays."
        if st.button("Resume", key="run_resume", icon=":material/resume:", type="primary", help=told):
            out = _resume
    if st.button("Re-run", key="run_again", icon=":material/replay:", help="A new run of the same pipeline."):
        out = _again
    if details.pipeline is None:  # it was told why
        return out
    if st.button("Re-run with changes", key="run_changed", icon=":material/tune:"):
        out = _change
    if st.button("Open as pipeline", key="run_open", icon=":material/account_tree:", help="Edit what this run ran."):
        out = _open
    return out


def _cancel(run: Run) -> None:
    launch.cancel(studio().store, run.run_id)
    st.rerun()


def _resume(run: Run) -> None:
    with st.spinner("Starting"):
        rerun.resume(studio(), run)
    st.rerun()


def _again(run: Run) -> None:
    with st.spinner("Checking and planning"):
        run_id = rerun.run_again(studio(), run)
    navigation.go_to_run(run_id)


def _change(run: Run) -> None:
    st.session_state[_DIALOG] = run.run_id


def _open(run: Run) -> None:
    # Only now: the editor is much to load for a page that rarely needs it.
    from ui.build.opening import import_document, open_document

    saved = saved_as(studio().workspace, run.document)
    if saved is not None:
        open_document(saved)
    else:
        import_document(run.document, f"the document of run {run.run_id}")
    navigation.go_to_build()


def _mlflow(run: Run) -> None:
    found = tracked(studio().workspace, run.run_id)
    # The app may keep no runs in MLflow where the terminal that started this one did.
    if not found.run and not is_tracked():
        return
    if found.url:
        st.link_button("MLflow", found.url, icon=":material/open_in_new:", key="run_mlflow")
        return
    with st.popover("MLflow", icon=":material/monitoring:", key="run_mlflow"):
        if not found.run:
            st.html(tag("p", "Nothing of this run is in MLflow yet. It will be kept at ", text(found.place, "vf-mono")))
            return
        sent = "yes" if found.sent else "not yet"
        st.html(facts([("MLflow run", tag("span", found.run, class_="vf-mono")), ("All sent", sent)]))
        st.html(tag("p", "It is kept at ", text(found.place, "vf-mono"), ". This command shows it in the browser:"))
        st.code(found.command, language=None, wrap_lines=True)
        for note in found.notes:
            st.html(notice("warning", text(note)))


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
                value=rerun.shown_value(parameter.value),
                key=f"rerun-{details.run.run_id}-{name}",
                help=plain(parameter.help) or None,
            )
            for name, parameter in sorted(pipeline.parameters.items())
        }
        fresh = st.checkbox(
            "Do everything again",
            key="rerun_fresh",
            help="Use no result of earlier runs.",
            value=bool(details.run.options.get("fresh")),
        )
        pressed = st.form_submit_button("Run", type="primary", icon=":material/play_arrow:", key="rerun_start")
    if not pressed:
        return
    try:
        with st.spinner("Checking and planning"):
            values = rerun.read_values(texts, pipeline, catalog, studio().base)
            run_id = rerun.run_again(studio(), details.run, values, fresh=fresh)
    except VoxelflowError as error:
        show_error(error)
        return
    _closed()
    navigation.go_to_run(run_id)
