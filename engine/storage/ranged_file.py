"""An object as a random-access file whose reads are ranged requests, kept in a local cache where there is one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.storage.cache import RangeCache, uninitialized_buffer
from engine.storage.objects import RemotePath
from engine.storage.read_only_file import ReadOnlyFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE = 8 << 20
"""A longer read is cut into requests of this size, which are under way together."""
TAIL = 64 << 10
"""Read with the first request: the footer of nearly every Parquet file lies in it."""
_REQUESTS = 16


class RangedFile(ReadOnlyFile):
    """One object, read by one thread at a time. It is the same object from the first read to the last.

    `size` is the object's when that is known (from a Delta log), else it is asked for. `tag` is known from an
    earlier look at it; without one the tail is read at once, which gives it. Raises `FileNotFoundError` when there
    is no such object or one of another size, `DataError` when it is another one meanwhile.
    """

    def __init__(
        self, path: RemotePath, size: int | None = None, tag: str = "", cache: RangeCache | None = None
    ) -> None:
        super().__init__()
        self._path, self._cache = path, cache
        self._tail: memoryview = memoryview(b"")
        if size is None:
            found = path.stat()
            size, tag = found.size, found.tag
        self.length, self.tag = size, tag
        self._tail_at = size
        if not tag and size:
            self._read_tail()

    def _read_tail(self) -> None:
        start = max(0, self.length - TAIL)
        data, found = self._path.read_range(start, self.length)
        if found.size != self.length:
            raise FileNotFoundError(f"{self._path} has {found.size} bytes instead of {self.length}")
        self.tag, self._tail, self._tail_at = found.tag, memoryview(data), start

    def read(self, count: int | None = -1) -> Buffer:
        """As files read, but what comes may be any buffer: nothing is copied that need not be."""
        end = self.length if count is None or count < 0 else min(self.length, self._at + count)
        start, self._at = self._at, max(self._at, end)
        return self.read_range(start, end) if end > start else b""

    def readinto(self, target: Buffer) -> int:
        view = memoryview(target).cast("B")
        data = memoryview(self.read(len(view)))
        view[: len(data)] = data
        return len(data)

    def read_range(self, start: int, end: int) -> Buffer:
        """Bytes start ... end - 1, which lie within the object."""
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : end - self._tail_at]
        if self._cache is not None and (kept := self._cache.get(str(self._path), self.tag, start, end)) is not None:
            return kept
        if end - start <= PIECE * 3 // 2:
            data, _ = self._path.read_range(start, end, self.tag)
        else:
            data = self._in_pieces(start, end)
        if self._cache is not None:
            self._cache.put(str(self._path), self.tag, start, end, data)
        return data

    def _in_pieces(self, start: int, end: int) -> Buffer:
        out = uninitialized_buffer(end - start)

        def fetch(at: int) -> None:
            last = min(at + PIECE, end)
            out[at - start : last - start] = memoryview(self._path.read_range(at, last, self.tag)[0])

        for _ in _pool().map(fetch, range(start, end, PIECE)):
            pass
        return out


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    # Waiting for a store costs a thread and no core.
    return ThreadPoolExecutor(_REQUESTS, thread_name_prefix="storage")
