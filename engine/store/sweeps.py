"""Sweeps: many runs of one pipeline with other values, the trials; what was asked for and how each of them ended.

Which runs a trial had is not noted here: each run names its sweep and trial in its own options, from its first moment.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.errors import UsageError
from engine.limit import Limit
from engine.storage.workspace_paths import each_text
from engine.store.database import Database, new_id
from engine.store.liveness import is_supervised

SweepState = Literal["starting", "running", "done", "failed", "cancelled", "lost"]
TrialState = Literal["waiting", "running", "done", "failed", "pruned", "cancelled"]
ENDED: tuple[TrialState, ...] = ("done", "failed", "pruned", "cancelled")


@dataclass(frozen=True)
class Sweep:
    """One sweep. `state` is "lost" when its process died before it could report an end; its runs may go on.

    `options` are what was asked for, as `engine.sweep.options.SweepOptions` writes it. Times are seconds since the
    epoch. `cancel` is True once a cancel was requested. All attempts together were at work for `worked_s` seconds,
    which its process counts; `heartbeat` is when it last did, None once it has ended.
    """

    sweep_id: str
    pipeline: str
    document: str
    options: Mapping[str, Any]
    profile: str
    state: SweepState
    error: str
    created: float
    ended: float | None
    attempt: int
    cancel: bool
    worked_s: float = 0.0
    heartbeat: float | None = None

    @property
    def limit(self) -> Limit:
        """The time and the cost at which all of it is stopped."""
        return Limit.of(self.options)

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("starting", "running")


@dataclass(frozen=True)
class Trial:
    """One set of values of a sweep, numbered from 0. `score` is the figure it is judged by; None: not known (yet)."""

    sweep_id: str
    number: int
    values: Mapping[str, Any]
    state: TrialState
    score: float | None
    error: str

    @property
    def ended(self) -> bool:
        """Whether it will not be worked on by itself any more."""
        return self.state in ENDED


class SweepStore:
    """The tables of sweeps and of their trials."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        pipeline: str,
        document: str,
        options: Mapping[str, Any],
        profile: str,
        trials: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Record a new sweep and its first trials, all or nothing. Gives its id. Raises `sqlite3.Error`."""
        stored = each_text(dict(options), self._database.paths.stored)
        with self._database.write(durable=True) as db:
            sweep_id = new_id()
            while db.execute("SELECT 1 FROM sweeps WHERE sweep_id = ?", (sweep_id,)).fetchone():
                sweep_id = new_id()
            db.execute(
                "INSERT INTO sweeps (sweep_id, pipeline, document, options, profile, state, created)"
                " VALUES (?, ?, ?, ?, ?, 'starting', ?)",
                (
                    sweep_id,
                    pipeline,
                    self._database.paths.stored_document(document),
                    json.dumps(stored),
                    profile,
                    time.time(),
                ),
            )
            for number, values in enumerate(trials):
                self._add_trial(db, sweep_id, number, values)
        return sweep_id

    def find(self, sweep_id: str) -> Sweep:
        """The sweep with this id, or the only one whose id holds it; "last" is the newest one.

        Raises `UsageError` when there is none or there are several.
        """
        if not sweep_id:  # every id holds nothing
            raise UsageError("the name of the sweep is empty", hint="`voxelflow sweep list` shows them.")
        if sweep_id == "last":
            rows = self._database.read("SELECT * FROM sweeps ORDER BY created DESC LIMIT 1")
        else:
            rows = self._database.read("SELECT * FROM sweeps WHERE sweep_id = ?", sweep_id) or self._database.read(
                "SELECT * FROM sweeps WHERE instr(sweep_id, ?) > 0", sweep_id
            )
        if len(rows) != 1:
            raise UsageError(
                f"there is no sweep {sweep_id}" if not rows else f"{len(rows)} sweeps are called ...{sweep_id}...",
                hint="`voxelflow sweep list` shows them.",
            )
        return self._sweep(rows[0])

    def newest(self, limit: int = 50) -> list[Sweep]:
        """The newest sweeps first, at most `limit` of them; all with -1."""
        return [
            self._sweep(row) for row in self._database.read("SELECT * FROM sweeps ORDER BY created DESC LIMIT ?", limit)
        ]

    def begin(self, sweep_id: str) -> None:
        """Its process has started. Who asked to cancel while it was starting meant this attempt."""
        with self._database.write() as db:
            db.execute(
                "UPDATE sweeps SET state = 'running', error = '', ended = NULL, attempt = attempt + 1, tracked = 0,"
                " cancel = CASE attempt WHEN 0 THEN cancel ELSE 0 END WHERE sweep_id = ?",
                (sweep_id,),
            )

    def change(self, sweep_id: str, options: Mapping[str, Any]) -> None:
        """Change options of a sweep that goes on, such as how many trials run at a time."""
        with self._database.write(durable=True) as db:
            # Read here: else what another process changes meanwhile would be undone.
            sweep = self.find(sweep_id)
            stored = each_text({**sweep.options, **options}, self._database.paths.stored)
            db.execute("UPDATE sweeps SET options = ? WHERE sweep_id = ?", (json.dumps(stored), sweep_id))

    def end(self, sweep_id: str, state: SweepState, error: str = "") -> None:
        """Record how it ended."""
        with self._database.write(durable=True) as db:
            db.execute(
                "UPDATE sweeps SET state = ?, error = ?, ended = ?, heartbeat = NULL WHERE sweep_id = ?",
                (state, error, time.time(), sweep_id),
            )

    def end_unbegun(self, sweep_id: str) -> None:
        """Its first process is gone: unless that began, the sweep has failed, or is cancelled where that was asked for.

        A cancelled one counts as an attempt: else the request would be meant for the next one.
        """
        with self._database.write(durable=True) as db:
            db.execute(
                "UPDATE sweeps SET ended = ?, attempt = cancel,"
                " state = CASE cancel WHEN 0 THEN 'failed' ELSE 'cancelled' END,"
                " error = 'the sweep''s process ' || CASE cancel WHEN 0 THEN 'died before it began'"
                " ELSE 'had not begun' END"
                " WHERE sweep_id = ? AND state = 'starting' AND attempt = 0",
                (time.time(), sweep_id),
            )

    def beat(self, sweep_id: str, worked_s: float) -> None:
        """Say that its process is alive, and how long the sweep has been at work."""
        with self._database.write() as db:
            db.execute(
                "UPDATE sweeps SET worked_s = ?, heartbeat = ? WHERE sweep_id = ?", (worked_s, time.time(), sweep_id)
            )

    def request_cancel(self, sweep_id: str) -> None:
        """Ask the sweep's process to stop. Nothing where the sweep has ended: the next attempt is not meant."""
        with self._database.write() as db:
            db.execute(
                "UPDATE sweeps SET cancel = 1 WHERE sweep_id = ? AND state IN ('starting', 'running')", (sweep_id,)
            )

    # --- trials -----------------------------------------------------------------------------

    def add_trial(self, sweep_id: str, number: int, values: Mapping[str, Any]) -> None:
        """Record a further trial; nothing if it is there."""
        with self._database.write(durable=True) as db:
            self._add_trial(db, sweep_id, number, values)

    def set_trial(
        self, sweep_id: str, number: int, state: TrialState, *, score: float | None = None, error: str = ""
    ) -> None:
        """Change what is known of a trial."""
        with self._database.write(durable=state in ENDED) as db:
            db.execute(
                "UPDATE trials SET state = ?, score = ?, error = ? WHERE sweep_id = ? AND number = ?",
                (state, score, error, sweep_id, number),
            )

    def trials(self, sweep_id: str) -> list[Trial]:
        """The sweep's trials in their order."""
        rows = self._database.read("SELECT * FROM trials WHERE sweep_id = ? ORDER BY number", sweep_id)
        return [self._trial(row) for row in rows]

    def runs_of_trials(self, sweep_id: str) -> dict[int, str]:
        """By number of the trial, the id of its newest run."""
        rows = self._database.read(
            "SELECT run_id, json_extract(options, '$.trial') AS trial FROM runs"
            " WHERE json_valid(options) AND json_extract(options, '$.sweep') = ? ORDER BY created",
            sweep_id,
        )
        return {int(row["trial"]): str(row["run_id"]) for row in rows}

    # --- MLflow -----------------------------------------------------------------------------

    def untracked(self) -> list[str]:
        """Sweeps that have ended and whose end MLflow does not have, oldest first."""
        rows = self._database.read(
            "SELECT sweep_id FROM sweeps WHERE tracked = 0 AND ended IS NOT NULL ORDER BY created"
        )
        return [str(row["sweep_id"]) for row in rows]

    def set_tracked(self, sweep_id: str) -> None:
        """MLflow has the sweep's end."""
        with self._database.write() as db:
            db.execute("UPDATE sweeps SET tracked = 1 WHERE sweep_id = ?", (sweep_id,))

    # --- rows -------------------------------------------------------------------------------

    def _add_trial(self, db: sqlite3.Connection, sweep_id: str, number: int, values: Mapping[str, Any]) -> None:
        stored = json.dumps(each_text(dict(values), self._database.paths.stored))
        db.execute(
            'INSERT OR IGNORE INTO trials (sweep_id, number, "values", state) VALUES (?, ?, ?, ?)',
            (sweep_id, number, stored, "waiting"),
        )

    def _sweep(self, row: sqlite3.Row) -> Sweep:
        values = dict(row)
        del values["tracked"]
        values["options"] = each_text(json.loads(values["options"]), self._database.paths.loaded)
        values["document"] = self._database.paths.loaded_document(values["document"])
        values["cancel"] = bool(values["cancel"])
        folder = self._database.workspace.sweep_folder(values["sweep_id"])
        if values["state"] in ("starting", "running") and not is_supervised(folder, row):
            # It may have ended between the reading of its row and the look at its lock.
            again = self._database.read("SELECT * FROM sweeps WHERE sweep_id = ?", values["sweep_id"])[0]
            if tuple(again) != tuple(row):
                return self._sweep(again)
            values["state"] = "lost"
        assert values["state"] in get_args(SweepState)
        return Sweep(**values)

    def _trial(self, row: sqlite3.Row) -> Trial:
        values = dict(row)
        values["values"] = each_text(json.loads(values["values"]), self._database.paths.loaded)
        assert values["state"] in get_args(TrialState)
        return Trial(**values)
