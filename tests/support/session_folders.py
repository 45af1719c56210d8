"""Folders of one session of tests, named after its process: the next session clears what a killed one has left."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

_NAME = re.compile(r"voxelflow-(?:tests-(\d+)|rt-(\d+)-\w+)")


def files_folder(place: Path) -> Path:
    """Where all the files of this process's tests lie, in `place`; not made."""
    return place / f"voxelflow-tests-{os.getpid()}"


def runtime_folder() -> str:
    """A new one for sockets. Not within that of the files: a socket's address has space for a hundred letters."""
    return tempfile.mkdtemp(prefix=f"voxelflow-rt-{os.getpid()}-")


def clear_ended(places: Iterable[Path]) -> None:
    """Remove from these folders those of sessions whose process is gone."""
    for folder in (each for place in places for each in place.glob("voxelflow-*")):
        found = _NAME.fullmatch(folder.name)
        if found and not psutil.pid_exists(int(found[1] or found[2])):
            shutil.rmtree(folder, ignore_errors=True)
