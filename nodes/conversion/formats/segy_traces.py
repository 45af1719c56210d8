"""The samples of a SEG-Y file's traces: many by one call of the system, from several threads at once.

segyio reads a trace at a time through one position in the file, so that threads wait for each other: cutting a survey
took half as long again.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.conversion.quarantine import Refused

TRACE_HEADER_BYTES = 240
_IBM = "ibm4"


class Traces:
    """The last `count` traces of the open file `handle`, of `samples` samples each.

    `stored` is NumPy's name for a sample as it is stored, or `>ibm4` or `<ibm4` for a float of IBM's.
    """

    def __init__(self, handle: int, stored: str, samples: int, count: int) -> None:
        self._handle, self._is_ibm = handle, stored.endswith(_IBM)
        self._dtype = np.dtype(stored.replace(_IBM, "u4"))
        self._length = TRACE_HEADER_BYTES + samples * self._dtype.itemsize
        self._start = os.fstat(handle).st_size - count * self._length

    def read(self, first: int, last: int) -> NDArray[Any]:
        """The samples of the traces from `first` up to `last`, that one left out: (traces, samples), of any byte order.

        Raises `Refused` where the file ends before, `OSError` when it cannot be read.
        """
        raw = np.empty((last - first, self._length), np.uint8)
        left, place = raw.reshape(-1).data, self._start + first * self._length
        while len(left):
            count = os.preadv(self._handle, [left], place)
            if not count:
                raise Refused("truncated", "ends within a trace")
            left, place = left[count:], place + count
        found = raw[:, TRACE_HEADER_BYTES:].view(self._dtype)
        return _from_ibm(found) if self._is_ibm else found


def _from_ibm(words: NDArray[Any]) -> NDArray[np.float32]:
    """IBM's floats, as 32-bit words, as IEEE's."""
    import segyio

    in_order = np.ascontiguousarray(words, ">u4").reshape(-1)  # of which segyio makes floats
    found: NDArray[np.float32] = segyio.tools.native(in_order, format=1, copy=False)
    return found.reshape(words.shape)
