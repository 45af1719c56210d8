"""`plan`: pipeline, profile and observation become ordered tasks, each cached or with the reason it must run. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from engine.catalog import AnyNodeType
from engine.declare.datasets import AnyDataset
from engine.diagnostics import rules
from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.document.checks import (
    Observation,
    changing_executors,
    check,
    missing_packages,
    not_cached,
    too_little_space,
    written_bytes,
)
from engine.document.identity import Identity, added_defaults, identify, seed_of, what_changed
from engine.document.resolve import Resolved, ResolvedNode, TypedNode
from engine.errors import ExecutionError, UsageError
from engine.profiles import Backend, Profile
from engine.storage import is_url
from engine.storage.io_errors import OUT_OF_RESOURCES
from engine.storage.workspace_paths import INSIDE, LocalFolder, LocalPath, LocalValues, WorkspacePaths
from engine.store.schema import recorded_paths
from engine.workspace import Storage, Workspace

Outputs = dict[str, SerializeAsAny[AnyDataset]]


class Source(BaseModel):
    """Where an input comes from: an output port of another task."""

    model_config = ConfigDict(frozen=True)

    node: str
    port: str


class PlannedTask(BaseModel):
    """One node's work in a run.

    `action` is "cached" when its result is there already, else "run" with the `reason`. `shared` and
    `out` are where it writes (see `engine.declare.context`): below the workspace's data, or absolute when the
    profile keeps its data elsewhere. `backend_reason` says why it works where it does.
    """

    model_config = ConfigDict(frozen=True)

    node: str
    node_type: str
    version: int
    title: str
    backend: Backend
    backend_reason: str = ""
    params: LocalValues
    inputs: dict[str, Source]
    listings: dict[str, LocalPath] = {}
    """The Arrow listing of each folder parameter."""
    identity: Identity
    action: Literal["run", "cached"]
    reason: str
    forced: bool = False
    """Run although there is a result (`--fresh`, `--from`)."""
    shared: LocalPath
    out: LocalPath
    previous: Outputs = {}
    extends: Outputs = {}
    imports: tuple[str, ...] = ()
    uses_all_cores: bool = False
    saves_on_request: bool = False
    retries: int = 0
    timeout_s: float | None = None
    seed: int | None = None
    """Of an earlier run that is done over again; None takes it from the fingerprint."""
    about_bytes: int | None = None
    """The expected size of its outputs, where that is known."""

    @property
    def goes_on(self) -> bool:
        """Whether it does only what earlier work lacks."""
        return bool(self.previous or self.extends)

    @property
    def given_seed(self) -> int:
        """What the task's context gives the node as a seed."""
        return seed_of(self.identity.fingerprint) if self.seed is None else self.seed


