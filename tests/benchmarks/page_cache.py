"""The page cache: letting go of files, so that the next reader must fetch them from the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def drop(paths: Iterable[str | Path]) -> None:
    """Take the files out of the page cache. Pages that some process has mapped stay."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # dirty pages would stay
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def sync(paths: Iterable[str | Path]) -> None:
    """Make files and the folders they lie in durable."""
    paths = [Path(path) for path in paths]
    for path in (*paths, *{path.parent for path in paths}):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
