"""An array as it lies in a file, of which boxes are read.

The file is not mapped into memory: where a mapped file gets shorter, the system ends the process that reads it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.conversion.npy_files import read_fully


class StoredArray:
    """See `stored_array`. For several threads."""

    def __init__(self, handle: int, dtype: np.dtype[Any], offset: int, shape: Sequence[int], *, fortran: bool) -> None:
        self._handle, self._dtype, self._offset, self._fortran = handle, dtype, offset, fortran
        self._shape = tuple(shape)[::-1] if fortran else tuple(shape)

    def read(self, slices: Sequence[slice] = ()) -> NDArray[Any]:
        """The voxels in these slices, along the first axes. Raises `Refused` when the file ends before, `OSError`."""
        inside = self._inside(slices)
        found = np.empty([len(each) for each in inside], self._dtype)
        self._fill(inside, found)
        return found.transpose() if self._fortran else found

    def read_into(self, out: NDArray[Any], slices: Sequence[slice] = ()) -> None:
        """The same into an array, without a copy where it is as the file is."""
        target = out.transpose() if self._fortran else out
        if target.dtype == self._dtype and target.flags.c_contiguous:
            self._fill(self._inside(slices), target)
        else:
            out[...] = self.read(slices)

    def _inside(self, slices: Sequence[slice]) -> list[range]:
        """The voxels along each axis of the file."""
        given = [*slices, *[slice(None)] * (len(self._shape) - len(slices))]
        ordered = given[::-1] if self._fortran else given
        return [range(length)[each] for length, each in zip(self._shape, ordered, strict=True)]

    def _fill(self, inside: Sequence[range], out: NDArray[Any]) -> None:
        """Read run by run: what lies together in the file, and in `out` too."""
        axis = len(inside)
        while axis and len(inside[axis - 1]) == self._shape[axis - 1]:
            axis -= 1
        # The axes after it are whole; along this one the voxels of a run follow each other.
        first, outer = (inside[axis - 1].start, inside[: axis - 1]) if axis else (0, ())
        inner = math.prod(self._shape[axis:])
        steps = [math.prod(self._shape[place + 1 :]) for place in range(len(outer))]
        size = self._dtype.itemsize
        runs = out.reshape(-1).view(np.uint8).reshape(math.prod(map(len, outer)), -1)
        for row, places in zip(runs, np.ndindex(*map(len, outer)), strict=True):
            start = first * inner
            start += sum((each.start + n) * step for each, n, step in zip(outer, places, steps, strict=True))
            read_fully(self._handle, self._offset + start * size, row)


@contextmanager
def stored_array(
    path: Path, dtype: np.dtype[Any], offset: int, shape: Sequence[int], *, fortran: bool = False
) -> Iterator[StoredArray]:
    """The array of `shape` that begins at the byte `offset` of a file; with `fortran` its first axis changes fastest.

    Raises `OSError`.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield StoredArray(handle, dtype, offset, shape, fortran=fortran)
    finally:
        os.close(handle)
