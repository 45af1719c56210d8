"""The checks: the problems of all nodes of a pipeline together, each with a stable code. Pure, no I/O.

The kinds of problems are the rules of `engine/diagnostics/rules.py`; VF4xx and VF5xx come from a node's own look at its
data (see the node). VF3xx need an `Observation`; without one (`voxelflow validate` while typing) they are left out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.catalog import AnyNodeType, Catalog
from engine.declare.check_context import CheckContext
from engine.declare.dataset_type import dataset_type
from engine.declare.datasets import Preview
from engine.declare.path_found import PathFound
from engine.declare.signature import DEFAULT_OUTPUT, Port
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic
from engine.document.path_checks import passed_over, path_problem
from engine.document.pipeline import Edge
from engine.document.resolve import Resolved, ResolvedNode, TypedNode
from engine.extras import missing_text, modules
from engine.profiles import Profile
from engine.profiles.dynamic_allocation import SETTING, allocates_dynamically, is_for_fixed_executors
from engine.storage.workspace_paths import WorkspacePaths
from engine.store.results import Cached, Result
from engine.text import size


@dataclass(frozen=True)
class Observation:
    """Folders, files, disk and cache as they were when `observe` looked.

    `paths` holds what was found at each node's path parameters, `facts` what the nodes' quick scans
    found. `changes` says by node and path parameter how a listing differs from the last run's.
    `cache` holds results by fingerprint, `previous` the newest of a lineage where new ones will lie,
    `shorter` the best one to extend by base, `last` what each node made when the pipeline last ran; of a
    node without such a result `missed` says why there is none, "" when it never ran.
    """

    paths: Mapping[str, Mapping[str, PathFound]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    not_writable: Mapping[str, str] = field(default_factory=dict)
    """Reason by path; the key "" is the workspace."""
    outside: frozenset[str] = frozenset()
    missing_secrets: frozenset[str] = frozenset()
    missing_packages: frozenset[str] = frozenset()
    """Modules that a node, a parameter's value or a backend needs, and that are not installed."""
    free_bytes: int = 0
    own_paths: WorkspacePaths | None = None
    """How fingerprints name the paths inside the workspace."""
    storage: Path | None = None
    """Where new results will lie when that is not the workspace (the profile's storage)."""
    cache: Mapping[str, Cached] = field(default_factory=dict)
    previous: Mapping[str, Result] = field(default_factory=dict)
    shorter: Mapping[str, Result] = field(default_factory=dict)
    last: Mapping[str, Result] = field(default_factory=dict)
    missed: Mapping[str, str] = field(default_factory=dict)
    cached_nodes: frozenset[str] = frozenset()
    """Nodes whose result is there already and can be used."""


@dataclass(frozen=True)
class Checked:
    """What the checks found, and what is known of every output beforehand."""

    diagnostics: tuple[Diagnostic, ...]
    previews: Mapping[tuple[str, str], Preview]
    """By (node, output port)."""

    @property
    def ok(self) -> bool:
        """Whether no problem is an error."""
        return not any(d.severity == "error" for d in self.diagnostics)


def check(resolved: Resolved, observation: Observation | None = None, profile: Profile | None = None) -> Checked:
    """All problems of the pipeline, in the order of its nodes, errors and warnings together."""
    found = list(resolved.problems)
    found += _graph(resolved)
    found += _mutations(resolved)
    if profile is not None:
        found += _backends(resolved, profile)
        found += changing_executors(resolved, profile, not_cached(resolved, observation or Observation()))
    if observation is not None:
        found += _environment(resolved, observation)
        found += missing_packages(resolved, observation, profile, not_cached(resolved, observation))
    previews, reported = preview_outputs(resolved, observation)
    found += reported
    if observation is not None:
        found += too_little_space(resolved, previews, observation, not_cached(resolved, observation))
    position = {n: i for i, n in enumerate(resolved.nodes)}
    found.sort(key=lambda d: (position.get(d.node or "", -1), d.code))
    return Checked(tuple(dict.fromkeys(found)), previews)


# --- the graph ---------------------------------------------------------------------------------


