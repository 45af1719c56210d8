"""The plan that does a recorded run over: the nodes that reported curves, on the very references they were given.

What made those references is not run, and its sources need not be there: the node in front of a repeated one
stands for a recorded reference, which a Delta table's version or a manifest pins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.catalog import AnyNodeType, Catalog
from engine.declare.appearance import Category
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Dataset, Preview
from engine.declare.node_type import NodeType
from engine.declare.signature import Port
from engine.document.identity import Identity
from engine.document.modes import active_part
from engine.document.pipeline import Node, Pipeline, references, substitute
from engine.document.plan import Choice, Plan, PlannedTask, plan
from engine.document.resolve import Resolved, TypedNode, resolve, topological_order
from engine.document.values import with_values
from engine.errors import DataError, UsageError
from engine.observe.observe import observe
from engine.observe.paths import AllowedPlaces, allowed_places, is_missing
from engine.observe.results import check_result
from engine.profiles import Profile
from engine.reproduction.recorded import Recorded
from engine.run.launch import new_suffix, with_problems
from engine.storage import expanded, is_url, place_from
from engine.store.results import Result
from engine.store.runs import RunStore
from engine.workspace import Workspace, storage_of

_BEFORE = "as run {run} was given it"


@dataclass(frozen=True)
class Replay:
    """A recorded run that is ready to be done over. `document` is its pipeline, whole; `plan` holds a part of it."""

    document: Pipeline
    plan: Plan
    sources: Mapping[str, Mapping[str, Dataset]]
    """The pinned references, by node and output port."""


def replay(
    recorded: Recorded,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    *,
    values: Mapping[str, JsonValue],
    profile: Profile,
    base: Path,
) -> Replay:
    """Plan it, and keep the pinned references in the result cache, where the run finds them.

    `values` override parameters of the pipeline. Raises `CheckFailed` as planning does, `DataError` when pinned data
    are gone, `UsageError` when they lie where this workspace may not read or were not recorded.
    """
    again = _again(_active(recorded.pipeline, catalog), set(recorded.nodes))
    document = _as_it_ran(recorded, catalog, again, values, allowed_places(workspace))
    sources = _sources(_active(document, catalog), again, recorded)
    results = {node: _result(node, outputs, document, recorded, store) for node, outputs in sources.items()}
    for node, result in results.items():
        _check(node, result, document, catalog, workspace)
    resolved = _narrowed(resolve(document, catalog, values, base=base), again, sources, recorded)
    storage = storage_of(workspace, profile.storage_root).root if profile.storage_root else None
    observation = observe(resolved, workspace, store, extra_roots=_named(values, base), storage=storage)
    suffix = new_suffix()
    made = with_problems(
        plan(resolved, profile, observation, Choice(fresh=True), fresh_suffix=suffix), catalog.problems
    )
    for result in results.values():
        store.results.put(result)
    tasks = [
        _pinned(task, results[task.node], recorded) if task.node in results else _repeated(task, suffix, recorded)
        for task in made.tasks
    ]
    left_out = tuple(n.id for n in document.nodes if n.id not in resolved.nodes)
    return Replay(
        with_values(document, values), made.model_copy(update={"tasks": tuple(tasks), "left_out": left_out}), sources
    )


def _active(document: Pipeline, catalog: Catalog) -> Pipeline:
    """The nodes that take part in a run, each wired to what it is given there."""
    order = topological_order(document)
    return active_part(document, order, lambda node: catalog.find(node.type, node.version)).pipeline


def _as_it_ran(
    recorded: Recorded, catalog: Catalog, again: set[str], values: Mapping[str, JsonValue], allowed: AllowedPlaces
) -> Pipeline:
    """The document with what the nodes of `again` left to others as it was then.

    Those are defaults, the newest version of a node, and the folder in which relative paths began, where that is still
    there and `allowed`: else, as in a project that was moved or cloned, they begin where they do now. `values` are
    those that the person gives now.
    """
    nodes: list[Node] = []
    for node in recorded.pipeline.nodes:
        code = recorded.environment.nodes.get(node.id) if recorded.environment else None
        found = catalog.find(node.type, code.version if code else node.version)
        if code is None or found is None or node.id not in again:
            nodes.append(node)
            continue
        known = {parameter.name for parameter in found.parameters}
        defaults = {
            name: _written(value) for name, value in code.params.items() if name in known and name not in node.params
        }
        paths = {
            parameter.name: _written(place)
            for parameter in found.parameters
            if parameter.is_path
            and isinstance(place := code.params.get(parameter.name), str)
            and place in allowed
            and not is_missing(place)
            and _is_relative(node, parameter.name, recorded.pipeline, values)
        }
        params = {**defaults, **node.params, **paths}
        nodes.append(node.model_copy(update={"version": code.version, "params": params}))
    return recorded.pipeline.model_copy(update={"nodes": tuple(nodes)})


def _written(value: Any) -> Any:
    """The value as a document has it, where `${` refers to a parameter."""
    return value.replace("${", "$${") if isinstance(value, str) else value


def _is_relative(node: Node, name: str, document: Pipeline, values: Mapping[str, JsonValue]) -> bool:
    """Whether the document has a relative path there, and `values` do not change it."""
    raw = node.params.get(name)
    if f"{node.id}.{name}" in values or references(raw) & values.keys():
        return False
    settings = {key: parameter.value for key, parameter in document.parameters.items()}
    path = substitute(raw, settings) if references(raw) <= settings.keys() else None
    return isinstance(path, str) and bool(path) and not is_url(path) and not expanded(path).is_absolute()


def _again(document: Pipeline, reporting: set[str]) -> set[str]:
    """The nodes that reported something, and those between two of them."""
    behind, before = _reached(document, reporting, forward=True), _reached(document, reporting, forward=False)
    return {n.id for n in document.nodes} & (reporting | (behind & before))


def _reached(document: Pipeline, start: set[str], *, forward: bool) -> set[str]:
    out = set(start)
    order = topological_order(document)
    for node in order if forward else reversed(order):
        for edge in document.edges:
            near, far = (edge.target_node, edge.source_node) if forward else (edge.source_node, edge.target_node)
            if near == node and far in out:
                out.add(node)
    return out


def _sources(document: Pipeline, again: set[str], recorded: Recorded) -> dict[str, dict[str, Dataset]]:
    out: dict[str, dict[str, Dataset]] = {}
    for edge in document.edges:
        if edge.target_node not in again or edge.source_node in again:
            continue
        reference = recorded.inputs.get(edge.target_node, {}).get(edge.target_port)
        if reference is None:
            raise UsageError(
                f"what the input {edge.target_port} of {edge.target_node} was in run {recorded.run_id} is not recorded",
                hint="An earlier version of Voxelflow made the run; run its pipeline.json instead.",
            )
        out.setdefault(edge.source_node, {})[edge.source_port] = reference
    return out


# --- pinned references -------------------------------------------------------------------------


def _result(
    node: str, outputs: Mapping[str, Dataset], document: Pipeline, recorded: Recorded, store: RunStore
) -> Result:
    """The result that stands for the references: the one that made them where this workspace did, else a new one."""
    found = document.node(node)
    assert found is not None
    for task in store.tasks(recorded.run_id):
        before = store.results.find(task.fingerprint) if task.node == node else None
        if before is not None and all(before.outputs.get(port) == dataset for port, dataset in outputs.items()):
            return before
    parts = {"type": found.type, "pinned": {port: dataset.model_dump(mode="json") for port, dataset in outputs.items()}}
    digest = hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()
    return Result(
        fingerprint=digest,
        lineage=digest,
        base=digest,
        node_type=found.type,
        identity=parts,
        outputs=outputs,
        out=f"{found.type}/{digest[:16]}/{digest[:16]}",
        shared=f"{found.type}/{digest[:16]}",
        pipeline=document.name,
        node=node,
        run_id=recorded.run_id,
    )


def _check(node: str, result: Result, document: Pipeline, catalog: Catalog, workspace: Workspace) -> None:
    """Whether the references may be read here and still can be."""
    found = document.node(node)
    assert found is not None
    allowed = allowed_places(workspace)
    for dataset in result.outputs.values():
        place = dataset.uri
        if place not in allowed:
            raise UsageError(
                f"{place}, which {node} gave then, lies outside the folders that this workspace may use",
                hint='List its folder in workspace.json under "data_roots".',
                node=node,
            )
    if problem := check_result(catalog.find(found.type, found.version), result, workspace.data).problem:
        raise DataError(
            f"the data of then are not there any more: {problem}",
            hint="Without the same data nothing can be reproduced; `voxelflow run` runs the pipeline on today's.",
            node=node,
        )


def _narrowed(resolved: Resolved, again: set[str], sources: Mapping[str, Any], recorded: Recorded) -> Resolved:
    """Only what is done over, and in front of it the references in place of what made them."""
    kept = again | sources.keys()
    document = resolved.pipeline
    edges = tuple(e for e in document.edges if e.target_node in again and e.source_node in kept)
    nodes = {name: item for name, item in resolved.nodes.items() if name in kept}
    for name, outputs in sources.items():
        nodes[name] = TypedNode(nodes[name].node, _stand_in(nodes[name].node, outputs, recorded))
    narrow = document.model_copy(update={"nodes": tuple(n for n in document.nodes if n.id in kept), "edges": edges})
    problems = tuple(d for d in resolved.problems if d.node is None or d.node in again)
    return replace(resolved, pipeline=narrow, nodes=nodes, order=topological_order(narrow), problems=problems)


def _stand_in(node: Node, outputs: Mapping[str, Dataset], recorded: Recorded) -> AnyNodeType:
    """A node type without inputs or parameters that gives these references."""

    def preview(_: CheckContext) -> Mapping[str, Preview]:
        return {port: Preview.of(dataset) for port, dataset in outputs.items()}

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a recorded reference is not made")

    return NodeType(
        name=node.type,
        version=node.version or 1,
        category=Category(""),
        inputs=(),
        outputs=tuple(Port(port, (dataset.kind,)) for port, dataset in outputs.items()),
        parameters=(),
        summary="",
        description="",
        function=never,
        context_argument=None,
        anywhere=_BEFORE.format(run=recorded.run_id),
        backends={"embedded": never},
        preview_hook=preview,
    )


def _named(values: Mapping[str, JsonValue], base: Path) -> list[str | Path]:
    """Folders and URLs that the person gave just now, which therefore may be read."""
    return [
        place for v in values.values() if isinstance(v, str) and v and Path(place := place_from(base, v)).is_absolute()
    ]


# --- the plan's tasks --------------------------------------------------------------------------


def _pinned(task: PlannedTask, result: Result, recorded: Recorded) -> PlannedTask:
    identity = Identity(
        fingerprint=result.fingerprint, base=result.base, lineage=result.lineage, parts=dict(result.identity)
    )
    changes = {
        "identity": identity,
        "action": "cached",
        "reason": _BEFORE.format(run=recorded.run_id),
        "forced": False,
        "shared": result.shared,
        "out": result.out,
    }
    return task.model_copy(update=changes)


def _repeated(task: PlannedTask, suffix: str, recorded: Recorded) -> PlannedTask:
    """The task under keys of its own, so that it takes no result and no half-done work from before."""

    def own(key: str) -> str:
        return hashlib.blake2b(f"{key} {suffix}".encode(), digest_size=16).hexdigest()

    old = task.identity
    identity = Identity(fingerprint=own(old.fingerprint), base=own(old.base), lineage=own(old.lineage), parts=old.parts)
    code = recorded.environment.nodes.get(task.node) if recorded.environment else None
    return task.model_copy(
        update={
            "identity": identity,
            "out": f"{task.shared}/{identity.fingerprint[:16]}",
            "reason": f"does run {recorded.run_id} over",
            "seed": code.seed if code else None,
        }
    )
