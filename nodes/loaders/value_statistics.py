"""What is known of the values of many volumes: count, mean, deviation, ends and percentiles of each channel.

Of one volume it is five numbers a channel (`Moments`) and a count of values for each of a million ranges, whose ends
differ by 0.05% (`ranges_of`). Volumes are added up in one order, so the same ones give the same figures to the last
bit, wherever each of them was read; counts are whole numbers, which no order changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_BITS = 20
"""Bits of a float32 that say in which range it is counted: sign, exponent and 11 of the 23 of its fraction."""
RANGES = 1 << _BITS


class Moments(NamedTuple):
    """What is known of one volume's finite values in one channel; `squares` is the sum of squared distances from the
    mean."""

    values: int
    mean: float
    squares: float
    least: float
    most: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Moments:
        """Of finite values (n,), one or more."""
        wide = values.astype(np.float64, copy=False)
        mean = float(wide.mean())
        return cls(len(values), mean, float(((wide - mean) ** 2).sum()), float(values.min()), float(values.max()))


def finite(values: NDArray[Any]) -> NDArray[Any]:
    """The finite ones of (n,) values, which lie one after the other then."""
    out: NDArray[Any] = np.ascontiguousarray(values)
    if out.dtype.kind == "f":
        out = out[np.isfinite(out)]
    return out


def counts_of(values: NDArray[Any]) -> NDArray[np.int64]:
    """How many of finite values (n,) lie in each range."""
    return np.bincount(ranges_of(values), minlength=RANGES).astype(np.int64, copy=False)


@dataclass
class Statistics:
    """What is known of the finite values of each channel so far; all arrays have one number, or one row, a channel."""

    channels: int
    counting: bool
    """Whether values are counted by ranges, for percentiles."""
    whole: bool = False
    """Whether values are whole numbers."""
    values: NDArray[np.int64] = field(init=False)
    mean: NDArray[np.float64] = field(init=False)
    squares: NDArray[np.float64] = field(init=False)
    """Sum of the squared distances from the mean."""
    least: NDArray[np.float64] = field(init=False)
    most: NDArray[np.float64] = field(init=False)
    ranges: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.values = np.zeros(self.channels, np.int64)
        self.mean, self.squares = np.zeros(self.channels), np.zeros(self.channels)
        self.least, self.most = np.full(self.channels, np.inf), np.full(self.channels, -np.inf)
        self.ranges = np.zeros((self.channels, RANGES if self.counting else 0), np.int64)

    def add(self, volume: NDArray[Any]) -> None:
        """Count a volume: its values as (n, channels)."""
        for channel in range(self.channels):
            values = finite(volume[:, channel])
            if len(values):
                self.fold(channel, Moments.of(values))
                if self.counting:
                    self.ranges[channel] += counts_of(values)

    def fold(self, channel: int, found: Moments) -> None:
        """Add the moments of one volume, which has values in that channel; its ranges are added by themselves."""
        count = int(self.values[channel])
        total, apart = count + found.values, found.mean - float(self.mean[channel])
        self.mean[channel] += apart * found.values / total
        self.squares[channel] += found.squares + apart * apart * count * found.values / total
        self.values[channel] = total
        self.least[channel] = min(self.least[channel], found.least)
        self.most[channel] = max(self.most[channel], found.most)

    def join(self, other: Statistics) -> None:
        """Add those of other volumes, of as many channels and counted alike."""
        self.whole &= other.whole
        for channel in range(self.channels):
            if other.values[channel]:
                arrays = (other.values, other.mean, other.squares, other.least, other.most)
                values, *rest = (array[channel].item() for array in arrays)
                self.fold(channel, Moments(values, *rest))
        self.ranges += other.ranges

    def deviation(self) -> NDArray[np.float64]:
        """The standard deviation of each channel."""
        out: NDArray[np.float64] = np.sqrt(self.squares / np.maximum(self.values, 1))
        return out

    def percentile(self, percent: float) -> NDArray[np.float64]:
        """The percentile of each channel, within 0.05% of the true one (`widths`); minimum and maximum are exact."""
        return np.array([self._percentile(channel, percent) for channel in range(self.channels)])

    def widths(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far apart values may lie that are counted together with that of each channel; 0: all of them are it."""
        ends = np.array([_ends(int(place)) for place in ranges_of(values)])
        widths = np.minimum(ends[:, 1] - ends[:, 0], self.most - self.least)
        one = widths < 1 if self.whole else widths < np.finfo(np.float32).tiny  # the range of 0 has the tiniest, too
        return np.where(one, 0.0, widths)

    def _percentile(self, channel: int, percent: float) -> float:
        place = percent / 100 * (int(self.values[channel]) - 1)
        upto = np.cumsum(self.ranges[channel])
        first, part = math.floor(place), place - math.floor(place)
        low, high = (self._value(channel, upto, rank) for rank in (first, math.ceil(place)))
        return float(np.clip(low + (high - low) * part, self.least[channel], self.most[channel]))

    def _value(self, channel: int, upto: NDArray[np.int64], rank: int) -> float:
        """The value with so many before it, as if the values of a range lay evenly in it."""
        if rank in (0, int(self.values[channel]) - 1):
            return float((self.most if rank else self.least)[channel])
        at = int(np.searchsorted(upto, rank, side="right"))
        inside = int(self.ranges[channel, at])
        low, high = _ends(at)
        if self.whole and high - low < 1:
            return float(math.ceil(low))
        found = low + (high - low) * (rank - (int(upto[at]) - inside) + 0.5) / inside
        return float(np.rint(found)) if self.whole else found


def ranges_of(values: NDArray[Any]) -> NDArray[np.int64]:
    """The range that each value is counted in: they are in the order of the values."""
    with np.errstate(over="ignore"):
        bits = np.nan_to_num(values.astype(np.float32)).view(np.uint32)
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    out: NDArray[np.int64] = (ordered >> np.uint32(32 - _BITS)).astype(np.int64)
    return out


def _ends(place: int) -> tuple[float, float]:
    """The least and the largest value of a range."""
    ordered = np.array([place << (32 - _BITS), ((place + 1) << (32 - _BITS)) - 1], np.uint32)
    bits = np.where(ordered >> 31, ordered & np.uint32((1 << 31) - 1), ~ordered)
    low, high = np.nan_to_num(bits.astype(np.uint32).view(np.float32).astype(np.float64))
    return float(low), float(high)