def _graph(resolved: Resolved) -> Iterator[Diagnostic]:
    pipeline = resolved.pipeline
    if not pipeline.nodes and resolved.left_out:
        yield rules.EmptyPipeline.found("every node is left out", hint="Enable one.")
    elif not pipeline.nodes:
        yield rules.EmptyPipeline.found("the pipeline is empty", hint="Add a node.")
    for node, reason in resolved.left_out.items():
        yield rules.NodeLeftOut.found(f"takes no part in a run: it {reason}", node=node)
    wired: dict[str, Edge] = {}
    for edge in pipeline.edges:
        yield from _wire(edge, resolved)
        if edge.target in wired:
            yield rules.InputWiredTwice.found(
                f"the input {edge.target_port} has two wires: from {wired[edge.target].source} and {edge.source}",
                hint="Cut one of them.",
                node=edge.target_node,
                port=edge.target_port,
            )
        wired[edge.target] = edge
    for item in resolved.nodes.values():
        for port in item.type.inputs if item.type else ():
            if port.required and f"{item.node.id}.{port.name}" not in wired:
                yield rules.InputNotWired.found(
                    f"the input {port.name} is not wired",
                    hint=f"Wire {' or '.join(port.kinds)} into it.",
                    node=item.node.id,
                    port=port.name,
                )
    cycle = [n for n in resolved.nodes if n not in resolved.order]
    if cycle:
        yield rules.Cycle.found(
            f"{', '.join(cycle)} wait for one another or for a cycle",
            hint="Cut a wire so that data flows one way.",
            node=cycle[0],
        )


def _wire(edge: Edge, resolved: Resolved) -> Iterator[Diagnostic]:
    source, target = resolved.nodes.get(edge.source_node), resolved.nodes.get(edge.target_node)
    for item, name in ((source, edge.source_node), (target, edge.target_node)):
        if item is None:
            known = edge.target_node if item is source and target is not None else edge.source_node
            yield rules.WireToNowhere.found(
                f"the wire {edge.source} -> {edge.target} names {name}, which is not there",
                hint="Remove the wire or add the node.",
                node=known if known in resolved.nodes else None,
            )
    if source is None or target is None or source.type is None or target.type is None:
        return
    out, into = source.type.output(edge.source_port), target.type.input(edge.target_port)
    if out is None:
        yield _no_port(source, edge.source_port, source.type.outputs, "output")
    if into is None:
        yield _no_port(target, edge.target_port, target.type.inputs, "input")
    if out is not None and into is not None and not into.accepts(out):
        yield rules.KindsDoNotFit.found(
            f"{edge.source} gives {' or '.join(out.kinds)}, but {into.name} takes {' or '.join(into.kinds)}",
            hint=_between(out, into, resolved.catalog),
            node=target.node.id,
            port=into.name,
        )


def _between(out: Port, into: Port, catalog: Catalog | None) -> str:
    """Which nodes make of the one what the other takes: said when there is one shortest way, of two nodes at most."""
    types = [t for t in catalog or () if len([p for p in t.inputs if p.required]) == 1 and not t.mutates]
    ways: list[tuple[tuple[str, ...], set[str]]] = [((), set(out.kinds))]
    for _ in range(2):
        ways = [
            ((*names, t.name), {kind for port in t.outputs for kind in port.kinds})
            for names, kinds in ways
            for t in types
            if t.name not in names and kinds & {kind for p in t.inputs if p.required for kind in p.kinds}
        ]
        fitting = [names for names, kinds in ways if kinds & set(into.kinds)]
        if len(fitting) == 1:
            return f"Put {' and '.join(fitting[0])} between them."
        if fitting:
            break
    return "Wire an output of the right kind."


def _no_port(item: ResolvedNode, name: str, ports: tuple[Port, ...], side: str) -> Diagnostic:
    known = ", ".join(p.name for p in ports) or "none"
    return rules.NoSuchPort.found(
        f"{item.node.type} has no {side} {name}", hint=f"It has: {known}.", node=item.node.id, port=name
    )


