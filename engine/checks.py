"""The checks: every problem of a pipeline at once, each with a stable code. Pure, no I/O.

    VF101 unknown node type       VF105 input wired twice      VF110 other version installed
    VF102 wire from/to nowhere    VF106 input not wired        VF112 table changed by two nodes
    VF103 no such port            VF107 cycle                  VF113 two results at one place
    VF104 types don't fit         VF108 empty pipeline         VF15x catalogue problems
    VF201 unknown parameter       VF203 bad value              VF205 pipeline parameter without value
    VF202 value missing           VF204 unknown ${name}        VF206 secret not set   VF207 unknown --set
    VF301 path missing            VF303 cannot be written      VF305 file instead of folder (or reverse)
    VF302 cannot be read          VF304 too little disk        VF306 nothing matches  VF307 not on this backend
    VF308 outside the allowed folders                          VF309 outside the profile's storage (a plan's)
    VF4xx, VF5xx                  told by a node's own look at its data (see the node)

VF3xx need an `Observation`; without one (`voxelflow validate` while typing) they are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.catalog import AnyNodeType
from engine.datasets import DATASET_KINDS, Preview
from engine.diagnostics import Diagnostic, Severity
from engine.node import Look, Port
from engine.observation import Observation
from engine.pipeline import Edge
from engine.profiles import Profile
from engine.resolve import Resolved, ResolvedNode


@dataclass(frozen=True)
class Checked:
    """What the checks found, and what is known of every output beforehand."""

    diagnostics: tuple[Diagnostic, ...]
    previews: Mapping[tuple[str, str], Preview]
    """By (node, output port)."""

    @property
    def ok(self) -> bool:
        return not any(d.severity == "error" for d in self.diagnostics)


def check(resolved: Resolved, observation: Observation | None = None, profile: Profile | None = None) -> Checked:
    """All problems of the pipeline, in the order of its nodes, errors and warnings together."""
    found = list(resolved.problems)
    found += _graph(resolved)
    found += _mutations(resolved)
    if profile is not None:
        found += _backends(resolved, profile)
    if observation is not None:
        found += _environment(resolved, observation)
    previews, told = look_ahead(resolved, observation)
    found += told
    if observation is not None:
        found += _disk(resolved, previews, observation)
    position = {n: i for i, n in enumerate(resolved.nodes)}
    found.sort(key=lambda d: (position.get(d.node or "", -1), d.code))
    return Checked(tuple(dict.fromkeys(found)), previews)


# --- the graph ---------------------------------------------------------------------------------


def _graph(resolved: Resolved) -> Iterator[Diagnostic]:
    pipeline = resolved.pipeline
    if not pipeline.nodes:
        yield _problem("VF108", "the pipeline is empty", "Add a node.")
    wired: dict[str, Edge] = {}
    for edge in pipeline.edges:
        yield from _wire(edge, resolved)
        if edge.target in wired:
            yield _problem(
                "VF105",
                f"the input {edge.target_port} has two wires: from {wired[edge.target].source} and {edge.source}",
                "Cut one of them.",
                node=edge.target_node,
                port=edge.target_port,
            )
        wired[edge.target] = edge
    for item in resolved.nodes.values():
        for port in item.type.inputs if item.type else ():
            if port.required and f"{item.node.id}.{port.name}" not in wired:
                yield _problem(
                    "VF106",
                    f"the input {port.name} is not wired",
                    f"It takes {' or '.join(port.kinds)}.",
                    node=item.node.id,
                    port=port.name,
                )
    cycle = [n for n in resolved.nodes if n not in resolved.order]
    if cycle:
        yield _problem(
            "VF107",
            f"{', '.join(cycle)} wait for one another or for a cycle",
            "Cut a wire so that data flows one way.",
            node=cycle[0],
        )


def _wire(edge: Edge, resolved: Resolved) -> Iterator[Diagnostic]:
    source, target = resolved.nodes.get(edge.source_node), resolved.nodes.get(edge.target_node)
    for item, name in ((source, edge.source_node), (target, edge.target_node)):
        if item is None:
            known = edge.target_node if item is source and target is not None else edge.source_node
            yield _problem(
                "VF102",
                f"the wire {edge.source} -> {edge.target} names {name}, which is not there",
                "Remove the wire or add the node.",
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
        yield _problem(
            "VF104",
            f"{edge.source} gives {' or '.join(out.kinds)}, but {into.name} takes {' or '.join(into.kinds)}",
            _between(out, into),
            node=target.node.id,
            port=into.name,
        )


def _between(out: Port, into: Port) -> str:
    ways = {
        ("VolumeFiles", "VolumeParquet"): "Put NumpyToParquet between them.",
        ("VolumeFiles", "VolumeDelta"): "Put NumpyToParquet and ParquetToDelta between them.",
        ("VolumeParquet", "VolumeDelta"): "Put ParquetToDelta between them.",
    }
    for source in out.kinds:
        for target in into.kinds:
            if (source, target) in ways:
                return ways[source, target]
    return "Wire an output of the right kind."


def _no_port(item: ResolvedNode, name: str, ports: tuple[Port, ...], side: str) -> Diagnostic:
    known = ", ".join(p.name for p in ports) or "none"
    return _problem(
        "VF103", f"{item.node.type} has no {side} {name}", f"It has: {known}.", node=item.node.id, port=name
    )


def _mutations(resolved: Resolved) -> Iterator[Diagnostic]:
    changed: dict[str, str] = {}
    places: dict[str, str] = {}
    for item in resolved.typed():
        assert item.type is not None
        for edge in resolved.wires_into(item.node.id):
            if edge.target_port != item.type.mutates:
                continue
            if edge.source in changed:
                yield _problem(
                    "VF112",
                    f"{changed[edge.source]} and {item.node.id} both change the table of {edge.source}",
                    "Put one behind the other.",
                    node=item.node.id,
                    port=edge.target_port,
                )
            changed.setdefault(edge.source, item.node.id)
        for parameter in item.type.parameters:
            place = item.params.get(parameter.name)
            if parameter.path_out is None or not place:
                continue
            if place in places:
                yield _problem(
                    "VF113",
                    f"{places[place]} and {item.node.id} both write {place}",
                    "Give one of them another place.",
                    node=item.node.id,
                    parameter=parameter.name,
                )
            places.setdefault(str(place), item.node.id)


def _backends(resolved: Resolved, profile: Profile) -> Iterator[Diagnostic]:
    for item in resolved.typed():
        assert item.type is not None
        if item.type.runs_on(profile.backend) is not None:
            continue
        yield _problem(
            "VF307",
            f"{item.node.type} cannot run on {profile.backend}, the backend of the profile {profile.name}",
            " ".join(_ways_out(item.type, profile.backend, resolved.catalog or ())),
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


# --- the world around --------------------------------------------------------------------------


def _environment(resolved: Resolved, observation: Observation) -> Iterator[Diagnostic]:
    for item in resolved.typed():
        assert item.type is not None
        node = item.node.id
        for parameter in item.type.parameters:
            name, value = parameter.name, item.params.get(parameter.name)
            if not value:
                continue
            if parameter.secret and value in observation.missing_secrets:
                yield _problem(
                    "VF206",
                    f"the environment variable {value} is not set",
                    "Set it, then run again.",
                    node=node,
                    parameter=name,
                )
            if parameter.path_out is not None and (reason := observation.not_writable.get(str(value))):
                yield _problem(
                    "VF303", f"{value} cannot be written: {reason}", "Choose another place.", node=node, parameter=name
                )
            if (parameter.path_in or parameter.path_out) and str(value) in observation.outside:
                yield _problem(
                    "VF308",
                    f"{value} lies outside the folders that this workspace may use",
                    'Give it with --set, or list its folder in workspace.json under "data_roots".',
                    node=node,
                    parameter=name,
                )
                continue
            found = observation.paths.get(node, {}).get(name)
            if parameter.path_in is None or found is None:
                continue
            if found.problem:
                yield _problem(
                    "VF302",
                    f"{value} cannot be read: {found.problem}",
                    "Check its permissions.",
                    node=node,
                    parameter=name,
                )
            elif not found.exists:
                yield _problem("VF301", f"{value} does not exist", "Check the spelling.", node=node, parameter=name)
            elif found.kind != parameter.path_in.kind:
                yield _problem(
                    "VF305",
                    f"{value} is a {found.kind}, not a {parameter.path_in.kind}",
                    "Choose the right one.",
                    node=node,
                    parameter=name,
                )
            elif found.kind == "folder" and not found.count:
                patterns = ", ".join(parameter.path_in.patterns)
                yield _problem(
                    "VF306",
                    f"nothing in {value} matches {patterns}",
                    "Choose another folder.",
                    node=node,
                    parameter=name,
                )
    if observation.not_writable.get(""):
        place = observation.storage or "the workspace"
        yield _problem(
            "VF303",
            f"{place} cannot be written: {observation.not_writable['']}",
            "Mend the profile's storage_root, or what it names."
            if observation.storage
            else "Choose another with --workspace.",
        )


def _disk(
    resolved: Resolved, previews: Mapping[tuple[str, str], Preview], observation: Observation
) -> Iterator[Diagnostic]:
    needed = rewritten = 0
    largest: tuple[int, str] = (0, "")
    for item in resolved.typed():
        assert item.type is not None
        if item.node.id in observation.cached_nodes:
            continue
        made = [p for port in item.type.outputs if (p := previews.get((item.node.id, port.name)))]
        if item.type.mutates:
            # The old files stay for readers of earlier versions: at worst all is written once more.
            rewritten += sum(p.bytes or 0 for p in made)
            continue
        size = sum(p.bytes or 0 for p in made if not _passes_through(item, p, previews, resolved))
        needed += size
        largest = max(largest, (size, item.node.id))
    hint = "Free some (`voxelflow clean` shows what is held), or use a workspace on another disk."
    free = observation.free_bytes
    if needed > free:
        yield _problem(
            "VF304", f"about {_size(needed)} will be written, {_size(free)} are free", hint, node=largest[1] or None
        )
    elif needed + rewritten > free:
        yield _problem(
            "VF304",
            f"up to {_size(needed + rewritten)} are written if a table must be rewritten whole, {_size(free)} are free",
            hint,
            severity="warning",
        )


def _passes_through(
    item: ResolvedNode, preview: Preview, previews: Mapping[tuple[str, str], Preview], resolved: Resolved
) -> bool:
    """Whether the output takes no room of its own: files that stay where they are, or hard links."""
    return preview.uri is not None or any(
        (source := previews.get((e.source_node, e.source_port))) is not None
        and source.bytes == preview.bytes
        and preview.kind == "VolumeDelta"
        for e in resolved.wires_into(item.node.id)
    )


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


# --- what the nodes themselves know -------------------------------------------------------------


def look_ahead(
    resolved: Resolved, observation: Observation | None
) -> tuple[dict[tuple[str, str], Preview], list[Diagnostic]]:
    """Run the `preview` hooks along the graph; gives the previews and what the hooks told."""
    previews: dict[tuple[str, str], Preview] = {}
    told: list[Diagnostic] = []
    for item in resolved.typed():
        assert item.type is not None
        for port in item.type.outputs:
            if len(port.kinds) == 1 and port.kinds[0] in DATASET_KINDS:
                previews[item.node.id, port.name] = Preview(kind=port.kinds[0])
        if item.type.preview_hook is None or not item.complete:
            continue
        look = Look(
            params=item.params,
            inputs={
                e.target_port: p
                for e in resolved.wires_into(item.node.id)
                if (p := previews.get((e.source_node, e.source_port))) is not None
            },
            paths=observation.paths.get(item.node.id, {}) if observation else {},
            facts=observation.facts.get(item.node.id, {}) if observation else {},
        )
        try:
            out = item.type.preview_hook(look)
        except Exception as exc:  # a user node's hook must not end the checks
            told.append(
                _problem(
                    "VF153",
                    f"its preview failed: {type(exc).__name__}: {exc}",
                    "Tell the node's author.",
                    node=item.node.id,
                    severity="warning",
                )
            )
            continue
        named = {item.type.outputs[0].name: out} if isinstance(out, Preview) else dict(out)
        previews.update({(item.node.id, name): preview for name, preview in named.items()})
        told += [d.model_copy(update={"node": item.node.id}) for d in look.problems]
    return previews, told


def _problem(
    code: str,
    message: str,
    hint: str,
    *,
    node: str | None = None,
    port: str | None = None,
    parameter: str | None = None,
    severity: Severity = "error",
) -> Diagnostic:
    return Diagnostic(
        code=code, severity=severity, message=message, hint=hint, node=node, port=port, parameter=parameter
    )
