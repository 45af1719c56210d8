"""The commands of an example's README, followed word for word in a folder of its own."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.run.worker_process import PROGRAM

EXAMPLES = Path(__file__).parents[2] / "examples"


def commands(example: str, program: str = "") -> list[str]:
    """The commands of examples/NAME/README.md in their order, or those of them that begin with `program`."""
    text = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    lines = re.sub(r" \\\n +", " ", text).splitlines()
    found = [line.strip() for line in lines if line.startswith("    ") and not line.startswith("     ")]
    programs = (program,) if program else ("voxelflow ", "python -m ", "mkdir ", "cp ")
    return [line for line in found if line.startswith(programs)]


class Reader:
    """Somebody who follows an example in `folder`, where a checkout's `examples` lies.

    `smaller` has texts of the commands and what stands in their place, so that fewer files and epochs do.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, smaller: Mapping[str, str]) -> None:
        (folder / "examples").symlink_to(EXAMPLES)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("NO_COLOR", "1")
        self._monkeypatch, self._smaller = monkeypatch, smaller

    def follow(self, command: str) -> str:
        """Run a command as it stands; gives what it printed. It must succeed."""
        for text, smaller in self._smaller.items():
            command = command.replace(text, smaller)
        program, *arguments = shlex.split(command)
        if program == "python":
            self._monkeypatch.setattr(sys, "argv", arguments[1:])
            importlib.import_module(arguments[1]).main()
            return ""
        words = [*PROGRAM, *arguments] if program == "voxelflow" else [program, *arguments]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr
