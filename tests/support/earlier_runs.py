"""Runs that are done and took a given time, for estimates of later ones."""

from __future__ import annotations

import time

from engine.store.estimates import Estimated
from engine.store.runs import RunStore


def ran(
    store: RunStore, node: str, node_type: str, seconds: float, amount: float | None, *, pipeline: str = "test",
    profile: str = "desk", host: str = "", attempts: int = 1,
) -> str:  # fmt: skip
    """A run that was done, with one task that took so long."""
    run_id = store.create_run(pipeline, "{}", Estimated(amounts={node: amount}).as_options(), profile)
    for _ in range(attempts):
        store.begin_attempt(run_id)
    store.set_tasks(run_id, [(node, node_type, node)])
    now = time.time()
    store.update_task(run_id, node, state="done", attempt=1, started=now - seconds, ended=now)
    store.finish_run(run_id, "done")
    if host:
        with store.write() as db:
            db.execute("UPDATE runs SET host = ? WHERE run_id = ?", (host, run_id))
    return run_id
