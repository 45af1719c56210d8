"""One writer per Delta table: a lock that the kernel frees, and a token that the log remembers.

The lock is an advisory `flock` on `TABLE/_voxelflow/lock`, so a writer that dies frees it, however
it dies. Each holder gets a *fencing token*, higher than every token before. It goes into every
commit as a Delta `txn` action: a writer that lost its lock without knowing (a network file system
that forgets locks) finds a higher token in the log, and must not commit.

Folders that begin with an underscore are invisible to Delta's readers and to its VACUUM.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from engine.errors import Cancelled
from engine.storage.files import write_whole
from engine.storage.process_lock import ProcessLock

INTERNALS = "_voxelflow"
"""Folder inside a table that holds what Voxelflow keeps beside the Delta log."""
WRITER_APP_ID = "voxelflow.writer"
"""Application id of the `txn` action whose version is the fencing token."""

POLL_S = 0.05
SAY_AFTER_S = 1.0
"""A wait that is over sooner is not worth a line."""
SAY_AGAIN_S = 60.0


@dataclass(frozen=True)
class Holder:
    """Who wrote last, or writes now. `since` is seconds since the epoch."""

    token: int
    pid: int
    host: str
    since: float

    def describe(self) -> str:
        """Process, machine and time, for a message."""
        return f"process {self.pid} on {self.host} since {datetime.fromtimestamp(self.since):%H:%M:%S}"


@contextmanager
def table_lock(
    table: Path | str,
    *,
    floor: Callable[[], int] = lambda: 0,
    on_wait: Callable[[str], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """Hold the lock of the table in the local folder `table`, and give this holder's fencing token.

    Waits while another process holds it: after a second, and then every minute, `on_wait` gets
    a message that names it. `floor` is asked, once the lock is held, for the highest token that the table's log and
    ledger know; the token given is above it even if a power cut has taken the note of the last one. Not
    re-entrant: a second lock on the same table in the same process waits for the first.

    Raises `Cancelled` when `is_cancelled` says so while waiting, `OSError` when the folder cannot
    be written.
    """
    folder = Path(table) / INTERNALS
    lock = ProcessLock(folder / "lock")
    _acquire(lock, table, folder, on_wait, is_cancelled)
    try:
        last = read_holder(table)
        holder = Holder(
            token=max(last.token if last else 0, floor()) + 1, pid=os.getpid(), host=platform.node(), since=time.time()
        )
        # Not flushed, which each commit would wait for: the next holder learns by `floor` which tokens are used up.
        write_whole(folder / "writer.json", json.dumps(asdict(holder)), durable=False)
        yield holder.token
    finally:
        lock.release()


def read_holder(table: Path | str) -> Holder | None:
    """Who holds the table's lock, or held it last; None when none did or the record is damaged."""
    try:
        return Holder(**json.loads((Path(table) / INTERNALS / "writer.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _acquire(
    lock: ProcessLock,
    table: Path | str,
    folder: Path,
    on_wait: Callable[[str], None] | None,
    is_cancelled: Callable[[], bool],
) -> None:
    say_at = time.monotonic() + SAY_AFTER_S
    while not lock.acquire():
        if is_cancelled():
            raise Cancelled(f"cancelled while waiting for the table {table}")
        if on_wait is not None and time.monotonic() >= say_at:
            holder = read_holder(table)
            on_wait(f"waiting for the table {table}: {holder.describe() if holder else 'another process'} is writing")
            say_at += SAY_AGAIN_S
        # flock can block or be tried, not waited for together with a cancel: so it is tried.
        time.sleep(POLL_S)
