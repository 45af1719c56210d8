"""Locks between processes that the kernel frees when their holder dies, however it dies.

A heartbeat alone is wrong after a laptop's sleep; a lock that a process holds is not.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from engine.errors import WorkspaceError

_POLL_S = 0.02


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
                hint="Put the workspace and its tables on a file system with locks.",
            ) from exc
        self._handle = handle
        return True

    def acquire_within(self, seconds: float, *, shared: bool = False) -> bool:
        """Try for so many seconds; True when held. Raises `WorkspaceError` as `acquire` does."""
        until = time.monotonic() + seconds
        # flock can block or be tried, and has no time limit: so it is tried.
        while not self.acquire(shared=shared):
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        return True

    def fileno(self) -> int:
        """The open file that holds the lock, to be handed on to a child: it is held until both have closed it."""
        assert self._handle is not None
        return self._handle

    def adopt(self, handle: int) -> bool:
        """Take over the open file that a parent handed on; False when it is another file."""
        try:
            if not os.path.samestat(os.fstat(handle), os.stat(self.path)):
                return False
        except OSError:
            return False
        os.set_inheritable(handle, False)
        self._handle = handle
        return True

    def note(self, text: str) -> None:
        """Write who holds the lock into its file, for `noted`. To be called by its holder."""
        assert self._handle is not None
        data = text.encode()
        os.pwrite(self._handle, data, 0)
        os.ftruncate(self._handle, len(data))

    def noted(self) -> str:
        """What the holder, or the last one, has noted; "" when none did."""
        try:
            return self.path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return ""

    def release(self) -> None:
        """Free the lock; nothing if it is not taken."""
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
