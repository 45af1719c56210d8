"""Which earlier runs a node's work began in: those that it went on from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.document.plan import Plan, PlannedTask, read_plan
from engine.store.reported import begun_before
from engine.store.runs import RunStore
from engine.workspace import scratch_name

_MOST = 50
"""Runs that one training went on from, one after another."""


@dataclass(frozen=True)
class Earlier:
    """A node of an earlier run. `stopped`: it may have left unfinished work to continue, but whether that was still
    there was not recorded; else it made the result that was continued."""

    run_id: str
    node: str
    stopped: bool = False


def gone_on_from(store: RunStore, run_id: str, node: str, plans: dict[str, Plan | None]) -> list[Earlier]:
    """What a node of a run went on from, the latest first: the runs that made a shorter result, and those that were
    stopped at the same work.

    `plans` are those that were read already, by run; others are added. Of a run without its plan, and of a result that
    is forgotten, nothing is known.
    """
    out: list[Earlier] = []
    known = {(run_id, node)}
    while len(out) < _MOST:
        task = _planned(store, run_id, node, plans)
        if task is None:
            break
        for each in _stopped(store, run_id, task, plans):
            if (each.run_id, each.node) not in known:
                known.add((each.run_id, each.node))
                out.append(each)
        made = (result for result in store.results.of_base(task.identity.base) if result.outputs == task.extends)
        found = next(((result.run_id, result.node) for result in made), None) if task.extends else None
        if found is None or found in known:
            break
        known.add(found)
        run_id, node = found
        out.append(Earlier(run_id, node))
    return out[:_MOST]


def _stopped(store: RunStore, run_id: str, task: PlannedTask, plans: dict[str, Plan | None]) -> Iterator[Earlier]:
    """The earlier runs whose half-done work lies where that of `task` does, the latest first."""
    own = _scratch(store, run_id, task, plans)
    for other in begun_before(store, run_id, task.node, task.identity.fingerprint, _MOST):
        theirs = _planned(store, other, task.node, plans)
        # With `--fresh` or another storage root it lies elsewhere.
        if theirs is not None and _scratch(store, other, theirs, plans) == own:
            yield Earlier(other, task.node, stopped=True)


def _planned(store: RunStore, run_id: str, node: str, plans: dict[str, Plan | None]) -> PlannedTask | None:
    if run_id not in plans:
        plans[run_id] = read_plan(store.workspace, run_id)
    plan = plans[run_id]
    return next((task for task in plan.tasks if task.node == node), None) if plan is not None else None


def _scratch(store: RunStore, run_id: str, task: PlannedTask, plans: dict[str, Plan | None]) -> Path:
    plan = plans[run_id]
    assert plan is not None
    return plan.scratch_root(store.workspace) / scratch_name(task.identity.fingerprint, task.shared, task.forced)
