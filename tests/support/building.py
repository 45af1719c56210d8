"""Short ways to write pipelines, runs and tasks in tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.document.pipeline import Edge, Node, Pipeline, PipelineParameter
from engine.store.runs import Run, Task


def pipeline(*nodes: Node, wires: str = "", name: str = "test", **parameters: Any) -> Pipeline:
    """`wires` is "a.out>b.first c.out>b.second"; keywords become pipeline parameters."""
    edges = tuple(Edge(**dict(zip(("from", "to"), w.split(">"), strict=True))) for w in wires.split())
    settings = {n: PipelineParameter(value=v) for n, v in parameters.items()}
    return Pipeline(name=name, nodes=nodes, edges=edges, parameters=settings)


def box(node_id: str, node_type: str, *, retries: int = 0, timeout_s: float | None = None, **params: Any) -> Node:
    """A node with parameters."""
    return Node(id=node_id, type=node_type, params=params, retries=retries, timeout_s=timeout_s)


def some_run(run_id: str = "1-aaa", **more: Any) -> Run:
    """A run of the pipeline "p" that is done, from second 10 to 22."""
    run = Run(run_id, "p", "{}", {}, "local", "done", "", 1, 10, 22, 2, None, None, 1, False)
    return replace(run, **more)


def some_task(node: str, **more: Any) -> Task:
    """Its task of this node, done and without outputs, from second 10 to 15."""
    task = Task("r", node, 0, "T", node, "done", "", "", 1, 10.0, 15.0, None, None, {}, None)
    return replace(task, **more)
