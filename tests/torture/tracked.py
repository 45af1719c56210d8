"""Runs that MLflow hears of, with a model that goes to its registry."""

from __future__ import annotations

import contextlib
import sqlite3

from tests.torture.judge import Finding
from tests.torture.scene import Scene

TRACKED = {"VOXELFLOW_TRACKING": "on", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
"""The environment of such runs."""


def tracked_once(scene: Scene) -> None:
    """MLflow has the newest run, and of each node one run, all ended. Raises `Finding`."""
    run_id, _ = scene.newest_run()
    with contextlib.closing(sqlite3.connect(scene.workspace / "mlflow.db", timeout=60)) as db:
        found = db.execute(
            "SELECT r.status, (SELECT value FROM tags n WHERE n.run_uuid = r.run_uuid AND n.key = 'voxelflow.node')"
            " FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid"
            " WHERE t.key = 'voxelflow.run_id' AND t.value = ?",
            [run_id],
        ).fetchall()
    nodes = [node for _, node in found]
    if not found or len(nodes) != len(set(nodes)):
        raise Finding(f"MLflow has {len(found)} runs of {run_id}: {nodes}")
    if unended := [node for status, node in found if status not in ("FINISHED", "FAILED", "KILLED")]:
        raise Finding(f"MLflow's runs of {unended} never end")
