"""Volumes as bytes, a part at a time: their numbers as they are stored, and whole files in NIfTI.

NIfTI-1: https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from engine.viewing.pictures import window_of

Triple = tuple[float, float, float]
Steps = tuple[int, int, int]

_HEADER, _OFFSET = 348, 352
_NIFTI_TYPES = {
    "uint8": 2, "int16": 4, "int32": 8, "float32": 16, "float64": 64, "int8": 256, "uint16": 512, "uint32": 768,
}  # fmt: skip
_AS_OTHER = {"float16": "float32", "int64": "float64", "uint64": "float64", "bool": "uint8"}
_LONGEST_AXIS = 32767
"""Voxels along an axis that NIfTI-1 can say."""
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_MILLIMETRES = 2


class Streamed(Protocol):
    """Something of `size` bytes that is made as it is asked for."""

    size: int

    def part(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`."""


def sent_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What numbers of this type travel as: NIfTI and browsers have no others. Little-endian."""
    name = dtype.newbyteorder("=").name
    return np.dtype(_AS_OTHER.get(name, name)).newbyteorder("<")


def reduced(volume: NDArray[Any], limit: int) -> tuple[NDArray[Any], Steps]:
    """Every n-th voxel along X, Y and Z of four axes, so that at most `limit` bytes are sent, and the three steps.

    Voxels are left out and not averaged: a value that is shown is one that is there. The longest axis is thinned first.
    """
    steps = [1, 1, 1]
    shape = list(volume.shape[:3])
    voxel_bytes = volume.shape[3] * sent_dtype(volume.dtype).itemsize
    while max(shape) > 1 and math.prod(shape) * voxel_bytes > limit:
        axis = shape.index(max(shape))
        steps[axis] += 1
        shape[axis] = -(-volume.shape[axis] // steps[axis])
    x, y, z = steps
    return volume[::x, ::y, ::z], (x, y, z)


class Voxels:
    """The numbers of a volume of the axes X, Y, Z, channels, in the order in which they lie in memory.

    `order` is "C" (channels fastest, X slowest) or "F" (X fastest): so a file is read from its beginning to its end.
    """

    def __init__(self, volume: NDArray[Any]) -> None:
        self.order: Literal["C", "F"] = "F" if volume.flags.f_contiguous and not volume.flags.c_contiguous else "C"
        self.dtype = sent_dtype(volume.dtype)
        self._flat = volume.T.reshape(-1) if self.order == "F" else np.ascontiguousarray(volume).reshape(-1)
        self.size = self._flat.size * self.dtype.itemsize

    def part(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`."""
        width = self.dtype.itemsize
        first = start // width
        numbers = self._flat[first : -(-stop // width)].astype(self.dtype, copy=False)
        return numbers.tobytes()[start - first * width : stop - first * width]


class NiftiFile:
    """A volume of the axes X, Y, Z, channels as a NIfTI-1 file, channels as its fourth axis.

    `spacing` has millimetres a voxel; a voxel is larger by `steps`, so that positions are those in the volume before it
    was reduced. Numbers that NIfTI does not have become floats.
    """

    def __init__(self, volume: NDArray[Any], steps: Steps = (1, 1, 1), spacing: Triple | None = None) -> None:
        self._volume, self._dtype = volume, sent_dtype(volume.dtype)
        self._header = _header(volume, self._dtype, steps, spacing)
        self.size = _OFFSET + volume.size * self._dtype.itemsize

    def part(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`."""
        out = [self._header[start:stop]]
        out += self._voxels(max(0, start - _OFFSET), max(0, min(stop, self.size) - _OFFSET))
        return b"".join(out)

    def _voxels(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` to `stop` of what follows the header: X fastest, channels slowest."""
        x, y, z, _ = self._volume.shape
        row = x * self._dtype.itemsize
        plane = row * y
        while start < stop:
            number, within = divmod(start, plane)
            channel, depth = divmod(number, z)
            if within or stop - start < plane:
                first, end = within // row, min(plane, within + stop - start)
                block = self._volume[:, first : -(-end // row), depth, channel]
                data = block.astype(self._dtype, copy=False).tobytes(order="F")[
                    within - first * row : end - first * row
                ]
            else:
                planes = min((stop - start) // plane, z - depth)
                block = self._volume[:, :, depth : depth + planes, channel]
                data = block.astype(self._dtype, copy=False).tobytes(order="F")
            yield data
            start += len(data)


def nifti_limit(volume: NDArray[Any]) -> tuple[NDArray[Any], Steps]:
    """The volume with as many voxels along each axis as NIfTI-1 can say, and the steps; see `reduced`.

    Raises `DataError` for more channels than it can say: one that is left out would be missed.
    """
    if volume.shape[3] > _LONGEST_AXIS:
        raise DataError(
            f"a NIfTI file has at most {_LONGEST_AXIS:,} channels, and this volume has {volume.shape[3]:,}",
            hint="Read it from the dataset's own files.",
        )
    x, y, z = (-(-length // _LONGEST_AXIS) for length in volume.shape[:3])
    return volume[::x, ::y, ::z], (x, y, z)


def _shown(values: NDArray[Any]) -> tuple[float, float]:
    """The greatest and the least value to show at first; zeros, which say nothing, where float32 does not have them."""
    low, high = window_of(values)
    return (high, low) if max(abs(low), abs(high)) <= _LARGEST_FLOAT32 else (0.0, 0.0)


def _header(volume: NDArray[Any], dtype: np.dtype[Any], steps: Steps, spacing: Triple | None) -> bytes:
    shape, out = volume.shape, bytearray(_OFFSET)
    sizes = [step * width for step, width in zip(steps, spacing or (1.0, 1.0, 1.0), strict=True)]
    struct.pack_into("<i", out, 0, _HEADER)
    struct.pack_into("<8h", out, 40, 4 if shape[3] > 1 else 3, *shape, 1, 1, 1)
    struct.pack_into("<hh", out, 70, _NIFTI_TYPES[dtype.newbyteorder("=").name], 8 * dtype.itemsize)
    struct.pack_into("<8f", out, 76, 1, *sizes, 1, 1, 1, 1)
    struct.pack_into("<f", out, 108, _OFFSET)
    struct.pack_into("<ff", out, 112, 1, 0)
    out[123] = _MILLIMETRES if spacing else 0
    struct.pack_into("<ff", out, 124, *_shown(volume[..., 0]))
    struct.pack_into("<hh", out, 252, 0, 1)  # where a voxel is: by the matrix alone
    for axis, size in enumerate(sizes):
        row = [0.0, 0.0, 0.0, 0.0]
        row[axis] = size
        struct.pack_into("<4f", out, 280 + 16 * axis, *row)
    out[344:348] = b"n+1\0"
    return bytes(out)
