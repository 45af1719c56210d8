"""How far each run's events were sent to MLflow."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from engine.store.database import Database


class TrackingStore:
    """The table of what was sent, a row for each run of which something was."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, run_id: str) -> tuple[int, dict[str, Any], bool]:
        """How far the run's events were sent: (cursor, the tracker's state, all sent)."""
        rows = self._database.read("SELECT * FROM tracking WHERE run_id = ?", run_id)
        return (rows[0]["cursor"], self._state(rows[0]), bool(rows[0]["finished"])) if rows else (0, {}, False)

    def record(
        self, run_id: str, cursor: int, state: Mapping[str, Any], *, finished: bool = False, problem: str = ""
    ) -> None:
        """Note how far the run's events were sent; `problem` is what MLflow would not take."""
        stored = dict(state)
        if isinstance(location := stored.get("location"), str):
            stored["location"] = self._database.paths.stored(location)
        with self._database.write() as db:
            db.execute(
                "INSERT OR REPLACE INTO tracking VALUES (?, ?, ?, ?, ?)",
                (run_id, cursor, json.dumps(stored), int(finished), problem),
            )

    def unfinished(self) -> list[str]:
        """Runs that have ended and whose events were not all sent, oldest first."""
        rows = self._database.read(
            "SELECT run_id FROM runs LEFT JOIN tracking USING (run_id)"
            " WHERE coalesce(finished, 0) = 0 AND runs.state IN ('done', 'failed', 'cancelled') ORDER BY created"
        )
        return [r["run_id"] for r in rows]

    def begun(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every run of which something was sent, with the tracker's state."""
        for row in self._database.read("SELECT run_id, state FROM tracking"):
            yield row["run_id"], self._state(row)

    def _state(self, row: sqlite3.Row) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(row["state"])
        if isinstance(location := state.get("location"), str):
            state["location"] = self._database.paths.loaded(location)
        return state
