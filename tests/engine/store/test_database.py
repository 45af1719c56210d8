from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from stored_results import stored_result

from engine.declare.events import Message
from engine.store.runs import RunStore
from engine.workspace import Workspace


def wal(workspace: Workspace) -> Path:
    return workspace.database.with_name(f"{workspace.database.name}-wal")


def test_a_result_is_flushed_and_events_are_not(store: RunStore) -> None:
    statements: list[str] = []
    connection = store._connection()
    connection.set_trace_callback(statements.append)
    store.results.put(stored_result("a"))
    store.add_events("r", [Message(level="info", text="x")])
    connection.set_trace_callback(None)
    pragmas = [s for s in statements if "synchronous" in s or s in ("COMMIT", "BEGIN IMMEDIATE")]
    # 2 is FULL, 1 is NORMAL.
    assert pragmas == [
        "PRAGMA synchronous = FULL", "BEGIN IMMEDIATE", "COMMIT", "PRAGMA synchronous = NORMAL",
        "BEGIN IMMEDIATE", "COMMIT",
    ]  # fmt: skip
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 1


def test_a_result_that_is_refused_leaves_the_connection_as_it_was(store: RunStore) -> None:
    broken = stored_result("a")
    object.__setattr__(broken, "fingerprint", object())
    with pytest.raises(sqlite3.Error):
        store.results.put(broken)
    assert store._connection().execute("PRAGMA synchronous").fetchone()[0] == 1
    store.results.put(stored_result("b"))
    assert [r.fingerprint for r in store.results.all()] == ["b"]


def test_a_checkpoint_moves_all_into_the_database(workspace: Workspace, store: RunStore) -> None:
    store.results.put(stored_result("a"))
    assert wal(workspace).stat().st_size > 0
    store.checkpoint()
    assert wal(workspace).stat().st_size == 0
    # What one file alone holds, as after a power cut that takes the other.
    alone = workspace.root / "alone.db"
    alone.write_bytes(workspace.database.read_bytes())
    with sqlite3.connect(alone) as db:
        assert db.execute("SELECT fingerprint FROM results").fetchall() == [("a",)]
    db.close()


def test_a_checkpoint_does_not_wait_for_a_reader(workspace: Workspace, store: RunStore) -> None:
    store.results.put(stored_result("a"))
    reader = sqlite3.connect(workspace.database, isolation_level=None)
    reader.execute("BEGIN")
    assert len(reader.execute("SELECT * FROM results").fetchall()) == 1
    store.results.put(stored_result("b"))
    statements: list[str] = []
    store._connection().set_trace_callback(statements.append)
    store.checkpoint()
    store._connection().set_trace_callback(None)
    assert statements[:2] == ["PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(TRUNCATE)"]
    assert len(reader.execute("SELECT * FROM results").fetchall()) == 1
    reader.close()
    # Writers wait for one another as before.
    assert store._connection().execute("PRAGMA busy_timeout").fetchone()[0] == 30_000
    store.checkpoint()
    assert wal(workspace).stat().st_size == 0


def test_nothing_that_is_stored_is_like_a_value_that_is_not_utf8(store: RunStore) -> None:
    assert store.read("SELECT 1 WHERE 'a' = ?", "\udcff") == []
    assert len(store.read("SELECT 1 WHERE 'a' = ?", "a")) == 1
