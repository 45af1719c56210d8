"""Ending a process without taking its libraries apart.

The interpreter frees every module before it ends: 0.2 s after pandas and pyarrow, more than a second after
TensorFlow, for memory that the system takes back anyway, and every task of a run waits for it.
"""

from __future__ import annotations

import atexit
import os
import sys


class QuickExit:
    """Make it the first thing that a process does: then what libraries and users do at exit is done before.

    Threads are waited for, exit handlers run, what was written is flushed, and then the process is gone. After an
    exception, without a status, or when somebody came first (a tool that measures coverage), it ends as ever.
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
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            return  # a full disk, or nobody reads any more: Python has its own words and status for it
        import ctypes

        ctypes.CDLL(None).fflush(None)  # what libraries in C have printed
        os._exit(self._status)
