"""Short ways to write pipelines in tests."""

from __future__ import annotations

from typing import Any

from engine.pipeline import Edge, Node, Pipeline, PipelineParameter


def pipeline(*nodes: Node, wires: str = "", name: str = "test", **parameters: Any) -> Pipeline:
    """`wires` is "a.out>b.first c.out>b.second"; keywords become pipeline parameters."""
    edges = tuple(Edge(**dict(zip(("from", "to"), w.split(">"), strict=True))) for w in wires.split())
    settings = {n: PipelineParameter(value=v) for n, v in parameters.items()}
    return Pipeline(name=name, nodes=nodes, edges=edges, parameters=settings)


def box(node_id: str, node_type: str, *, retries: int = 0, timeout_s: float | None = None, **params: Any) -> Node:
    """A node with parameters."""
    return Node(id=node_id, type=node_type, params=params, retries=retries, timeout_s=timeout_s)
