"""The checksums of data pages: each page that has one is checked once, before its first volume is used."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nodes.loaders.page_index import NO_CHECKSUM, PageIndex

_READ_BYTES = 1 << 20


class PageChecks:
    """Which page of which file each row lies in, and which pages are found right. For several threads.

    Two threads may check one page at the same time; both come to the same answer.
    """

    def __init__(self, indexes: Sequence[PageIndex]) -> None:
        rows = np.concatenate([index.rows for index in indexes])
        self._page = np.repeat(np.arange(len(rows), dtype=np.int32), rows)
        """By a row's stored position."""
        self._starts = np.concatenate([index.starts for index in indexes])
        self._sizes = np.concatenate([index.sizes for index in indexes])
        self._checksums = np.concatenate([index.checksums for index in indexes])
        self._pending = self._checksums != NO_CHECKSUM
        self._left = int(self._pending.sum())
        self._lock = threading.Lock()

    @property
    def pending(self) -> bool:
        """Whether any page is still to be checked."""
        return self._left > 0

    def is_right(self, stored: int, file: int) -> bool:
        """Whether the page of the row at this stored position has its checksum, read through descriptor `file`."""
        page = self._page[stored]
        if not self._pending[page]:
            return True
        if _checksum(file, int(self._starts[page]), int(self._sizes[page])) != self._checksums[page]:
            return False
        with self._lock:
            self._left -= int(self._pending[page])
            self._pending[page] = False
        return True


def _checksum(file: int, start: int, size: int) -> int:
    buffer = memoryview(bytearray(min(size, _READ_BYTES)))
    value, end = 0, start + size
    while start < end:
        count = os.preadv(file, [buffer[: end - start]], start)
        if not count:
            return NO_CHECKSUM
        value = zlib.crc32(buffer[:count], value)
        start += count
    return value


def checks_for(indexes: Sequence[PageIndex]) -> PageChecks | None:
    """None when no page has a checksum, as in the tables that Voxelflow makes."""
    if any((index.checksums != NO_CHECKSUM).any() for index in indexes):
        return PageChecks(indexes)
    return None


def positions(indexes: Sequence[PageIndex]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number of the file and offset in it of each row's volume, by stored position."""
    numbers = np.repeat(np.arange(len(indexes), dtype=np.int32), [len(index.offsets) for index in indexes])
    return numbers, np.concatenate([index.offsets for index in indexes])
