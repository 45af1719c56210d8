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
from engine.declare.field_rules import NEEDS_A_VALUE, control_character, refusal
from engine.declare.parameters import Parameter, read_value
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic, Rule
from engine.document.modes import active_part
from engine.document.pipeline import Edge, Node, Pipeline, references, substitute
from engine.document.values import known_values, with_values
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
class TypedNode(ResolvedNode):
    """A node whose type is known."""

    type: AnyNodeType


@dataclass(frozen=True)
class Resolved:
    """The pipeline, resolved. `order` is topological; nodes on a cycle are left out of it.

    `pipeline`, `nodes` and `order` are those that take part in a run; `left_out` says of the others why they do not
    (see `engine.document.modes`).
    """

    pipeline: Pipeline
    nodes: Mapping[str, ResolvedNode]
    order: tuple[str, ...]
    problems: tuple[Diagnostic, ...]
    catalog: Catalog | None = field(default=None, compare=False, repr=False)
    """Where the types come from, so that a problem can name others."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By node that is disabled, bypassed, or needs one that is: why it takes no part, e.g. "is disabled"."""

    def typed(self) -> list[TypedNode]:
        """The nodes with a known type, in topological order."""
        return [item for n in self.order if isinstance(item := self.nodes[n], TypedNode)]

    def wires_into(self, node_id: str) -> list[Edge]:
        """Wires whose two nodes are there, ordered by target port."""
        return self._wires_by_target.get(node_id, [])

    def successors(self, node_id: str) -> list[str]:
        """The nodes that take an output of this one."""
        return self._successors.get(node_id, [])

    # Planning asks for wires once a pair of nodes: searching all of them each time takes minutes at 500 nodes.

    @cached_property
    def _wires_by_target(self) -> dict[str, list[Edge]]:
        out: dict[str, list[Edge]] = {}
        for edge in sorted(self.pipeline.edges, key=lambda e: e.target_port):
            if edge.source_node in self.nodes:
                out.setdefault(edge.target_node, []).append(edge)
        return out

    @cached_property
    def _successors(self) -> dict[str, list[str]]:
        out: dict[str, dict[str, None]] = {}
        for node, wires in self._wires_by_target.items():
            for edge in wires:
                out.setdefault(edge.source_node, {})[node] = None
        return {node: list(targets) for node, targets in out.items()}


def resolve(
    pipeline: Pipeline, catalog: Catalog, values: Mapping[str, JsonValue] | None = None, *, base: Path | None = None
) -> Resolved:
    """Join `pipeline` with `catalog`; relative paths lie below `base`.

    `values` override the pipeline's parameters and, as `node.parameter`, those of its nodes.
    """
    known, problems = known_values(pipeline, catalog, values or {})
    pipeline = with_values(pipeline, {name: value for name, value in known.items() if "." in name})
    settings: dict[str, JsonValue] = {n: p.value for n, p in pipeline.parameters.items() if p.value is not None}
    settings |= {name: value for name, value in known.items() if "." not in name}
    order = topological_order(pipeline)
    active = active_part(pipeline, order, lambda node: catalog.find(node.type, node.version))
    if active.left_out:
        pipeline, order = active.pipeline, topological_order(active.pipeline)
    nodes = {n.id: _resolve_node(n, catalog, pipeline, settings, problems, base or Path.cwd()) for n in pipeline.nodes}
    return Resolved(pipeline, nodes, order, tuple(problems), catalog, active.left_out)


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
        problems.append(
            rules.UnknownNodeType.found(
                f"there is no node type {node.type}",
                hint=catalog.hint_for(node.type),
                node=node.id,
            )
        )
        return ResolvedNode(node, None, complete=False)
    if node.version is not None and node_type.version != node.version:
        problems.append(
            rules.OtherVersionInstalled.found(
                f"{node.type} version {node.version} is not installed; version {node_type.version} is used",
                hint="Look through its parameters, then save.",
                node=node.id,
            )
        )
    before = len(problems)
    for name in sorted(node.params.keys() - {p.name for p in node_type.parameters}):
        known = ", ".join(p.name for p in node_type.parameters) or "none"
        problems.append(
            rules.UnknownParameter.found(
                f"{node.type} has no parameter {name}", hint=f"It has: {known}.", node=node.id, parameter=name
            )
        )
    params: dict[str, Any] = {}
    for parameter in node_type.parameters:
        _resolve_parameter(node, parameter, pipeline, settings, params, problems, base)
    return TypedNode(node, node_type, params, complete=len(problems) == before)


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

    def report(rule: type[Rule], message: str, hint: str) -> None:
        problems.append(rule.found(message, hint=hint, node=node.id, parameter=name))

    if name not in node.params:
        if parameter.required:
            report(rules.ValueMissing, NEEDS_A_VALUE, _as_sentence(parameter.help) or "Give it one.")
        else:
            params[name] = _placed(parameter, parameter.default, base)
        return
    given = node.params[name]
    for reference in sorted(references(given)):
        if reference not in pipeline.parameters:
            message = f"refers to ${{{reference}}}, which the pipeline does not have"
            report(rules.UnknownReference, message, "Add it to the parameters.")
            return
        # A run may be given null for a whole value; in the middle of a text it would be the word "null".
        if reference not in settings or (settings[reference] is None and given != f"${{{reference}}}"):
            message = f"the parameter {reference} has no value"
            hint = f"Give it one in the pipeline, or for a run with --set {reference}=..."
            report(rules.ReferenceWithoutValue, message, hint)
            return
    value = substitute(given, dict(settings))
    try:
        value = read_value(parameter, value)
    except ValueError as exc:
        report(rules.BadValue, refusal(exc, value), _as_sentence(parameter.help))
        return
    if bad := control_character(value, layout=not parameter.is_path):
        report(rules.BadValue, f"must not hold the control character {bad!r}", _as_sentence(parameter.help))
        return
    params[name] = _placed(parameter, value, base)


def _placed(parameter: Parameter, value: Any, base: Path) -> Any:
    """A path is absolute for the node, from `base`."""
    return place_from(base, value) if parameter.is_path and value else value


def _as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
