"""Temporary folders that do not stay when the process that made them is killed.

Each is locked while its owner runs. Making one removes those of this machine that are locked no more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

_PREFIX = f"voxelflow-log-{platform.node()}-"
"""Folders of other parts have no such lock; and of another machine's locks, where a disk is shared, not all systems
tell."""
_TRIES = 100


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is there while the block runs."""
    path, remove = make_folder()
    try:
        yield path
    finally:
        remove()


def make_folder() -> tuple[Path, Callable[[], None]]:
    """An empty folder for this user alone, and what removes it. Raises `OSError`."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    for _ in range(_TRIES):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Another process may take it for abandoned before it is locked.
        with contextlib.suppress(FileNotFoundError):
            lock = _open(path)
            if _is_ours(lock) and path.exists():
                return path, partial(_remove, path, lock, os.getpid())
            os.close(lock)
    raise FileNotFoundError(f"folders vanish from {tempfile.gettempdir()} while they are made")


def _is_ours(lock: int) -> bool:
    """Whether the folder is locked now, or cannot be: then no other process can lock it to remove it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove(path: Path, lock: int, owner: int) -> None:
    # A forked process has this function too, and must leave the folder alone.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(place: Path) -> None:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(_PREFIX)]:
            # Folders of other users cannot be opened, and in use are those that are locked.
            with contextlib.suppress(OSError):
                lock = _open(place / name)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(place / name, ignore_errors=True)
                finally:
                    os.close(lock)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
