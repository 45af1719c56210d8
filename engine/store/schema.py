"""The tables of the run store and their migrations.

`PRAGMA user_version` is the number of the last migration that a database has had. Opening one carries out those
that it lacks, each in a transaction of its own that also sets the number: a kill leaves the migration done or not
done, and of two processes that open the database at once the second finds it done.

To add one: write a function that takes the connection and the workspace, append it to `_MIGRATIONS`, and never change
those before it. Use plain SQL and JSON, not the models of the engine, which change later.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.errors import DamagedStore, WorkspaceError
from engine.storage.io_errors import explain, naming
from engine.storage.workspace_paths import WorkspacePaths, below
from engine.workspace import Workspace, raise_format, storages

BUSY_S = 30.0
"""How long a connection waits for the database's lock, then it raises."""
_FIRST_TABLES = """
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
)
"""
_FORMER, _IDENTIFIED_AT, _ROOTS = "absolute_below", "identified_at", "roots"
"""Settings: roots that older texts name, the one that fingerprints name, and all where the workspace was opened."""


def bring_up_to_date(db: sqlite3.Connection, workspace: Workspace) -> None:
    """Carry out the migrations that the database lacks. `db` is in autocommit mode.

    Raises `WorkspaceError` when the database is of a newer Voxelflow, which is then left untouched, or is damaged;
    `DiskFull` or `FileError` when it cannot be written.
    """
    database = workspace.database
    try:
        with naming(database):
            version = _version(db, database)
            _use_wal(db)
            if version == len(_MIGRATIONS):
                return
            # First, so that no older program opens a database that it does not know. Both can be done twice.
            raise_format(workspace)
            for number, migrate in enumerate(_MIGRATIONS, 1):
                if number > version:
                    _carry_out(db, workspace, number, migrate)
    except (sqlite3.Error, OSError) as exc:
        if (found := explain(exc, [workspace.root], in_run=False)) is not None:
            raise found from exc
        if _is_damage(exc):
            raise damaged(workspace, exc) from exc
        raise WorkspaceError(
            f"the run store {database} cannot be opened: {exc}", hint="Try again if another program had it open."
        ) from exc


def damaged(workspace: Workspace, exc: Exception) -> DamagedStore:
    """The error for what SQLite says of a file that is no whole database."""
    return DamagedStore(
        f"the run store {workspace.database} is damaged: {exc}",
        hint="Lost may be the history and what the cache knows, not the data. `voxelflow runs rebuild` sets the file"
        " aside and makes a new one of what can be read and of the workspace's files.",
    )


def _is_damage(exc: Exception) -> bool:
    code = getattr(exc, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def refuse_damaged(workspace: Workspace) -> Iterator[None]:
    """Raises `DamagedStore` where SQLite meets damage in the block."""
    try:
        yield
    except sqlite3.Error as exc:
        if _is_damage(exc):
            raise damaged(workspace, exc) from exc
        raise


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch the journal's mode. Where two do so at once, SQLite refuses one of them without waiting."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """What the block writes, all or nothing. Waits for the database's lock; raises `sqlite3.Error`."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself, as on a full disk.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def recorded_paths(workspace: Workspace, plan: Mapping[str, Any] | None = None) -> WorkspacePaths:
    """The paths of texts that a version before the migration to relative ones wrote, such as a run's `plan`."""
    with (
        naming(workspace.database),
        refuse_damaged(workspace),
        closing(sqlite3.connect(workspace.database)) as db,
    ):
        paths = paths_of(db, workspace)
    tasks = plan.get("tasks", []) if plan is not None else []
    listings = [path for task in tasks for path in task.get("listings", {}).values()]
    # A run that was lost before its first result: the listings of its folders lie in the workspace.
    more = tuple(str(Path(path).parent.parent) for path in listings if Path(path).parent.name == "observations")
    return WorkspacePaths(workspace.root, tuple(dict.fromkeys([*paths.former, *more])), paths.identified_at)


def note_root(db: sqlite3.Connection, workspace: Workspace) -> tuple[str, ...]:
    """Note where the workspace lies now; gives where it lay before."""
    root = str(workspace.root)

    def known() -> list[str]:
        row = db.execute("SELECT value FROM settings WHERE name = ?", (_ROOTS,)).fetchone()
        return [] if row is None else list(json.loads(row[0]))

    roots = known()
    if root not in roots:
        # A workspace that cannot be written can be looked at.
        with suppress(sqlite3.OperationalError), transaction(db):
            roots = list(dict.fromkeys([*known(), root]))
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (_ROOTS, json.dumps(roots)))
    return tuple(other for other in roots if other != root)


def paths_of(db: sqlite3.Connection, workspace: Workspace) -> WorkspacePaths:
    """The workspace's paths, with the roots that its older texts name."""
    found = dict(db.execute("SELECT name, value FROM settings").fetchall())
    return WorkspacePaths(workspace.root, tuple(json.loads(found.get(_FORMER, "[]"))), found.get(_IDENTIFIED_AT, ""))


def _version(db: sqlite3.Connection, database: Path) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(_MIGRATIONS):
        raise WorkspaceError(
            f"the run store {database} is of a newer Voxelflow: its schema has version {version}, and this program"
            f" knows versions up to {len(_MIGRATIONS)}",
            hint="Update Voxelflow, or choose another workspace with --workspace.",
        )
    return version


