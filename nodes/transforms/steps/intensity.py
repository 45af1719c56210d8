"""Steps that change values and leave each voxel where it is: clipping, normalising, other dtypes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .step import Form, Step, Unfit, Volume


@dataclass(frozen=True)
class Clip(Step):
    """Raise what is below `low` to it, and lower what is above `high`; None leaves an end open."""

    low: float | None = None
    high: float | None = None

    name = "clip"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return shape, dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        low, high = self.low, self.high
        if volume.dtype.kind in "iu":
            ends = np.iinfo(volume.dtype)
            # Whole numbers within the limits; limits outside of the dtype's range mean its ends.
            low = None if low is None else min(max(math.ceil(low), ends.min), ends.max)
            high = None if high is None else min(max(math.floor(high), ends.min), ends.max)
        if low is None and high is None:
            return volume
        kind = volume.dtype.newbyteorder("=").type
        with np.errstate(over="ignore"):
            limits = [None if end is None else kind(end) for end in (low, high)]
        return np.clip(volume, limits[0], limits[1])

    def words(self) -> str:
        if self.low is None:
            return f"clip above {self.high:g}"
        return f"clip below {self.low:g}" if self.high is None else f"clip {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class ClipPercentiles(Step):
    """Raise what is below the percentile `low` to it, and lower what is above `high`, over the whole volume or each
    channel by itself. Values that are not finite count for nothing. Of 0 and 100 an end is open."""

    low: float
    high: float
    by_channel: bool = False

    name = "clip-percentiles"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return shape, dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        channels = volume.shape[3] if self.by_channel and volume.ndim == 4 else 1
        values = volume.reshape(-1, channels).astype(np.float64)
        found = [each[np.isfinite(each)] for each in values.T]
        if not all(map(len, found)):
            raise Unfit("has no finite value in one of its channels" if self.by_channel else "has no finite value")
        low, high = np.transpose([np.percentile(each, (self.low, self.high)) for each in found])
        return clip(volume, low if self.low > 0 else None, high if self.high < 100 else None)

    def words(self) -> str:
        return clip_words(self.low, self.high) + (" per channel" if self.by_channel else "")


def clip(volume: Volume, low: NDArray[np.float64] | None, high: NDArray[np.float64] | None) -> Volume:
    """Clip at a limit for each channel, or one for all; whole numbers at the nearest ones. None leaves an end open."""
    out = volume if low is None else np.maximum(volume, _limits(low, volume.dtype))
    return out if high is None else np.minimum(out, _limits(high, volume.dtype))


def _limits(values: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values as those of a volume are; beyond the range of its type they are the type's ends."""
    kind = dtype.newbyteorder("=")
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return np.array([min(max(round(value), ends.min), ends.max) for value in values.tolist()], kind)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def clip_words(low: float, high: float) -> str:
    """`clip percentiles 1 to 99`."""
    return f"clip percentiles {low:g} to {high:g}"


@dataclass(frozen=True)
class Normalise(Step):
    """Bring the values to a common scale, over the whole volume or each channel by itself.

    `z-score` gives mean 0 and standard deviation 1; `min-max` 0 to 1; `percentiles` the same between the percentiles
    `low` and `high`, and what lies beyond becomes 0 or 1. Where all values are equal the result is 0. Values that are
    not finite make all of their volume (or channel) not finite. The result is float32; of float64 it is float64.
    """

    kind: str
    by_channel: bool = False
    low: float = 1.0
    high: float = 99.0

    name = "normalise"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return shape, "float64" if dtype == "float64" else "float32"

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        _, dtype = self.form(volume.shape, volume.dtype.name, row)
        # An array of its own: what follows changes it in place.
        values = volume.astype(np.float64, order="C")  # sums are rounded as the order of the memory is
        axes = (0, 1, 2) if self.by_channel and volume.ndim == 4 else None
        with np.errstate(invalid="ignore", over="ignore"):
            low, high = values.min(axes, keepdims=True), values.max(axes, keepdims=True)
            constant, finite = low == high, np.isfinite(low) & np.isfinite(high)
            if self.kind == "z-score":
                low, spread = values.mean(axes, keepdims=True), values.std(axes, keepdims=True)
            else:
                if self.kind == "percentiles":
                    ends = (self.low, self.high)
                    low, high = np.percentile(values, ends, axes, keepdims=True)
                spread = high - low
            values -= low
            values /= np.where((spread == 0) | constant, 1.0, spread)
            if self.kind == "percentiles":
                np.clip(values, 0, 1, out=values)
            # Both are rare, and a pass over all values.
            if constant.any():
                np.copyto(values, 0.0, where=constant & finite)
            if not finite.all():
                # One infinity is less than a percentile: by the arithmetic alone it would become 0 or 1.
                np.copyto(values, np.nan, where=~finite)
            return values.astype(dtype, copy=False)

    def words(self) -> str:
        kind = f"percentiles {self.low:g} to {self.high:g}" if self.kind == "percentiles" else self.kind
        return f"{kind} per channel" if self.by_channel else kind


@dataclass(frozen=True)
class Cast(Step):
    """Store the values as another dtype. Fractions are rounded to the nearest whole number (halves to the even one);
    a value outside of the dtype's range raises `Unfit` and never wraps."""

    dtype: str

    name = "cast"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return shape, self.dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        kind = np.dtype(self.dtype)
        if volume.dtype == kind:
            return volume
        if kind.kind == "f":
            with np.errstate(over="ignore"):
                out = volume.astype(kind)
            if volume.dtype.kind == "f" and kind.itemsize < volume.dtype.itemsize:
                _refuse(volume, np.isinf(out) & np.isfinite(volume), kind)
            elif kind == np.float16:
                _refuse(volume, np.isinf(out), kind)
            return out
        ends = np.iinfo(kind)
        if volume.dtype.kind == "f":
            _refuse(volume, ~np.isfinite(volume), kind)
            # The ends of whole numbers are beyond float16.
            volume = np.rint(volume, dtype=np.float64 if volume.dtype == np.float64 else np.float32)
            # The largest int64 is no float64; the power of two above it is.
            _refuse(volume, (volume < float(ends.min)) | (volume >= float(ends.max + 1)), kind)
        elif volume.size:
            own = np.iinfo(volume.dtype)
            low, high = max(ends.min, own.min), min(ends.max, own.max)
            _refuse(volume, (volume < low) | (volume > high), kind)
        return volume.astype(kind)

    def words(self) -> str:
        return self.dtype


def _refuse(volume: Volume, wrong: NDArray[np.bool_], kind: np.dtype[Any]) -> None:
    count = int(np.count_nonzero(wrong))
    if count:
        example = volume[wrong].reshape(-1)[0].item()
        raise Unfit(f"has {count} values that {kind.name} does not hold, for example {example:g}; clip them first")
