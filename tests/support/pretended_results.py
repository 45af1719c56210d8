"""Results in a run store as if a plan had been run, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.declare.datasets import Dataset, Report
from engine.document.plan import Plan, PlannedTask
from engine.store.results import Result
from engine.store.runs import RunStore
from engine.workspace import Workspace


def pretend(
    plan: Plan,
    workspace: Workspace,
    store: RunStore,
    made: Callable[[PlannedTask, Path], Dataset] = lambda _, out: Report(uri=str(out)),
) -> None:
    """Record a finished run of `plan`: an empty folder and a result for each task that is not cached."""
    run_id = store.create_run(plan.pipeline, "{}", {}, "local")
    store.set_tasks(run_id, [(t.node, t.node_type, t.title) for t in plan.tasks])
    for task in plan.tasks:
        identity, out = task.identity, plan.data_root(workspace) / task.out
        out.mkdir(parents=True, exist_ok=True)
        if task.action == "run":
            store.results.put(
                Result(
                    fingerprint=identity.fingerprint, lineage=identity.lineage, base=identity.base,
                    node_type=task.node_type, identity=identity.parts, outputs={"out": made(task, out)}, out=task.out,
                    shared=task.shared, pipeline=plan.pipeline, node=task.node, run_id=run_id,
                )
            )  # fmt: skip
        store.update_task(run_id, task.node, fingerprint=identity.fingerprint, state="done")
    store.finish_run(run_id, "done")
