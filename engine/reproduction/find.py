"""Which record knows the run that a person named."""

from __future__ import annotations

from engine.errors import UsageError
from engine.reproduction.from_mlflow import read_from_mlflow
from engine.reproduction.from_store import read_from_store
from engine.reproduction.recorded import Recorded
from engine.runs import RunStore
from engine.tracking import tracked_here
from engine.workspace import Workspace


def find_recorded(workspace: Workspace, store: RunStore, name: str) -> Recorded:
    """The run `name`: an id of this workspace (or the beginning or end of one, or "last"), or an id in MLflow.

    The run store comes first, since it never misses a point; MLflow for what ran elsewhere. Raises `UsageError` when
    neither knows it or it still runs, `TrackingError` when MLflow is away.
    """
    run_id = tracked_here(store, name) or name
    try:
        recorded = read_from_store(workspace, store, store.run(run_id))
    except UsageError:
        recorded = read_from_mlflow(workspace, name)
    if recorded.state in ("starting", "running"):
        raise UsageError(f"run {recorded.run_id} is still running", hint="Wait until it has ended.")
    if not recorded.told:
        raise UsageError(
            f"run {recorded.run_id} told no curves and made no model, so there is nothing to compare",
            hint="Where its training was up to date, name the run that trained; `voxelflow runs list` shows them.",
        )
    return recorded
