"""`plan`: pipeline, profile and observation become ordered tasks, each cached or with the reason it must run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from engine.catalog import AnyNodeType
from engine.checks import check
from engine.datasets import AnyDataset
from engine.diagnostics import Diagnostic
from engine.errors import CheckFailed, UsageError
from engine.identity import Identity, identify, what_changed
from engine.observation import Observation
from engine.profiles import Backend, Profile
from engine.resolve import Resolved, ResolvedNode
from engine.runs import Result
from engine.storage import is_url
from engine.workspace import Storage, Workspace

Outputs = dict[str, SerializeAsAny[AnyDataset]]


class Source(BaseModel):
    """Where an input comes from: an output port of another task."""

    model_config = ConfigDict(frozen=True)

    node: str
    port: str


class PlannedTask(BaseModel):
    """One node's work in a run.

    `action` is "cached" when its result stands already, else "run" with the `reason`. `shared` and
    `out` are where it writes (see `engine.context`): below the workspace's data, or absolute when the
    profile keeps its data elsewhere. `backend_reason` says why it works where it does.
    """

    model_config = ConfigDict(frozen=True)

    node: str
    node_type: str
    version: int
    title: str
    backend: Backend
    backend_reason: str = ""
    params: dict[str, Any]
    inputs: dict[str, Source]
    listings: dict[str, str] = {}
    """The Arrow listing of each folder parameter."""
    identity: Identity
    action: Literal["run", "cached"]
    reason: str
    forced: bool = False
    """Run although a result stands (`--fresh`, `--from`)."""
    shared: str
    out: str
    previous: Outputs = {}
    extends: Outputs = {}
    imports: tuple[str, ...] = ()
    uses_all_cores: bool = False
    saves_on_request: bool = False
    retries: int = 0
    timeout_s: float | None = None
    seed: int | None = None
    """Of an earlier run that is done over again; None takes it from the fingerprint."""

    @property
    def given_seed(self) -> int:
        """What the task's context gives the node as a seed."""
        return int(self.identity.fingerprint[:8], 16) if self.seed is None else self.seed


