"""Steps with numbers that were measured once, over all volumes or over all patches of each source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .intensity import clip, clip_words
from .step import Form, Step, Unfit, Volume

_PATCH = re.compile(r"(?P<source>.*)/x\d+-y\d+-z\d+", re.DOTALL)
_NAMED = 3


def source_of(volume_id: str) -> str:
    """The volume that a patch was cut from, by its id: `north` of `north/x00120-y00030-z00000`; else the id itself."""
    found = _PATCH.fullmatch(volume_id)
    return found["source"] if found is not None else volume_id


@dataclass(frozen=True)
class Measured(Step):
    """Changes values by figures that were measured once instead of in each volume.

    `kind`, `by_channel`, `low` and `high` are those of `Normalise`. It was measured `by_source` over all volumes of
    each of the `sources`, else over all there are. `offsets` and `spreads` have a row for each source (without
    `by_source` one), and in it a number for each channel (without `by_channel` one). Without any numbers it was not
    measured yet.
    """

    kind: str
    by_channel: bool = False
    low: float = 1.0
    high: float = 99.0
    by_source: bool = False
    sources: tuple[str, ...] = ()
    offsets: tuple[tuple[float, ...], ...] = ()
    spreads: tuple[tuple[float, ...], ...] = ()

    @property
    def over(self) -> str:
        """What it was measured over, for people."""
        return f"of {'each source' if self.by_source else 'all volumes'}{' per channel' if self.by_channel else ''}"

    def figures(self, volume: Volume, row: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Offset and spread for a volume, one number a channel or one in all. Raises `Unfit` where there are none."""
        place = self._place(row)
        offset, spread = (np.array(each[place], np.float64) for each in (self.offsets, self.spreads))
        channels = volume.shape[3] if self.by_channel and volume.ndim == 4 else 1
        if len(offset) != channels:
            raise Unfit(f"has {channels} channel{'' if channels == 1 else 's'}, and of {len(offset)} there are figures")
        return offset, spread

    def _place(self, row: Mapping[str, Any]) -> int:
        """The row of numbers for a volume. Raises `Unfit` where there is none."""
        if not self.by_source and self.offsets:
            return 0
        source = source_of(str(row.get("id", "")))
        if source in self.sources:
            return self.sources.index(source)
        known = ", ".join(self.sources[:_NAMED]) + (" ..." if len(self.sources) > _NAMED else "")
        raise Unfit(
            f"is of the source {source}, of which nothing was measured (of {known or 'none'} it was): take the volumes"
            " of a new source through TransformVolumes with the same parameters first"
        )


@dataclass(frozen=True)
class Scale(Measured):
    """Subtract an offset and divide by a spread, over the whole volume or each channel by itself.

    A spread of 0 says that all values were equal; the result is 0 then. Values that are not finite stay so.
    """

    name = "scale"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return shape, "float64" if dtype == "float64" else "float32"

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        _, dtype = self.form(volume.shape, volume.dtype.name, row)
        offset, spread = self.figures(volume, row)
        values: NDArray[np.float64] = volume.astype(np.float64, order="C")
        with np.errstate(invalid="ignore", over="ignore"):
            values -= offset
            values /= np.where(spread == 0, 1.0, spread)
            if (spread == 0).any():
                np.copyto(values, 0.0, where=np.isfinite(values) & (spread == 0))
            if self.kind == "percentiles":
                finite = np.isfinite(values)
                np.clip(values, 0, 1, out=values, where=True if finite.all() else finite)  # True is faster
            return values.astype(dtype, copy=False)

    def words(self) -> str:
        kind = f"percentiles {self.low:g} to {self.high:g}" if self.kind == "percentiles" else self.kind
        text = f"{kind} {self.over}"
        if self.by_channel:
            return text
        if self.offsets and not self.by_source:
            offset, spread = self.offsets[0][0], self.spreads[0][0]
            figures = (
                f"mean {offset:g}, deviation {spread:g}"
                if self.kind == "z-score"
                else f"{offset:g} to {offset + spread:g}"
            )
            return f"{text} ({figures})"
        return text


@dataclass(frozen=True)
class ClipMeasured(Measured):
    """Clip at the percentiles `low` and `high` that were measured: offsets are the one, with spreads added the other.

    The kind is percentiles. Of 0 and 100 an end is open: what goes beyond all that was measured stays.
    """

    name = "clip-measured"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form:
        return shape, dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        offset, spread = self.figures(volume, row)
        return clip(volume, offset if self.low > 0 else None, offset + spread if self.high < 100 else None)

    def words(self) -> str:
        text = f"{clip_words(self.low, self.high)} {self.over}"
        if self.by_channel or self.by_source or not self.offsets:
            return text
        low, spread = self.offsets[0][0], self.spreads[0][0]
        return f"{text} ({low:g} to {low + spread:g})"
