"""MLflow, fed from a run's events by a process of its own.

The supervisor stores events and never waits for MLflow; executors and workers never reach it. A
tracker follows the event log from a durable cursor, so an unreachable server costs nothing but
time, and a tracker that is killed goes on where it was.

    destination   where MLflow is, connecting to it, keeping secrets out of texts
    follow        the loop: one run's events, from the cursor to the end
    recorder      what each event becomes in MLflow, and what is remembered between two starts
    mlflow_run    what is on its way to one MLflow run, each point once
    mlflow_api    MLflow's rules for names and errors; finding or making experiments and runs
    description   a run's document, plan and datasets
    models        models, their versions in the registry, and the alias of the best one
    sweep_run     the parent of a sweep's trials, and what came of the sweep
    web_ui        MLflow's own web pages, served to the app
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.storage.process_lock import is_held
from engine.tracking.destination import destination, load_client
from engine.tracking.follow import TRACKER_LOCK, Patience, follow
from engine.tracking.recorder import TrackState
from engine.workspace import Workspace

if TYPE_CHECKING:
    from engine.store.runs import RunStore

__all__ = ["Patience", "load_client", "location", "run_link", "send_pending", "track_run", "tracked_here"]


def track_run(workspace: Workspace, run_id: str, *, until_ended: bool = True, patience: Patience | None = None) -> bool:
    """Send a run's events to MLflow; True when the run has ended and all of it was sent.

    With `until_ended` this follows the run until it has ended, however long the server is unreachable;
    after the end it gives up after `patience.tries_after_end` tries, and `send_pending` sends the
    rest later. Without, it sends what there is now, trying once. Only one process at a time tracks
    a run: while another does, this one waits for it, or returns False without `until_ended`.

    Raises `UsageError` when there is no such run. Problems with MLflow never raise: they go to the
    run store and the run's tracker.log.
    """
    return follow(workspace, run_id, until_ended=until_ended, patience=patience or Patience())


def send_pending(workspace: Workspace) -> int:
    """Send what earlier runs left unsent; gives the number of runs that are now whole in MLflow.

    Runs that were meant for another MLflow than today's are left alone. Stops at the first run that
    cannot be sent, since the server is then most likely still unreachable.
    """
    from engine.store.runs import RunStore

    store = RunStore(workspace)
    try:
        waiting = store.tracking.unfinished()
        # A lost run whose tracker died with it: no other process would report its end to MLflow.
        waiting += [r.run_id for r in store.runs() if r.state == "lost" and not store.tracking.find(r.run_id)[2]]
        here = location(workspace)
        sent = 0
        for run_id in waiting:
            if (meant_for := store.tracking.find(run_id)[1].get("location")) and meant_for != here:
                continue
            if is_held(workspace.run_folder(run_id) / TRACKER_LOCK):
                continue  # its tracker is still at it
            if not track_run(workspace, run_id, until_ended=False):
                break
            sent += 1
        else:
            from engine.tracking.sweep_run import close_ended_sweeps

            close_ended_sweeps(workspace, store)
        return sent
    finally:
        store.close()


def location(workspace: Workspace) -> str:
    """Where runs are tracked, to show to people: without user names, passwords or tokens."""
    return destination(workspace).shown


def run_link(workspace: Workspace, run_id: str) -> dict[str, Any]:
    """What is known of a run in MLflow, from the run store alone; empty when nothing was sent yet.

    Keys: "location", "experiment_id", "run_id", "children" (MLflow run ids by node), "models"
    (lists of MLflow model ids by node), "sent" (all of it is there), "notes" (what MLflow would not
    take), and "url" of the run's page when MLflow is a server.
    """
    from engine.store.runs import RunStore

    store = RunStore(workspace)
    try:
        _, saved, sent = store.tracking.find(run_id)
    finally:
        store.close()
    state = TrackState.model_validate(saved)
    if not state.run:
        return {}
    out: dict[str, Any] = {
        "location": state.location,
        "experiment_id": state.experiment,
        "run_id": state.run,
        "children": {node: child.run for node, child in state.children.items()},
        "models": {node: list(child.models.values()) for node, child in state.children.items() if child.models},
        "sent": sent,
        "notes": list(state.notes),
    }
    if state.location.startswith(("http://", "https://")):
        out["url"] = f"{state.location}/#/experiments/{state.experiment}/runs/{state.run}"
    return out


def tracked_here(store: RunStore, mlflow_run: str) -> str | None:
    """The run of this workspace that `mlflow_run` is, or is a node of; None when it ran elsewhere."""
    for run_id, saved in store.tracking.begun():
        state = TrackState.model_validate(saved)
        if mlflow_run in (state.run, *(child.run for child in state.children.values())):
            return run_id
    return None
