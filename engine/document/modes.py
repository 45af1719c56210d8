"""Nodes that are disabled or bypassed: the pipeline without them. Pure.

A disabled node is left out, with every node that needs it: one with a required input that gets nothing any more. An
optional input just stays open. A bypassed node passes an input through: a node wired to one of its outputs gets what is
wired to one of its inputs instead, if that is of a kind that fits; an input of the output's own name or kind goes
first. Where none fits the output gives nothing, as if the node were disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from engine.catalog import AnyNodeType
from engine.document.pipeline import Edge, Node, Pipeline, display_names
from engine.text import safe

FindType = Callable[[Node], AnyNodeType | None]


@dataclass(frozen=True)
class Active:
    """What of a pipeline takes part in a run, and by node why the others do not."""

    pipeline: Pipeline
    left_out: Mapping[str, str]


def active_part(pipeline: Pipeline, order: Iterable[str], find: FindType) -> Active:
    """The pipeline without what is disabled or bypassed. `order` is topological, and may lack nodes of a cycle."""
    if all(node.mode == "run" for node in pipeline.nodes):
        return Active(pipeline, {})
    nodes = {node.id: node for node in pipeline.nodes}
    into: dict[str, list[Edge]] = {}
    for edge in pipeline.edges:
        into.setdefault(edge.target_node, []).append(edge)
    titles = {node: safe(title) for node, title in display_names(pipeline.nodes).items()}
    left_out: dict[str, str] = {}
    stand_ins: dict[str, list[tuple[str, str]]] = {}
    """By bypassed node: an input's name and the output wired to it, which can replace one of the node's own."""

    def sources(edge: Edge) -> list[tuple[str, str]]:
        if edge.source_node in left_out:
            return [(edge.target_port, end) for _, end in stand_ins.get(edge.source_node, [])]
        return [(edge.target_port, edge.source)]

    def source(edge: Edge) -> str | None:
        if edge.source_node not in left_out:
            return edge.source
        before, target = find(nodes[edge.source_node]), nodes.get(edge.target_node)
        taker = find(target) if target is not None else None
        port = before.output(edge.source_port) if before is not None else None
        taken = taker.input(edge.target_port) if taker is not None else None
        fitting: list[tuple[bool, bool, int, str]] = []
        for place, (name, end) in enumerate(stand_ins.get(edge.source_node, [])):
            node, _, given_port = end.partition(".")
            given_type = find(nodes[node])
            given = given_type.output(given_port) if given_type is not None else None
            if given is not None and taken is not None and taken.accepts(given):
                own_kind = port is not None and bool(set(given.kinds) & set(port.kinds))
                fitting.append((name != edge.source_port, not own_kind, place, end))
        return min(fitting)[-1] if fitting else None

    # Those on a cycle come last, as they are: the checks report them.
    for name in dict.fromkeys((*order, *nodes)):
        node, wires = nodes[name], [e for e in into.get(name, []) if e.source_node in nodes]
        if node.mode == "disabled":
            left_out[name] = "is disabled"
        elif node.mode == "bypass":
            left_out[name] = "is bypassed"
            stand_ins[name] = [found for edge in wires for found in sources(edge)]
        elif lost := next((e for e in wires if source(e) is None and _needs(find(node), e.target_port)), None):
            left_out[name] = f"needs {titles[lost.source_node]}, which {_in_short(nodes[lost.source_node], left_out)}"
    kept = [node for node in pipeline.nodes if node.id not in left_out]
    edges: list[Edge] = []
    for edge in pipeline.edges:
        if edge.target_node not in left_out and (found := source(edge)) is not None:
            edges.append(edge if found == edge.source else Edge.model_validate({"from": found, "to": edge.target}))
    part = pipeline.model_copy(update={"nodes": tuple(kept), "edges": tuple(edges)})
    return Active(part, {node.id: left_out[node.id] for node in pipeline.nodes if node.id in left_out})


def _needs(node_type: AnyNodeType | None, port: str) -> bool:
    found = None if node_type is None else node_type.input(port)
    return found is None or found.required


def _in_short(node: Node, left_out: Mapping[str, str]) -> str:
    if node.mode == "bypass":
        return "is bypassed and has no input that fits in its place"
    return "is disabled" if node.mode == "disabled" else "is left out"