def _mutations(resolved: Resolved) -> Iterator[Diagnostic]:
    changed: dict[str, str] = {}
    places: dict[str, str] = {}
    for item in resolved.typed():
        for edge in resolved.wires_into(item.node.id):
            if edge.target_port != item.type.mutates:
                continue
            if edge.source in changed:
                yield rules.TableChangedTwice.found(
                    f"{changed[edge.source]} and {item.node.id} both change the table of {edge.source}",
                    hint="Wire one after the other.",
                    node=item.node.id,
                    port=edge.target_port,
                )
            changed.setdefault(edge.source, item.node.id)
        for parameter in item.type.parameters:
            place = item.params.get(parameter.name)
            if parameter.path_out is None or not place:
                continue
            if place in places:
                yield rules.OnePlaceForTwo.found(
                    f"{places[place]} and {item.node.id} both write {place}",
                    hint="Give one of them another place.",
                    node=item.node.id,
                    parameter=parameter.name,
                )
            places.setdefault(str(place), item.node.id)


def _backends(resolved: Resolved, profile: Profile) -> Iterator[Diagnostic]:
    for item in resolved.typed():
        if item.type.runs_on(profile.backend) is not None:
            continue
        yield rules.NotOnThisBackend.found(
            f"{item.node.type} cannot run on {profile.backend}, the backend of the profile {profile.name}",
            hint=" ".join(_ways_out(item.type, profile.backend, resolved.catalog or ())),
            node=item.node.id,
        )


def _ways_out(node_type: AnyNodeType, backend: str, catalog: Iterable[AnyNodeType]) -> Iterator[str]:
    fitting = sorted({t.name for t in catalog if backend in t.backends and _fits_in_place_of(t, node_type)})
    if fitting:
        yield f"Put {' or '.join(fitting[:3])} in its place."
    if "embedded" in node_type.backends:
        yield "Run it with the profile local."
    else:
        yield f"Choose a profile for {' or '.join(sorted(node_type.backends))}."
    variant = f'@{node_type.function.__name__}.on("{backend}")'
    yield f'Its author can declare a variant with {variant}, or anywhere="..." where one machine is enough.'


def _fits_in_place_of(other: AnyNodeType, node_type: AnyNodeType) -> bool:
    """Whether the wires of one would hold on the other: the same ports, with kinds that fit."""
    if other.name == node_type.name or not node_type.outputs:
        return False
    for mine, ports in ((node_type.inputs, other.inputs), (node_type.outputs, other.outputs)):
        if any(p.required and p.name not in {m.name for m in mine} for p in ports):
            return False
        if any(not any(p.name == m.name and set(m.kinds) <= set(p.kinds) for p in ports) for m in mine):
            return False
    return True


def changing_executors(resolved: Resolved, profile: Profile, nodes: Container[str]) -> Iterator[Diagnostic]:
    """A problem for each of `nodes` that needs a fixed number of executors, where the profile's come and go."""
    # On Databricks the setting is the size of the job's cluster.
    if profile.backend != "spark" or profile.on_databricks or not allocates_dynamically(profile.master, profile.spark):
        return
    for item in resolved.typed():
        variant = item.type.backends.get("spark")
        if item.node.id in nodes and variant is not None and is_for_fixed_executors(variant):
            yield rules.ExecutorsChange.found(
                f"{item.node.type} needs a fixed number of executors, and with {SETTING} in profile {profile.name}"
                " Spark adds and removes them",
                hint="Run it with a profile that sets spark.executor.instances instead, after the nodes before it have"
                f" run with this one: their results are used. Or set {SETTING} to false here.",
                node=item.node.id,
            )


# --- the world around --------------------------------------------------------------------------


