"""Named moments at which the kill tests end a process, to show that nothing is lost or doubled.

Set `VOXELFLOW_KILL_AT=name` (or `name#3` for the third time) in the environment and the process
that passes the point kills itself with SIGKILL. `VOXELFLOW_KILL_ONCE=FILE` makes that happen only
while FILE does not exist; it is made just before the kill, so the resumed run passes.
`VOXELFLOW_STOP_AT=name` stops the process there instead (SIGSTOP), until someone continues it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Pass the point `name`; end the process here if the environment asks for it."""
    if os.environ.get("VOXELFLOW_STOP_AT") == name:
        os.kill(os.getpid(), signal.SIGSTOP)
    wanted = os.environ.get("VOXELFLOW_KILL_AT")
    if not wanted:
        return
    point, _, times = wanted.partition("#")
    if point != name:
        return
    _passed[name] += 1
    if _passed[name] != int(times or 1):
        return
    once = os.environ.get("VOXELFLOW_KILL_ONCE")
    if once:
        if Path(once).exists():
            return
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)
