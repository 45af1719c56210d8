"""Steps that choose and place voxels: the order of axes, channels, resampling, cropping and padding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .step import Form, Matrix, Step, Unfit, Volume, spacing_of, times

_AXES = "XYZC"


@dataclass(frozen=True)
class Axes(Step):
    """Reorder the axes: `order` has the letters of the old ones, ZYX turns X and Z about; C is that of channels."""

    order: str

    name = "axes"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return tuple(shape[axis] for axis in self._places(len(shape))), dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        return volume.transpose(self._places(volume.ndim))

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix | None:
        places = self._places(len(shape))
        if len(shape) < 3 or sorted(places[:3]) != [0, 1, 2]:
            return None
        out = np.zeros((4, 4))
        out[3, 3] = 1
        for new, old in enumerate(places[:3]):
            out[old, new] = 1
        return out

    def words(self) -> str:
        return f"axes {self.order}"

    def _places(self, axes: int) -> tuple[int, ...]:
        places = tuple(_AXES.index(letter) for letter in self.order)
        if len(places) == axes - 1 and axes - 1 not in places:
            places = (*places, axes - 1)  # channels stay where they are unless they are named
        if sorted(places) != list(range(axes)):
            raise Unfit(f"has {axes} axes, which {self.order} does not name once each")
        return places


@dataclass(frozen=True)
class Channels(Step):
    """Take these channels, counted from 0, in this order."""

    take: tuple[int, ...]

    name = "channels"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        if len(shape) != 4:
            raise Unfit(f"is {times(shape)}, without an axis of channels")
        missing = next((c for c in self.take if not 0 <= c < shape[3]), None)
        if missing is not None:
            raise Unfit(f"has no channel {missing}: it has {shape[3]}, counted from 0")
        return (*shape[:3], len(self.take)), dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        self.form(volume.shape, volume.dtype.name, row)
        return volume[..., list(self.take)]

    def words(self) -> str:
        return f"channel{'s' if len(self.take) > 1 else ''} {', '.join(map(str, self.take))}"


@dataclass(frozen=True)
class Resample(Step):
    """Make X, Y and Z finer or coarser: to a `spacing` in millimetres a voxel, or to a `shape`.

    The middle of the volume stays where it is, and beyond its edge it goes on as there. A spacing is kept exactly;
    the lengths are those of before in millimetres, rounded to voxels. Whole numbers are rounded to the nearest.
    """

    spacing: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    linear: bool = True

    name = "resample"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return (*self._grid(shape, row)[0], *shape[3:]), dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        lengths, ratios = self._grid(volume.shape, row)
        work = volume
        whole = volume.dtype.kind in "iu"
        if self.linear:
            exact = volume.dtype.itemsize <= 2 or volume.dtype == np.float32
            work = volume.astype(np.float32 if exact else np.float64, copy=False)
        # Those that shrink most first: less is left for the others.
        for axis in sorted(range(len(lengths)), key=lambda a: (lengths[a] / volume.shape[a], a)):
            work = _resampled(work, axis, lengths[axis], ratios[axis], linear=self.linear)
        own = volume.dtype.newbyteorder("=")
        return _rounded(work, own) if self.linear and whole else work.astype(own, copy=False)

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix:
        lengths, ratios = self._grid(shape, row)
        out = np.eye(4)
        for axis, (length, ratio) in enumerate(zip(lengths, ratios, strict=True)):
            out[axis, axis] = ratio
            out[axis, 3] = (shape[axis] - 1) / 2 - (length - 1) / 2 * ratio
        return out

    def words(self) -> str:
        if self.spacing:
            return f"resample {'x'.join(f'{s:g}' for s in _short(self.spacing))} mm"
        return f"resample to {times(self.shape)}"

    def _grid(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The lengths afterwards, and how many old voxels apart the new ones lie."""
        if self.shape:
            if len(shape) < 3:
                raise Unfit(f"is {times(shape)}, without the axes X, Y and Z")
            return self.shape, tuple(n / m for n, m in zip(shape, self.shape, strict=False))
        given = spacing_of(row)
        if given is None:
            raise Unfit("says no spacing (millimetres a voxel), so it cannot be resampled to one")
        if len(shape) < 3:
            raise Unfit(f"is {times(shape)}, without the axes X, Y and Z")
        ratios = tuple(new / old for new, old in zip(self.spacing, given, strict=True))
        return tuple(max(1, math.floor(n / r + 0.5)) for n, r in zip(shape, ratios, strict=False)), ratios