def _environment(resolved: Resolved, observation: Observation) -> Iterator[Diagnostic]:
    for item in resolved.typed():
        for parameter in item.type.parameters:
            value, at = item.params.get(parameter.name), {"node": item.node.id, "parameter": parameter.name}
            if not value:
                continue
            if parameter.secret and value in observation.missing_secrets:
                message = f"the environment variable {value} is not set"
                yield rules.SecretNotSet.found(message, hint="Set it, then run again.", **at)
            if parameter.path_out is not None and (reason := observation.not_writable.get(str(value))):
                message = f"{value} cannot be written: {reason}"
                yield rules.PlaceNotWritable.found(message, hint="Choose another place.", **at)
            found = observation.paths.get(item.node.id, {}).get(parameter.name)
            if parameter.is_path and str(value) in observation.outside:
                yield _outside(value, found, **at)
                continue
            if parameter.path_in is None or found is None:
                continue
            if problem := path_problem(value, parameter.path_in, found, **at):
                yield problem
            else:
                yield from passed_over(value, parameter.path_in, found, **at)
    if observation.not_writable.get(""):
        yield rules.PlaceNotWritable.found(
            f"{observation.storage or 'the workspace'} cannot be written: {observation.not_writable['']}",
            hint="Correct the profile's storage_root, or make that folder usable."
            if observation.storage
            else "Choose another with --workspace.",
        )


def _outside(value: object, found: PathFound | None, *, node: str, parameter: str) -> Diagnostic:
    """Of a path that documents may not name. One where nothing is has most likely a slip in it: to allow it would not
    help."""
    if found is not None and not found.exists:
        return rules.PathMissing.found(
            f"{value} does not exist",
            hint="Check the spelling. It lies outside the folders that this workspace may use, so once it is there,"
            " allow it too.",
            node=node,
            parameter=parameter,
        )
    return rules.OutsideAllowedFolders.found(
        f"{value} lies outside the folders that this workspace may use",
        hint='Allow its folder in the editor, give it with --set, or list it in workspace.json under "data_roots".',
        node=node,
        parameter=parameter,
    )


def not_cached(resolved: Resolved, observation: Observation) -> set[str]:
    """The nodes without a result that can be used: those that run, as far as is known before there is a plan."""
    return set(resolved.nodes.keys() - observation.cached_nodes)


def too_little_space(
    resolved: Resolved,
    previews: Mapping[tuple[str, str], Preview],
    observation: Observation,
    nodes: Container[str],
) -> Iterator[Diagnostic]:
    """A problem where the disk is too small for what `nodes` write, or may be."""
    needed = rewritten = 0
    largest: tuple[int, str] = (0, "")
    for item in resolved.typed():
        if item.node.id not in nodes:
            continue
        count = written_bytes(item, previews, resolved)
        if item.type.mutates:
            rewritten += count
            continue
        needed += count
        largest = max(largest, (count, item.node.id))
    hint = "Free some (`voxelflow clean` shows what takes space), or use a workspace on another disk."
    free = observation.free_bytes
    if needed > free:
        yield rules.DiskTooSmall.found(
            f"about {size(needed)} will be written, {size(free)} are free", hint=hint, node=largest[1] or None
        )
    elif needed + rewritten > free:
        yield rules.DiskMayBeTooSmall.found(
            f"up to {size(needed + rewritten)} are written if a table must be rewritten whole, {size(free)} are free",
            hint=hint,
        )


def written_bytes(item: TypedNode, previews: Mapping[tuple[str, str], Preview], resolved: Resolved) -> int:
    """How much the node writes, estimated from the previews; of one that rewrites its table, the most."""
    made = [p for port in item.type.outputs if (p := previews.get((item.node.id, port.name)))]
    if item.type.mutates:
        # The old files stay for readers of earlier versions: at worst all is written once more.
        return sum(p.bytes or 0 for p in made)
    return sum(p.bytes or 0 for p in made if not _passes_through(item, p, previews, resolved))


def _passes_through(
    item: TypedNode, preview: Preview, previews: Mapping[tuple[str, str], Preview], resolved: Resolved
) -> bool:
    """Whether the output takes no space of its own: files that stay where they are, or hard links."""
    return preview.uri is not None or any(
        (source := previews.get((e.source_node, e.source_port))) is not None
        and source.bytes == preview.bytes
        and (made := dataset_type(preview.kind)) is not None
        and made.shares_files
        for e in resolved.wires_into(item.node.id)
    )


