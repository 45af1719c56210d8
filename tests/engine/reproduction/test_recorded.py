"""Which runs can be done over, by what the run store has of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from tracked_runs import FakeRun

from engine.errors import UsageError
from engine.reproduction.recorded import find_recorded
from engine.store.liveness import STUCK_AFTER_S
from engine.workspace import Workspace


@pytest.mark.parametrize(("state", "said"), [("running", "is still running"), ("stuck", "is stuck and has not ended")])
def test_a_run_that_has_not_ended_is_refused(workspace: Workspace, state: str, said: str) -> None:
    run = FakeRun(workspace).begin().training(0, 1)
    if state == "stuck":
        with closing(sqlite3.connect(workspace.database)) as db, db:
            db.execute("UPDATE pulses SET at = at - ? WHERE run_id = ?", (STUCK_AFTER_S + 1, run.id))
    assert run.store.run(run.id).state == state
    with pytest.raises(UsageError, match=f"run {run.id} {said}"):
        find_recorded(workspace, run.store, run.id)
    run.finish()
    assert find_recorded(workspace, run.store, run.id).state == "done"