class Plan(BaseModel):
    """What a pipeline compiles to for one compute profile: tasks in an order that respects every edge."""

    model_config = ConfigDict(frozen=True)

    pipeline: str
    profile: Profile
    storage: Path | None = None
    """Holds `data/` and `scratch/` of the run; None is the workspace."""
    tasks: tuple[PlannedTask, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    left_out: Annotated[tuple[str, ...], Field(description="nodes not asked for")] = ()

    def task(self, node: str) -> PlannedTask:
        return next(t for t in self.tasks if t.node == node)

    def data_root(self, workspace: Workspace) -> Path:
        """Where the run's results lie."""
        return Storage(self.storage or workspace.root).data

    def scratch_root(self, workspace: Workspace) -> Path:
        """Where the run's half-done work lies."""
        return Storage(self.storage or workspace.root).scratch

    @property
    def to_run(self) -> list[PlannedTask]:
        return [t for t in self.tasks if t.action == "run"]


class Choice(BaseModel):
    """Which part of the pipeline to run, and what to do over again."""

    model_config = ConfigDict(frozen=True)

    start: str | None = None
    """Run this node and all behind it again, whatever the cache holds."""
    end: str | None = None
    """Run only what this node needs, and the node."""
    fresh: bool = False
    """Use no result from before."""


def plan(
    resolved: Resolved,
    profile: Profile,
    observation: Observation,
    choice: Choice | None = None,
    *,
    fresh_suffix: str = "",
) -> Plan:
    """Compile for `profile`. `fresh_suffix` names the new folders of work that is forced (the run's id).

    Raises `CheckFailed` with all diagnostics when one is an error, `UsageError` when `choice` names
    a node that is not there.
    """
    choice = choice or Choice()
    for name in (choice.start, choice.end):
        if name is not None and name not in resolved.nodes:
            raise UsageError(f"the pipeline has no node {name}", hint=f"It has: {', '.join(resolved.nodes)}.")
    wanted = _wanted(resolved, choice)
    checked = check(resolved, observation, profile)
    relevant = [d for d in checked.diagnostics if d.node is None or d.node in wanted]
    if any(d.severity == "error" for d in relevant):
        raise CheckFailed(relevant)
    identities = identify(resolved, observation.paths)
    forced = _forced(resolved, choice)
    order = [n for n in resolved.order if n in wanted]
    must_run = _must_run(resolved, order, identities, observation, forced)
    tasks = [
        _task(
            resolved.nodes[n], resolved, identities[n], profile, observation, must_run.get(n), n in forced, fresh_suffix
        )
        for n in order
    ]
    relevant += _out_of_sight(tasks, profile, observation)
    left_out = tuple(n for n in resolved.nodes if n not in wanted)
    return Plan(
        pipeline=resolved.pipeline.name,
        profile=profile,
        storage=observation.storage,
        tasks=tuple(tasks),
        diagnostics=tuple(relevant),
        left_out=left_out,
    )


def backend_of(node_type: AnyNodeType, profile: Profile) -> tuple[Backend, str]:
    """Where the node's work happens under the profile, and why.

    Raises `UsageError` where the checks give VF307.
    """
    found = node_type.runs_on(profile.backend)
    if found is None:
        raise UsageError(f"{node_type.name} cannot run on {profile.backend}", hint="Choose another profile.")
    backend: Backend = "embedded" if found[0] == "embedded" else "spark"
    return backend, f"{found[1]}: runs on the driver's machine" if found[1] else f"profile {profile.name}"


def _out_of_sight(tasks: Sequence[PlannedTask], profile: Profile, observation: Observation) -> Iterator[Diagnostic]:
    """Warnings of results that a cluster's task will read, and that lie outside the storage its executors see."""
    if observation.storage is None or profile.master.startswith("local"):
        return
    by_node = {t.node: t for t in tasks}
    for task in tasks:
        if task.backend != "spark" or task.action != "run":
            continue
        for port, source in task.inputs.items():
            made = observation.cache.get(by_node[source.node].identity.fingerprint)
            if by_node[source.node].action == "run" or made is None or source.port not in made.result.outputs:
                continue
            uri = made.result.outputs[source.port].uri
            if not is_url(uri) and not Path(uri).is_relative_to(observation.storage):
                yield Diagnostic(
                    code="VF309",
                    severity="warning",
                    message=f"reads {uri}, which lies outside the storage root of profile {profile.name}",
                    hint=f"If the executors do not see it, run with --from {source.node}: that makes it again there.",
                    node=task.node,
                    port=port,
                )


def downstream(resolved: Resolved, node: str) -> set[str]:
    """The node and everything that depends on it."""
    out = {node}
    for name in resolved.order:
        if any(e.source_node in out for e in resolved.wires_into(name)):
            out.add(name)
    return out


def upstream(resolved: Resolved, node: str) -> set[str]:
    """The node and everything it depends on."""
    out = {node}
    for name in reversed(resolved.order):
        if name in out:
            out |= {e.source_node for e in resolved.wires_into(name)}
    return out


def _wanted(resolved: Resolved, choice: Choice) -> set[str]:
    out = set(resolved.order)
    if choice.end is not None:
        out &= upstream(resolved, choice.end)
    if choice.start is not None:
        if choice.start not in out:
            raise UsageError(f"{choice.start} does not lead to {choice.end}", hint="Choose nodes on one path.")
        behind = downstream(resolved, choice.start) & out
        out = set().union(*(upstream(resolved, n) for n in behind))
    return out


def _forced(resolved: Resolved, choice: Choice) -> set[str]:
    if choice.start is not None:
        return downstream(resolved, choice.start)
    return set(resolved.order) if choice.fresh else set()


def _must_run(
    resolved: Resolved,
    order: Sequence[str],
    identities: Mapping[str, Identity],
    observation: Observation,
    forced: set[str],
) -> dict[str, str]:
    """The nodes that must run, with the reason."""
    out: dict[str, str] = {}
    for name in order:
        identity = identities[name]
        cached = observation.cache.get(identity.fingerprint)
        if name in forced:
            out[name] = "asked for"
        elif cached is None:
            out[name] = _why(name, identity, observation)
        elif cached.problem:
            out[name] = f"its result is no longer usable: {cached.problem}"
    among = set(order)
    # Last first: whether a node is needed depends on what stands behind it.
    for name in reversed(order):
        behind = [n for n in resolved.behind(name) if n in among]
        if name in out and name not in forced and behind and not any(n in out for n in behind):
            # Its result is gone, but everything made from it still stands.
            del out[name]
        item = resolved.nodes[name]
        assert item.type is not None
        if name not in out or item.type.mutates is None:
            continue
        # A task that changes a table in place needs it as its maker left it; when the table has
        # moved on, the maker runs again and brings it back to what the sources say.
        for edge in resolved.wires_into(name):
            source = edge.source_node
            cached = observation.cache.get(identities[source].fingerprint)
            if edge.target_port == item.type.mutates and source not in out and cached and cached.moved_on:
                out[source] = cached.moved_on
    return out


def _why(name: str, identity: Identity, observation: Observation) -> str:
    last = observation.last.get(name)
    if last is None:
        return "never ran before"
    changed = what_changed(last.identity, identity.parts, observation.changes.get(name, {}))
    return changed or "its result was removed"


def _outputs(result: Result | None) -> Any:
    return dict(result.outputs) if result else {}


def _usable(identity: Identity, observation: Observation) -> bool:
    cached = observation.cache.get(identity.fingerprint)
    return cached is not None and not cached.problem


def _task(
    item: ResolvedNode,
    resolved: Resolved,
    identity: Identity,
    profile: Profile,
    observation: Observation,
    reason: str | None,
    forced: bool,
    fresh_suffix: str,
) -> PlannedTask:
    assert item.type is not None
    previous = observation.previous.get(identity.lineage)
    shorter = observation.shorter.get(identity.base)
    shared = f"{item.type.name}/{identity.lineage[:16]}"
    if observation.storage is not None:
        shared = str(Storage(observation.storage).data / shared)
    if forced:
        shared += f"-{fresh_suffix}" if fresh_suffix else ""
    elif previous is not None:
        shared = previous.shared
    backend, backend_reason = backend_of(item.type, profile)
    return PlannedTask(
        node=item.node.id,
        node_type=item.type.name,
        version=item.type.version,
        title=item.node.label,
        backend=backend,
        backend_reason=backend_reason,
        params=dict(item.params),
        inputs={
            e.target_port: Source(node=e.source_node, port=e.source_port) for e in resolved.wires_into(item.node.id)
        },
        listings={
            name: found.manifest for name, found in observation.paths.get(item.node.id, {}).items() if found.manifest
        },
        identity=identity,
        action="cached" if reason is None else "run",
        reason=reason or ("up to date" if _usable(identity, observation) else "not needed: what follows is up to date"),
        forced=forced,
        shared=shared,
        out=f"{shared}/{identity.fingerprint[:16]}",
        previous=_outputs(previous) if not forced else {},
        extends=_outputs(shorter) if not forced else {},
        imports=item.type.imports,
        uses_all_cores=item.type.uses_all_cores,
        saves_on_request=item.type.saves_on_request,
        retries=item.node.retries,
        timeout_s=item.node.timeout_s,
    )