# --- what the nodes themselves know -------------------------------------------------------------


def preview_outputs(
    resolved: Resolved, observation: Observation | None
) -> tuple[dict[tuple[str, str], Preview], list[Diagnostic]]:
    """Run the `preview` hooks along the graph; gives the previews and the problems that the hooks reported."""
    previews: dict[tuple[str, str], Preview] = {}
    reported: list[Diagnostic] = []
    for item in resolved.typed():
        for port in item.type.outputs:
            if len(port.kinds) == 1:
                previews[item.node.id, port.name] = Preview(kind=port.kinds[0])
        if item.type.preview_hook is None or not item.complete:
            continue
        look = CheckContext(
            params=item.params,
            inputs={
                e.target_port: p
                for e in resolved.wires_into(item.node.id)
                if (p := previews.get((e.source_node, e.source_port))) is not None
            },
            paths=observation.paths.get(item.node.id, {}) if observation else {},
            facts=observation.facts.get(item.node.id, {}) if observation else {},
            node_type=item.type,
        )
        try:
            for name, preview in _by_port(item.type, item.type.preview_hook(look)):
                previews[item.node.id, name] = preview
        except Exception as exc:  # a user node's hook must not end the checks
            reported.append(
                rules.PreviewFailed.found(
                    f"its preview failed: {type(exc).__name__}: {exc}",
                    hint="Report this to the node's author.",
                    node=item.node.id,
                )
            )
        reported += [d.model_copy(update={"node": item.node.id}) for d in look.problems]
    return previews, reported


def _by_port(
    node_type: AnyNodeType, out: Preview | Mapping[str, Preview | None] | None
) -> Iterator[tuple[str, Preview]]:
    """What a `preview` hook returned, by output port; nothing where it knows nothing.

    Raises `TypeError` for what is no preview, or of a port that the node does not have, after all others.
    """
    if out is None:
        return
    ports = [port.name for port in node_type.outputs]
    if isinstance(out, Preview):
        out = {ports[0] if ports else DEFAULT_OUTPUT: out}
    if not isinstance(out, Mapping):
        raise TypeError(f"it returned {type(out).__name__}, not a Preview")
    yield from ((port, each) for port, each in out.items() if port in ports and isinstance(each, Preview))
    for port, preview in out.items():
        if port not in ports:
            raise TypeError(f"it returned a Preview of the output {port}, which the node does not have")
        if preview is not None and not isinstance(preview, Preview):
            raise TypeError(f"it returned {type(preview).__name__} for the output {port}, not a Preview")


_BACKENDS = {"spark": modules("spark")}


def packages_needed(resolved: Resolved) -> tuple[str, ...]:
    """The modules that could be needed: by the nodes, and by a backend, which is not chosen yet."""
    by_nodes = [name for item in resolved.typed() for _, names in item.type.packages(item.params) for name in names]
    return tuple(dict.fromkeys([*by_nodes, *(name for names in _BACKENDS.values() for name in names)]))


def missing_packages(
    resolved: Resolved, observation: Observation, profile: Profile | None, nodes: Container[str]
) -> Iterator[Diagnostic]:
    """A problem for each of `nodes` that needs what is not installed, and one for the profile's backend."""
    items = [item for item in resolved.typed() if item.node.id in nodes]
    backends = {found[0] for item in items if profile and (found := item.type.runs_on(profile.backend))}
    for backend in sorted(backends):
        absent = [name for name in _BACKENDS.get(backend, ()) if name in observation.missing_packages]
        if absent and profile is not None:
            yield _problem(f"the profile {profile.name}", absent)
    for item in items:
        for parameter, names in item.type.packages(item.params):
            absent = [name for name in names if name in observation.missing_packages]
            if absent:
                yield _problem(
                    item.type.subject(parameter, item.params), absent, node=item.node.id, parameter=parameter
                )


def _problem(subject: str, absent: list[str], *, node: str | None = None, parameter: str | None = None) -> Diagnostic:
    message, hint = missing_text(subject, absent)
    return rules.PackageMissing.found(message, hint=hint, node=node, parameter=parameter)
