"""A program in the place of Voxelflow's that begins once a file is there: a process which takes long to import."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.run.worker_process import PROGRAM

_CODE = """
import os, pathlib, sys, time
until = time.monotonic() + 300  # a test that fails leaves none behind for ever
while not pathlib.Path({gate!r}).exists():
    if time.monotonic() > until:
        sys.exit("the gate stayed closed")
    time.sleep(0.02)
os.execv(sys.executable, [sys.executable, *{program!r}, *sys.argv[1:]])
"""


def gated_program(gate: Path) -> tuple[str, ...]:
    """To be used as `PROGRAM`."""
    return (sys.executable, "-c", _CODE.format(gate=str(gate), program=PROGRAM[1:]))
