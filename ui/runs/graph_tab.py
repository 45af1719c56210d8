"""The graph of a run, and all about the node that is chosen in it."""

from __future__ import annotations

import streamlit as st

from ui.runs import node_panel
from ui.runs.details import Details
from ui.runs.graph import boxes, edges, graph_height, selected_node
from ui.runs.graph_view import draw_graph
from ui.shell.blocks import notice
from ui.shell.theme import current_mode

_NODE, _GRAPH = "run_node", "run_graph_key"


def show(details: Details) -> None:
    """Draw the tab. The graph and the list below it choose the same node."""
    if details.pipeline is None:
        st.html(notice("error", "This run's document cannot be read.", "It was written by another Voxelflow."))
        return
    found = boxes(details.pipeline, details.tasks)
    if not found:
        st.html(notice("info", "This pipeline has no nodes."))
        return
    names = details.names
    ids = [box.node for box in found]
    key = _graph_key(details.run.run_id)
    # Before the graph is drawn: it shall mark the node that was clicked in it.
    clicked, before = st.session_state.get(key), f"{key}-clicked"
    if clicked in ids and clicked != st.session_state.get(before):
        st.session_state[_NODE] = clicked
    st.session_state[before] = clicked
    wanted = st.session_state.get(_NODE)
    selected = selected_node(found, wanted if isinstance(wanted, str) else None)
    with st.container(key="run_graph", border=True):
        height = graph_height(ids, edges(details.pipeline))
        draw_graph(details.pipeline, found, selected, current_mode(), key=key, height=height)
    if wanted not in ids:
        st.session_state[_NODE] = selected
    chosen = st.selectbox(
        "Node",
        ids,
        key=_NODE,
        format_func=lambda node: names.get(node, str(node)),
        on_change=_chosen_elsewhere,
        args=(details.run.run_id,),
        label_visibility="collapsed",
        width=360,
        persist_state="page",
    )
    node_panel.show(details, chosen)


def _graph_key(run_id: str) -> str:
    return f"graph-{run_id}-{st.session_state.get(_GRAPH, 0)}"


def _chosen_elsewhere(run_id: str) -> None:
    # The graph says nothing when the node that was clicked last is clicked again: a new one has none.
    if st.session_state.get(f"{_graph_key(run_id)}-clicked") is not None:
        st.session_state[_GRAPH] = st.session_state.get(_GRAPH, 0) + 1