def _carry_out(
    db: sqlite3.Connection, workspace: Workspace, number: int, migrate: Callable[[sqlite3.Connection, Workspace], None]
) -> None:
    with transaction(db):
        if _version(db, workspace.database) < number:  # else another process was faster
            migrate(db, workspace)
            db.execute(f"PRAGMA user_version = {number}")


# --- the migrations -------------------------------------------------------------------------------


def _first_tables(db: sqlite3.Connection, workspace: Workspace) -> None:
    # The first releases set no version: their tables may be there already.
    for statement in _FIRST_TABLES.split(";"):
        db.execute(statement)


def _pulses(db: sqlite3.Connection, workspace: Workspace) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS pulses (run_id TEXT PRIMARY KEY, at REAL NOT NULL)")


def _relative_paths(db: sqlite3.Connection, workspace: Workspace) -> None:
    """Absolute paths inside the workspace become relative, also where they name a place it has been moved from."""
    db.execute("CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    roots = _roots_in_results(db)
    if not roots:
        return
    # Fingerprints of older results contain the root where they were made: they stay valid for ever.
    settings = {_IDENTIFIED_AT: roots[0], _FORMER: json.dumps(roots), _ROOTS: json.dumps(roots)}
    db.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
    elsewhere = tuple(str(storage.root) for storage in storages(workspace)[1:])

    def stored(text: str) -> str:
        path = text.removeprefix("sqlite:///")
        inside = below(path, tuple(roots)) if below(path, elsewhere) is None else None
        return text if inside is None else f"{text.removesuffix(path)}workspace:/{inside}"

    for table, column, where in (
        ("results", "outputs", ""),
        ("tasks", "outputs", "WHERE outputs IS NOT NULL"),
        ("events", "body", "WHERE kind IN ('outputs', 'artifact')"),
        ("tracking", "state", ""),
    ):
        for row, text in db.execute(f"SELECT rowid, {column} FROM {table} {where}").fetchall():
            value = json.loads(text)
            _change_paths(value, stored)
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (json.dumps(value), row))
    for row, document in db.execute("SELECT rowid, document FROM runs").fetchall():
        for root in roots:
            document = document.replace(json.dumps(root, ensure_ascii=False)[:-1] + "/", '"workspace:/')
        db.execute("UPDATE runs SET document = ? WHERE rowid = ?", (document, row))


def _idle_time(db: sqlite3.Connection, workspace: Workspace) -> None:
    for column in ("idle_s", "measured_s"):
        db.execute(f"ALTER TABLE runs ADD COLUMN {column} REAL NOT NULL DEFAULT 0")


def _sweeps(db: sqlite3.Connection, workspace: Workspace) -> None:
    db.execute(
        "CREATE TABLE sweeps (sweep_id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, document TEXT NOT NULL,"
        " options TEXT NOT NULL, profile TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL DEFAULT '',"
        " created REAL NOT NULL, ended REAL, attempt INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0,"
        " tracked INTEGER NOT NULL DEFAULT 0)"
    )
    db.execute(
        'CREATE TABLE trials (sweep_id TEXT NOT NULL, number INTEGER NOT NULL, "values" TEXT NOT NULL,'
        " state TEXT NOT NULL, score REAL, error TEXT NOT NULL DEFAULT '', PRIMARY KEY (sweep_id, number))"
    )


def _pauses(db: sqlite3.Connection, workspace: Workspace) -> None:
    # What lay between the attempts of older runs is not known.
    db.execute("ALTER TABLE runs ADD COLUMN paused_s REAL NOT NULL DEFAULT 0")


def _sweep_time(db: sqlite3.Connection, workspace: Workspace) -> None:
    # What older sweeps took is not known.
    db.execute("ALTER TABLE sweeps ADD COLUMN worked_s REAL NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE sweeps ADD COLUMN heartbeat REAL")


_MIGRATIONS: tuple[Callable[[sqlite3.Connection, Workspace], None], ...] = (
    _first_tables, _pulses, _relative_paths, _idle_time, _sweeps, _pauses, _sweep_time,
)  # fmt: skip


def _roots_in_results(db: sqlite3.Connection) -> list[str]:
    """The roots where the results were made, the newest first: a result's path names its own before `data`."""
    roots: dict[str, None] = {}
    for shared, outputs, identity in db.execute("SELECT shared, outputs, identity FROM results ORDER BY created DESC"):
        listings = [f"/observations/{digest}.arrow" for digest in json.loads(identity).get("files", {}).values()]
        for dataset in json.loads(outputs).values():
            for path in (dataset.get("uri"), dataset.get("manifest")):
                for place in [f"/data/{shared}/", *listings]:
                    # An absolute `shared` is a folder outside the workspace.
                    if isinstance(path, str) and not shared.startswith("/") and place in f"{path}/":
                        roots.setdefault(f"{path}/".partition(place)[0])
    return [root for root in roots if root.startswith("/")]


def _change_paths(value: Any, stored: Callable[[str], str]) -> None:
    """Change the paths in the JSON of datasets, of events and of the tracker's state."""
    for owner in _objects(value):
        for name in ("uri", "manifest", "path", "location"):
            if isinstance(path := owner.get(name), str):
                owner[name] = stored(path)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The object itself, and the datasets in it."""
    if isinstance(value, dict):
        yield value
        for name, part in value.items():
            if name != "figures":
                yield from _objects(part)
