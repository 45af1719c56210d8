"""How often values come, in bins of one width, also where they are all but one or lie at the ends of their type."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.viewing.pictures import around

BINS = 40
_SCALE = 0.25
"""So much of float64's range can be subtracted without an overflow."""


def histogram(
    values: NDArray[np.float64], limits: tuple[float, float] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many of the finite values lie in each of `BINS` bins, and the edges. `limits`: else from the least to the
    greatest value, or some way around them where they differ by rounding alone."""
    low, high = limits or (float(values.min()), float(values.max()))
    if not math.isfinite(high - low):
        counts, edges = np.histogram(values * _SCALE, BINS, (low * _SCALE, high * _SCALE))
        return counts, edges / _SCALE
    if high - low <= 2 * BINS * math.ulp(max(abs(low), abs(high))):
        low, high = around(low)
    return np.histogram(values, BINS, (low, high))