class Plan(BaseModel):
    """What a pipeline compiles to for one compute profile: tasks in an order that respects every edge."""

    model_config = ConfigDict(frozen=True)

    pipeline: str
    profile: Profile
    storage: LocalFolder = None
    """Holds `data/` and `scratch/` of the run; None is the workspace."""
    tasks: tuple[PlannedTask, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    left_out: Annotated[tuple[str, ...], Field(description="nodes not asked for, disabled or bypassed")] = ()

    def task(self, node: str) -> PlannedTask:
        """The task of a node. Raises `StopIteration` when the plan has none."""
        return next(t for t in self.tasks if t.node == node)

    def data_root(self, workspace: Workspace) -> Path:
        """Where the run's results lie."""
        return Storage(self.storage or workspace.root).data

    def scratch_root(self, workspace: Workspace) -> Path:
        """Where the run's half-done work lies."""
        return Storage(self.storage or workspace.root).scratch

    @property
    def to_run(self) -> list[PlannedTask]:
        """Those that are not cached."""
        return [t for t in self.tasks if t.action == "run"]


class Choice(BaseModel):
    """Which part of the pipeline to run, and what to do over again."""

    model_config = ConfigDict(frozen=True)

    start: str | None = None
    """Rerun this node and everything downstream, whatever the cache holds."""
    end: str | None = None
    """Run only what this node needs, and the node."""
    fresh: bool = False
    """Ignore cached results."""


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
        if name is not None and name in resolved.left_out:
            raise UsageError(
                f"{name} takes no part in a run: it {resolved.left_out[name]}", hint="Enable it, or choose another."
            )
        if name is not None and name not in resolved.nodes:
            raise UsageError(f"the pipeline has no node {name}", hint=f"It has: {', '.join(resolved.nodes)}.")
    if profile.on_databricks:
        where = rules.NotRunFromHere.found(
            f"the profile {profile.name} is on Databricks, where a pipeline runs as a job",
            hint=f"`voxelflow export PIPELINE --to databricks --profile {profile.name}` writes the job.",
        )
        raise CheckFailed([where])
    wanted = _wanted(resolved, choice)
    checked = check(resolved, observation, profile)
    relevant = [d for d in checked.diagnostics if d.node is None or d.node in wanted | resolved.left_out.keys()]
    if not wanted <= set(resolved.order):
        # One problem stands for all cycles, at a node that may not be asked for.
        relevant += [d for d in checked.diagnostics if d.code == rules.Cycle.code and d not in relevant]
    by_cache = set(too_little_space(resolved, checked.previews, observation, not_cached(resolved, observation)))
    by_what_runs = (rules.PackageMissing.code, rules.ExecutorsChange.code)
    if any(d.severity == "error" and d.code not in by_what_runs and d not in by_cache for d in relevant):
        raise CheckFailed(relevant)
    identities = identify(resolved, observation.paths, observation.own_paths)
    forced = downstream(resolved, choice.start) if choice.start is not None else set()
    if choice.fresh:
        forced = set(resolved.order)
    order = [n for n in resolved.order if n in wanted]
    must_run = _must_run(resolved, order, identities, observation, forced)
    # The checks went by the cache alone. Now it is known what runs: what is forced too, and not what nobody needs.
    # What a node itself reports of its data, such as a file whose reader is not installed, is reported here alone.
    relevant = [d for d in relevant if d.code not in by_what_runs or d.node in must_run]
    relevant = [d for d in relevant if d not in by_cache]
    relevant += [d for d in missing_packages(resolved, observation, profile, must_run) if d not in relevant]
    relevant += [d for d in changing_executors(resolved, profile, must_run) if d not in relevant]
    relevant += too_little_space(resolved, checked.previews, observation, must_run)
    if any(d.severity == "error" for d in relevant):
        raise CheckFailed(relevant)
    tasks = [
        _task(
            item, resolved, identities[n], profile, observation, must_run.get(n), n in forced, fresh_suffix,
            written_bytes(item, checked.previews, resolved) or None,
        )
        for item in resolved.typed()
        if (n := item.node.id) in wanted
    ]  # fmt: skip
    relevant += _out_of_sight(tasks, profile, observation)
    left_out = (*(n for n in resolved.nodes if n not in wanted), *resolved.left_out)
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
                yield rules.OutsideStorageRoot.found(
                    f"reads {uri}, which lies outside the storage root of profile {profile.name}",
                    hint=f"If the executors do not see it, run with --from {source.node}: that makes it again there.",
                    node=task.node,
                    port=port,
                )


def downstream(resolved: Resolved, node: str) -> set[str]:
    """The node and everything that depends on it, on cycles too."""
    return _reached(node, resolved.successors) & resolved.nodes.keys()


def upstream(resolved: Resolved, node: str) -> set[str]:
    """The node and everything it depends on, on cycles too."""
    return _reached(node, lambda name: [e.source_node for e in resolved.wires_into(name)])


def _reached(node: str, next_to: Callable[[str], Iterable[str]]) -> set[str]:
    out, ahead = {node}, [node]
    while ahead:
        new = set(next_to(ahead.pop())) - out
        out |= new
        ahead += new
    return out


def _wanted(resolved: Resolved, choice: Choice) -> set[str]:
    # Those on a cycle, too: left out, they would be passed over without a word.
    out = set(resolved.nodes)
    if choice.end is not None:
        out &= upstream(resolved, choice.end)
    if choice.start is not None:
        if choice.start not in out:
            raise UsageError(f"{choice.start} does not lead to {choice.end}", hint="Choose nodes on one path.")
        behind = downstream(resolved, choice.start) & out
        out = set().union(*(upstream(resolved, n) for n in behind))
    return out


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
            out[name] = _why(resolved.nodes[name], identity, observation)
        elif cached.problem:
            out[name] = f"its result is no longer usable: {cached.problem}"
    among = set(order)
    # Last first: whether a node is needed depends on what depends on it.
    for name in reversed(order):
        behind = [n for n in resolved.successors(name) if n in among]
        cached = observation.cache.get(identities[name].fingerprint)
        is_damaged = cached is not None and cached.damaged
        if name in out and name not in forced and not is_damaged and behind and not any(n in out for n in behind):
            # Its result was removed, but everything made from it is still there. One that is damaged is made right.
            del out[name]
        node_type = resolved.nodes[name].type
        if name not in out or node_type is None or node_type.mutates is None:
            continue
        # A task that changes a table in place needs it as its maker left it; when the table has
        # moved on, the maker runs again and brings it back to what the sources say.
        for edge in resolved.wires_into(name):
            source = edge.source_node
            cached = observation.cache.get(identities[source].fingerprint)
            if edge.target_port == node_type.mutates and source not in out and cached and cached.moved_on:
                out[source] = cached.moved_on
    return out


def _why(item: ResolvedNode, identity: Identity, observation: Observation) -> str:
    name, defaults = item.node.id, {} if item.type is None else added_defaults(item.type)
    last = observation.last.get(name)
    if last is None:
        return observation.missed.get(name) or "never ran before"
    changed = what_changed(last.identity, identity.parts, observation.changes.get(name, {}), defaults)
    return changed or "its result was removed"


def _task(
    item: TypedNode,
    resolved: Resolved,
    identity: Identity,
    profile: Profile,
    observation: Observation,
    reason: str | None,
    forced: bool,
    fresh_suffix: str,
    about_bytes: int | None,
) -> PlannedTask:
    previous = observation.previous.get(identity.lineage)
    shorter = observation.shorter.get(identity.base)
    cached = observation.cache.get(identity.fingerprint)
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
        reason=reason or ("up to date" if cached and not cached.problem else "not needed: what follows is up to date"),
        forced=forced,
        shared=shared,
        out=f"{shared}/{identity.fingerprint[:16]}",
        previous=dict(previous.outputs) if previous and not forced else {},
        extends=dict(shorter.outputs) if shorter and not forced else {},
        imports=item.type.imports,
        uses_all_cores=item.type.uses_all_cores,
        saves_on_request=item.type.saves_on_request,
        retries=item.node.retries,
        timeout_s=item.node.timeout_s,
        about_bytes=about_bytes,
    )


