"""The lock file of a run or a sweep: locked from the moment in which its process is started until that has ended.

The starter hands the open file on to the process, so that a run counts as starting however long Python takes to import
everything on a busy machine or from a slow disk, and no longer once the process has died.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.processes.detached import start_detached
from engine.storage.process_lock import ProcessLock, is_held

if TYPE_CHECKING:
    import psutil

USUAL_START_S = 60.0
LONGEST_START_S = 900.0
"""How long a process that lives may take to begin: on a busy machine, or from a slow disk, its imports take minutes."""
_HANDED_ON = "VOXELFLOW_RUN_LOCK"
"""Environment variable of the process: the number of the open file that its starter handed on."""
_PATIENCE_S = 1.0
"""A reader that asks whether the lock is held takes it for a moment; that is no second process of the run."""
_KILLED_S = 10.0
"""How long a killed process may take to be gone."""


def start_locked(
    arguments: Sequence[str], folder: Path, log: str, handed: Mapping[str, int] | None = None
) -> subprocess.Popen[bytes]:
    """Start the process of the run or sweep whose folder that is, with its lock; `log` is a file's name there.

    `handed` are more open files that it gets, by the environment variable that names each. Raises `OSError` when it
    cannot be started.
    """
    files = dict(handed or {})
    with _to_hand_on(folder) as lock:
        if lock is not None:  # else the process says that another one is at it
            files[_HANDED_ON] = lock.fileno()
        child = start_detached(
            arguments,
            folder / log,
            environment={**os.environ, **{name: str(number) for name, number in files.items()}},
            pass_fds=tuple(files.values()),
        )
        if lock is not None:
            lock.note(str(child.pid))
    return child


@contextmanager
def _to_hand_on(folder: Path) -> Iterator[ProcessLock | None]:
    """The lock, for a process that is started in the block; None when another process has it already."""
    lock = _lock(folder)
    try:
        yield lock if lock.acquire_within(_PATIENCE_S) else None
    finally:
        lock.release()


def handed_on(folder: Path) -> ProcessLock | None:
    """The lock that this process's starter handed on, else one of its own; None when another process has it."""
    lock = _lock(folder)
    number = os.environ.pop(_HANDED_ON, "")
    if number.isdigit() and lock.adopt(int(number)):
        return lock
    return lock if lock.acquire_within(_PATIENCE_S) else None


def wait_begun(
    child: subprocess.Popen[bytes] | None,
    folder: Path,
    has_begun: Callable[[], bool],
    record_unbegun: Callable[[], None],
    timeout_s: float = USUAL_START_S,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Wait until the process of the run or sweep in `folder` has begun, or `stop` says so; whether either came.

    As long as `child` lives, else `timeout_s` seconds; it is None where another process has started that one. When it
    has died and no other process holds the lock, `record_unbegun` is called: else the run counts as starting for a
    minute.
    """
    since = time.monotonic()
    while True:
        # In this order: a process that has ended said before whether it began. Another one with the lock may yet.
        lives = child is not None and child.poll() is None
        died = child is not None and not lives and not is_held(folder / "lock")
        if died:
            record_unbegun()
        if has_begun() or stop():
            return True
        if died or time.monotonic() - since > (LONGEST_START_S if lives else timeout_s):
            return False
        time.sleep(0.05)


def kill_unbegun(folder: Path, name: str, *, begun: int | None = None, since: float = 0.0) -> bool:
    """Kill the process that was started with the lock of `folder`, if it has `name` among its arguments; whether so.

    Left alone is the one with the id `begun`, and one that was started before `since`, in seconds since the epoch.
    """
    import psutil

    try:
        process = psutil.Process(int(_lock(folder).noted()))
        if process.pid == begun or name not in _arguments_of(process) or process.create_time() < since:
            return False
        process.kill()
        psutil.wait_procs([process], _KILLED_S)
    except (ValueError, psutil.Error):
        return False
    return True


def _arguments_of(process: psutil.Process) -> list[str]:
    """As `psutil.Process.cmdline`, also of a process that was started this moment.

    While the kernel sets up the program, after `Popen` has returned, that gives no arguments.
    """
    until = time.monotonic() + _PATIENCE_S
    while not (found := process.cmdline()) and time.monotonic() < until:
        time.sleep(0.005)
    return found


def _lock(folder: Path) -> ProcessLock:
    return ProcessLock(folder / "lock")
