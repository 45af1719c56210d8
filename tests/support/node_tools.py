"""The canvas's own tools (node.js), for tests that build it. Nobody needs them to run Voxelflow."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

CANVAS = Path(__file__).parents[2] / "ui" / "canvas"


def run_tool(*command: str, cwd: Path = CANVAS) -> None:
    """Run a program of the canvas's node_modules. Skips the test where they are not installed, but not in CI."""
    program = shutil.which(command[0]) if command[0] == "node" else str(tool_file(f".bin/{command[0]}"))
    if program is None:
        _missing()
    done = subprocess.run([program, *command[1:]], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def tool_file(path: str) -> Path:
    """A file of the canvas's node_modules. Skips the test where they are not installed, but not in CI."""
    found = CANVAS / "node_modules" / path
    if not found.exists():
        _missing()
    return found


def _missing() -> NoReturn:
    told = "the canvas's tools are not installed: `npm ci` in ui/canvas"
    (pytest.fail if os.environ.get("CI") else pytest.skip)(told)