@dataclass(frozen=True)
class CropPad(Step):
    """Give X, Y and Z these lengths (0 leaves one as it is): what is too long is cut off, what is too short filled up.

    `centre` does so on both sides alike, and on the far one first; without it only at the far end. `edge` goes on with
    the outermost voxels, else `value` is put there.
    """

    size: tuple[int, ...]
    centre: bool = True
    edge: bool = False
    value: float = 0.0

    name = "crop-pad"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        if len(shape) < 3:
            raise Unfit(f"is {times(shape)}, without the axes X, Y and Z")
        out = tuple(wanted or n for n, wanted in zip(shape, self.size, strict=False))
        if not self.edge and any(new > old for new, old in zip(out, shape, strict=False)):
            _as(dtype, self.value, "the value to fill with")
        return (*out, *shape[3:]), dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        shape, _ = self.form(volume.shape, volume.dtype.name, row)
        starts = self._starts(volume.shape)
        cut = tuple(
            slice(max(0, s), max(0, s) + min(n, m)) for s, n, m in zip(starts, volume.shape, shape, strict=True)
        )
        part = volume[cut]
        if part.shape == shape:
            return part
        widths = [(max(0, -s), m - n - max(0, -s)) for s, n, m in zip(starts, part.shape, shape, strict=True)]
        if self.edge:
            return np.pad(part, widths, mode="edge")
        out = np.full(shape, _as(part.dtype.name, self.value, "the value to fill with"), part.dtype)
        out[tuple(slice(before, before + n) for (before, _), n in zip(widths, part.shape, strict=True))] = part
        return out

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix:
        out = np.eye(4)
        out[:3, 3] = self._starts(shape)[:3]
        return out

    def words(self) -> str:
        return f"crop {'x'.join(str(n) if n else '*' for n in self.size)}"

    def _starts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The old number of the first voxel on each axis; below 0 there is something before the old ones."""
        sizes = (*(w or n for n, w in zip(shape, self.size, strict=False)), *shape[3:])
        if not self.centre:
            return tuple(0 for _ in shape)
        return tuple((n - m) // 2 if n >= m else -((m - n) // 2) for n, m in zip(shape, sizes, strict=True))


def _resampled(volume: Volume, axis: int, length: int, ratio: float, *, linear: bool) -> Volume:
    count = volume.shape[axis]
    places = (np.arange(length) - (length - 1) / 2) * ratio + (count - 1) / 2
    np.clip(places, 0, count - 1, out=places)
    if not linear:
        nearest: Volume = volume.take(np.floor(places + 0.5).astype(np.intp).clip(0, count - 1), axis)
        return nearest
    if length == count and ratio == 1:
        return volume
    low = np.floor(places).astype(np.intp)
    high = np.minimum(low + 1, count - 1)
    shape = [1] * volume.ndim
    shape[axis] = length
    part = (places - low).astype(volume.dtype).reshape(shape)
    before = volume.take(low, axis)
    after = volume.take(high, axis)
    # Exactly the value itself where a voxel is hit, and nothing of a neighbour that is not finite.
    with np.errstate(invalid="ignore"):
        out: Volume = np.where(part == 0, before, before * (1 - part) + after * part)
    return out


def _rounded(values: Volume, kind: np.dtype[Any]) -> Volume:
    """The nearest whole numbers that `kind` holds, of floats without NaN."""
    ends = np.iinfo(kind)
    most = values.dtype.type(ends.max)
    if int(most) > ends.max:  # the largest of 64 bits is no float64: the one above it would wrap around
        most = np.nextafter(most, values.dtype.type(0))
    near = np.rint(values)
    out: Volume = np.clip(near, values.dtype.type(ends.min), most).astype(kind)
    out[near > most] = ends.max
    return out


def _as(dtype: str, value: float, what: str) -> Any:
    """The value in the dtype. Raises `Unfit` when it would become another."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        if not math.isfinite(value) or value != math.floor(value) or not ends.min <= value <= ends.max:
            raise Unfit(f"is {dtype}, and {what}, {value:g}, is none")
        return kind.type(int(value))
    with np.errstate(over="ignore"):
        out = kind.type(value)
    if math.isfinite(value) and not np.isfinite(out):
        raise Unfit(f"is {dtype}, and {what}, {value:g}, is too large for it")
    return out


def _short(values: tuple[float, ...]) -> tuple[float, ...]:
    return values[:1] if len(set(values)) == 1 else values
