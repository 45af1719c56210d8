"""What a workspace knows for the advisor: benchmarks, probes, profiles and prices; the trainings of a pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.advisor.advice import Advice, Knowledge, advise
from engine.advisor.machines import all_candidates, measured_machine
from engine.advisor.reading import InputModel, Way, from_bench, from_memory, from_probe
from engine.advisor.report import in_a_line
from engine.bench.result import BenchResult, Configuration, bench_results, newest_by_machine, same_machine
from engine.catalog import AnyNodeType
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeSpec
from engine.declare.workload import Network, TrainingWork
from engine.diagnostics.rule import Diagnostic
from engine.document.checks import Observation
from engine.document.identity import identify
from engine.document.resolve import Resolved
from engine.environment import Machine, this_machine
from engine.prices import machine_table, storage_table
from engine.probes import StorageProbe, probes
from engine.profiles import Profile
from engine.storage import is_url
from engine.storage.cache import RangeCache
from engine.workspace import Workspace

_UNKNOWN = "the number and shape of its volumes are known once the nodes before it have run"
_PLACES = 5
"""Other places that are looked at."""
_WAYS: tuple[Way, ...] = ("files", "table", "remote table")


@dataclass(frozen=True)
class Training:
    """A training of a pipeline. `work` is None, with the reason in `unknown`, where too little is known of its data."""

    node: str
    title: str
    node_type: AnyNodeType
    work: TrainingWork | None
    unknown: str = ""


@dataclass(frozen=True)
class Known:
    """A workspace's measurements, read once for all trainings; `here` is the machine that this process runs on."""

    benches: Sequence[BenchResult]
    probes: Sequence[StorageProbe]
    here: Machine | None = None


def read_known(workspace: Workspace, benches: Sequence[BenchResult] = ()) -> Known:
    """The newest benchmark of each machine, `benches` first, and all probes. Raises nothing.

    Of quick ones nothing is predicted.
    """
    own = [b for b in benches if b.measured and not b.quick]

    def is_given(kept: BenchResult) -> bool:
        # A name alone is no machine: that of a processor is the name of machines of many sizes.
        return any(kept.name == each.name and same_machine(kept, each) for each in own)

    kept = (r for r in bench_results(workspace) if r.measured and not r.quick and not is_given(r))
    found = newest_by_machine([*own, *kept])
    return Known(found, probes(workspace), _here() if found else None)


@cache
def _here() -> Machine:
    """This machine. It stays the same, and a driver may take a second to name its GPUs."""
    return this_machine()


def trainings(
    resolved: Resolved,
    previews: Mapping[tuple[str, str], Preview],
    observation: Observation,
    problems: Iterable[Diagnostic] = (),
) -> Iterator[Training]:
    """The nodes that train, with their work as far as the previews, and results that are there already, say it.

    Where they do not, the reason is the first error among the `problems` of the node or of those before it.
    """
    errors = [each for each in problems if each.severity == "error"]
    identities = identify(resolved, observation.paths, observation.own_paths)

    def known(node: str, port: str) -> Preview | None:
        cached = observation.cache.get(identities[node].fingerprint) if node in identities else None
        if cached is not None and not cached.problem and port in cached.result.outputs:
            return Preview.of(cached.result.outputs[port])
        return previews.get((node, port))

    for item in resolved.typed():
        hook = item.type.workload_hook
        if hook is None:
            continue
        work, unknown = None, "one of its parameters has no valid value" if not item.complete else _UNKNOWN
        if item.complete:
            wires = resolved.wires_into(item.node.id)
            found = {e.target_port: p for e in wires if (p := known(e.source_node, e.source_port)) is not None}
            look = CheckContext(params=item.params, inputs=found, facts=observation.facts.get(item.node.id, {}))
            try:
                work = hook(look)
            except Exception as exc:  # a user node's hook must not end the advice for others
                unknown = f"its node failed to describe its work: {type(exc).__name__}: {exc}"
        if work is None and (error := _error_before(item.node.id, resolved, errors)) is not None:
            # The training itself is named anyway.
            said = error.model_copy(update={"node": None}) if error.node == item.node.id else error
            unknown = said.line().removeprefix("error ")
        yield Training(item.node.id, item.node.label, item.type, work, "" if work else unknown)


def _error_before(node: str, resolved: Resolved, errors: Sequence[Diagnostic]) -> Diagnostic | None:
    """The first of the errors at the node or at one whose outputs it needs."""
    needed, left = {node}, [node]
    while left:
        before = {wire.source_node for wire in resolved.wires_into(left.pop())} - needed
        needed |= before
        left += before
    return next((each for each in errors if each.node in needed), None)


