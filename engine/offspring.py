"""Ending a process with all that it started, also what left its process group.

Python's side of Spark makes process groups of its own, so a signal to the worker's group misses it. The session does
not change unless a process asks for one, and a worker is the leader of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal

_PASSES = 3
"""A process may start another while we look; each pass finds fewer."""


def kill_session(leader: int) -> None:
    """SIGKILL to every process of the session that `leader` began, the leader last. None is no fault."""
    try:
        for _ in range(_PASSES):
            members = [pid for pid in _pids() if pid != leader and _session(pid) == leader]
            for pid in members:
                _kill(pid)
            if not members:
                break
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _pids() -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return list(psutil.pids())


def _session(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
