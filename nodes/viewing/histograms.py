"""How often values come, in bins of one width, also where they are all but one or lie at the ends of their type."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.viewing.pictures import around

BINS = 40
_MOST_WHOLE = 64 * BINS
"""From so many different whole numbers on, one more in a bin is not seen."""
_HALVES = 2.0**51
"""Below it float64 has all halves, between which whole numbers lie."""
_PART = 1 << 20
_SCALE = 0.25
"""So much of float64's range can be subtracted without an overflow."""


def histogram(
    values: NDArray[np.float64], limits: tuple[float, float] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many of the finite values lie in each of at most `BINS` bins, and the edges. `limits`: else from the least to
    the greatest value, or some way around them where they differ by rounding alone.

    Bins of whole numbers, as classes and voxels of integers are, hold equally many different ones: else the bins that
    hold one more would stand out as teeth of a comb."""
    low, high = limits or (float(values.min()), float(values.max()))
    if not math.isfinite(high - low):
        counts, edges = np.histogram(values * _SCALE, BINS, (low * _SCALE, high * _SCALE))
        return counts, edges / _SCALE
    if high - low <= 2 * BINS * math.ulp(max(abs(low), abs(high))):
        low, high = around(low)
    elif limits is None and high - low < _MOST_WHOLE and max(abs(low), abs(high)) < _HALVES and _are_whole(values):
        different = int(high - low) + 1
        least = -(-different // BINS)
        # The last bin holds as many as the others, or nearly so.
        width = min(range(least, 2 * least), key=lambda each: (-different % each / each, each))
        bins = -(-different // width)
        return np.histogram(values, bins, (low - 0.5, low - 0.5 + bins * width))
    return np.histogram(values, BINS, (low, high))


def _are_whole(values: NDArray[np.float64]) -> bool:
    """Whether all are whole numbers; a part of them at a time, since they may be half of what memory there is."""
    parts = (values[at : at + _PART] for at in range(0, len(values), _PART))
    return all(bool((part == np.rint(part)).all()) for part in parts)
