"""Whether the process of a run or a sweep lives, works, and why one that does not may have died."""

from __future__ import annotations

import socket
import sqlite3
import time
from pathlib import Path

from engine.storage.io_errors import full_disk
from engine.storage.process_lock import is_held
from engine.store.database import Database
from engine.store.schema import BUSY_S

STUCK_AFTER_S = BUSY_S + 5.0
"""A supervisor beats every second, also during a long step. Only the database's lock may keep one that works from it,
and after that wait it beats or fails."""
_START_GRACE_S = 60.0
"""How long a new run or sweep may be without a process before it counts as lost."""
_DISK_MAY_EXPLAIN_S = 3600.0
"""A disk that is full now says nothing about a run that was lost longer ago."""


def is_supervised(folder: Path, row: sqlite3.Row) -> bool:
    """Whether a process holds the lock in the folder of that run or sweep, or may still be starting."""
    if is_held(folder / "lock"):
        return True
    # A run of the future is no new one either: the clock has been set back since.
    return bool(row["state"] == "starting" and abs(time.time() - row["created"]) < _START_GRACE_S)


def is_stuck(database: Database, row: sqlite3.Row) -> bool:
    """Whether the run's process on this machine lives and has not beaten for `STUCK_AFTER_S`."""
    if row["host"] != socket.gethostname() or row["pid"] is None:
        return False  # its clock is not ours
    pulse = database.read("SELECT at FROM pulses WHERE run_id = ?", row["run_id"])
    if not pulse or time.monotonic() - pulse[0]["at"] <= STUCK_AFTER_S:
        return False
    # A resumed run that has just taken its lock: the row is that of the process before.
    import psutil

    return psutil.pid_exists(row["pid"])


def likely_reason(folder: Path, row: sqlite3.Row) -> str:
    """Why the process of a lost run with that folder may have died; "" where nothing speaks for a reason."""
    full = full_disk(folder)
    if full is None or time.time() - (row["heartbeat"] or row["created"]) > _DISK_MAY_EXPLAIN_S:
        return ""
    return f"the run's process died without reporting a result, perhaps because there is {full.message}"
