"""The parameters of TransformVolumes, and the chain that they make. Importing this imports no NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.declare.datasets import DTypeName, Transform
from engine.declare.parameters import Added, Advanced, PathIn, Pattern, Range, Unit
from engine.text import plural

if TYPE_CHECKING:
    from nodes.transforms.steps import Step

_LETTERS = "XYZC"


@dataclass(frozen=True)
class TransformParameters:
    """The parameters of TransformVolumes, in the order in which the steps are done. What is left empty is not done.

    Attributes:
        orientation: turn volumes so that X, Y and Z point there, such as RAS (right, front, up). They are reordered and
            reversed by what NIfTI, DICOM and other medical formats say of them.
        axes: new order of the axes, as letters of the old ones (C is that of the channels): ZYX turns X and Z about.
        channels: channels to keep, counted from 0, in this order.
        spacing: resample to so many millimetres a voxel, one number or three (X, Y, Z). The volumes must say their own
            spacing, as NIfTI, DICOM and other medical formats do.
        shape: resample to this shape instead, three lengths.
        interpolation: linear for measured values, nearest for numbers that name things, such as label maps.
        size: crop or pad to this shape, three lengths; 0 leaves an axis as it is.
        anchor: whether both ends of an axis are cropped or padded alike, or only the far one.
        fill: what to pad with, a value or the outermost voxels.
        fill_value: the value to pad with.
        clip_low: raise what is below to this value.
        clip_high: lower what is above to this value.
        clip_percentiles: raise and lower values to these two percentiles, 1,99 for example, of the volume (or channel,
            or source, as normalise_over and statistics say); of 0 and 100 an end stays open. They stay what they are
            otherwise, with their type.
        function: Python file in the workspace's my_transforms/ with a function transform(volume, row), which gives the
            changed volume. The workspace must be trusted.
        normalise: z-score gives mean 0 and deviation 1, min-max 0 to 1, percentiles 0 to 1 between two percentiles.
            The result is float32. Where all values are equal it is 0.
        normalise_over: measure over the whole volume, or each channel by itself, for clip_percentiles too.
        statistics: where these figures, and those of clip_percentiles, come from. Each volume by itself; once from all
            patches of a source, the survey or scan that CutVolumes cut them from; or once from all volumes. Measured
            once, they take one reading of all volumes (two, seldom three or four, where percentiles are equal or lie
            close together, and far from 0), of a table of all its rows whatever a split holds, and predictions use the
            same numbers.
        low_percentile: becomes 0, with all below, where percentiles are chosen.
        high_percentile: becomes 1, with all above.
        dtype: store the values as this type at the end. Fractions are rounded; a volume with a value outside of the
            type's range is refused.
    """

    orientation: Annotated[str, Pattern("|[LRPAIS]{3}", "three letters of LRPAIS such as RAS"), Added()] = ""
    axes: Annotated[str, Pattern("|[XYZC]{2,4}", "letters of XYZC such as ZYX"), Advanced()] = ""
    channels: Annotated[tuple[int, ...], Range(0, 100_000)] = ()
    spacing: Annotated[tuple[float, ...], Range(0.0001, 10_000), Unit("mm")] = ()
    shape: Annotated[tuple[int, ...], Range(1, 100_000), Unit("voxels")] = ()
    interpolation: Literal["linear", "nearest"] = "linear"
    size: Annotated[tuple[int, ...], Range(0, 100_000), Unit("voxels")] = ()
    anchor: Annotated[Literal["centre", "corner"], Advanced()] = "centre"
    fill: Annotated[Literal["value", "edge"], Advanced()] = "value"
    fill_value: Annotated[float, Advanced()] = 0.0
    clip_low: float | None = None
    clip_high: float | None = None
    clip_percentiles: Annotated[tuple[float, ...], Range(0, 100), Added()] = ()
    function: Annotated[str | None, PathIn("file")] = None
    normalise: Literal["none", "z-score", "min-max", "percentiles"] = "none"
    normalise_over: Literal["volume", "channel"] = "volume"
    statistics: Annotated[Literal["volume", "source", "all"], Added()] = "volume"
    low_percentile: Annotated[float, Range(0, 100), Advanced()] = 1.0
    high_percentile: Annotated[float, Range(0, 100), Advanced()] = 99.0
    dtype: Literal["", DTypeName] = ""

    def problems(self) -> Iterator[tuple[str, str]]:
        """What contradicts itself, whatever the volumes: the parameter, and what is wrong with it."""
        if self.orientation and sorted("LPIRAS".index(letter) % 3 for letter in self.orientation) != [0, 1, 2]:
            yield "orientation", f"{self.orientation} does not name each of left-right, back-front and down-up once"
        if self.axes and (len(set(self.axes)) < len(self.axes) or set(self.axes) != set(_LETTERS[: len(self.axes)])):
            yield "axes", f"{self.axes} does not name each axis once"
        if len(self.spacing) not in (0, 1, 3):
            yield "spacing", f"has {plural(len(self.spacing), 'numbers')}, one or three are wanted"
        if len(self.shape) not in (0, 3):
            yield "shape", f"has {plural(len(self.shape), 'lengths')}, three are wanted"
        if self.spacing and self.shape:
            yield "shape", "resamples to a shape, and spacing to a spacing"
        if len(self.size) not in (0, 3):
            yield "size", f"has {plural(len(self.size), 'lengths')}, three are wanted"
        if self.clip_low is not None and self.clip_high is not None and self.clip_low > self.clip_high:
            yield "clip_high", f"is {self.clip_high:g}, below clip_low, which is {self.clip_low:g}"
        if len(self.clip_percentiles) not in (0, 2):
            yield "clip_percentiles", f"has {plural(len(self.clip_percentiles), 'numbers')}, two are wanted"
        elif self.clip_percentiles and self.clip_percentiles[0] >= self.clip_percentiles[1]:
            low, high = self.clip_percentiles
            yield "clip_percentiles", f"has {high:g} after {low:g}: the higher one comes last"
        if self.normalise == "percentiles" and self.low_percentile >= self.high_percentile:
            yield "high_percentile", f"is {self.high_percentile:g}, not above {self.low_percentile:g}"
        if self.normalise == "none" and not self.clip_percentiles and self.statistics != "volume":
            yield "statistics", f"is {self.statistics}, and nothing is normalised, or clipped at percentiles"

    def chain(self, source: str = "") -> tuple[Transform, ...]:
        """The steps, `source` being the text of the file in `function`. There must be no `problems`.

        Figures that are measured once are not among them yet: `nodes.loaders.volume_statistics` finds them.
        """
        from nodes.transforms.steps import STEPS, load_steps

        made: list[dict[str, Any]] = [
            {"name": name, "version": STEPS[name].version, "parameters": parameters}
            for name, parameters in self._steps(source)
        ]
        return tuple(map(transform_of, load_steps(made)))

    def _steps(self, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.orientation:
            yield "orient", {"to": self.orientation}
        if self.axes:
            yield "axes", {"order": self.axes}
        if self.channels:
            yield "channels", {"take": list(self.channels)}
        if self.spacing or self.shape:
            spacing = list(self.spacing) * (3 if len(self.spacing) == 1 else 1)
            linear = self.interpolation == "linear"
            yield "resample", {"spacing": spacing, "shape": list(self.shape), "linear": linear}
        if any(self.size):
            padding = {"edge": self.fill == "edge", "value": float(self.fill_value)}
            yield "crop-pad", {"size": list(self.size), "centre": self.anchor == "centre", **padding}
        if self.clip_low is not None or self.clip_high is not None:
            yield "clip", {"low": self.clip_low, "high": self.clip_high}
        by_channel, by_source = self.normalise_over == "channel", self.statistics == "source"
        if self.clip_percentiles:
            low, high = map(float, self.clip_percentiles)
            if self.statistics == "volume":
                yield "clip-percentiles", {"low": low, "high": high, "by_channel": by_channel}
            else:
                ends = {"low": low, "high": high, "by_channel": by_channel}
                yield "clip-measured", {"kind": "percentiles", **ends, "by_source": by_source}
        if self.function:
            yield "function", {"file": self.function.replace("\\", "/").rpartition("/")[2], "source": source}
        if self.normalise != "none":
            ends = {"low": float(self.low_percentile), "high": float(self.high_percentile)}
            known = {"kind": self.normalise, "by_channel": by_channel, **ends}
            if self.statistics == "volume":
                yield "normalise", known
            else:
                yield "scale", {**known, "by_source": by_source}
        if self.dtype:
            yield "cast", {"dtype": self.dtype}


def transform_of(step: Step) -> Transform:
    """The step as chains of transforms have it."""
    return Transform(name=step.name, version=step.version, parameters=step.as_json()["parameters"], words=step.words())
