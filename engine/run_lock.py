"""Locks between processes that the kernel frees when their holder dies, however it dies.

A heartbeat alone lies after a laptop's sleep; a lock held by a process does not.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from engine.errors import WorkspaceError


class ProcessLock:
    """An advisory `flock` on a file: exclusive, or shared among holders that only read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Try once, without waiting; True when held.

        Raises `WorkspaceError` where the file system has no locks.
        """
        if self._handle is not None:
            return True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError as exc:
            os.close(handle)
            raise WorkspaceError(
                f"{self.path} cannot be locked: {exc.strerror}",
                hint="The workspace and its tables must lie on a file system with locks.",
            ) from exc
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_held(path: Path) -> bool:
    """Whether some process holds the lock file's lock exclusively."""
    if not path.exists():
        return False
    probe = ProcessLock(path)
    # A shared probe: two people asking at once must not see each other as a holder.
    if not probe.acquire(shared=True):
        return True
    probe.release()
    return False
