"""The graph of a run, and all about the node that is chosen in it."""

from __future__ import annotations

import streamlit as st

from ui.runs import node_panel
from ui.runs.details import Details
from ui.runs.graph import boxes, edges, graph_height, selected_node
from ui.runs.graph_view import draw_graph
from ui.shell.blocks import notice
from ui.shell.theme import current_mode

_NODE = "run_node"
_GRAPH, _LIST = "run_node_graph", "run_node_list"


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
    wanted = st.session_state.get(_NODE)
    selected = selected_node(found, wanted if isinstance(wanted, str) else None)
    # It stays when another node begins to run: the list, once drawn, keeps it too.
    st.session_state[_NODE] = selected
    with st.container(key="run_graph", border=True):
        height = graph_height(ids, edges(details.pipeline))
        key = _turn(_GRAPH, details.run.run_id)
        draw_graph(details.pipeline, found, selected, current_mode(), _clicked, key=key, height=height)
    key = _turn(_LIST, details.run.run_id)
    chosen = st.selectbox(
        "Node",
        ids,
        index=ids.index(selected) if selected in ids else None,
        key=key,
        format_func=lambda node: names.get(node, str(node)),
        on_change=_listed,
        args=(key,),
        label_visibility="collapsed",
        width=360,
    )
    if chosen is not None:
        node_panel.show(details, chosen)


def _turn(kind: str, run_id: str) -> str:
    return f"{kind}-{run_id}-{st.session_state.get(kind, 0)}"


def _clicked(key: str) -> None:
    clicked = st.session_state.get(key)
    if clicked is None:  # a click beside the nodes
        return
    st.session_state[_NODE] = clicked
    # A new list, drawn with this node. Were the old one set to it, a timer's rerun that is already on its
    # way with the list's former choice would look like a person's choice and take the click back.
    st.session_state[_LIST] = st.session_state.get(_LIST, 0) + 1


def _listed(key: str) -> None:
    st.session_state[_NODE] = st.session_state[key]
    # A new graph: the old one says nothing when the node that was clicked last in it is clicked again.
    st.session_state[_GRAPH] = st.session_state.get(_GRAPH, 0) + 1
