"""A sweep in MLflow: one parent run, whose children are the runs of its trials, and what came of it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.errors import UsageError
from engine.storage.process_lock import ProcessLock, is_held
from engine.store.runs import Run, RunStore
from engine.store.sweeps import Sweep, SweepState, Trial
from engine.tracking.destination import connect, destination
from engine.tracking.mlflow_api import SWEEP_ROLE, RunDeleted, find_or_create_experiment, find_or_create_run, line
from engine.tracking.mlflow_run import MlflowRun
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_PATIENCE_S = 60.0
_STATUS: dict[SweepState, str] = {"done": "FINISHED", "failed": "FAILED", "cancelled": "KILLED", "lost": "KILLED"}


def sweep_parent(client: MlflowClient, store: RunStore, run: Run, experiment: str) -> tuple[str, dict[str, str]] | None:
    """The MLflow run of the sweep that `run` is a trial of, made when it is first needed, and tags for that trial.

    None where it is of no sweep, or the sweep is not known any more.
    """
    sweep_id = run.options.get("sweep")
    if not isinstance(sweep_id, str):
        return None
    try:
        sweep = store.sweeps.find(sweep_id)
    except UsageError:
        return None
    parent = _find_or_create(client, store.workspace, sweep, experiment)
    if sweep.active and client.get_run(parent).info.status != "RUNNING":
        client.update_run(parent, status="RUNNING")  # it was resumed
    return parent, {"voxelflow.sweep": sweep_id, "voxelflow.trial": str(run.options.get("trial", ""))}


def close_sweep(workspace: Workspace, sweep_id: str) -> bool:
    """Send what came of a sweep that has ended, and close its MLflow run; False when MLflow could not be reached.

    Never raises for MLflow's sake: `send_pending` tries again later.
    """
    store = RunStore(workspace)
    target = destination(workspace)
    try:
        sweep = store.sweeps.find(sweep_id)
        client = connect(target, workspace)
        experiment = find_or_create_experiment(client, sweep.pipeline, target.artifacts)
        parent = _find_or_create(client, workspace, sweep, experiment)
        notes: list[str] = []
        _send(MlflowRun(client, parent, notes.append), sweep, store.sweeps.trials(sweep_id))
        for note in notes:
            print(target.clean(note), flush=True)
    except RunDeleted:
        pass  # deleted in MLflow, and not made again
    except Exception as exc:
        print(target.clean(f"MLflow at {target.shown}: {line(exc)}"), flush=True)
        return False
    finally:
        store.close()
    store = RunStore(workspace)
    store.sweeps.set_tracked(sweep_id)
    store.close()
    return True


def close_ended_sweeps(workspace: Workspace, store: RunStore) -> None:
    """Send the ends of sweeps that MLflow does not have; stops at the first that cannot be sent."""
    for sweep_id in store.sweeps.untracked():
        if not is_held(workspace.sweep_folder(sweep_id) / "lock") and not close_sweep(workspace, sweep_id):
            return


def _send(parent: MlflowRun, sweep: Sweep, trials: list[Trial]) -> None:
    space, objective = sweep.options["space"], sweep.options.get("objective")
    for name, value in space["fixed"].items():
        parent.param(name, value)
    for name, values in space["lists"].items():
        parent.param(f"sweep.{name}", values)
    for name, text in space["ranges"].items():
        parent.param(f"sweep.{name}", text)
    tags = {"voxelflow.error": sweep.error}
    for state in ("done", "failed", "pruned", "cancelled", "waiting"):
        count = sum(trial.state == state for trial in trials)
        tags[f"voxelflow.sweep.{state}"] = str(count) if count else ""
    for name, text in tags.items():
        if text:
            parent.tag(name, text)
    # Of what a sweep that went on was before, only that is there which still holds.
    parent.untag(*(name for name, text in tags.items() if not text))
    parent.tag("voxelflow.state", sweep.state)
    if objective is not None:
        scored = [(t.score, t) for t in trials if t.state == "done" and t.score is not None and math.isfinite(t.score)]
        figure = f"trials.{objective['figure']}"
        for score, trial in scored:
            parent.point(figure, score, sweep.created + trial.number, trial.number, series=True)
        if scored:
            pick = max if objective["maximise"] else min
            score, best = pick(scored, key=lambda item: item[0])
            parent.tag("voxelflow.sweep.best_trial", str(best.number))
            parent.tag(f"voxelflow.sweep.best_{objective['figure']}", f"{score:.6g}")
            for name, value in best.values.items():
                parent.tag(f"voxelflow.sweep.best.{name}", str(value))
    parent.close(_STATUS.get(sweep.state, "FINISHED"), sweep.ended or time.time())


def _find_or_create(client: MlflowClient, workspace: Workspace, sweep: Sweep, experiment: str) -> str:
    with _alone(workspace):
        found, _ = find_or_create_run(
            client,
            experiment,
            sweep.sweep_id,
            role=SWEEP_ROLE,
            name=f"{sweep.pipeline} sweep {sweep.sweep_id}",
            started=sweep.created,
            tags={
                "voxelflow.pipeline": sweep.pipeline,
                "voxelflow.profile": sweep.profile,
                "mlflow.note.content": (
                    f"A sweep of pipeline **{sweep.pipeline}**: each child is a trial.\n\n"
                    f"`voxelflow sweep show {sweep.sweep_id}` lists them, the best first."
                ),
            },
        )
    return found


@contextlib.contextmanager
def _alone(workspace: Workspace) -> Iterator[None]:
    """Trackers of trials that run side by side look for the parent and make it: one at a time, else there are two."""
    lock = ProcessLock(workspace.locks / "mlflow-sweep")
    lock.acquire_within(_PATIENCE_S)  # else without it: a parent too many is better than none
    try:
        yield
    finally:
        lock.release()
