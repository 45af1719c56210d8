"""A local cache of what was read from object storage, with a limit on its size, shared by any number of processes.

A piece is a file named after its content: the object's address, its tag (which every write of the object changes)
and the range. So a piece never becomes wrong, and nothing has to be invalidated when objects change.

* A piece appears whole, by a rename. A process that is killed leaves at most a half-made file, which the next
  clean-up finds unlocked and deletes. Each piece carries a checksum: one that a power cut damaged is no hit.
* The limit is kept under one file lock. A writer adds to the total first and renames second, so a kill between
  the two makes the total too large, never too small; the next clean-up counts anew.
* What was not used for longest goes first. Reading goes on where another process deletes: the file stays open.

The cache is a help and never a reason to fail: a disk that is full or read-only makes it a cache without hits.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import struct
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import UsageError, WorkspaceError
from engine.failpoints import failpoint
from engine.storage.checksum import crc32
from engine.storage.process_lock import ProcessLock

if TYPE_CHECKING:
    from typing_extensions import Buffer

FOLDER = "VOXELFLOW_CACHE"
"""Environment variable: the cache's folder, by default `voxelflow/objects` in the person's cache folder."""
LIMIT = "VOXELFLOW_CACHE_GB"
"""Environment variable: the cache's size in GB (10^9 bytes). Without it, or with 0, nothing is cached."""
_HEAD = struct.Struct("<8sQI")
_MAGIC = b"VFcache1"
_KEPT_SHARE = 0.9
"""A clean-up leaves this share of the limit, so that the next piece needs none."""
_PATIENCE_S = 30.0
"""A clean-up of a large cache takes seconds; a stopped process (SIGSTOP) keeps the lock until it is killed."""
_FIRST_POLL_S, _POLL_S = 0.0005, 0.02
_PIECES = "pieces"
_TEMPORARY = "making"


class RangeCache:
    """Pieces of objects below `folder`, together at most `limit` bytes. Any number may share a folder."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._is_stuck = False

    @classmethod
    def from_environment(cls) -> RangeCache | None:
        """The cache that the person asked for, if any. Raises `UsageError` when its size is no number."""
        text = os.environ.get(LIMIT, "")
        try:
            limit = int(float(text or 0) * 1e9)
        except (ValueError, OverflowError):
            raise UsageError(
                f"{LIMIT} is {text!r}, not a number of GB", hint=f"Write for example {LIMIT}=20."
            ) from None
        if limit <= 0:
            return None
        if named := os.environ.get(FOLDER):
            return cls(Path(named), limit)
        from platformdirs import user_cache_path

        return cls(user_cache_path("voxelflow") / "objects", limit)

    def get(self, address: str, tag: str, start: int, end: int) -> Buffer | None:
        """The bytes, if they are here and whole."""
        path = self._path(address, tag, start, end)
        try:
            with path.open("rb", buffering=0) as file:
                magic, length, checksum = _HEAD.unpack(file.read(_HEAD.size))
                data = uninitialized_buffer(length if length == end - start else 0)
                whole = magic == _MAGIC and len(data) == length and file.readinto(data) == length
                if whole and crc32(data) == checksum:
                    os.utime(file.fileno())
                    return data
        except OSError:
            return None
        except struct.error:
            pass  # too short even for its head
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, address: str, tag: str, start: int, end: int, data: Buffer) -> None:
        """Keep the bytes, if the limit allows it. A disk that cannot be written is no error, nor is a process that does
        not free the cache's lock: after a warning nothing more is kept."""
        view = memoryview(data)
        if self._is_stuck:
            return
        if view.nbytes + _HEAD.size > self.limit * _KEPT_SHARE or view.nbytes != end - start or not tag:
            return
        with contextlib.suppress(OSError, WorkspaceError):
            self._put(self._path(address, tag, start, end), view)

    def _put(self, path: Path, view: memoryview) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        making = self.folder / _TEMPORARY
        making.mkdir(exist_ok=True)
        temporary = making / secrets.token_hex(8)
        with temporary.open("wb", buffering=0) as file:
            # As long as this is locked, no clean-up takes the file for one that a dead process left. One that came
            # first deletes it: then the piece is not kept.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                _write_all(file.fileno(), _HEAD.pack(_MAGIC, view.nbytes, crc32(view)))
                _write_all(file.fileno(), view)
                with self._locked() as total:
                    if total is not None and not path.exists():
                        self._reserve(total, view.nbytes + _HEAD.size)
                        failpoint("cache:counted")
                        temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _path(self, address: str, tag: str, start: int, end: int) -> Path:
        name = hashlib.blake2b(repr((address, tag, start, end)).encode(), digest_size=16).hexdigest()
        return self.folder / _PIECES / name[:2] / name

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int | None]:
        """The cache's lock: its file's descriptor. The file contains the total; a process that dies frees it.

        None, after a warning, when another process has kept it for too long.
        """
        lock = ProcessLock(self.folder / "total")
        until, wait = time.monotonic() + _PATIENCE_S, _FIRST_POLL_S
        try:
            while not (held := lock.acquire()) and not self._is_stuck:
                if time.monotonic() > until:
                    self._is_stuck = True
                    warnings.warn(
                        f"another process has kept the cache's lock {lock.path} for {_PATIENCE_S:.0f} s: nothing more"
                        f" is cached here. `fuser {lock.path}` names it; end it, and the cache is used again.",
                        stacklevel=2,
                    )
                    break
                time.sleep(wait)  # most are held for less than a millisecond
                wait = min(2 * wait, _POLL_S)
            yield lock.fileno() if held else None
        finally:
            lock.release()

    def _reserve(self, total: int, size: int) -> None:
        noted = os.pread(total, 32, 0)
        used = int(noted) if noted.isdigit() else -1
        if used < 0 or used + size > self.limit:
            used = self._clean(int(self.limit * _KEPT_SHARE) - size)
        text = str(used + size).encode()
        os.pwrite(total, text, 0)
        os.ftruncate(total, len(text))

    def _clean(self, most: int) -> int:
        """Delete what was not used for longest until at most `most` bytes stay; returns how many there are."""
        for left in (self.folder / _TEMPORARY).iterdir():
            _delete_if_abandoned(left)
        found: list[tuple[int, int, Path]] = []
        for folder in (self.folder / _PIECES).iterdir():
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    stat = path.stat()
                    found.append((stat.st_mtime_ns, stat.st_size, path))
        used = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if used <= most:
                break
            path.unlink(missing_ok=True)
            used -= size
        return used


def _delete_if_abandoned(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)


def _write_all(handle: int, data: Buffer) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(handle, view) :]


def uninitialized_buffer(size: int) -> memoryview:
    """`size` bytes of undefined content. A bytearray would be written full of zeros first, and is in small pages:
    measured with 23 MB, filling it takes 2.6 times as much of a core."""
    import numpy as np

    return np.empty(size, np.uint8).data
