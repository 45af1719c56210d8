"""The Start page: what was worked on last, the gallery of templates, volumes to try.

Drawn from files and the run store alone: nothing is opened, so it is there as soon as it is asked for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import streamlit as st

from engine.errors import VoxelflowError
from engine.store.runs import Run
from engine.text import ago, duration, plural
from ui.build.open_documents import FIRST_TEMPLATE, OpenDocuments
from ui.build.page import documents_of, open_document
from ui.protocol.catalogue import PipelineInfo
from ui.runs.history import result_of
from ui.shell import navigation
from ui.shell.blocks import Html, chip, heading, plain, show_error, svg_image, tag, text, unbroken
from ui.start.gallery import Template, Volumes, graph, in_short_lines, picture, templates, typed, volumes
from ui.studio_context import studio

_SEEN = "start.seen"
_OPENED = "start.opened"
_REFUSED = "start.refused"
"""Key of the session state: why the template that was clicked cannot be opened."""
_MOST = 5
_MOST_IN_A_ROW = 5
"""Cards: with more of them their words become columns of single words at 1280 pixels."""
_CARD_WIDTH = 250
"""Pixels of a template's card at least: its facts stand in lines of some words."""
_COMMAND_WIDTH = 340
"""Pixels of a card with commands: what follows the program is seen in one line."""
_LOOKED_AT = 200
"""Runs among which the newest of each pipeline is looked for."""
_LIVE_S, _IDLE_S = 2.0, 15.0
_INK = "#8a94a3"
_GRAPH = (250, 44)
_STEPS = (
    ("Use a template", "It opens as your own copy. Change what you like: undo covers everything."),
    ("Press Run", "Each node shows its phase, its progress and the time left. You may close the page meanwhile."),
    ("Look at what it made", "Volumes, curves, mistakes: click a picture on a node, or press D."),
)


def comes_first() -> bool:
    """Whether a visit that began at the bare address is led here: once, while the workspace has no pipelines of its
    own. Who chooses Build in the menu gets it."""
    if _SEEN in st.session_state or navigation.entry() != navigation.BUILD or navigation.PIPELINE in st.query_params:
        return False
    documents = documents_of(studio())
    return not documents.files.state() and not documents.drafts.documents()


def show() -> None:
    """Draw the page."""
    st.session_state[_SEEN] = True
    _go_where_asked()
    documents = documents_of(studio())
    documents.each_second()  # files that others have written meanwhile
    runs = studio().store.runs(_LOOKED_AT)
    pipelines = _newest(documents, runs)
    _first_steps(new=not runs)
    if pipelines or runs:
        every = _LIVE_S if any(run.active for run in runs) else _IDLE_S
        st.fragment(_recent, run_every=every)()
    _templates(documents, first=not runs)
    _volumes()


# --- what to do first ----------------------------------------------------------------------------


def _first_steps(*, new: bool) -> None:
    st.html(tag("div", tag("h1", "From volumes to a trained network" if new else "Start"), class_="vf-title"))
    if not new:
        return
    steps = [tag("li", tag("b", title), tag("span", words, class_="vf-muted")) for title, words in _STEPS]
    st.html(tag("ol", *steps, class_="vf-steps"))


# --- what was worked on last ----------------------------------------------------------------------


def _newest(documents: OpenDocuments, runs: Sequence[Run]) -> list[PipelineInfo]:
    """The pipelines by when they were changed or run last; those without a file, which are new, come first."""
    ran = {run.pipeline: run.created for run in reversed(runs)}
    listed = documents.library().pipelines
    return sorted(listed, key=lambda p: -max(p.modified or float("inf"), ran.get(p.name, 0)))[:_MOST]


def _recent() -> None:
    _go_where_asked()
    documents_of(studio()).each_second()
    runs = studio().store.runs(_LOOKED_AT)
    last = {run.pipeline: run for run in reversed(runs)}
    left, right = st.columns(2, gap="large")
    with left, st.container(key="start_pipelines"):
        st.html(heading("Your pipelines"))
        found = _newest(documents_of(studio()), runs)
        for info in found:
            _pipeline(info, last.get(info.name))
        if not found:
            st.html(tag("p", "None yet: a template below makes the first one.", class_="vf-muted"))
    with right, st.container(key="start_runs"):
        st.html(heading("Latest runs"))
        for run in runs[:_MOST]:
            _run(run)
        if not runs:
            st.html(tag("p", "None yet: open a pipeline and press Run.", class_="vf-muted"))


