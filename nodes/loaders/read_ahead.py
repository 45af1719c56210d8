"""Reading ahead of what is asked for: the threads, a bounded iterator, and memory for batches.

A new buffer for each batch costs the kernel as much as a tenth of the copying: it has to clear every page, and several
threads wait for each other while it does. An array of `BatchMemory` is a view of a *loan*; when the last view is gone,
be it NumPy's, TensorFlow's or PyTorch's, the loan ends and its memory is lent again. So no batch in use is ever written
over, and what a user keeps costs what it would have cost anyway. Buffers begin at a page, so that TensorFlow takes them
without a copy (it wants 64 bytes).
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_HUGE_FROM = 4 << 20
"""Buffers from here on are asked for in huge pages, as NumPy does."""


def reading_threads(number: int) -> ThreadPoolExecutor:
    """Threads with a lower scheduling priority than the consumer of their batches."""
    return ThreadPoolExecutor(number, thread_name_prefix="loader", initializer=_give_way)


def _give_way() -> None:
    """Let others have the processor first when they wake up; this thread's share of time stays the same.

    Reading is long system calls. A consumer that wakes up while they have all processors would wait for their end,
    as tf.data does several times a batch, once with the interpreter's lock: 1.4 times as fast on two cores.
    """
    # Linux alone has it, and some sandboxes forbid it.
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def read_ahead(items: Iterator[T], depth: int) -> Iterator[T]:
    """`items`, made by a thread that stays up to `depth` (and the one in its hand) ahead.

    An error of the maker is raised here, in its place. Closing this iterator ends the thread.
    """
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def make() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                ready.put((item, None))
                if stopped.is_set():
                    break
        except BaseException as exc:
            error = exc
        try:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        except BaseException as exc:
            error = error or exc
        ready.put((None, error or StopIteration()))

    maker = threading.Thread(target=make, name="loader", daemon=True)
    maker.start()
    error: BaseException | None = None
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            assert item is not None
            yield item
    finally:
        stopped.set()
        # A maker that waits to put something sees the stop once there is space. The last that it puts is its end.
        while error is None:
            _, error = ready.get()
        maker.join()


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
