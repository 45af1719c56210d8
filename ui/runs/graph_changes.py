"""What two runs' documents have otherwise: as one graph, and as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from engine.document.node_names import names_in_both, wire_name
from engine.document.pipeline import Node, Pipeline, display_names
from engine.history.details import Details, short_id
from engine.text import safe
from ui.build.documents import pipeline_to_doc
from ui.build.page import documents_of
from ui.protocol.document import Doc, DocNode, DocPosition
from ui.protocol.picture import Change
from ui.runs.graph import changes_picture, picture_height
from ui.shell.blocks import Content, Html, chip, heading, notice, plain, shortened, table
from ui.shell.canvas import draw_picture
from ui.studio_context import studio

_OTHER = "compare_graph_of"
_CARD = (250, 170)
"""Pixels that a card takes, with some space around it."""


@dataclass(frozen=True)
class GraphChange:
    """Something about the graph that a later run has otherwise than the first one; `key` is its node or wire."""

    change: Literal["added", "removed", "changed"]
    what: Literal["node", "wire"]
    name: str
    detail: str = ""
    key: str = ""


def graph_changes(first: Details, other: Details) -> list[GraphChange]:
    """What `other` has otherwise than `first`; where boxes lie on the canvas does not count."""
    if first.pipeline is None or other.pipeline is None:
        return []
    return document_changes(first.pipeline, other.pipeline)


def document_changes(first: Pipeline, other: Pipeline) -> list[GraphChange]:
    """The same of documents."""
    before = {n.id: n for n in first.nodes}
    after = {n.id: n for n in other.nodes}
    was, now = ({i: safe(name) for i, name in display_names(each.nodes).items()} for each in (first, other))
    out = [GraphChange("added", "node", now[i], n.type, i) for i, n in after.items() if i not in before]
    out += [GraphChange("removed", "node", was[i], n.type, i) for i, n in before.items() if i not in after]
    for node_id, node in after.items():
        if node_id in before and (detail := _node_changes(before[node_id], node)):
            out.append(GraphChange("changed", "node", now[node_id], detail, node_id))
    names = names_in_both(first, other)
    edges_before, edges_after = pipeline_to_doc(first).edges, pipeline_to_doc(other).edges
    for change, edges, others in (("added", edges_after, edges_before), ("removed", edges_before, edges_after)):
        for key, edge in edges.items():
            if key not in others:
                kind: Literal["added", "removed"] = "added" if change == "added" else "removed"
                out.append(GraphChange(kind, "wire", wire_name(edge.source, edge.target, names), key=key))
    return out


def joined(first: Pipeline, other: Pipeline) -> Doc:
    """Both documents in one: `other` as it was drawn, and what only `first` has where that had it, or near it."""
    before, after = pipeline_to_doc(first), pipeline_to_doc(other)
    nodes = dict(after.nodes)
    for key, node in before.nodes.items():
        if key not in nodes:
            nodes[key] = node.model_copy(update={"position": _free_place(node.position, nodes)})
    return after.model_copy(update={"nodes": nodes, "edges": {**before.edges, **after.edges}})


def _free_place(wanted: DocPosition, nodes: Mapping[str, DocNode]) -> DocPosition:
    """The place itself, or the next one below that no card covers."""
    width, height = _CARD
    y = wanted.y
    while any(abs(n.position.x - wanted.x) < width and abs(n.position.y - y) < height for n in nodes.values()):
        y += height
    return DocPosition(x=wanted.x, y=y)


def _node_changes(before: Node, after: Node) -> str:
    out = []
    for name in ("type", "version", "title", "mode", "retries", "timeout_s"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            out.append(f"{name.replace('_s', '')} {_value(old)} → {_value(new)}")
    for name in sorted({*before.params, *after.params}):
        # One that is set to nothing is not at its default.
        if (name in before.params) != (name in after.params) or before.params[name] != after.params[name]:
            out.append(f"{name} {_set_to(before, name)} → {_set_to(after, name)}")
    return safe(", ".join(out))


def _set_to(node: Node, name: str) -> str:
    if name not in node.params:
        return "default"
    return '""' if node.params[name] == "" else _value(node.params[name])


def _value(value: Any) -> str:
    if value in (None, ""):
        return "none"
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)


def show(runs: Sequence[Details], names: Sequence[str]) -> None:
    """Draw the graph of the first run and another one, and what every other run has otherwise."""
    st.html(heading("Graph"))
    first, *others = runs
    if any(d.pipeline is None for d in runs):
        st.html(notice("warning", "A document of these runs cannot be read.", "It was written by another Voxelflow."))
    by_name = dict(zip(names[1:], others, strict=True))
    rows: list[list[Content]] = [
        [name, _change_chip(change.change), change.what, change.name, change.detail]
        for name, other in by_name.items()
        for change in graph_changes(first, other)
    ]
    if not rows:
        # A picture of it would say the same and take the place of what differs.
        st.html(notice("info", "All have the same nodes and wires."))
        return
    name = names[1]
    if len(others) > 1:
        name = st.segmented_control(
            f"{short_id(first.run.run_id)} against",
            names[1:],
            default=name,
            key=_OTHER,
            required=True,
            width="stretch",
            format_func=plain,
        )
    other = by_name.get(name, others[0])
    if first.pipeline is not None and other.pipeline is not None:
        _draw(first.pipeline, other.pipeline, (names[0], name))
    st.html(table(["run", f"against {names[0]}", "what", "name", "detail"], rows, "Graph differences"))


def _draw(first: Pipeline, other: Pipeline, names: tuple[str, str]) -> None:
    doc = joined(first, other)
    if not doc.nodes:
        return
    found = {c.key: Change(change=c.change, detail=c.detail) for c in document_changes(first, other)}
    catalog = documents_of(studio()).catalogue.catalog
    with st.container(key="compare_graph"):
        draw_picture(
            changes_picture(doc, found, names, catalog), key="compare_picture", height=picture_height(doc) + 34
        )


def _change_chip(change: str) -> Html:
    """A change in its colour."""
    state = {"added": "done", "removed": "failed", "changed": "waiting"}[change]
    return chip(state, change)
