"""The run store: every run, its tasks and their events."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from engine.declare.events import (
    Progress,
    RunState,
    RunStateChanged,
    SystemSample,
    TaskState,
    TaskStateChanged,
    event_from_json,
)
from engine.errors import UsageError
from engine.limit import Limit
from engine.storage.files import write_whole
from engine.storage.process_lock import is_held
from engine.store import ending as run_ending
from engine.store.database import datasets_json, new_id
from engine.store.liveness import is_stuck, is_supervised, likely_reason
from engine.store.results import ResultCache
from engine.store.run_events import RunEvents
from engine.store.run_records import ACTIVE, Run, Task, as_it_is
from engine.store.stretches import NO_MOVES, Moves, moves_of, worked
from engine.store.sweeps import SweepStore
from engine.store.tracking import TrackingStore
from engine.workspace import Workspace

__all__ = ["ACTIVE", "STOPPED", "Run", "RunStore", "Task"]

STOPPED = "the run stopped on an error"
"""The reason of a task that was cancelled by an error of the run, not on request."""
_BEGAN = "(tasks.attempt > 0 OR tasks.state IN ('done', 'cached'))"
"""Of a task that was worked on, or found to be done, at least once."""
_WITHOUT_DOCUMENT = ", ".join("'' AS document" if f.name == "document" else f.name for f in fields(Run))
_READ_AT_ONCE = 500
_MOVES_KEPT = 32


class RunStore(RunEvents):
    """All reading and writing of `runs.db`. One object may be used by several threads.

    Reading raises `sqlite3.Error`, writing too, as when the disk is full, and `DamagedStore`.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.results = ResultCache(self)
        self.sweeps = SweepStore(self)
        self.tracking = TrackingStore(self)
        self._moves: dict[str, Moves] = {}
        """Of resumed runs that were shown, the last ones: their pages look each second."""

    # --- runs -------------------------------------------------------------------------------

    def create_run(
        self,
        pipeline: str,
        document: str,
        options: Mapping[str, Any],
        profile: str,
        files: Mapping[str, str] | None = None,
    ) -> str:
        """Record a new run in the state "starting" and make its folder with `files`. Gives its id.

        Raises `OSError` or `sqlite3.Error` when that is not possible; then nothing of the run is left.
        """
        run_id, folder = self._new_folder()
        try:
            (folder / "logs").mkdir()
            for name, text in (files or {}).items():
                write_whole(folder / name, text, durable=True)
            run_ending.prepare(folder)
            with self.write() as db:
                db.execute(
                    "INSERT INTO runs (run_id, pipeline, document, options, profile, state, created)"
                    " VALUES (?, ?, ?, ?, ?, 'starting', ?)",
                    (
                        run_id, pipeline, self.paths.stored_document(document), json.dumps(dict(options)), profile,
                        time.time(),
                    ),
                )  # fmt: skip
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return run_id

    def _new_folder(self) -> tuple[str, Path]:
        """A run id and its folder, which did not exist before: of many runs in one second, two may draw one id."""
        while True:
            run_id = new_id()
            folder = self.workspace.run_folder(run_id)
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            return run_id, folder

    def put_run(
        self,
        run_id: str,
        pipeline: str,
        document: str,
        options: Mapping[str, Any],
        profile: str,
        state: RunState,
        error: str,
        *,
        created: float,
        ended: float,
    ) -> None:
        """Record a run that has ended, whose row was lost."""
        with self.write(durable=True) as db:
            db.execute(
                "INSERT INTO runs (run_id, pipeline, document, options, profile, state, error, created, started, ended,"
                " attempt) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
                (run_id, pipeline, document, json.dumps(dict(options)), profile, state, error, created, created, ended),
            )

    def run(self, run_id: str) -> Run:
        """The run with this id, or the only one whose id begins or ends so, else holds it; "last" is the newest one.

        Raises `UsageError` when there is none or there are several.
        """
        if not run_id:  # every id begins with nothing
            raise UsageError("the name of the run is empty", hint="`voxelflow runs list` shows them.")
        if run_id == "last":
            rows = self._newest(1)
        else:
            rows = (
                self.read("SELECT * FROM runs WHERE run_id = ?", run_id)
                or self.read(
                    "SELECT * FROM runs WHERE substr(run_id, 1, ?) = ? OR substr(run_id, -?) = ?",
                    len(run_id), run_id, len(run_id), run_id,
                )
                or self.read("SELECT * FROM runs WHERE instr(run_id, ?) > 0", run_id)
            )  # fmt: skip
        if len(rows) != 1:
            raise UsageError(
                f"there is no run {run_id}" if not rows else f"{len(rows)} runs are called {run_id}...",
                hint="`voxelflow runs list` shows them.",
            )
        return self._run(rows[0])

    def runs(self, limit: int = 50, pipeline: str | None = None) -> list[Run]:
        """The newest runs first, at most `limit` of them; all with -1."""
        if not pipeline:
            return [self._run(row) for row in self._newest(limit)]
        rows = self.read("SELECT * FROM runs WHERE pipeline = ? ORDER BY created DESC LIMIT ?", pipeline, limit)
        return [self._run(row) for row in rows]

    def _newest(self, limit: int) -> list[sqlite3.Row]:
        # Which they are an index says alone: else SQLite reads the documents of all runs.
        return self.read(
            "SELECT * FROM runs WHERE rowid IN (SELECT rowid FROM runs ORDER BY created DESC, rowid LIMIT ?)"
            " ORDER BY created DESC, rowid",
            limit,
        )

    def older_runs(self, than: float, limit: int, known: Mapping[str, Run]) -> list[Run]:
        """At most `limit` runs that were created at that moment or before, the newest first, without their documents.

        Those of `known` by id that had ended, and have ended in the same way still, are not read again.
        """
        rows = self.read(
            "SELECT run_id, state, attempt, ended FROM runs WHERE created <= ? ORDER BY created DESC LIMIT ?",
            than, limit,
        )  # fmt: skip
        found: dict[str, Run] = {}
        unread: list[str] = []
        for row in rows:
            run = known.get(row["run_id"])
            same = run is not None and (run.state, run.attempt, run.ended) == (
                row["state"],
                row["attempt"],
                row["ended"],
            )
            if run is not None and same and not run.active:
                found[run.run_id] = run
            else:
                unread.append(row["run_id"])
        for at in range(0, len(unread), _READ_AT_ONCE):
            ids = unread[at : at + _READ_AT_ONCE]
            for row in self.read(
                f"SELECT {_WITHOUT_DOCUMENT} FROM runs WHERE run_id IN ({', '.join('?' * len(ids))})", *ids
            ):
                found[row["run_id"]] = self._run(row)
        return [found[row["run_id"]] for row in rows if row["run_id"] in found]

    def count(self) -> int:
        """How many runs there are."""
        return int(self.read("SELECT count(*) AS runs FROM runs")[0]["runs"])

    def done_before(self, pipeline: str, created: float) -> Run | None:
        """The pipeline's newest run that is done, of those created before that moment; None without one."""
        rows = self.read(
            "SELECT * FROM runs WHERE pipeline = ? AND state = 'done' AND created < ? ORDER BY created DESC LIMIT 1",
            pipeline, created,
        )  # fmt: skip
        return self._run(rows[0]) if rows else None

    def runs_of_sweep(self, sweep_id: str) -> list[Run]:
        """All runs that were begun for the sweep's trials, oldest first."""
        rows = self.read(
            "SELECT * FROM runs WHERE json_valid(options) AND json_extract(options, '$.sweep') = ? ORDER BY created",
            sweep_id,
        )
        return [self._run(row) for row in rows]

    def latest_pipelines(self, limit: int) -> list[str]:
        """Names of at most `limit` pipelines, those that ran last first."""
        rows = self.read("SELECT pipeline FROM runs GROUP BY pipeline ORDER BY max(created) DESC LIMIT ?", limit)
        return [row["pipeline"] for row in rows]

    def unfinished(self) -> list[Run]:
        """Every run that is not done, whether it is at work or could be resumed; oldest first."""
        runs = [self._run(r) for r in self.read("SELECT * FROM runs WHERE state != 'done' ORDER BY created")]
        return [run for run in runs if run.state != "done"]

    def begin_attempt(self, run_id: str) -> int:
        """The supervisor has started: note who it is. Gives the attempt's number, from 1."""
        now = time.time()
        with self.write() as db:
            db.execute(
                "UPDATE runs SET state = 'running', pid = ?, host = ?,"
                " paused_s = paused_s + CASE WHEN started IS NULL THEN 0"
                " ELSE max(0, ? - coalesce(ended, heartbeat, started)) END,"
                " heartbeat = ?, ended = NULL,"
                " started = coalesce(started, ?), attempt = attempt + 1,"
                # Who asked to cancel while the first attempt was starting meant this one.
                " cancel = CASE attempt WHEN 0 THEN cancel ELSE 0 END,"
                " error = CASE attempt WHEN 0 THEN error ELSE '' END WHERE run_id = ?",
                (os.getpid(), socket.gethostname(), now, now, now, run_id),
            )
            self._beat(db, run_id)
            # There will be more to send.
            db.execute("UPDATE tracking SET finished = 0 WHERE run_id = ?", (run_id,))
        return self.run(run_id).attempt

    def set_limit(self, run_id: str, limit: Limit) -> None:
        """Give the run another limit."""
        with self.write() as db:
            options = db.execute("SELECT options FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0]
            kept = {name: value for name, value in json.loads(options).items() if name != "limit"}
            db.execute("UPDATE runs SET options = ? WHERE run_id = ?", (json.dumps(kept | limit.as_options()), run_id))

    def finish_run(self, run_id: str, state: RunState, error: str = "") -> None:
        """Record the run's final state, without an event."""
        with self.write() as db:
            self._finish_run(db, run_id, state, error)

    def record_end(
        self,
        run_id: str,
        state: RunState,
        error: str = "",
        *,
        attempt: int = 0,
        tasks: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """The run has ended: note it with its last event, and the columns of tasks that ended with it, at once.

        `attempt` counts also when there was no space to record that it began.
        """
        with self.write() as db:
            attempts = dict(db.execute("SELECT node, attempt FROM tasks WHERE run_id = ?", (run_id,)).fetchall())
            for node, columns in (tasks or {}).items():
                self._update_task(db, run_id, node, columns)
                ended = TaskStateChanged(
                    node=node, state=columns["state"], attempt=max(1, attempts.get(node, 1)), reason=columns["reason"]
                )
                self._add_event(db, run_id, ended)
            self._record_end(db, run_id, state, error, attempt)

    def end_unbegun(self, run_id: str) -> None:
        """As `SweepStore.end_unbegun`, of a run."""
        with self.write() as db:
            sql = "SELECT cancel FROM runs WHERE run_id = ? AND state = 'starting' AND attempt = 0"
            for (cancel,) in db.execute(sql, (run_id,)).fetchall():
                why = f"the run's process {'had not begun' if cancel else 'died before it began'}"
                self._record_end(db, run_id, "cancelled" if cancel else "failed", why, cancel)

    def record_ending(self, run_id: str) -> None:
        """Note how the run ended if its process had no space to: its `Ending` becomes rows. Nothing if that is done.

        Raises `sqlite3.Error` when there is still no space.
        """
        ending = run_ending.read_ending(self.workspace.run_folder(run_id))
        if ending is None:
            return
        with self.write() as db:
            changed = db.execute(
                "UPDATE runs SET state = ?, error = ?, ended = ?, attempt = ? WHERE run_id = ?"
                f" AND (attempt < ? OR attempt = ? AND state IN ({', '.join('?' * len(ACTIVE))}))",
                (ending.state, ending.error, ending.ended, ending.attempt, run_id, *[ending.attempt] * 2, *ACTIVE),
            ).rowcount
            if changed:
                db.execute(
                    "UPDATE tasks SET state = 'cancelled', reason = ?, ended = ?"
                    " WHERE run_id = ? AND state IN ('queued', 'waiting', 'running')",
                    (STOPPED, ending.ended, run_id),
                )
                self._add_event(db, run_id, RunStateChanged(state=ending.state, error=ending.error, time=ending.ended))

    def heartbeat(self, run_id: str) -> bool:
        """Say that the run is alive; True when someone asked to cancel it."""
        with self.write() as db:
            db.execute("UPDATE runs SET heartbeat = ? WHERE run_id = ?", (time.time(), run_id))
            self._beat(db, run_id)
        return bool(self.read("SELECT cancel FROM runs WHERE run_id = ?", run_id)[0]["cancel"])

    def request_cancel(self, run_id: str, why: str = "") -> None:
        """Ask the run's supervisor to stop; `heartbeat` reports that. `why` becomes the error of the cancelled run,
        without one what an earlier request gave.

        Nothing where the run has ended, as since it was looked at: its error stays, and the next attempt is not meant.
        """
        with self.write() as db:
            db.execute(
                "UPDATE runs SET cancel = 1, error = CASE ? WHEN '' THEN error ELSE ? END"
                " WHERE run_id = ? AND state IN ('starting', 'running')",
                (why, why, run_id),
            )

    # --- tasks ------------------------------------------------------------------------------

    def set_tasks(self, run_id: str, tasks: Iterable[tuple[str, str, str]]) -> None:
        """Record the run's tasks (node, node type, title) in order; those already recorded stay."""
        with self.write() as db:
            db.executemany(
                "INSERT INTO tasks (run_id, node, position, node_type, title, state) VALUES (?, ?, ?, ?, ?, 'queued')"
                " ON CONFLICT DO NOTHING",
                [(run_id, node, i, kind, title) for i, (node, kind, title) in enumerate(tasks)],
            )

    def update_task(self, run_id: str, node: str, **columns: Any) -> None:
        """Change columns of the task's row; `outputs` are datasets by port, or their JSON."""
        with self.write() as db:
            self._update_task(db, run_id, node, columns)

    def tasks(self, run_id: str) -> list[Task]:
        """The run's tasks in the order of the plan."""
        return [self._task(r) for r in self.read("SELECT * FROM tasks WHERE run_id = ? ORDER BY position", run_id)]

    def shown_tasks(self, run: Run) -> list[Task]:
        """`tasks` for a person to see: of a run that was lost none is at work, and after several attempts each took
        what all of them took. What goes on with a run needs the rows."""
        found = [as_it_is(task, run) for task in self.tasks(run.run_id)]
        if run.attempt < 2 and all(task.attempt < 2 for task in found):
            return found
        moves = moves_of(self, run.run_id, self._moves.pop(run.run_id, NO_MOVES))
        while len(self._moves) >= _MOVES_KEPT:
            with suppress(KeyError, StopIteration):  # another thread was faster
                del self._moves[next(iter(self._moves))]
        self._moves[run.run_id] = moves
        spent = worked(moves.found, run.at_work_until(time.time()), active=run.active)
        return [replace(task, worked_s=spent.get(task.node)) for task in found]

    def last_state(self, pipeline: str, node: str) -> tuple[TaskState, str] | None:
        """The node's state in the run of `pipeline` that last began to work on it, and that run's id; None without one.

        In a run that was lost it may be "running" still.
        """
        rows = self.read(
            "SELECT tasks.state, run_id FROM tasks JOIN runs USING (run_id)"
            f" WHERE pipeline = ? AND node = ? AND {_BEGAN} ORDER BY created DESC LIMIT 1",
            pipeline, node,
        )  # fmt: skip
        if not rows:
            return None
        state: TaskState = rows[0]["state"]
        assert state in get_args(TaskState)
        return state, rows[0]["run_id"]

    def has_made(self, fingerprint: str) -> bool:
        """Whether a run has once made or reused the result with this fingerprint, kept or not."""
        found = "SELECT 1 FROM tasks WHERE fingerprint = ? AND state IN ('done', 'cached') LIMIT 1"
        return bool(self.read(found, fingerprint))

    def ran_in(self, node: str, node_type: str) -> str:
        """The pipeline whose run last worked on a node with this id and type; "" when there was none."""
        rows = self.read(
            f"SELECT pipeline FROM tasks JOIN runs USING (run_id) WHERE node = ? AND node_type = ? AND {_BEGAN}"
            " ORDER BY created DESC LIMIT 1",
            node, node_type,
        )  # fmt: skip
        return str(rows[0]["pipeline"]) if rows else ""

    # --- events -----------------------------------------------------------------------------

    def add_sample(self, run_id: str, sample: SystemSample, idle_s: float = 0.0, measured_s: float = 0.0) -> None:
        """Keep a sample of the machine; count `measured_s` more seconds as measured, and `idle_s` of them as idle."""
        with self.write() as db:
            self._add_event(db, run_id, sample)
            if measured_s:
                db.execute(
                    "UPDATE runs SET idle_s = idle_s + ?, measured_s = measured_s + ? WHERE run_id = ?",
                    (idle_s, measured_s, run_id),
                )

    def _task(self, row: sqlite3.Row) -> Task:
        values = dict(row)
        progress = event_from_json(values["progress"]) if values["progress"] else None
        assert progress is None or isinstance(progress, Progress)
        values["progress"] = progress
        values["outputs"] = self.datasets(values["outputs"])
        values["failure"] = json.loads(values["failure"]) if values["failure"] else None
        assert values["state"] in get_args(TaskState)
        return Task(**values)

    # --- rows -------------------------------------------------------------------------------

    def _run(self, row: sqlite3.Row) -> Run:
        values = dict(row)
        values["options"] = json.loads(values["options"])
        values["document"] = self.paths.loaded_document(values["document"])
        values["cancel"] = bool(values["cancel"])
        folder = self.workspace.run_folder(row["run_id"])
        if values["state"] in ACTIVE and not is_supervised(folder, row):
            # It may have ended between the reading of its row and the look at its lock.
            again = self.read("SELECT * FROM runs WHERE run_id = ?", row["run_id"])[0]
            if tuple(again) != tuple(row):
                return self._run(again)
            values["state"] = "lost"
        elif values["state"] == "running" and is_stuck(self, row):
            values["state"] = "stuck"
        ending = run_ending.read_ending(folder)
        # Of this attempt, or of one that could not even begin. While its process lives, that tries to record it.
        is_news = ending is not None and (ending.attempt, values["state"] == "lost") > (row["attempt"], False)
        if ending is not None and is_news and not is_held(folder / "lock"):
            values |= ending.model_dump()
            with suppress(sqlite3.Error):  # still no space: the next look tries again
                self.record_ending(row["run_id"])
        elif values["state"] == "lost":
            values["error"] = likely_reason(folder, row)
        assert values["state"] in get_args(RunState)
        return Run(**values)

    def _update_task(self, db: sqlite3.Connection, run_id: str, node: str, columns: Mapping[str, Any]) -> None:
        if isinstance(outputs := columns.get("outputs"), Mapping):
            columns = {**columns, "outputs": datasets_json(outputs, self.paths)}
        names = ", ".join(f"{name} = ?" for name in columns)
        db.execute(f"UPDATE tasks SET {names} WHERE run_id = ? AND node = ?", (*columns.values(), run_id, node))

    @staticmethod
    def _finish_run(db: sqlite3.Connection, run_id: str, state: RunState, error: str, attempt: int = 0) -> None:
        db.execute(
            # A cancelled run keeps what its request gave as the reason.
            "UPDATE runs SET state = ?, ended = ?, heartbeat = ?, attempt = max(attempt, ?),"
            " error = CASE WHEN ? = 'cancelled' AND ? = '' THEN error ELSE ? END WHERE run_id = ?",
            (state, *[time.time()] * 2, attempt, state, error, error, run_id),
        )
        db.execute("DELETE FROM pulses WHERE run_id = ?", (run_id,))

    def _record_end(self, db: sqlite3.Connection, run_id: str, state: RunState, error: str, attempt: int) -> None:
        error = run_ending.storable(error)
        self._add_event(db, run_id, RunStateChanged(state=state, error=error))
        self._finish_run(db, run_id, state, error, attempt)

    @staticmethod
    def _beat(db: sqlite3.Connection, run_id: str) -> None:
        # Not the time of day: that jumps when it is set, and when a laptop wakes up. This clock stands still meanwhile.
        db.execute("INSERT OR REPLACE INTO pulses VALUES (?, ?)", (run_id, time.monotonic()))
