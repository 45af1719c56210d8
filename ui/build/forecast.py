"""What a run would do with a document, by node: problems, previews, fresh or to be made, and why. Pure.

The engine plans all or nothing; while one draws, something is always unfinished. So the part that has
no problem is planned by itself, and each other node says what it waits for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import partial

from engine.advisor.run_estimate import NodeTime
from engine.advisor.storage_cost import StorageCost
from engine.declare.path_found import PathFound
from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.document.checks import Checked, Observation
from engine.document.identity import identify
from engine.document.pipeline import display_names
from engine.document.plan import PlannedTask, backend_of, plan
from engine.document.resolve import Resolved
from engine.profiles import Profile
from engine.store.results import Result
from engine.wording import MOST_FIGURES, figure_name, made
from ui.build.status import ViewOf, outputs_in_words
from ui.protocol.status import Last, NodeForecast, RequestCostInfo
from ui.views.shown import ShownDatasets


def forecast(
    resolved: Resolved,
    profile: Profile,
    observation: Observation,
    checked: Checked,
    shown: ShownDatasets,
    advice: Mapping[str, str] | None = None,
    times: Mapping[str, NodeTime] | None = None,
    storage: Mapping[str, StorageCost] | None = None,
) -> dict[str, NodeForecast]:
    """By node: whether its result exists already, else why it must be made, and what it made last.

    The browser may then look at all these results: `shown` has them. `advice` has a line for each node that trains,
    `times` how long all of a node's work takes, `storage` what it pays for object storage.
    """
    reasons = waiting(resolved, checked)
    part = resolved if checked.ok else _part(resolved, resolved.nodes.keys() - reasons.keys())
    tasks, problem = _planned(part, profile, observation)
    identities = identify(resolved, observation.paths, observation.own_paths)
    results: dict[str, Result] = dict(observation.last)
    for node, identity in identities.items():
        if (cached := observation.cache.get(identity.fingerprint)) and not cached.problem:
            results[node] = cached.result
    out: dict[str, NodeForecast] = {}
    for node, item in resolved.nodes.items():
        task = tasks.get(node)
        result = results.get(node)
        made_from = {
            wire.target_port: dataset
            for wire in resolved.wires_into(node)
            if (before := results.get(wire.source_node)) and (dataset := before.outputs.get(wire.source_port))
        }
        time = (times or {}).get(node, NodeTime(node))
        if task is not None and task.goes_on:
            time = time.continued()
        backend = reason = ""
        if item.type is not None and item.type.runs_on(profile.backend) is not None:
            backend, reason = backend_of(item.type, profile)
        out[node] = NodeForecast(
            fresh=task is not None and task.action == "cached",
            reason=task.reason if task is not None else reasons.get(node, problem),
            backend=backend,
            backend_reason=reason if profile.backend != "embedded" else "",
            advice=(advice or {}).get(node, ""),
            low_s=time.low,
            high_s=time.high,
            basis=time.basis,
            requests=_requests((storage or {}).get(node), goes_on=task is not None and task.goes_on),
            last=_last(result, partial(shown.key, made_from=made_from)),
        )
    return out


def _requests(cost: StorageCost | None, *, goes_on: bool) -> RequestCostInfo | None:
    if cost is None:
        return None
    kept = (cost.continued() if goes_on else cost).kept()
    return RequestCostInfo(place=kept.place, amount=kept.amount, currency=kept.currency, at_most=kept.at_most)


def waiting(resolved: Resolved, checked: Checked) -> dict[str, str]:
    """Nodes that cannot run now, with the reason."""
    out: dict[str, str] = {}
    for problem in checked.diagnostics:
        if problem.severity == "error" and problem.node is not None and problem.node in resolved.nodes:
            out.setdefault(problem.node, _sentence(problem))
    names = display_names(item.node for item in resolved.nodes.values())
    for node in resolved.order:
        before = next((e.source_node for e in resolved.wires_into(node) if e.source_node in out), None)
        if node not in out and before is not None:
            out[node] = f"waits for {names[before]}"
    for node in resolved.nodes.keys() - set(resolved.order):
        out.setdefault(node, "is part of a cycle, or waits for one")
    return out


def _sentence(problem: Diagnostic) -> str:
    return f"{problem.parameter}: {problem.message}" if problem.parameter else problem.message


def _planned(part: Resolved, profile: Profile, observation: Observation) -> tuple[dict[str, PlannedTask], str]:
    """The tasks; or none, and the problem of the whole pipeline."""
    if not part.nodes:
        return {}, ""
    try:
        return {t.node: t for t in plan(part, profile, observation).tasks}, ""
    except CheckFailed as exc:
        return {}, _sentence(next(d for d in exc.diagnostics if d.severity == "error"))


def _part(resolved: Resolved, nodes: Set[str]) -> Resolved:
    """Those `nodes` alone; they need no others."""
    pipeline = resolved.pipeline
    return replace(
        resolved,
        pipeline=pipeline.model_copy(
            update={
                "nodes": tuple(n for n in pipeline.nodes if n.id in nodes),
                "edges": tuple(e for e in pipeline.edges if e.target_node in nodes and e.source_node in nodes),
            }
        ),
        nodes={n: item for n, item in resolved.nodes.items() if n in nodes},
        order=tuple(n for n in resolved.order if n in nodes),
        problems=tuple(p for p in resolved.problems if p.node in nodes),
        left_out={},
    )


def _last(result: Result | None, view_of: ViewOf) -> Last | None:
    if result is None:
        return None
    return Last(
        run_id=result.run_id,
        created=result.created,
        made=made(result.outputs, MOST_FIGURES, figure_name),
        outputs=outputs_in_words(result.outputs, view_of),
    )


# --- what was seen a moment ago ----------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """The last full look at the world, and the document it was taken for."""

    resolved: Resolved
    observation: Observation


def recall(resolved: Resolved, quick: Observation, memory: Memory | None) -> Observation:
    """A quick look at the world (`observe(scan=False)`) with what a full one knew of nodes that did not change.

    Without it, what only a listing can show (an empty folder, a wrong shape) would vanish with every
    keystroke and come back when typing pauses.
    """
    listed = {node: {n: f for n, f in found.items() if not _unlisted(f)} for node, found in quick.paths.items()}
    if memory is None:
        # Which results exist is not known yet: no word about the disk.
        return replace(quick, paths=listed, free_bytes=sys.maxsize)
    before, now = _signatures(memory.resolved), _signatures(resolved)
    same = {n for n in now if n in before and now[n] == before[n]}
    seen = memory.observation
    paths: dict[str, Mapping[str, PathFound]] = dict(listed)
    facts = dict(quick.facts)
    for node in same:
        found, known = quick.paths.get(node, {}), seen.paths.get(node, {})
        if any(_differ(found.get(name), path) for name, path in known.items()):
            continue
        paths[node] = {**listed.get(node, {}), **known}
        if node in seen.facts:
            facts[node] = seen.facts[node]
    return replace(quick, paths=paths, facts=facts, cached_nodes=frozenset(seen.cached_nodes & same))


def all_listed(quick: Observation, recalled: Observation) -> bool:
    """Whether `recall` knew what each folder holds that the quick look passed by."""
    return all(found.keys() <= recalled.paths.get(node, {}).keys() for node, found in quick.paths.items())


def _unlisted(found: PathFound) -> bool:
    """A folder that is there and was not listed: nothing is known of what it holds."""
    return found.kind == "folder" and found.count > 0 and not found.manifest


def _differ(found: PathFound | None, known: PathFound) -> bool:
    """Whether the quick look contradicts what was known."""
    return found is None or (found.exists, found.kind, found.problem) != (known.exists, known.kind, known.problem)


def _signatures(resolved: Resolved) -> dict[str, str]:
    """By node: a text of all that its result depends on in the document."""
    out: dict[str, str] = {}
    for name in resolved.order:
        item = resolved.nodes[name]
        own = (item.type.name, item.type.version) if item.type else (item.node.type, None)
        inputs = [(e.target_port, e.source_port, hash(out[e.source_node])) for e in resolved.wires_into(name)]
        out[name] = repr((own, item.complete, sorted(item.params.items()), inputs))
    return out
