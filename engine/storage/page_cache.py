"""The system's own cache of files: having it drop what it keeps of some, and asking whether it has any of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Cached = Literal["cold", "warm", "unknown"]


def forget(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Have the system drop what it has cached of the files. Raises `OSError` for one that cannot be opened.

    Only pages that are on the disk can be dropped: flush files first that were just written.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        with _handle(path) as handle:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def cached(paths: Iterable[str | os.PathLike[str]]) -> Cached:
    """Whether the system has the beginning of any of the files in its cache, as far as it says."""
    if not hasattr(os, "preadv") or not hasattr(os, "RWF_NOWAIT"):
        return "unknown"
    for path in paths:
        with _handle(path) as handle:
            try:
                # Gives bytes only if they need no disk.
                if os.preadv(handle, [bytearray(1)], 0, os.RWF_NOWAIT):
                    return "warm"
            except BlockingIOError:
                continue
            except OSError:  # the file system does not say
                return "unknown"
    return "cold"


@contextmanager
def _handle(path: str | os.PathLike[str]) -> Iterator[int]:
    handle = os.open(Path(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)
