"""A run's pipeline as the person drew it, with the state of each node: the canvas, read-only, and its tab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import streamlit as st

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline
from engine.history.details import Details
from engine.store.runs import Run, Task
from ui.build.catalogue import dataset_info, type_info
from ui.build.documents import pipeline_to_doc
from ui.build.page import documents_of
from ui.build.run_statuses import RunStatuses
from ui.build.status import run_info
from ui.protocol.catalogue import NodeTypeInfo
from ui.protocol.document import Doc
from ui.protocol.picture import Change, Picture
from ui.protocol.status import NodeStatus
from ui.runs import node_panel
from ui.runs.feed import kept_by_tab
from ui.shell.blocks import notice
from ui.shell.canvas import draw_picture
from ui.shell.place_in_turn import place_in_turn
from ui.studio_context import studio

_NODE, _GRAPH, _LIST = "run_node", "run_node_graph", "run_node_list"
_MOST_FOLLOWED = 8
_WIDTH, _MARGIN = 1180, 70
"""Pixels: of the page at its usual size, and around the cards."""
_LOWEST, _TALLEST = 260, 560
_CARD_WIDTH, _HEAD_AND_FOOT, _PORT_ROW = 224, 88, 22
"""Pixels of a card (`canvas/src/view/canvas/size.ts`)."""


def run_picture(
    pipeline: Pipeline, catalog: Catalog, run: Run, status: Mapping[str, NodeStatus], chosen: str | None
) -> Picture:
    """The graph of a run."""
    return _picture(pipeline_to_doc(pipeline), catalog, run=run, status=status, chosen=chosen)


def changes_picture(doc: Doc, changes: Mapping[str, Change], names: tuple[str, str], catalog: Catalog) -> Picture:
    """The graph of two documents in one; `changes` by node and by wire, `names` of what is compared."""
    return _picture(doc, catalog, changes=changes, names=names)


def _picture(
    doc: Doc,
    catalog: Catalog,
    *,
    run: Run | None = None,
    status: Mapping[str, NodeStatus] | None = None,
    changes: Mapping[str, Change] | None = None,
    names: tuple[str, ...] = (),
    chosen: str | None = None,
) -> Picture:
    used = {node.type for node in doc.nodes.values()}
    return Picture(
        # What nobody sees in it stays away: it is sent every second while the run is active.
        doc=doc.model_copy(update={"parameters": {}, "description": "", "ui": {}, "nodes": _bare(doc)}),
        types=[_bare_type(type_info(found)) for found in catalog if found.name in used],
        datasets=[dataset_info(found) for found in catalog.datasets],
        run=run_info(run) if run is not None else None,
        status=dict(status or {}),
        changes=dict(changes) if changes is not None else None,
        names=list(names),
        chosen=chosen,
    )


def _bare(doc: Doc) -> dict[str, object]:
    return {key: node.model_copy(update={"params": {}, "ui": {}}) for key, node in doc.nodes.items()}


def _bare_type(found: NodeTypeInfo) -> NodeTypeInfo:
    return found.model_copy(update={"fields": [], "description": ""})


def picture_height(doc: Doc, width: int = _WIDTH) -> int:
    """Pixels for a graph that is `width` wide: as much as its cards take there, within bounds."""
    if not doc.nodes:
        return _LOWEST
    wires: dict[str, int] = {}
    for edge in doc.edges.values():
        for end in (edge.source, edge.target):
            wires[end.partition(".")[0]] = wires.get(end.partition(".")[0], 0) + 1
    left = min(node.position.x for node in doc.nodes.values())
    right = max(node.position.x for node in doc.nodes.values()) + _CARD_WIDTH
    top = min(node.position.y for node in doc.nodes.values())
    bottom = max(
        node.position.y + _HEAD_AND_FOOT + _PORT_ROW * max(1, wires.get(key, 1)) for key, node in doc.nodes.items()
    )
    zoom = min(1.0, (width - _MARGIN) / (right - left))
    return round(min(_TALLEST, max(_LOWEST, zoom * (bottom - top) + 2 * _MARGIN)))


def selected_node(pipeline: Pipeline, tasks: Iterable[Task], wanted: str | None) -> str | None:
    """The node to show: the one asked for, else one that failed, else one that runs, else the last that was planned."""
    ids = [node.id for node in pipeline.nodes]
    if wanted in ids:
        return wanted
    states = {task.node: task.state for task in tasks if task.node in ids}
    for state in ("failed", "running"):
        if at := next((node for node in ids if states.get(node) == state), None):
            return at
    planned = [node for node in ids if node in states] or ids
    return planned[-1] if planned else None


def show(details: Details) -> None:
    """Draw the tab. The graph and the list below it choose the same node."""
    if details.pipeline is None:
        st.html(notice("error", "This run's document cannot be read.", "It was written by another Voxelflow."))
        return
    ids = [node.id for node in details.pipeline.nodes]
    if not ids:
        st.html(notice("info", "This pipeline has no nodes."))
        return
    run, names = details.run, details.names
    # Of this run alone: another one is looked at where it failed.
    shown = f"{_NODE}-{run.run_id}"
    selected = selected_node(details.pipeline, details.tasks, st.session_state.get(shown))
    # It stays when another node begins to run: the list, once drawn, keeps it too.
    st.session_state[shown] = selected
    found = studio()
    follow = kept_by_tab("run_statuses", run.run_id, lambda: RunStatuses(run, found.shown), _MOST_FOLLOWED)
    picture = run_picture(
        details.pipeline, documents_of(found).catalogue.catalog, run, follow.read(found.store, run), selected
    )
    with st.container(key="run_graph"):
        draw_picture(
            picture,
            key=f"{_GRAPH}-{run.run_id}",
            height=picture_height(picture.doc),
            clicked=partial(_clicked, shown),
        )
    key = _turn(_LIST, run.run_id)
    chosen = st.selectbox(
        "Node",
        ids,
        index=ids.index(selected) if selected in ids else None,
        key=key,
        format_func=lambda node: names.get(node, str(node)),
        on_change=_listed,
        args=(shown, key),
        label_visibility="collapsed",
        width=360,
    )
    if chosen is not None:
        with place_in_turn(f"{_NODE}-{run.run_id}", chosen):
            node_panel.show(details, chosen)


def _turn(kind: str, run_id: str) -> str:
    return f"{kind}-{run_id}-{st.session_state.get(kind, 0)}"


def _clicked(shown: str, node: str) -> None:
    st.session_state[shown] = node
    # A new list, drawn with this node. Were the old one set to it, a timer's rerun that is already on its
    # way with the list's former choice would look like a person's choice and take the click back.
    st.session_state[_LIST] = st.session_state.get(_LIST, 0) + 1


def _listed(shown: str, key: str) -> None:
    st.session_state[shown] = st.session_state[key]
