"""The run store: every run, its tasks, their events and results, in the workspace's SQLite file.

Written by the run's supervisor only; read by anyone. WAL mode lets readers watch a run live. The
workspace must lie on a local disk for that.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from engine.datasets import Dataset, dataset_from_json
from engine.errors import UsageError
from engine.events import Event, Progress, RunState, TaskState, event_from_json
from engine.run_lock import is_held
from engine.workspace import Workspace

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, document TEXT NOT NULL, options TEXT NOT NULL,
    profile TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, started REAL, ended REAL, heartbeat REAL, pid INTEGER, host TEXT,
    attempt INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS runs_of_pipeline ON runs (pipeline, created);
CREATE TABLE IF NOT EXISTS tasks (
    run_id TEXT NOT NULL, node TEXT NOT NULL, position INTEGER NOT NULL, node_type TEXT NOT NULL,
    title TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', fingerprint TEXT NOT NULL DEFAULT '',
    attempt INTEGER NOT NULL DEFAULT 0, started REAL, ended REAL, pid INTEGER,
    progress TEXT, outputs TEXT, failure TEXT,
    PRIMARY KEY (run_id, node)
);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, node TEXT, kind TEXT NOT NULL,
    time REAL NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_run ON events (run_id, seq);
CREATE TABLE IF NOT EXISTS results (
    fingerprint TEXT PRIMARY KEY, lineage TEXT NOT NULL, base TEXT NOT NULL, node_type TEXT NOT NULL,
    identity TEXT NOT NULL, outputs TEXT NOT NULL, out TEXT NOT NULL, shared TEXT NOT NULL,
    pipeline TEXT NOT NULL, node TEXT NOT NULL, run_id TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS results_of_lineage ON results (lineage, created);
CREATE INDEX IF NOT EXISTS results_of_base ON results (base);
CREATE INDEX IF NOT EXISTS tasks_of_node ON tasks (node);
CREATE TABLE IF NOT EXISTS tracking (
    run_id TEXT PRIMARY KEY, cursor INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT '{}',
    finished INTEGER NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT ''
);
"""
ACTIVE: tuple[RunState, ...] = ("starting", "running")
_START_GRACE_S = 60.0
"""How long a new run may be without a supervisor before it counts as lost."""


@dataclass(frozen=True)
class Run:
    """One row of the history. `state` is "lost" when the run's process is gone without a word."""

    run_id: str
    pipeline: str
    document: str
    options: Mapping[str, Any]
    profile: str
    state: RunState
    error: str
    created: float
    started: float | None
    ended: float | None
    heartbeat: float | None
    pid: int | None
    host: str | None
    attempt: int
    cancel: bool

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def seconds(self) -> float | None:
        if self.started is None:
            return None
        return (self.ended or (time.time() if self.active else self.heartbeat or self.started)) - self.started

    @property
    def cost(self) -> float | None:
        """What it has cost at the profile's price then, in that price's currency; None without a price.

        Counts from the first start to the end: the time between an attempt that was lost and the
        next one is paid for too, as a cluster that stands is.
        """
        price = self.options.get("price_per_hour")
        if not isinstance(price, (int, float)) or self.seconds is None:
            return None
        return price * self.seconds / 3600


@dataclass(frozen=True)
class Task:
    """One task of a run as it stands now. Times are seconds since the epoch."""

    run_id: str
    node: str
    position: int
    node_type: str
    title: str
    state: TaskState
    reason: str
    fingerprint: str
    attempt: int
    started: float | None
    ended: float | None
    pid: int | None
    progress: Progress | None
    outputs: Mapping[str, Dataset]
    failure: Mapping[str, Any] | None

    @property
    def seconds(self) -> float | None:
        if self.started is None:
            return None
        return (self.ended or time.time()) - self.started


@dataclass(frozen=True)
class Result:
    """A finished task's outputs, by fingerprint: the result cache.

    `identity` holds what went into the fingerprint, so that a later plan can say what changed. `out` and
    `shared` lie below the workspace's data, or are absolute when the run kept its data elsewhere.
    """

    fingerprint: str
    lineage: str
    base: str
    node_type: str
    identity: Mapping[str, Any]
    outputs: Mapping[str, Dataset]
    out: str
    shared: str
    pipeline: str
    node: str
    run_id: str
    created: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)


