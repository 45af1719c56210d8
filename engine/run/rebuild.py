"""A damaged run store set aside, and a new one made of what can still be read and of what lies in the workspace.

Three sources, the best first: rows that SQLite can still read in the damaged file; beside each result a copy of its row
(`engine.store.results.RECORD`); the folder of each run, with its document and its plan.
"""

from __future__ import annotations

import calendar
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.declare.events import RunState, TaskState
from engine.document.plan import Plan, read_plan
from engine.errors import UsageError
from engine.run.start_lock import nobody_starts
from engine.storage.process_lock import is_held
from engine.store.ending import read_ending
from engine.store.results import RECORD
from engine.store.runs import RunStore
from engine.workspace import Workspace, storages

_SUFFIXES = ("", "-wal", "-shm")
_JSON = {
    "runs": ("options",),
    "tasks": ("progress", "outputs", "failure"),
    "events": ("body",),
    "results": ("identity", "outputs"),
    "tracking": ("state",),
    "sweeps": ("options",),
    "trials": ("values",),
}
"""Texts that must be JSON: a row in which a bit was flipped there is left out."""


@dataclass(frozen=True)
class Rebuilt:
    """What became of the run store. `aside` is the damaged file; `whole` says that all of it could be read.

    `read` counts the rows taken from it by table, `results` and `runs` those made of files; of the runs in `unknown` it
    is not known how they ended.
    """

    aside: Path
    whole: bool
    read: dict[str, int]
    results: int
    runs: int
    unknown: tuple[str, ...]


def rebuild(workspace: Workspace) -> Rebuilt:
    """Set `runs.db` aside and make a new one.

    Raises `UsageError` when a run or the app is at work in the workspace, or there is no run store.
    """
    if not workspace.database.exists():
        raise UsageError(f"there is no run store {workspace.database}", hint="Run a pipeline, which makes one.")
    if is_held(workspace.locks / "studio"):
        raise UsageError("the app is open in this workspace", hint="Close `voxelflow studio` first.")
    with nobody_starts(workspace) as locked:
        if not locked:
            raise UsageError("a run is being started in this workspace", hint="Try again in a moment.")
        runs = workspace.root / "runs"
        for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
            if is_held(folder / "lock"):
                raise UsageError(f"run {folder.name} is at work", hint="Wait for its end, or kill its processes.")
        return _rebuild(workspace)


