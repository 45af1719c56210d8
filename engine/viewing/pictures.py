"""Volumes as pictures that a browser takes: planes in PNG (https://www.w3.org/TR/png-3/). NumPy and zlib alone."""

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
SMALLER_SIDE = 0.25
"""Of the larger side of zero: from there on values have both signs, and are not merely noise about zero."""
SIGNED: frozenset[ColourMap] = frozenset({"seismic"})
"""Colour maps with a middle, which stands for zero."""
NOTHING = 0
"""The level of a pixel that shows no voxel: transparent. Finite values have the levels from 1 to `LAST`."""
LAST = 251
NAN, BETWEEN, INFINITE = 252, 253, 254
"""The levels of what is not finite. NaN is hatched: its level and `BETWEEN` by turns."""
_NOT_FINITE = ("#1a1f29", "#11151c", "#ff40c8")
"""Their colours, which no colour map has: those of the volume viewer."""
_WINDOW = (1.0, 99.0)
"""Percentiles that get the ends of the colour map: a few extreme voxels must not make the others one grey."""
_SAMPLED = 100_000
"""Values that percentiles are taken of."""
_LARGEST = float(np.finfo(np.float64).max)
_NARROWEST = 1e-300
"""A range that is narrower cannot be divided into levels."""
_HALF_WIDTH, _HALF_SHARE = 0.5, 1e-6
"""What is shown on either side of a value that is the only one: so much, or this share of it where that is more."""


def axes_of(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """A volume's shape as (X, Y, Z, channels): three axes or fewer have one channel, the fourth and further ones are
    channels."""
    x, y, z = (*shape[:3], 1, 1, 1)[:3]
    return x, y, z, math.prod(shape[3:])


def four_axes(volume: NDArray[Any]) -> NDArray[Any]:
    """The volume with the axes X, Y, Z, channels."""
    return volume.reshape(axes_of(volume.shape))


def window_of(values: NDArray[Any]) -> tuple[float, float]:
    """The least and the greatest value to show, of the finite ones."""
    return widened(*limits_of(values))


def limits_of(values: NDArray[Any]) -> tuple[float, float]:
    """The 1st and the 99th percentile of the finite values; where these are one, the least and the greatest of them."""
    flat = values.reshape(-1)
    flat = flat[:: max(1, flat.size // _SAMPLED)].astype(np.float64)
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 1.0
    with np.errstate(all="ignore"):
        low, high = (float(value) for value in np.percentile(flat, _WINDOW))
    # Between two values at the ends of float64 there is no percentile.
    if not -math.inf < low < high < math.inf:
        low, high = float(flat.min()), float(flat.max())
    return low, high


def widened(low: float, high: float) -> tuple[float, float]:
    """The same where they can be divided into levels, else a window around the one value that they are."""
    return (low, high) if high - low > _NARROWEST else around(low)


def around(value: float) -> tuple[float, float]:
    """A window around a value that is the only one, wide enough to be divided: beside 1e17 there is no 1e17 + 0.5."""
    half = max(_HALF_WIDTH, abs(value) * _HALF_SHARE)
    return max(value - half, -_LARGEST), min(value + half, _LARGEST)


def about_zero(low: float, high: float) -> tuple[float, float]:
    """The window that has zero in its middle and holds both values."""
    most = max(abs(low), abs(high))
    return -most, most


def levels_of(values: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """The levels of `palette` for values, `low` being the first of those of finite values and `high` the last one."""
    steps = LAST - 1
    with np.errstate(all="ignore"):
        # In halves where the whole is more than float64 has.
        part = 1.0 if math.isfinite(high - low) else 0.5
        first, last = low * part, high * part
        levels = 1 + np.clip((values.astype(np.float64) * part - first) * (steps / (last - first)), 0, steps)
    levels[np.isinf(values)] = INFINITE
    return np.where(np.isnan(values), NAN, levels).astype(np.uint8)


def palette(colour_map: ColourMap) -> NDArray[np.uint8]:
    """The colours of the levels, uint8 (255, 3)."""
    colours = _numbers(COLOUR_MAPS[colour_map])
    places = np.linspace(0, len(colours) - 1, LAST)
    found = np.stack([np.interp(places, np.arange(len(colours)), channel) for channel in colours.T], 1)
    return np.concatenate([np.zeros((1, 3)), found, _numbers(_NOT_FINITE)]).astype(np.uint8)


def _numbers(colours: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in colours], np.float64)


def png(pixels: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    """A picture of (rows, columns) numbers into `colours`, uint8 (at most 256, 3). The first of them is transparent."""
    rows, columns = pixels.shape
    lines = np.zeros((rows, columns + 1), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = pixels
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    data = zlib.compress(lines.tobytes(), 1)
    chunks = ((b"IHDR", header), (b"PLTE", colours.tobytes()), (b"tRNS", b"\0"), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