def _pipeline(info: PipelineInfo, run: Run | None) -> None:
    with st.container(key=f"start_pipeline_{info.document}", horizontal=True, vertical_alignment="center"):
        st.button(
            plain(info.name, 60),
            key=f"start_open_{info.document}",
            type="tertiary",
            icon=":material/account_tree:",
            help=plain(info.problem or info.description, 200) or None,
            on_click=_open,
            args=(info.document,),
        )
        when = "not saved" if info.modified is None else ago(info.modified, time.time())
        st.html(
            tag("span", chip(run.state) if run else None, tag("span", when, class_="vf-muted"), class_="vf-row-end")
        )


def _run(run: Run) -> None:
    with st.container(key=f"start_run_{run.run_id}", horizontal=True, vertical_alignment="center"):
        navigation.link_to_run(run.run_id, plain(run.pipeline, 40))
        result = "" if run.active else result_of(run, studio().store.tasks(run.run_id))
        took = "" if run.seconds is None else duration(run.seconds)
        st.html(
            tag(
                "span",
                text(result, "vf-muted vf-row-text"),
                chip(run.state),
                tag("span", took, class_="vf-muted"),
                class_="vf-row-end",
            )
        )


def _open(document: str) -> None:
    st.session_state[_OPENED] = document


def _go_where_asked() -> None:
    """To the editor, with the pipeline that was clicked."""
    if (opened := st.session_state.pop(_OPENED, None)) is not None:
        open_document(opened)
        navigation.go_to_build()


# --- templates and volumes ------------------------------------------------------------------------


def _templates(documents: OpenDocuments, *, first: bool) -> None:
    st.html(heading("Templates"))
    if (refused := st.session_state.pop(_REFUSED, None)) is not None:
        show_error(refused)
    catalog = documents.catalogue.catalog
    found = templates()
    rows = max(1, math.ceil(len(found) / _MOST_IN_A_ROW))
    # Where there is room, rows of one length.
    columns = max(1, math.ceil(len(found) / rows))
    with st.container(key="start_templates"), st.grid(columns, min_column_width=_CARD_WIDTH) as grid:
        for template in found:
            with grid.cell(), st.container(border=True, key=f"start_template_{template.name}", height="stretch"):
                drawn = svg_image(
                    graph(template.pipeline, catalog, *_GRAPH), _INK, plural(len(template.pipeline.nodes), "nodes"), ""
                )
                st.html(_card(template, drawn))
                st.button(
                    "Use this",
                    key=f"start_use_{template.name}",
                    type="primary" if first and template.name == FIRST_TEMPLATE else "secondary",
                    help="Opens a copy of your own, in the editor.",
                    on_click=_use,
                    args=(template.name,),
                )
    st.button("Empty pipeline", key="start_empty", icon=":material/add:", type="tertiary", on_click=_use, args=(None,))


def _card(template: Template, drawn: Html) -> Html:
    facts = [
        tag("div", tag("dt", name), tag("dd", unbroken(words)))
        for name, words in (("Takes", template.takes), ("Gives", template.gives), ("Time", template.duration))
        if words
    ]
    return tag(
        "div",
        _picture(template.name, template.name),
        tag("h3", text(template.name)),
        tag("p", tag("bdi", unbroken(template.pipeline.description)), class_="vf-muted"),
        tag("div", drawn, class_="vf-card-graph"),
        tag("dl", *facts),
        class_="vf-card",
    )


def _use(template: str | None) -> None:
    try:
        st.session_state[_OPENED] = documents_of(studio()).new(template).document.id
    except VoxelflowError as error:  # Streamlit calls this before the page, which reports what it raises itself
        st.session_state[_REFUSED] = error


def _volumes() -> None:
    st.html(heading("Volumes to try"))
    found = volumes()
    with (
        st.container(key="start_volumes"),
        st.grid(len(found), min_column_width=_COMMAND_WIDTH, border=True) as grid,
    ):
        for each in found:
            with grid.cell():
                st.html(_about(each))
                if each.command:
                    # A line that is longer is scrolled: wrapped, it would be broken within a path.
                    st.code(in_short_lines(typed(each.command)), language=None)
                if name := each.template:
                    st.button(f"Use {name}", key=f"start_with_{each.name}", on_click=_use, args=(name,))


def _about(each: Volumes) -> Html:
    return tag(
        "div",
        _picture(f"volumes-{each.name}", each.title),
        tag("h3", each.title),
        tag("p", unbroken(each.text), class_="vf-muted"),
        class_="vf-card vf-card-wide",
    )


def _picture(name: str, title: str) -> Html | None:
    address = picture(name)
    return tag("img", src=address, alt=f"What {title} looks like", class_="vf-card-picture") if address else None