PLAN = "plan.json"
"""Its name. It is written durably (`RunStore.create_run`): the run and every resume of it go by it."""
_PATHS = "paths"
"""Names the root of the paths inside the workspace. Plans of an earlier version lack it: their paths are absolute."""


def plan_text(plan: Plan, paths: WorkspacePaths) -> str:
    """The plan as JSON for the run's folder; paths inside the workspace are stored relative to it."""
    values = plan.model_dump(mode="json", context=paths)
    return json.dumps({_PATHS: INSIDE} | values, indent=1, ensure_ascii=False)


def read_plan(workspace: Workspace, run_id: str) -> Plan | None:
    """The run's plan; None when it is gone or cannot be read."""
    try:
        return _read(workspace, run_id)
    except (OSError, ValueError):
        return None


def require_plan(workspace: Workspace, run_id: str) -> Plan:
    """The run's plan. Raises `ExecutionError` when it is gone, or a power cut has cut it short, `OSError` when there
    are no file handles left."""
    try:
        return _read(workspace, run_id)
    except OSError as exc:
        if exc.errno in OUT_OF_RESOURCES:
            raise
        why = f"cannot be read: {exc.strerror or exc}"
    except ValueError:
        why = "is damaged"
    raise ExecutionError(
        f"run {run_id} cannot go on: its plan {_path(workspace, run_id)} {why}",
        hint="Start a new run with `voxelflow run`: it takes over what this one has finished.",
    )


def _path(workspace: Workspace, run_id: str) -> Path:
    return workspace.run_folder(run_id) / PLAN


def _read(workspace: Workspace, run_id: str) -> Plan:
    values = json.loads(_path(workspace, run_id).read_bytes())
    paths = WorkspacePaths(workspace.root)
    if isinstance(values, dict) and _PATHS not in values:
        paths = recorded_paths(workspace, values)
    return Plan.model_validate(values, context=paths)
