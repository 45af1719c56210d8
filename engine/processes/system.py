"""What Voxelflow's own processes ask of the system: a quick end, logs that survive a full disk, killing, peak memory.

Imports nothing heavy: the command makes its `QuickExit` before all else.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

_PASSES = 3
"""A process may start another meanwhile; each pass finds fewer."""


class QuickExit:
    """Make it the first thing that a process does: then what libraries and users do at exit is done before.

    Threads are waited for, exit handlers run, what was written is flushed, and then the process is gone. After an
    exception, without a status, or when another handler was first (a tool that measures coverage), it ends as usual.
    """

    def __init__(self) -> None:
        self._status: int | None = None
        # Handlers run in the opposite order of their registration, so those of before would not run.
        if atexit._ncallbacks() == 0:
            atexit.register(self._leave)

    def with_status(self, status: int) -> int:
        """The status to end with; gives it back for `sys.exit`."""
        self._status = status
        return status

    def _leave(self) -> None:
        if self._status is None:
            return
        with suppress(OSError, ValueError):  # a full disk, or no reader any more: Python reports it
            exit_now(self._status)


def exit_now(status: int) -> NoReturn:
    """Flush standard output and error, and end this process, without exit handlers. Raises when they cannot be."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    import ctypes

    ctypes.CDLL(None).fflush(None)  # what libraries in C have printed
    os._exit(status)


class _Log(io.FileIO):
    """Drops what cannot be written, and writes again when it can."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(memoryview(data).cast("B"))


def tolerate_full_disk() -> None:
    """From now on, what this process prints and cannot be written is dropped without an error."""
    for name, handle, by_line in (("stdout", 1, False), ("stderr", 2, True)):
        stream = getattr(sys, name)
        if stream is not None:
            stream.flush()
        log = io.BufferedWriter(_Log(handle, "wb", closefd=False))
        setattr(sys, name, io.TextIOWrapper(log, "utf-8", "backslashreplace", line_buffering=by_line))


def widen_pipe(handle: int, size: int) -> None:
    """Let a pipe hold so many bytes, where the system allows it. Linux gives it 64 KiB.

    A megabyte then crosses at once and not in twenty turns of both processes: 100 MB of a volume came in 0.85 s and not
    in 1.4 to 3 s, on two busy cores.
    """
    # Not on macOS; refused where somebody has too many wide ones.
    with suppress(AttributeError, OSError):
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, size)


def kill_tree(leader: int) -> None:
    """SIGKILL to every process of the session or process group of `leader`, the leader last. None is no fault."""
    try:
        for _ in range(_PASSES):
            members = [pid for pid in _pids() if pid != leader and _belongs(pid, leader)]
            for pid in members:
                _kill(pid)
            if not members:
                break
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _pids() -> list[int]:
    with suppress(FileNotFoundError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return list(psutil.pids())


def _belongs(pid: int, leader: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        return leader in (os.getsid(pid), os.getpgid(pid))
    return False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def peak_memory() -> int:
    """Bytes that this process has had resident at most."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    # Counts what the parent had before this program was started, so it is the second choice.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
