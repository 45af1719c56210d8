"""What the colours of pictures stand for: one scale for a gallery and channel, found from a few of its volumes.

One for all volumes, so that two pictures may be compared: with a scale of its own for each, a bright spot makes the
rest of its volume dark, and plain tissue turns white.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.declare.view import Gallery
from engine.viewing.pictures import SIGNED, SMALLER_SIDE, ColourMap, about_zero, four_axes, limits_of, widened

_VOLUMES, _LEAST_VOLUMES = 16, 2
"""Volumes that a scale is found from; fewer where they are large."""
_READ_VALUES = 32 << 20
_VALUES, _ALL_VALUES = 2500, 100_000
"""Voxels that are taken of one of them, of a channel and of all."""
_LARGE_BYTES = 16 << 20
_PLANES = 8
"""Planes that are looked at of a volume above that size: it may be mapped, and the rest is then not read."""


class Scale(NamedTuple):
    """The values that the two ends of a colour map stand for."""

    low: float
    high: float
    colours: ColourMap

    def in_colours(self, colours: ColourMap) -> Scale:
        """The same values in other colours, about zero in those that have a middle."""
        low, high = about_zero(self.low, self.high) if colours in SIGNED else (self.low, self.high)
        return Scale(low, high, colours)


def scale_of(values: NDArray[Any]) -> Scale:
    """The 1st to the 99th percentile in grey; in red and blue about zero where the values lie on both sides of it."""
    low, high = limits_of(values)
    smaller, larger = sorted((abs(low), abs(high)))
    # Not by the window, which reaches over zero where all values are zero, or 0.1.
    two_sided = low < 0 < high and smaller > SMALLER_SIDE * larger
    return Scale(*widened(low, high), "grey").in_colours("seismic" if two_sided else "grey")


class GalleryScales:
    """The scale of each channel of a gallery. For one thread at a time."""

    def __init__(self, gallery: Gallery) -> None:
        self._gallery = gallery
        self._scales: dict[int, Scale] = {}
        self._values: NDArray[Any] | None = None

    def of(self, channel: int) -> Scale:
        """The scale of a channel (the last one, if there are fewer); the first time it reads up to 16 volumes."""
        if self._values is None or not len(self._values):  # else none of them could be read
            self._values, self._scales = self._sampled(), {}
        channel = min(channel, self._values.shape[1] - 1)
        if channel not in self._scales:
            self._scales[channel] = scale_of(self._values[:, channel])
        return self._scales[channel]

    def _sampled(self) -> NDArray[Any]:
        """Values, a column a channel."""
        gallery = self._gallery
        count = max(_LEAST_VOLUMES, min(_VOLUMES, _READ_VALUES // max(1, math.prod(gallery.shape))))
        found = [some_values(volume) for volume in gallery.sample(count)]
        # Volumes of a folder may differ.
        channels = min((values.shape[1] for values in found), default=1)
        return np.concatenate([np.empty((0, channels), np.float32), *(values[:, :channels] for values in found)])


def some_values(volume: NDArray[Any]) -> NDArray[Any]:
    """Values of a volume from all over it, a column a channel."""
    four = four_axes(volume)
    if four.nbytes > _LARGE_BYTES:
        along = int(np.argmax(np.abs(four.strides[:3])))  # across it, the bytes of a plane lie together
        length = four.shape[along]
        four = np.take(four, np.unique(np.linspace(0, length - 1, _PLANES).astype(int)), along)
    flat = four.reshape(-1, four.shape[3])
    step = -(-len(flat) // max(1, min(_VALUES, _ALL_VALUES // max(1, four.shape[3]))))
    # Not a step that meets the same columns again and again.
    while step > 1 and any(math.gcd(step, length) > 1 for length in four.shape[:3]):
        step += 1
    return np.array(flat[::step])
