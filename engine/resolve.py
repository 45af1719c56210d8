"""A pipeline joined with its catalogue: each node with its type and its parameters' final values.

Pure: no I/O. Whatever is wrong becomes a diagnostic; what can be resolved is.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.catalog import AnyNodeType, Catalog
from engine.diagnostics import Diagnostic
from engine.parameters import Parameter, read_value
from engine.pipeline import Edge, Node, Pipeline, references, substitute
from engine.storage import place_from


@dataclass(frozen=True)
class ResolvedNode:
    """A node with its type (None: unknown) and the parameter values that could be read."""

    node: Node
    type: AnyNodeType | None
    params: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    """Whether every parameter has a good value."""


@dataclass(frozen=True)
class Resolved:
    """The whole pipeline, resolved. `order` is topological; nodes on a cycle are left out of it."""

    pipeline: Pipeline
    nodes: Mapping[str, ResolvedNode]
    order: tuple[str, ...]
    problems: tuple[Diagnostic, ...]
    catalog: Catalog | None = field(default=None, compare=False, repr=False)
    """Where the types come from, so that a problem can name others."""

    def typed(self) -> list[ResolvedNode]:
        """The nodes with a known type, in topological order."""
        return [self.nodes[n] for n in self.order if self.nodes[n].type is not None]

    def wires_into(self, node_id: str) -> list[Edge]:
        """Wires whose two nodes are there, ordered by target port."""
        return self._wires_by_target.get(node_id, [])

    def behind(self, node_id: str) -> list[str]:
        """The nodes that take an output of this one."""
        return self._nodes_behind.get(node_id, [])

    # Planning asks for wires once a pair of nodes: searching all of them each time takes minutes at 500 nodes.

    @cached_property
    def _wires_by_target(self) -> dict[str, list[Edge]]:
        out: dict[str, list[Edge]] = {}
        for edge in sorted(self.pipeline.edges, key=lambda e: e.target_port):
            if edge.source_node in self.nodes:
                out.setdefault(edge.target_node, []).append(edge)
        return out

    @cached_property
    def _nodes_behind(self) -> dict[str, list[str]]:
        out: dict[str, dict[str, None]] = {}
        for node, wires in self._wires_by_target.items():
            for edge in wires:
                out.setdefault(edge.source_node, {})[node] = None
        return {node: list(targets) for node, targets in out.items()}


def resolve(
    pipeline: Pipeline, catalog: Catalog, values: Mapping[str, JsonValue] | None = None, *, base: Path | None = None
) -> Resolved:
    """Join `pipeline` with `catalog`; `values` override its parameters; relative paths lie below `base`."""
    problems: list[Diagnostic] = []
    settings: dict[str, JsonValue] = {n: p.value for n, p in pipeline.parameters.items() if p.value is not None}
    for name, value in (values or {}).items():
        if name in pipeline.parameters:
            settings[name] = value
        else:
            known = ", ".join(sorted(pipeline.parameters)) or "none"
            problems.append(
                _error("VF207", f"the pipeline has no parameter {name}", f"It has: {known}.", parameter=name)
            )
    nodes = {n.id: _resolve_node(n, catalog, pipeline, settings, problems, base or Path.cwd()) for n in pipeline.nodes}
    return Resolved(pipeline, nodes, topological_order(pipeline), tuple(problems), catalog)


def topological_order(pipeline: Pipeline) -> tuple[str, ...]:
    """Node ids so that every edge leads forward; among equals, the document's order."""
    place = {node.id: i for i, node in enumerate(pipeline.nodes)}
    sources: dict[str, set[str]] = {node: set() for node in place}
    targets: dict[str, set[str]] = {node: set() for node in place}
    for edge in pipeline.edges:
        if edge.source_node in place and edge.target_node in place:
            sources[edge.target_node].add(edge.source_node)
            targets[edge.source_node].add(edge.target_node)
    ready = [(i, node) for node, i in place.items() if not sources[node]]
    order: list[str] = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for target in targets[node]:
            sources[target].discard(node)
            if not sources[target]:
                heapq.heappush(ready, (place[target], target))
    return tuple(order)


def _resolve_node(
    node: Node,
    catalog: Catalog,
    pipeline: Pipeline,
    settings: Mapping[str, JsonValue],
    problems: list[Diagnostic],
    base: Path,
) -> ResolvedNode:
    node_type = catalog.find(node.type, node.version)
    if node_type is None:
        near = catalog.similar(node.type)
        problems.append(
            _error(
                "VF101",
                f"there is no node type {node.type}",
                f"Did you mean {near}?" if near else "`voxelflow nodes` lists the known ones.",
                node=node.id,
            )
        )
        return ResolvedNode(node, None, complete=False)
    if node.version is not None and node_type.version != node.version:
        problems.append(
            Diagnostic(
                code="VF110",
                severity="warning",
                message=f"{node.type} version {node.version} is not installed; version {node_type.version} is used",
                hint="Look through its parameters, then save.",
                node=node.id,
            )
        )
    before = len(problems)
    for name in sorted(node.params.keys() - {p.name for p in node_type.parameters}):
        known = ", ".join(p.name for p in node_type.parameters) or "none"
        problems.append(
            _error("VF201", f"{node.type} has no parameter {name}", f"It has: {known}.", node=node.id, parameter=name)
        )
    params: dict[str, Any] = {}
    for parameter in node_type.parameters:
        _resolve_parameter(node, parameter, pipeline, settings, params, problems, base)
    return ResolvedNode(node, node_type, params, complete=len(problems) == before)


def _resolve_parameter(
    node: Node,
    parameter: Parameter,
    pipeline: Pipeline,
    settings: Mapping[str, JsonValue],
    params: dict[str, Any],
    problems: list[Diagnostic],
    base: Path,
) -> None:
    name = parameter.name

    def tell(code: str, message: str, hint: str) -> None:
        problems.append(_error(code, message, hint, node=node.id, parameter=name))

    if name not in node.params:
        if parameter.required:
            tell("VF202", "has no value", parameter.help or "Give it one.")
        else:
            params[name] = parameter.default
        return
    given = node.params[name]
    for reference in sorted(references(given)):
        if reference not in pipeline.parameters:
            tell("VF204", f"refers to ${{{reference}}}, which the pipeline does not have", "Add it to the parameters.")
            return
        if reference not in settings:
            tell("VF205", f"the pipeline's parameter {reference} has no value", f"Give it with --set {reference}=...")
            return
    value = substitute(given, dict(settings))
    try:
        value = read_value(parameter, value)
    except ValueError as exc:
        shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."
        tell("VF203", f"{shown} is not possible: it {exc}", parameter.help)
        return
    if (parameter.path_in or parameter.path_out) and value:
        value = place_from(base, value)
    params[name] = value


def _error(code: str, message: str, hint: str, *, node: str | None = None, parameter: str | None = None) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message, hint=hint, node=node, parameter=parameter)
