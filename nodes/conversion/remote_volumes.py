"""Reading `.npy` volumes from object storage: each object with one request, many of them under way at a time.

What is refused is refused with the words of `npy_files`. A store that cannot be reached refuses no file: the work
stops, and goes on where it was when it is started again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.datasets import VolumeSpec
from engine.errors import DataError
from engine.storage.objects import Found, RemotePath
from nodes.conversion.npy_files import (
    MAX_HEADER_BYTES,
    Header,
    HeaderSample,
    ListedFile,
    parse_header,
    refuse_not_finite,
    refuse_other,
    refuse_unusable,
    turn,
)
from nodes.conversion.quarantine import Refused

if TYPE_CHECKING:
    from typing_extensions import Buffer

REQUESTS = 32
"""Objects under way at a time in this process."""
AHEAD_FILES = 16
AHEAD_BYTES = 32 << 20
"""What one reader asks for before it is wanted: so many objects at most, and one at least, within this memory."""
_HEADER = MAX_HEADER_BYTES + 12
_Fetched = tuple["Buffer", Found]


class RemoteVolumeReader:
    """Reads objects of one `spec` below `source` into rows of a buffer; see `npy_files.VolumeReader`."""

    def __init__(self, source: str, spec: VolumeSpec, *, finite: bool) -> None:
        self._root = RemotePath.at(source)
        self._spec = spec
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._mask = np.empty(math.prod(spec.shape), bool) if finite and self._dtype.kind == "f" else None
        self._ahead = max(1, min(AHEAD_FILES, AHEAD_BYTES // spec.volume_bytes))
        self._coming: Iterator[ListedFile] = iter(())
        self._waiting: deque[tuple[str, Future[_Fetched]]] = deque()

    def expect(self, files: Sequence[ListedFile]) -> None:
        """Told of the files that will be read next, in their order: reading begins."""
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._coming = iter(files)

    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> None:
        """Fill `row` with the volume at `path`. Raises `Refused`, and `DataError` when the store gives no answer."""
        data, found = self._fetched(path)
        if found.size != size or found.mtime_ns != mtime_ns:
            raise Refused("changed-during-run", "has changed since the folder was listed")
        values = np.frombuffer(memoryview(data), np.uint8)
        header = parse_header(lambda length, offset: values[offset : offset + length].tobytes(), size)
        refuse_other(header, size, self._spec)
        if header.is_plain:
            row[:] = values[header.offset :]
        else:
            turn(header, values[header.offset :], row.view(self._dtype))
        if self._mask is not None:
            refuse_not_finite(row.view(self._dtype), self._mask)

    def _fetched(self, path: str) -> _Fetched:
        while len(self._waiting) < self._ahead and (file := next(self._coming, None)) is not None:
            self._waiting.append((file.path, _pool().submit((self._root / file.path).read)))
        try:
            if self._waiting and self._waiting[0][0] == path:
                return self._waiting.popleft()[1].result()
            return (self._root / path).read()
        except FileNotFoundError as exc:
            raise Refused("changed-during-run", "is gone since the folder was listed") from exc


def sample_remote_headers(source: str, paths: Iterable[str]) -> HeaderSample:
    """See `npy_files.sample_headers`. Raises `DataError` when the store gives no answer."""
    root, sample = RemotePath.at(source), HeaderSample()

    def look(path: str) -> tuple[str, Header | Refused]:
        try:
            return path, _header_of(root / path)
        except Refused as refused:
            return path, refused

    for path, header in _pool().map(look, paths):
        sample.looked += 1
        if isinstance(header, Refused):
            sample.refused.append((path, header))
        else:
            sample.specs[header.shape, header.dtype.name] += 1
    return sample


def _header_of(path: RemotePath) -> Header:
    try:
        data, found = path.read_range(0, _HEADER)
    except FileNotFoundError as exc:
        raise Refused("changed-during-run", "is gone since the folder was listed") from exc
    except DataError:
        # Stores have no range of an empty object.
        if path.stat().size:
            raise
        raise Refused("empty", "is empty") from None
    start = bytes(data)
    header = parse_header(lambda length, offset: start[offset : offset + length], found.size)
    refuse_unusable(header, found.size)
    return header


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(REQUESTS, thread_name_prefix="fetch")