def _rebuild(workspace: Workspace) -> Rebuilt:
    aside = workspace.database.with_name(f"{workspace.database.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    with tempfile.TemporaryDirectory(dir=workspace.root, prefix=".rebuild-") as folder:
        copy = Path(folder) / "copy.db"
        for suffix in _SUFFIXES:
            # SQLite changes even what it only reads, and what is set aside stays as it was found.
            found = Path(f"{workspace.database}{suffix}")
            if found.exists():
                shutil.copyfile(found, f"{copy}{suffix}")
        for suffix in reversed(_SUFFIXES):
            # The database last: a kill in between leaves the damaged file under its name.
            found = Path(f"{workspace.database}{suffix}")
            if found.exists():
                found.replace(f"{aside}{suffix}")
        store = RunStore(workspace)
        read, whole = _salvage(copy, store)
    results = _from_records(workspace, store)
    runs, unknown = _from_folders(workspace, store)
    store.checkpoint()
    store.close()
    return Rebuilt(aside, whole, read, results, runs, tuple(unknown))


def _salvage(damaged: Path, store: RunStore) -> tuple[dict[str, int], bool]:
    """Take over every row that can be read; gives their number by table, and whether nothing was unreadable."""
    counts: dict[str, int] = {}
    whole = False
    with suppress(sqlite3.Error), closing(sqlite3.connect(damaged)) as old, store.write(durable=True) as new:
        tables = [name for (name,) in new.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        with suppress(sqlite3.Error):
            whole = old.execute("PRAGMA quick_check").fetchone()[0] == "ok"
        for table in tables:
            if table.startswith("sqlite_") or table == "pulses":
                continue
            # A store of an earlier version lacks some columns. SQLite would read their names as texts.
            there = _columns(old, table)
            columns = [column for column in _columns(new, table) if column in there]
            before = new.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            named, places = _quoted(columns), ", ".join("?" * len(columns))
            for row in _rows(old, table, columns) if columns else ():
                if _is_sound(table, columns, row):
                    with suppress(sqlite3.Error):  # a value that may not be there
                        how = "REPLACE" if table == "settings" else "IGNORE"
                        new.execute(f"INSERT OR {how} INTO {table} ({named}) VALUES ({places})", row)
            counts[table] = new.execute(f"SELECT count(*) FROM {table}").fetchone()[0] - before
        return counts, whole
    return counts, False


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    """None where the table is not there, or what it is cannot be read."""
    with suppress(sqlite3.Error, UnicodeDecodeError):
        return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    return []


def _quoted(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _rows(db: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """From the first row to the damage, then from the last one back to it; a row may come twice."""
    for order in ("", "DESC"):
        try:
            yield from db.execute(f"SELECT {_quoted(columns)} FROM {table} NOT INDEXED ORDER BY rowid {order}")
            return
        except (sqlite3.Error, UnicodeDecodeError):
            continue


def _is_sound(table: str, columns: list[str], row: tuple[Any, ...]) -> bool:
    values = dict(zip(columns, row, strict=True))
    try:
        for name in _JSON.get(table, ()):
            if values.get(name) is not None:
                json.loads(values[name])
    except (ValueError, TypeError):
        return False
    return True


def _from_records(workspace: Workspace, store: RunStore) -> int:
    """Results whose row was lost, by the copy beside their files."""
    known = {result.fingerprint for result in store.results.all()}
    made = 0
    for storage in storages(workspace):
        for path in sorted(storage.data.glob(f"*/*/*/{RECORD}")):
            try:
                row = json.loads(path.read_bytes())
                if row["fingerprint"] not in known:
                    store.results.put_row(row)
                    known.add(row["fingerprint"])
                    made += 1
            except (OSError, ValueError, KeyError, TypeError, sqlite3.Error):
                continue  # cut short: its task runs again
    return made


def _from_folders(workspace: Workspace, store: RunStore) -> tuple[int, list[str]]:
    """Runs whose row was lost, by their folders. Gives their number, and those of which the end is not known."""
    known = {run.run_id: run for run in store.runs(limit=2**31)}
    folder = workspace.root / "runs"
    made, unknown = 0, []
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        run_id = place.name
        plan = read_plan(workspace, run_id)
        if plan is None:
            continue
        if (run := known.get(run_id)) is not None:
            if run.attempt:  # else it had no tasks yet
                _add_tasks(store, run_id, plan, "done" if run.state == "done" else "queued")
            continue
        document = ""
        with suppress(OSError, UnicodeDecodeError):
            document = (place / "pipeline.json").read_text(encoding="utf-8")
        if not _add_run(store, run_id, plan, document, place):
            unknown.append(run_id)
        made += 1
    return made, unknown


def _add_run(store: RunStore, run_id: str, plan: Plan, document: str, place: Path) -> bool:
    """Whether it is known how the run ended."""
    created = place.stat().st_mtime
    with suppress(ValueError, OverflowError):
        created = float(calendar.timegm(time.strptime(run_id[:15], "%Y%m%d-%H%M%S")))
    results = {task.node: store.results.find(task.identity.fingerprint) for task in plan.tasks}
    ending = read_ending(place)
    state: RunState = "failed"
    error = f"how it ended was lost with the run store; `voxelflow runs resume {run_id}` goes on"
    if ending is not None:
        state, error = ending.state, ending.error
    elif plan.tasks and all(results.values()):
        state, error = "done", ""
    ended = max((r.created for r in results.values() if r is not None), default=created)
    store.put_run(
        run_id, plan.pipeline, document, {"backend": plan.profile.backend}, plan.profile.name, state, error,
        created=created, ended=ended,
    )  # fmt: skip
    _add_tasks(store, run_id, plan, "queued")
    return ending is not None or state == "done"


def _add_tasks(store: RunStore, run_id: str, plan: Plan, without_result: TaskState) -> None:
    """The run's tasks whose rows were lost; `without_result` is the state of one of which there is no result."""
    # Not by `tasks`: a row of which a bit was flipped may be none that it can read.
    there = {row["node"] for row in store.read("SELECT node FROM tasks WHERE run_id = ?", run_id)}
    store.set_tasks(run_id, [(task.node, task.node_type, task.title) for task in plan.tasks])
    for task in plan.tasks:
        if task.node in there:
            continue
        result = store.results.find(task.identity.fingerprint)
        columns: dict[str, Any] = {
            "fingerprint": task.identity.fingerprint, "reason": task.reason, "state": without_result,
        }  # fmt: skip
        if result is not None:
            columns |= {"state": "done", "outputs": result.outputs, "ended": result.created}
        store.update_task(run_id, task.node, **columns)
