"""A run's lock file: locked from the moment in which its process is started until that has ended.

The starter hands the open file on to the process, so that a run counts as starting however long Python takes to import
everything on a busy machine or from a slow disk, and no longer once the process has died.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import ExecutionError
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace

HANDED_ON = "VOXELFLOW_RUN_LOCK"
"""Environment variable of a run's process: the number of the open file that its starter handed on."""
_PATIENCE_S = 1.0
"""A reader that asks whether the lock is held takes it for a moment; that is no second process of the run."""


@contextmanager
def to_hand_on(workspace: Workspace, run_id: str) -> Iterator[ProcessLock | None]:
    """The lock, for a process that is started in the block; None when another process is at the run already.

    Raises `OSError` when its file cannot be made.
    """
    lock = _lock(workspace, run_id)
    try:
        yield lock if lock.acquire_within(_PATIENCE_S) else None
    finally:
        lock.release()


def handed_on(workspace: Workspace, run_id: str) -> ProcessLock:
    """The lock that this process's starter handed on, else one of its own.

    Raises `ExecutionError` when another process is at the run already.
    """
    lock = _lock(workspace, run_id)
    number = os.environ.pop(HANDED_ON, "")
    if number.isdigit() and lock.adopt(int(number)):
        return lock
    if not lock.acquire_within(_PATIENCE_S):
        raise ExecutionError(f"run {run_id} is already running", hint="`voxelflow runs show` shows how far it is.")
    return lock


def _lock(workspace: Workspace, run_id: str) -> ProcessLock:
    return ProcessLock(workspace.run_folder(run_id) / "lock")
