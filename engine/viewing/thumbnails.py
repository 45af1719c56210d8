"""Thumbnails of volumes: the three planes through the middle, in one small square PNG, transparent beside them.

As in the viewer, where that takes hardly more room:    Flat volumes, here along Z:

    +-----+-----+                                           +-------+
    | X Z | Y Z |                                           |  X Z  |
    +-----+-----+                                           +-------+---+
    | X Y |                                                 |  X Y  |Z Y|
    +-----+                                                 +-------+---+

The first axis of a plane goes to the right and the second upwards. Flat volumes show their largest plane with a strip
above it and one beside it; the latter is turned, so that what meets at an edge meets in the volume, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.viewing.pictures import BETWEEN, NAN, NOTHING, four_axes, levels_of, palette, png
from engine.viewing.scales import Scale

_THINNEST = 12
"""A strip that is thinner than this part of the largest plane is left out: no detail is seen in it."""
_ROOM = 1.15
"""How many times as wide the picture may be for all planes to lie as in the viewer."""
_GAP = 48
"""The gap between planes is this part of the picture, and at least a pixel."""
_STRIPE = 3
"""How many pixels wide a stripe of what is hatched is, along a row."""


class _Plane(NamedTuple):
    """A plane across one axis: which one goes to the right, and which one upwards."""

    across: int
    right: int
    up: int


_AS_VIEWED = (_Plane(2, 0, 1), _Plane(1, 0, 2), _Plane(0, 1, 2))
"""Across Z, Y and X, as the viewer has them."""


def thumbnail(volume: NDArray[Any], channel: int, size: int, scale: Scale) -> bytes:
    """Square PNG of a channel (the last one, if there are fewer), at most `size` pixels wide.

    NaN is hatched and what is infinite has a colour of its own, as in the viewer.
    """
    four = four_axes(volume)
    values = four[..., min(channel, four.shape[3] - 1)]
    planes, in_corner = _layout(values.shape)
    gap = max(1, size // _GAP) if len(planes) > 1 else 0
    fits = max(1, size - gap) / _side(values.shape, planes)
    parts = [_drawn(values, plane, fits, scale) for plane in planes]
    main = parts[0]
    if len(parts) == 1:
        return png(_square([(0, 0, main)]), palette(scale.colours))
    _, above, third = parts
    below, beside = len(above) + gap, main.shape[1] + gap
    placed = [(below, 0, main), (0, 0, above), (0 if in_corner else below, beside, third)]
    return png(_square(placed), palette(scale.colours))


def _layout(lengths: Sequence[int]) -> tuple[Sequence[_Plane], bool]:
    """The planes to show, and whether the third one lies above right."""
    across = min((2, 1, 0), key=lambda axis: lengths[axis])
    right, up = (axis for axis in (0, 1, 2) if axis != across)
    flat = (_Plane(across, right, up), _Plane(up, right, across), _Plane(right, across, up))
    if lengths[across] == 1 or lengths[across] * _THINNEST < max(lengths):
        return flat[:1], False
    if _side(lengths, _AS_VIEWED) <= _ROOM * _side(lengths, flat):
        return _AS_VIEWED, True
    return flat, False


def _side(lengths: Sequence[int], planes: Sequence[_Plane]) -> int:
    """Voxels along the square that holds these planes, without gaps."""
    main = planes[0]
    above, beside = (lengths[planes[1].up], lengths[planes[2].right]) if len(planes) > 1 else (0, 0)
    return max(lengths[main.right] + beside, lengths[main.up] + above)


def _drawn(values: NDArray[Any], plane: _Plane, fits: float, scale: Scale) -> NDArray[np.uint8]:
    """Levels of the middle plane, the first row on top; a voxel is `fits` pixels wide."""
    index: list[Any] = [_places(length, fits) for length in values.shape]
    index[plane.across] = values.shape[plane.across] // 2
    # At once: a volume may be mapped, and no more than these voxels are to be read.
    index[plane.right] = index[plane.right][:, np.newaxis]
    found = levels_of(np.asarray(values[tuple(index)]), scale.low, scale.high).T[::-1]
    if (gaps := found == NAN).any():
        rows, columns = np.indices(found.shape)
        found = np.where(gaps & ((rows + columns) // _STRIPE % 2 == 1), np.uint8(BETWEEN), found)
    return found


def _places(length: int, fits: float) -> NDArray[np.int64]:
    """The voxels that pixels along an axis show: each several times where there is room, else some left out."""
    pixels = max(1, length * int(fits) if fits >= 1 else int(length * fits))
    return (2 * np.arange(pixels) + 1) * length // (2 * pixels)


def _square(parts: Sequence[tuple[int, int, NDArray[np.uint8]]]) -> NDArray[np.uint8]:
    """The parts, each at its row and column, in the middle of a transparent square."""
    height = max(row + part.shape[0] for row, _, part in parts)
    width = max(column + part.shape[1] for _, column, part in parts)
    side = max(height, width)
    out = np.full((side, side), NOTHING, np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    for row, column, part in parts:
        out[top + row : top + row + part.shape[0], left + column : left + column + part.shape[1]] = part
    return out
