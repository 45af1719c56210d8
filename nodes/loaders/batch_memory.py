"""Memory for batches that is used again once nobody holds the batch any more.

A new buffer for each batch costs the kernel as much as a tenth of the copying: it has to clear every
page, and several threads wait for each other while it does. An array from here is a view of a *loan*; when
the last view is gone, be it NumPy's, TensorFlow's or PyTorch's, the loan ends and its memory is lent again.
So nobody's batch is ever written over, and what a user keeps costs what it would have cost anyway.

Buffers begin at a page, so that TensorFlow takes them without a copy (it wants 64 bytes).
"""

from __future__ import annotations

import mmap
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HUGE_FROM = 4 << 20
"""Buffers from here on are asked for in huge pages, as NumPy does."""


class BatchMemory:
    """Float32 arrays of up to `values` values; keeps up to `spare` unused buffers. For several threads."""

    def __init__(self, values: int, spare: int) -> None:
        self._bytes = max(1, values * 4)
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=spare)

    def take(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """An array of undefined content."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = _new(self._bytes)
        count = int(np.prod(shape))
        return np.asarray(_Loan(buffer, self._free))[: count * 4].view(np.float32).reshape(shape)


class _Loan:
    """Holds a buffer for as long as arrays made of it live; NumPy reads the interface from the attribute."""

    def __init__(self, buffer: NDArray[np.uint8], free: deque[NDArray[np.uint8]]) -> None:
        self._buffer, self._free = buffer, free
        self.__array_interface__: dict[str, Any] = buffer.__array_interface__

    def __del__(self) -> None:
        # A full deque drops its oldest buffer, and with it that memory.
        self._free.append(self._buffer)


def _new(size: int) -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, size)
    if size >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