class RunStore:
    """All reading and writing of `runs.db`. One object may be used by several threads."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._local = threading.local()
        with self._write() as db:
            db.executescript(_SCHEMA)

    # --- runs -------------------------------------------------------------------------------

    def create_run(self, pipeline: str, document: str, options: Mapping[str, Any], profile: str) -> str:
        """Record a new run in the state "starting" and make its folder. Gives its id."""
        run_id = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + uuid.uuid4().hex[:6]
        folder = self.workspace.run_folder(run_id)
        (folder / "logs").mkdir(parents=True)
        with self._write() as db:
            db.execute(
                "INSERT INTO runs (run_id, pipeline, document, options, profile, state, created)"
                " VALUES (?, ?, ?, ?, ?, 'starting', ?)",
                (run_id, pipeline, document, json.dumps(dict(options)), profile, time.time()),
            )
        return run_id

    def run(self, run_id: str) -> Run:
        """The run with this id, or the only one whose id begins so; "last" is the newest one.

        Raises `UsageError` when there is none or there are several.
        """
        if run_id == "last":
            rows = self._read("SELECT * FROM runs ORDER BY created DESC LIMIT 1")
        else:
            rows = self._read("SELECT * FROM runs WHERE run_id = ?", run_id) or self._read(
                "SELECT * FROM runs WHERE substr(run_id, 1, ?) = ? OR substr(run_id, -?) = ?",
                len(run_id), run_id, len(run_id), run_id,
            )  # fmt: skip
        if len(rows) != 1:
            raise UsageError(
                f"there is no run {run_id}" if not rows else f"{len(rows)} runs are called {run_id}...",
                hint="`voxelflow runs list` shows them.",
            )
        return self._run(rows[0])

    def runs(self, limit: int = 50, pipeline: str | None = None) -> list[Run]:
        """The newest runs first."""
        where = "WHERE pipeline = ?" if pipeline else ""
        arguments = (pipeline, limit) if pipeline else (limit,)
        return [
            self._run(r) for r in self._read(f"SELECT * FROM runs {where} ORDER BY created DESC LIMIT ?", *arguments)
        ]

    def begin_attempt(self, run_id: str) -> int:
        """The supervisor has started: note who it is. Gives the attempt's number, from 1."""
        with self._write() as db:
            db.execute(
                "UPDATE runs SET state = 'running', pid = ?, host = ?, heartbeat = ?, error = '', ended = NULL,"
                " started = coalesce(started, ?), attempt = attempt + 1,"
                # Who asked to cancel while the first attempt was starting meant this one.
                " cancel = CASE attempt WHEN 0 THEN cancel ELSE 0 END WHERE run_id = ?",
                (os.getpid(), socket.gethostname(), time.time(), time.time(), run_id),
            )
            # There will be more to send.
            db.execute("UPDATE tracking SET finished = 0 WHERE run_id = ?", (run_id,))
        return self.run(run_id).attempt

    def finish_run(self, run_id: str, state: RunState, error: str = "") -> None:
        with self._write() as db:
            db.execute(
                "UPDATE runs SET state = ?, error = ?, ended = ?, heartbeat = ? WHERE run_id = ?",
                (state, error, time.time(), time.time(), run_id),
            )

    def heartbeat(self, run_id: str) -> bool:
        """Say that the run is alive; True when someone asked to cancel it."""
        with self._write() as db:
            db.execute("UPDATE runs SET heartbeat = ? WHERE run_id = ?", (time.time(), run_id))
        return bool(self._read("SELECT cancel FROM runs WHERE run_id = ?", run_id)[0]["cancel"])

    def request_cancel(self, run_id: str) -> None:
        with self._write() as db:
            db.execute("UPDATE runs SET cancel = 1 WHERE run_id = ?", (run_id,))

    # --- tasks ------------------------------------------------------------------------------

    def set_tasks(self, run_id: str, tasks: Iterable[tuple[str, str, str]]) -> None:
        """Record the run's tasks (node, node type, title) in order; those already recorded stay."""
        with self._write() as db:
            db.executemany(
                "INSERT INTO tasks (run_id, node, position, node_type, title, state) VALUES (?, ?, ?, ?, ?, 'queued')"
                " ON CONFLICT DO NOTHING",
                [(run_id, node, i, kind, title) for i, (node, kind, title) in enumerate(tasks)],
            )

    def update_task(self, run_id: str, node: str, **columns: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in columns)
        with self._write() as db:
            db.execute(f"UPDATE tasks SET {names} WHERE run_id = ? AND node = ?", (*columns.values(), run_id, node))

    def tasks(self, run_id: str) -> list[Task]:
        """The run's tasks in the order of the plan."""
        return [_task(r) for r in self._read("SELECT * FROM tasks WHERE run_id = ? ORDER BY position", run_id)]

    # --- events -----------------------------------------------------------------------------

    def add_events(self, run_id: str, events: Iterable[Event]) -> None:
        """Keep events; progress is kept only as the task's newest."""
        with self._write() as db:
            for event in events:
                body = event.model_dump_json(exclude_none=True)
                if isinstance(event, Progress):
                    db.execute(
                        "UPDATE tasks SET progress = ? WHERE run_id = ? AND node = ?", (body, run_id, event.node)
                    )
                else:
                    db.execute(
                        "INSERT INTO events (run_id, node, kind, time, body) VALUES (?, ?, ?, ?, ?)",
                        (run_id, event.node, event.event, event.time, body),
                    )

    def events(
        self, run_id: str, after: int = 0, kinds: tuple[str, ...] = (), limit: int = 10_000
    ) -> list[tuple[int, Event]]:
        """Events with their sequence numbers, those after `after`, oldest first."""
        among = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        rows = self._read(
            f"SELECT seq, body FROM events WHERE run_id = ? AND seq > ? {among} ORDER BY seq LIMIT ?",
            run_id, after, *kinds, limit,
        )  # fmt: skip
        return [(r["seq"], event_from_json(r["body"])) for r in rows]

    def last_event(self, run_id: str) -> int:
        """The sequence number of the run's newest event; 0 when it has none."""
        return int(self._read("SELECT coalesce(max(seq), 0) AS seq FROM events WHERE run_id = ?", run_id)[0]["seq"])

    # --- results ----------------------------------------------------------------------------

    def put_result(self, result: Result) -> None:
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    result.fingerprint,
                    result.lineage,
                    result.base,
                    result.node_type,
                    json.dumps(dict(result.identity), sort_keys=True),
                    json.dumps({k: v.model_dump(mode="json") for k, v in result.outputs.items()}),
                    result.out,
                    result.shared,
                    result.pipeline,
                    result.node,
                    result.run_id,
                    result.created,
                    result.used,
                ),
            )

    def results(self) -> list[Result]:
        return [_result(r) for r in self._read("SELECT * FROM results ORDER BY created")]

    def result(self, fingerprint: str) -> Result | None:
        return self._one_result("fingerprint = ?", fingerprint)

    def newest_of_lineage(self, lineage: str, storage: Path | None = None) -> Result | None:
        """The newest result that lies in `storage` (None: in the workspace): what new work can go on from there."""
        rows = self._read("SELECT * FROM results WHERE lineage = ? ORDER BY created DESC", lineage)
        for row in rows:
            shared = Path(row["shared"])
            if not shared.is_absolute() if storage is None else shared.is_relative_to(storage):
                return _result(row)
        return None

    def newest_of_node(self, pipeline: str, node: str) -> Result | None:
        """What the node made or reused when its pipeline last ran."""
        rows = self._read(
            "SELECT results.* FROM tasks JOIN runs USING (run_id) JOIN results USING (fingerprint)"
            " WHERE runs.pipeline = ? AND tasks.node = ? ORDER BY runs.created DESC LIMIT 1",
            pipeline, node,
        )  # fmt: skip
        return _result(rows[0]) if rows else None

    def results_of_base(self, base: str) -> list[Result]:
        """Results that differ from one another only by extendable parameters."""
        return [_result(r) for r in self._read("SELECT * FROM results WHERE base = ? ORDER BY created", base)]

    def touch_result(self, fingerprint: str) -> None:
        with self._write() as db:
            db.execute("UPDATE results SET used = ? WHERE fingerprint = ?", (time.time(), fingerprint))

    def forget_results(self, fingerprints: Iterable[str]) -> None:
        with self._write() as db:
            db.executemany("DELETE FROM results WHERE fingerprint = ?", [(f,) for f in fingerprints])

    def _one_result(self, where: str, *values: Any) -> Result | None:
        rows = self._read(f"SELECT * FROM results WHERE {where} ORDER BY created DESC LIMIT 1", *values)
        return _result(rows[0]) if rows else None

    # --- tracking ---------------------------------------------------------------------------

    def tracking(self, run_id: str) -> tuple[int, dict[str, Any], bool]:
        """How far the run's events were sent to MLflow: (cursor, the tracker's state, all sent)."""
        rows = self._read("SELECT * FROM tracking WHERE run_id = ?", run_id)
        return (rows[0]["cursor"], json.loads(rows[0]["state"]), bool(rows[0]["finished"])) if rows else (0, {}, False)

    def set_tracking(
        self, run_id: str, cursor: int, state: Mapping[str, Any], *, finished: bool = False, problem: str = ""
    ) -> None:
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO tracking VALUES (?, ?, ?, ?, ?)",
                (run_id, cursor, json.dumps(dict(state)), int(finished), problem),
            )

    def untracked(self) -> list[str]:
        """Runs that have ended and whose events were not all sent, oldest first."""
        rows = self._read(
            "SELECT run_id FROM runs LEFT JOIN tracking USING (run_id)"
            " WHERE coalesce(finished, 0) = 0 AND runs.state IN ('done', 'failed', 'cancelled') ORDER BY created"
        )
        return [r["run_id"] for r in rows]

    def tracked(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every run of which something was sent, with the tracker's state."""
        for row in self._read("SELECT run_id, state FROM tracking"):
            yield row["run_id"], json.loads(row["state"])

    # --- the database -----------------------------------------------------------------------

    def _run(self, row: sqlite3.Row) -> Run:
        values = dict(row)
        values["options"] = json.loads(values["options"])
        values["cancel"] = bool(values["cancel"])
        if values["state"] in ACTIVE and not self._supervised(row):
            # It may have ended between the reading of its row and the look at its lock.
            again = self._read("SELECT * FROM runs WHERE run_id = ?", row["run_id"])[0]
            if tuple(again) != tuple(row):
                return self._run(again)
            values["state"] = "lost"
        assert values["state"] in get_args(RunState)
        return Run(**values)

    def _supervised(self, row: sqlite3.Row) -> bool:
        if is_held(self.workspace.run_folder(row["run_id"]) / "lock"):
            return True
        return bool(row["state"] == "starting" and time.time() - row["created"] < _START_GRACE_S)

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self.workspace.database, timeout=30, isolation_level=None)
            found.row_factory = sqlite3.Row
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = NORMAL")
            self._local.connection = found
        return found

    def close(self) -> None:
        """Close this thread's connection."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is not None:
            found.close()
            self._local.connection = None

    def _read(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        return self._connection().execute(sql, values).fetchall()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        db = self._connection()
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        if db.in_transaction:  # executescript commits by itself
            db.execute("COMMIT")


def _task(row: sqlite3.Row) -> Task:
    values = dict(row)
    progress = event_from_json(values["progress"]) if values["progress"] else None
    assert progress is None or isinstance(progress, Progress)
    values["progress"] = progress
    values["outputs"] = _datasets(values["outputs"])
    values["failure"] = json.loads(values["failure"]) if values["failure"] else None
    assert values["state"] in get_args(TaskState)
    return Task(**values)


def _result(row: sqlite3.Row) -> Result:
    values = dict(row)
    values["identity"] = json.loads(values["identity"])
    values["outputs"] = _datasets(values["outputs"])
    return Result(**values)


def _datasets(text: str | None) -> dict[str, Dataset]:
    return {k: dataset_from_json(v) for k, v in json.loads(text).items()} if text else {}