def advise_training(
    training: Training,
    known: Known,
    workspace: Workspace,
    profile: Profile,
    *,
    within_s: float | None = None,
    farther_s: float = 0.0,
) -> Advice | None:
    """The advice for one training under a profile; None where its work is not known.

    With `farther_s` as if each request to the storage took so much longer.
    """
    work = training.work
    if work is None:
        return None
    way = way_of(work)
    table = machine_table(workspace).machines
    network_of = networks(training.node_type)
    measured = [m for r in known.benches if (m := measured_machine(r, network_of, table)) is not None]
    # How volumes come to this machine its own benchmark says, whatever is newer of others.
    measured.sort(key=lambda m: not _is_alike(m.result.machine, known.here))
    cold: dict[Way, InputModel] = {}
    cached: dict[Way, InputModel] = {}
    guessed: set[Way] = set()
    probe, in_store = probe_of(work.uri or str(workspace.root), known.probes), is_url(work.uri)
    for each in _WAYS:
        access, loader = work.access.get(each), "npy" if each == "files" else work.loader
        if access is None:
            continue
        loader = "arrow" if each != "files" and loader == "npy" else loader
        size = work.volume_bytes
        rows = [from_bench(m.result, each, loader, access, size, cold=True, remote=in_store) for m in measured]
        again = [from_bench(m.result, each, loader, access, size, cold=False) for m in measured]
        cached[each] = next(filter(None, again), from_memory(each, loader, access, size))
        remote = probe is not None and probe.storage != "local"
        if probe is not None and remote == (in_store if each == "files" else each == "remote table"):
            cold[each] = from_probe(probe, each, loader, access, size)
        elif found := next(filter(None, rows), None):
            cold[each] = found
        if farther_s:
            if each not in cold:
                guessed.add(each)
            cold[each] = cold.get(each, cached[each]).farther(farther_s)
    local_cache = RangeCache.from_environment()
    saved_in = str(profile.storage_root or workspace.root)
    saved = probe_of(saved_in, known.probes)
    knowledge = Knowledge(
        candidates=all_candidates(profile, measured, table, known.here, workers=work.workers),
        measured=measured,
        cold=cold,
        cached=cached,
        guessed=guessed,
        cache_bytes=local_cache.limit if local_cache is not None else 0,
        write_mb_s=probe.large_writes.mb_s if probe is not None else None,
        checkpoint_mb_s=saved.large_writes.mb_s if saved is not None else None,
        saved_in=saved_in,
        fresh=not work.uri,
        storage_prices=storage_table(workspace),
        elsewhere=tuple(_elsewhere(work, way, workspace, known.probes)),
    )
    return advise(work, way, knowledge, within_s=within_s)


def _is_alike(machine: Machine, here: Machine | None) -> bool:
    """Whether a machine is this one, or one like it."""
    figures = (machine.processor, machine.cores, machine.gpus)
    return here is not None and figures == (here.processor, here.cores, here.gpus)


def _elsewhere(
    work: TrainingWork, way: Way, workspace: Workspace, known: Sequence[StorageProbe]
) -> Iterator[tuple[str, Way, InputModel]]:
    """The places that were probed but for the data's own, the last probed first; of files, as a table there too."""
    seen = [probe_of(work.uri or str(workspace.root), known)]
    for probe in known:
        newest = probe_of(probe.place, known) or probe
        if newest in seen:
            continue
        seen.append(newest)
        table: Way = "table" if newest.storage == "local" else "remote table"
        for there in dict.fromkeys(("files", table) if way == "files" else (table,)):
            if (access := work.access.get(there)) is not None:
                loader = "npy" if there == "files" else "arrow" if work.loader == "npy" else work.loader
                yield newest.place, there, from_probe(newest, there, loader, access, work.volume_bytes)
        if len(seen) > _PLACES:
            return


def advice_by_node(
    resolved: Resolved,
    previews: Mapping[tuple[str, str], Preview],
    observation: Observation,
    workspace: Workspace,
    profile: Profile,
) -> dict[str, str]:
    """A line of advice for each training whose work is known; only where there is one are files read."""
    found = [each for each in trainings(resolved, previews, observation) if each.work is not None]
    if not found:
        return {}
    known = read_known(workspace)
    advised = {each.node: advise_training(each, known, workspace, profile) for each in found}
    return {node: in_a_line(advice) for node, advice in advised.items() if advice is not None}


def way_of(work: TrainingWork) -> Way:
    """How the volumes that a training reads are stored."""
    if work.kind == "VolumeFiles":
        return "files"
    return "remote table" if is_url(work.uri) else "table"


def probe_of(place: str, known: Sequence[StorageProbe]) -> StorageProbe | None:
    """The newest probe that says something of the place: of the same container, or of the same file system."""
    if is_url(place):
        root = "/".join(place.split("/")[:3])
        return next((p for p in known if "/".join(p.place.split("/")[:3]) == root), None)
    device = _device(place)
    return next((p for p in known if not is_url(p.place) and device is not None and _device(p.place) == device), None)


def _device(place: str) -> int | None:
    path = Path(place).absolute()
    for each in (path, *path.parents):
        try:
            return os.stat(each).st_dev
        except OSError:
            continue
    return None


def networks(node_type: AnyNodeType) -> Callable[[Configuration], Network | None]:
    """What the node says of the network that a benchmark's row trained."""
    known: dict[tuple[object, ...], Network | None] = {}
    defaults = {p.name: p.default for p in node_type.parameters if not p.required}

    def network_of(configuration: Configuration) -> Network | None:
        key = (configuration.depth, configuration.shape, configuration.stem, configuration.width)
        if key not in known and node_type.workload_hook is not None:
            own = {"depth": configuration.depth, "stem": configuration.stem, "width": configuration.width}
            try:
                # Whatever type is stored, the network is the same.
                spec = VolumeSpec(shape=configuration.shape, dtype="float32")
                data = Preview(kind="VolumeDelta", count=configuration.batch_size, spec=spec)
                work = node_type.workload_hook(CheckContext(params=defaults | own, inputs={"data": data}))
            except Exception:  # a newer Voxelflow may have measured what this one does not know
                work = None
            known[key] = work.network if work is not None else None
        return known.get(key)

    return network_of
