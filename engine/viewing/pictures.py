"""Volumes as bytes that a browser takes: thumbnails in PNG, whole ones in NIfTI. NumPy and zlib alone.

PNG: https://www.w3.org/TR/png-3/, NIfTI-1: https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ColourMap = Literal["grey", "seismic", "viridis"]
COLOUR_MAPS: Mapping[ColourMap, Sequence[str]] = {
    "grey": ("#000000", "#ffffff"),
    "seismic": ("#00004d", "#0000ff", "#ffffff", "#ff0000", "#800000"),
    "viridis": (
        "#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
    ),
}  # fmt: skip
"""Colours at equal distances from the least value to the greatest. "seismic" has its white at zero."""
_SIGNED: frozenset[ColourMap] = frozenset({"seismic"})
_WINDOW = (1.0, 99.0)
"""Percentiles that get the ends of the colour map: a few extreme voxels must not make the others one grey."""
_SAMPLED = 100_000
"""Values that percentiles are taken of."""

_NIFTI_HEADER, _NIFTI_OFFSET = 348, 352
_NIFTI_TYPES = {
    "uint8": 2, "int16": 4, "int32": 8, "float32": 16, "float64": 64, "int8": 256, "uint16": 512, "uint32": 768,
}  # fmt: skip
_AS_OTHER = {"float16": "float32", "int64": "float64", "uint64": "float64", "bool": "uint8"}


def axes_of(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """A volume's shape as (X, Y, Z, channels): three axes or fewer have one channel, the fourth and further ones are
    channels."""
    x, y, z = (*shape[:3], 1, 1, 1)[:3]
    return x, y, z, math.prod(shape[3:])


def four_axes(volume: NDArray[Any]) -> NDArray[Any]:
    """The volume with the axes X, Y, Z, channels."""
    return volume.reshape(axes_of(volume.shape))


def window_of(values: NDArray[Any], colour_map: ColourMap = "grey") -> tuple[float, float]:
    """The least and the greatest value to show, of the finite ones; about zero for a signed colour map."""
    flat = values.reshape(-1)
    flat = flat[:: max(1, flat.size // _SAMPLED)].astype(np.float64)
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(flat, _WINDOW))
    if high <= low:
        low, high = float(flat.min()), float(flat.max())
    if colour_map in _SIGNED:
        most = max(abs(low), abs(high))
        low, high = -most, most
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def thumbnail(volume: NDArray[Any], channel: int, size: int, colour_map: ColourMap) -> bytes:
    """PNG of the middle plane along Z: X to the right, Y upwards, each side at most `size` pixels."""
    four = four_axes(volume)
    plane = four[:, :, four.shape[2] // 2, min(channel, four.shape[3] - 1)]
    steps = [max(1, -(-length // size)) for length in plane.shape]
    plane = plane[:: steps[0], :: steps[1]].astype(np.float64)
    low, high = window_of(plane, colour_map)
    with np.errstate(invalid="ignore"):
        levels = np.clip((plane - low) * (255 / (high - low)), 0, 255)
    pixels = np.where(np.isfinite(levels), levels, 0).astype(np.uint8)
    return png(np.ascontiguousarray(pixels.T[::-1]), palette(colour_map))


def palette(colour_map: ColourMap) -> NDArray[np.uint8]:
    """The colour of each of 256 levels, uint8 (256, 3)."""
    colours = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in COLOUR_MAPS[colour_map]], np.float64)
    places = np.linspace(0, len(colours) - 1, 256)
    return np.stack([np.interp(places, np.arange(len(colours)), channel) for channel in colours.T], 1).astype(np.uint8)


def png(pixels: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    """A picture of (rows, columns) numbers into `colours`, uint8 (256, 3)."""
    rows, columns = pixels.shape
    lines = np.zeros((rows, columns + 1), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = pixels
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", colours.tobytes()), (b"IDAT", zlib.compress(lines.tobytes(), 1)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in (*chunks, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def reduced(volume: NDArray[Any], limit: int) -> tuple[NDArray[Any], tuple[int, int, int]]:
    """Every n-th voxel along X, Y and Z, so that at most `limit` bytes are left, and the three steps.

    Voxels are left out and not averaged: a value that is shown is one that is there. The longest axis is thinned first.
    """
    four = four_axes(volume)
    steps = [1, 1, 1]
    shape = list(four.shape[:3])
    channel_bytes = four.shape[3] * four.itemsize
    while math.prod(shape) * channel_bytes > limit and max(shape) > 1:
        axis = shape.index(max(shape))
        steps[axis] += 1
        shape[axis] = -(-four.shape[axis] // steps[axis])
    x, y, z = steps
    return four[::x, ::y, ::z], (x, y, z)


def nifti(volume: NDArray[Any], steps: tuple[int, int, int] = (1, 1, 1)) -> bytes:
    """A volume of the axes X, Y, Z, channels as a NIfTI-1 file, channels as its fourth axis.

    A voxel is as large as `steps`, so that positions are those in the volume before it was reduced. Numbers that
    NIfTI or browsers do not have become floats.
    """
    name = volume.dtype.newbyteorder("=").name
    name = _AS_OTHER.get(name, name)
    data = volume.astype(np.dtype(name).newbyteorder("<"), copy=False)
    header = bytearray(_NIFTI_OFFSET)
    four_d = data.shape[3] > 1
    struct.pack_into("<i", header, 0, _NIFTI_HEADER)
    struct.pack_into("<8h", header, 40, 4 if four_d else 3, *data.shape, 1, 1, 1)
    struct.pack_into("<hh", header, 70, _NIFTI_TYPES[name], 8 * data.itemsize)
    struct.pack_into("<8f", header, 76, 1, *steps, 1, 1, 1, 1)
    struct.pack_into("<f", header, 108, _NIFTI_OFFSET)
    struct.pack_into("<ff", header, 112, 1, 0)
    struct.pack_into("<ff", header, 124, *reversed(window_of(data[..., 0])))
    struct.pack_into("<hh", header, 252, 0, 1)  # where a voxel is: by the matrix alone
    for axis, step in enumerate(steps):
        row = [0.0, 0.0, 0.0, 0.0]
        row[axis] = float(step)
        struct.pack_into("<4f", header, 280 + 16 * axis, *row)
    header[344:348] = b"n+1\0"
    return bytes(header) + data.tobytes(order="F")
