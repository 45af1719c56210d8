"""A supervisor's heartbeat: each time its loop turns, and beside a step that may take long.

Not a thread that beats for ever: a supervisor that hangs must be seen to (see `engine.store.liveness.STUCK_AFTER_S`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from engine.errors import VoxelflowError
from engine.store.runs import RunStore

HEARTBEAT_S = 1.0
LONGEST_STEP_S = 900.0
"""How long a step may take before the run counts as stuck: opening the log of a table of 650,000 files takes ten
seconds, deleting half-done work on a slow network disk minutes; a file system that does not answer takes for ever."""


class Heartbeat:
    """The heartbeat of one run."""

    def __init__(self, store: RunStore, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._beat_at = 0.0

    def beat(self) -> bool:
        """Say that the run is alive, once a second at most; True when someone asked to cancel it."""
        now = time.monotonic()
        if now - self._beat_at < HEARTBEAT_S:
            return False
        self._beat_at = now
        return self._store.heartbeat(self._run_id)

    @contextmanager
    def long_step(self) -> Iterator[None]:
        """Beat while the block runs, for `LONGEST_STEP_S` at most. A request to cancel is read after it."""
        over = threading.Event()
        beside = threading.Thread(target=self._beside, args=(over,), name="heartbeat", daemon=True)
        beside.start()
        try:
            yield
        finally:
            over.set()

    def _beside(self, over: threading.Event) -> None:
        until = time.monotonic() + LONGEST_STEP_S
        try:
            while not over.wait(HEARTBEAT_S) and time.monotonic() < until:
                # Locked by another for long, or no file handle left for a connection of its own: the next beat.
                with suppress(sqlite3.Error, OSError, VoxelflowError):
                    self._store.heartbeat(self._run_id)
        finally:
            self._store.close()
