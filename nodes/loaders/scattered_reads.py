"""Many reads at places all over some files by one system call.

A thread that calls `preadv` for each volume asks for the interpreter's lock as often, and waits while somebody else has
it. Measured with volumes of 360 kB in the page cache: with one call per batch the loader is 1.2 times as fast, and so
it is beside a training loop that spends a millisecond of Python on each batch.

The call is Linux' `io_submit`. On files that are not opened with O_DIRECT it does the reads one after the other,
and has done them when it returns. Where there is none (another system, a container that forbids it, a system
that has run out of contexts), `preadv` does the same. Sources: io_submit(2) and <linux/aio_abi.h>.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 64
"""Reads by one call."""


class _Numbers(NamedTuple):
    setup: int
    destroy: int
    getevents: int
    submit: int


_NUMBERS = {"x86_64": _Numbers(206, 207, 208, 209), "aarch64": _Numbers(0, 1, 4, 2)}
_IOCB = np.dtype(
    [
        ("data", "<u8"), ("key", "<u4"), ("rw_flags", "<i4"), ("opcode", "<u2"), ("priority", "<i2"), ("file", "<u4"),
        ("buffer", "<u8"), ("bytes", "<u8"), ("offset", "<i8"), ("reserved", "<u8"), ("flags", "<u4"), ("event", "<u4"),
    ]
)  # fmt: skip
_EVENT = np.dtype([("data", "<u8"), ("request", "<u8"), ("result", "<i8"), ("result2", "<i8")])
_PREADV = 7


class ScatteredReads:
    """Reads for several threads."""

    def __init__(self) -> None:
        self._numbers = _numbers()
        self._local: Any = threading.local()
        self._contexts: list[ctypes.c_ulong] = []
        self._lock = threading.Lock()

    def read(
        self, files: Sequence[int], offsets: NDArray[np.int64], heads: NDArray[np.uint8], bodies: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """From each descriptor at its offset: first a row of `heads`, then that of `bodies`.

        Both are (n, bytes) and contiguous, n at most `MOST`. Gives the bytes that each read has got, fewer at
        a file's end; below zero it is the negative error number.
        """
        counts = np.empty(len(files), np.int64)
        done = self._at_once(files, offsets, heads, bodies, counts)
        for i in range(done, len(files)):
            try:
                counts[i] = os.preadv(files[i], [heads[i].data, bodies[i].data], int(offsets[i]))
            except OSError as exc:
                counts[i] = -(exc.errno or errno.EIO)
        return counts

    def close(self) -> None:
        """Give back what the system lent. No thread may be reading any more."""
        # Also where the system lent to one thread and then refused another.
        numbers = _numbers()
        with self._lock:
            while self._contexts and numbers is not None:
                _call(numbers.destroy, self._contexts.pop())
            self._numbers = None

    def _at_once(
        self,
        files: Sequence[int],
        offsets: NDArray[np.int64],
        heads: NDArray[np.uint8],
        bodies: NDArray[np.uint8],
        counts: NDArray[np.int64],
    ) -> int:
        """How many reads, from the first on, were made so."""
        numbers, number = self._numbers, len(files)
        if numbers is None or (mine := self._requests(numbers)) is None:
            return 0
        mine.fill(files, offsets, heads, bodies)
        submitted = _call(numbers.submit, mine.context, number, mine.pointers_at)
        # None: the first is refused, or this is the child of a fork, which has no context of its own.
        ended = 0
        while ended < submitted:
            at = mine.events_at + ended * _EVENT.itemsize
            found = _call(numbers.getevents, mine.context, 1, submitted - ended, at, 0)
            if found > 0:
                ended += found
            elif ctypes.get_errno() != errno.EINTR:
                # The kernel may still write into the caller's memory: no way on from here is safe.
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        counts[mine.ended[:ended]] = mine.results[:ended]
        return ended

    def _requests(self, numbers: _Numbers) -> _Requests | None:
        """This thread's."""
        mine: _Requests | None = getattr(self._local, "requests", None)
        if mine is None:
            context = ctypes.c_ulong(0)
            if _call(numbers.setup, MOST, ctypes.addressof(context)) != 0:
                self._numbers = None
                return None
            mine = self._local.requests = _Requests(context)
            with self._lock:
                self._contexts.append(context)
        return mine


class _Requests:
    """The arrays that a thread hands to the kernel for up to `MOST` reads, kept from call to call.

    Measured with batches of 32: allocated for each call, they take a fifth of the processor time of loading volumes of
    3.6 kB, and a tenth with 36 kB (`python -m benchmarks load --shape 30,30,10`).
    """

    def __init__(self, context: ctypes.c_ulong) -> None:
        self.context = context
        self._places = np.zeros((MOST, 2, 2), np.uint64)
        """Of each read: address and length of head and body."""
        requests, self._steps = np.zeros(MOST, _IOCB), np.arange(MOST, dtype=np.uint64)
        requests["data"], requests["opcode"] = self._steps, _PREADV
        requests["buffer"], requests["bytes"] = self._addresses(self._places), 2
        self._files, self._offsets = requests["file"], requests["offset"]
        self._pointers, events = self._addresses(requests), np.zeros(MOST, _EVENT)
        self.pointers_at, self.events_at = _address(self._pointers), _address(events)
        self.ended, self.results = events["data"], events["result"]

    def fill(
        self, files: Sequence[int], offsets: NDArray[np.int64], heads: NDArray[np.uint8], bodies: NDArray[np.uint8]
    ) -> None:
        """Ask for these reads, as `ScatteredReads.read` describes them."""
        number, places = len(files), self._places
        places[:number, 0, 0], places[:number, 0, 1] = self._addresses(heads), heads.shape[1]
        places[:number, 1, 0], places[:number, 1, 1] = self._addresses(bodies), bodies.shape[1]
        self._files[:number], self._offsets[:number] = files, offsets

    def _addresses(self, array: NDArray[Any]) -> NDArray[np.uint64]:
        """Where each item of the first axis begins."""
        return self._steps[: len(array)] * np.uint64(array.strides[0]) + np.uint64(_address(array))


def _numbers() -> _Numbers | None:
    if sys.platform != "linux" or sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    return _NUMBERS.get(platform.machine())


def _call(number: int, *arguments: ctypes.c_ulong | int) -> int:
    """A system call, without the interpreter's lock."""
    words = [a if isinstance(a, ctypes.c_ulong) else ctypes.c_ulong(a) for a in arguments]
    return int(_syscall(ctypes.c_long(number), *words))


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


_syscall: Any = None
if sys.platform == "linux":
    _syscall = ctypes.CDLL(None, use_errno=True).syscall
    _syscall.restype = ctypes.c_long
