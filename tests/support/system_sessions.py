"""The processes of a session as the system has them, to see that a killed or ended one has left none."""

from __future__ import annotations

import os
from pathlib import Path

from waiting import wait_until


def members(*leaders: int) -> list[int]:
    """Processes of these sessions: Java, and Python's side of Spark, which leaves the process group."""
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) in leaders and "Z" not in _state(int(name)):
                    out.append(int(name))
            except (ProcessLookupError, FileNotFoundError):
                continue
    return out


def wait_gone(*leaders: int) -> None:
    """Wait until these sessions have no process any more."""
    wait_until(lambda: not members(*leaders), "the end of all processes")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
