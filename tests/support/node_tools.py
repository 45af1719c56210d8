"""The canvas's own tools (node.js), for tests that build it. Nobody needs them to run Voxelflow."""

from __future__ import annotations

import subprocess
from pathlib import Path

from outside_parts import CANVAS


def run_tool(*command: str, cwd: Path = CANVAS) -> None:
    """Run node, or a program of the canvas's node_modules: for tests with the marker `needs(part="canvas")`."""
    program = command[0] if command[0] == "node" else str(CANVAS / "node_modules" / ".bin" / command[0])
    done = subprocess.run([program, *command[1:]], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
