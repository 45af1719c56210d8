"""From the first look at the cache until a run has locked the places it needs, `clean` moves nothing aside.

One lock file of the workspace: planning and starting a run takes it shared, `clean` takes it exclusively for the moment
in which it decides and renames (the deletion comes after). The starter hands the open file on to the run's process, so
the lock is held without a gap until that has locked its places, and the kernel frees it when both die.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import WorkspaceError
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace

HANDED_ON = "VOXELFLOW_START_LOCK"
"""Environment variable of a run's process: the number of the open file that its starter handed on."""
PATIENCE_S = 60.0
"""A start waits for the renaming of folders, `clean` for the listing of folders; neither for a stopped process."""


@contextmanager
def starting(workspace: Workspace) -> Iterator[ProcessLock]:
    """Keep `clean` from moving anything aside while a run is planned and started.

    Raises `WorkspaceError` when a `clean` does not make way.
    """
    lock = _lock(workspace)
    _acquire(lock)
    try:
        yield lock
    finally:
        lock.release()


def handed_on(workspace: Workspace) -> ProcessLock:
    """The lock that this process's starter handed on, else one of its own. To be released once all places are held."""
    lock = _lock(workspace)
    number = os.environ.pop(HANDED_ON, "")
    if number.isdigit() and lock.adopt(int(number)):
        return lock
    _acquire(lock)
    return lock


@contextmanager
def nobody_starts(workspace: Workspace) -> Iterator[bool]:
    """Whether no run is being planned or started, while the block runs; False when that was not so in time."""
    lock = _lock(workspace)
    locked = lock.acquire_within(PATIENCE_S)
    try:
        if locked:
            lock.note(str(os.getpid()))
        yield locked
    finally:
        lock.release()


def _lock(workspace: Workspace) -> ProcessLock:
    return ProcessLock(workspace.locks / "starting")


def _acquire(lock: ProcessLock) -> None:
    if not lock.acquire_within(PATIENCE_S, shared=True):
        raise WorkspaceError(
            f"`voxelflow clean` has kept {lock.path} locked for {PATIENCE_S:.0f} s (process {lock.noted() or '?'})",
            hint="End that process: nothing is lost, and the next clean finishes what it began.",
        )
