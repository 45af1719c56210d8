from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import WAIT_S, wait_for_line

from engine.errors import DiskFull, FileError, WorkspaceError
from engine.store import schema as run_schema
from engine.store.runs import RunStore
from engine.workspace import Workspace

LATEST = len(run_schema._MIGRATIONS)
OLDER = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, document TEXT NOT NULL, options TEXT NOT NULL,
    profile TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, started REAL, ended REAL, heartbeat REAL, pid INTEGER, host TEXT,
    attempt INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0
);
INSERT INTO runs (run_id, pipeline, document, options, profile, state, created)
    VALUES ('r', 'p', '{}', '{}', 'local', 'done', 1.0);
"""
"""As the first releases wrote it, without a version and without what came later."""


def connect(workspace: Workspace) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(workspace.database, isolation_level=None))


def version(workspace: Workspace) -> int:
    with connect(workspace) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def schema(workspace: Workspace) -> set[tuple[str, str]]:
    with connect(workspace) as db:
        return set(db.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))


@pytest.fixture
def older(workspace: Workspace) -> Workspace:
    with connect(workspace) as db:
        db.executescript(OLDER)
    return workspace


def test_an_older_store_gets_what_a_new_one_has(older: Workspace, tmp_path: Path) -> None:
    store = RunStore(older)
    assert [run.run_id for run in store.runs()] == ["r"]
    assert version(older) == LATEST
    fresh = Workspace(tmp_path / "fresh")
    fresh.root.mkdir()
    RunStore(fresh).close()
    assert schema(older) == schema(fresh)
    store.close()


def test_a_store_of_a_newer_program_is_refused_and_not_written_to(workspace: Workspace) -> None:
    with connect(workspace) as db:
        db.executescript(f"CREATE TABLE strange (x); PRAGMA user_version = {LATEST + 1}")
    before = workspace.database.read_bytes()
    with pytest.raises(WorkspaceError) as caught:
        RunStore(workspace)
    assert caught.value.message == (
        f"the run store {workspace.database} is of a newer Voxelflow: its schema has version {LATEST + 1}, and this"
        f" program knows versions up to {LATEST}"
    )
    assert caught.value.hint.startswith("Update Voxelflow")
    assert workspace.database.read_bytes() == before
    assert not (workspace.root / "runs.db-wal").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, LATEST + 1))
def test_a_migration_that_is_killed_is_done_again(older: Workspace, number: int) -> None:
    """The process dies when all of a migration is written and nothing committed."""
    code = (
        "import os, signal, sys; from pathlib import Path; from engine.store import schema as run_schema\n"
        "from engine.store.runs import RunStore; from engine.workspace import Workspace\n"
        "number = int(sys.argv[2]); whole = list(run_schema._MIGRATIONS); last = whole[number - 1]\n"
        "def killed(db, workspace):\n"
        "    last(db, workspace); os.kill(os.getpid(), signal.SIGKILL)\n"
        "whole[number - 1] = killed; run_schema._MIGRATIONS = tuple(whole)\n"
        "RunStore(Workspace(Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(older.root), str(number)], env=_environment(), timeout=WAIT_S
    )
    assert done.returncode == -signal.SIGKILL
    assert version(older) == number - 1
    store = RunStore(older)
    assert [run.run_id for run in store.runs()] == ["r"]
    assert version(older) == LATEST
    store.close()


@pytest.mark.slow
def test_processes_that_open_it_at_once_migrate_it_once(older: Workspace) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from engine.store.runs import RunStore; from engine.workspace import Workspace\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "assert [run.run_id for run in RunStore(Workspace(Path(sys.argv[1]))).runs()] == ['r']"
    )
    command = [sys.executable, "-c", code, str(older.root)]
    started = [
        subprocess.Popen(command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in started:
        wait_for_line(process, "^ready$")
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=WAIT_S)
    assert [process.returncode for process in started] == [0] * 4
    assert version(older) == LATEST


def test_an_error_leaves_the_version_before_it(older: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(db: sqlite3.Connection, workspace: Workspace) -> None:
        db.execute("CREATE TABLE half_done (x)")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(run_schema, "_MIGRATIONS", (*run_schema._MIGRATIONS, fails))
    with pytest.raises(DiskFull, match=r"no space left on .*runs\.db could not be written"):
        RunStore(older)
    assert version(older) == LATEST
    assert ("table", "half_done") not in schema(older)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("disk", r"is read-only: runs\.db could not be written"),
        ("permission", r"no permission to use .*runs\.db"),
        ("handles", r"too many open files to open .*runs\.db.*ulimit -n"),
    ],
)
def test_a_store_that_cannot_be_written_is_an_error_that_says_so(
    older: Workspace, monkeypatch: pytest.MonkeyPatch, reason: str, said: str
) -> None:
    """SQLite then opens it for reading, whatever the reason, and says so with the first change."""
    opened, flags = sqlite3.connect, os.statvfs

    def read_only(path: Path, **options: object) -> sqlite3.Connection:
        return opened(f"{Path(path).as_uri()}?mode=ro", uri=True, **options)  # type: ignore[call-overload, no-any-return]

    def on_a_read_only_disk(path: Path) -> os.statvfs_result:
        found = flags(path)
        return os.statvfs_result((*found[:8], found.f_flag | os.ST_RDONLY, *found[9:]))

    monkeypatch.setattr(sqlite3, "connect", read_only)
    if reason == "disk":
        monkeypatch.setattr(os, "statvfs", on_a_read_only_disk)
    if reason == "permission":  # which root has for everything
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileError, match=said):
        RunStore(older)


def test_a_file_that_is_no_database_is_an_error_that_names_it(workspace: Workspace) -> None:
    workspace.database.write_bytes(b"not a database" * 100)
    with pytest.raises(WorkspaceError) as caught:
        RunStore(workspace)
    assert caught.value.message.startswith(f"the run store {workspace.database} is damaged: ")
    assert "`voxelflow runs rebuild`" in caught.value.hint


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(run_schema.__file__).parents[2])}
