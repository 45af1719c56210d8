"""The steps that change volumes. This module needs NumPy alone: a copy of it travels with models in MLflow's format.

A step is a frozen dataclass with a name, a version and parameters that are JSON, so a chain of them is data:

    chain = load_steps([{"name": "resample", "version": 1, "parameters": {"spacing": [1.0, 1.0, 1.0]}}])
    volume, matrix = apply_steps(chain, volume, {"spacing_x": 2.0, "spacing_y": 2.0, "spacing_z": 2.0})

A volume has the axes X, Y, Z, then channels; one of three axes has no channels. Raise a step's version whenever it
would give other values than before, and keep what the version before did: chains are stored with tables and models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Volume = NDArray[Any]
Matrix = NDArray[np.float64]
Form = tuple[tuple[int, ...], str]
"""Shape and NumPy dtype name."""
Row = MutableMapping[str, Any]
"""What is known of a volume besides: `id`, and the source's columns such as `spacing_x` (millimetres a voxel)."""

SPACING = ("spacing_x", "spacing_y", "spacing_z")
FUNCTION = "transform"
"""Name of the function in a person's own file."""
_AXES = "XYZC"
_KINDS = frozenset("iuf")


class Unfit(ValueError):
    """A step cannot be applied to a volume. The message is a sentence without its subject: "has no channel 3"."""


@dataclass(frozen=True)
class Step(ABC):
    """One change of a volume."""

    name: ClassVar[str]
    version: ClassVar[int] = 1

    @abstractmethod
    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form | None:
        """Shape and dtype afterwards; None: only applying it tells. Raises `Unfit`."""

    @abstractmethod
    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        """The changed volume: a new array, or a view of the given one, which stays as it is. Raises `Unfit`."""

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix | None:
        """4x4: from the voxels afterwards to those of before, whose `shape` is given. None: it cannot be said."""
        return np.eye(4)

    @abstractmethod
    def words(self) -> str:
        """What it does, for people, in a few words."""

    def as_json(self) -> dict[str, Any]:
        """`load_steps` reads it."""
        return {"name": self.name, "version": self.version, "parameters": asdict(self)}


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
            raise Unfit(f"is {_times(shape)}, without an axis of channels")
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
        if self.linear and whole:
            work = np.rint(work)
        return work.astype(volume.dtype.newbyteorder("="), copy=False)

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
        return f"resample to {_times(self.shape)}"

    def _grid(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The lengths afterwards, and how many old voxels apart the new ones lie."""
        if self.shape:
            if len(shape) < 3:
                raise Unfit(f"is {_times(shape)}, without the axes X, Y and Z")
            return self.shape, tuple(n / m for n, m in zip(shape, self.shape, strict=False))
        given = spacing_of(row)
        if given is None:
            raise Unfit("says no spacing (millimetres a voxel), so it cannot be resampled to one")
        if len(shape) < 3:
            raise Unfit(f"is {_times(shape)}, without the axes X, Y and Z")
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
            raise Unfit(f"is {_times(shape)}, without the axes X, Y and Z")
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
            constant = low == high
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
            np.copyto(values, 0.0, where=constant & np.isfinite(low))
            return values.astype(dtype, copy=False)

    def words(self) -> str:
        kind = f"percentiles {self.low:g} to {self.high:g}" if self.kind == "percentiles" else self.kind
        return f"{kind} per channel" if self.by_channel else kind


@dataclass(frozen=True)
class Cast(Step):
    """Store the values as another dtype. Fractions are rounded to the nearest whole number (halves to the even one);
    a value outside of the dtype's range is refused and never wraps."""

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


@dataclass(frozen=True)
class Function(Step):
    """A person's own `transform(volume, row)`: `source` is the text of its file, `file` the file's name.

    It gets an array of its own, which it may change, and a dictionary of what is known of the volume. It must give an
    array of numbers, and the same one whenever it is called with the same. Whether the code may run is asked before a
    chain is applied.
    """

    file: str
    source: str

    name = "function"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> None:
        return None

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        function = _compiled(self.file, self.source)
        try:
            out = np.asarray(function(np.array(volume, order="C"), dict(row)))
        except Exception as exc:  # a person's function may raise anything; which volume it was matters as much
            raise Unfit(f"cannot be transformed by {self.file}{_line(exc, self.file)}: {_said(exc)}") from exc
        if out.dtype.kind not in _KINDS or not out.ndim or not out.size:
            raise Unfit(f"became {out.dtype} of shape {out.shape} in {self.file}, which is no volume of numbers")
        return out

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix | None:
        return np.eye(4)

    def words(self) -> str:
        return self.file


@dataclass(frozen=True)
class WholeNode(Step):
    """What a node's own code did to volumes of a table: it can be recognised, and not be done to others.

    `values` are the node's parameters as JSON text, `code` identifies its code.
    """

    node: str
    values: str = "{}"
    code: str = ""

    name = "node"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form | None:
        raise Unfit(f"did not go through the node {self.node}, which a chain cannot repeat")

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        raise Unfit(f"did not go through the node {self.node}, which a chain cannot repeat")

    def words(self) -> str:
        return self.node


STEPS: dict[str, type[Step]] = {
    step.name: step for step in (Axes, Channels, Resample, CropPad, Clip, Normalise, Cast, Function, WholeNode)
}


def load_steps(chain: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps of a stored chain. Raises `Unfit` for one that is not known here, or of a newer version."""
    out: list[Step] = []
    for each in chain:
        kind = STEPS.get(str(each["name"]))
        if kind is None or int(each["version"]) > kind.version:
            raise Unfit(f"was made with the transform {each['name']} {each['version']}, which is not known here")
        # JSON has lists for tuples.
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in each["parameters"].items()}
        out.append(kind(**values))
    return tuple(out)


def describe(steps: Sequence[Step]) -> str:
    """`resample 1 mm, crop 64x64x48, z-score`."""
    return ", ".join(step.words() for step in steps)


def form_after(
    steps: Sequence[Step], shape: tuple[int, ...], dtype: str, row: Mapping[str, Any] | None = None
) -> Form | None:
    """Shape and dtype behind all steps; None: a function of one's own decides. Raises `Unfit`."""
    known: Row = dict(row or {})
    for step in steps:
        found = step.form(shape, dtype, known)
        if found is None:
            return None
        _move(known, step.matrix(shape, known))
        shape, dtype = found
    return shape, dtype


def apply_steps(
    steps: Sequence[Step], volume: Volume, row: Mapping[str, Any] | None = None
) -> tuple[Volume, Matrix | None]:
    """The volume behind all steps, C order and little-endian, and the matrix from its voxels to those of before.

    The matrix is 4x4; None: where the voxels came from cannot be said. Raises `Unfit`.
    """
    known: Row = dict(row or {})
    total: Matrix | None = np.eye(4)
    for step in steps:
        before = volume.shape
        volume = step.apply(volume, known)
        matrix = step.matrix(before, known)
        if isinstance(step, Function) and volume.shape[:3] != before[:3]:
            matrix = None
        _move(known, matrix)
        total = total @ matrix if total is not None and matrix is not None else None
    kind = volume.dtype.newbyteorder("<")
    return np.ascontiguousarray(volume, kind), total


def spacing_of(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Millimetres a voxel along X, Y and Z; None where one is missing, or no length."""
    values = [row.get(name) for name in SPACING]
    if any(not isinstance(v, (int, float)) or not math.isfinite(v) or v <= 0 for v in values):
        return None
    x, y, z = (float(v) for v in values if v is not None)
    return x, y, z


def _move(row: Row, matrix: Matrix | None) -> None:
    """Let the spacing follow a step."""
    spacing = spacing_of(row)
    if spacing is None:
        return
    if matrix is None:
        row.update(dict.fromkeys(SPACING))
        return
    found = np.sqrt(((np.diag(spacing) @ matrix[:3, :3]) ** 2).sum(axis=0))
    row.update(zip(SPACING, found.tolist(), strict=True))


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


def _refuse(volume: Volume, wrong: NDArray[np.bool_], kind: np.dtype[Any]) -> None:
    count = int(np.count_nonzero(wrong))
    if count:
        example = volume[wrong].reshape(-1)[0].item()
        raise Unfit(f"has {count} values that {kind.name} does not hold, for example {example:g}; clip them first")


@lru_cache(maxsize=16)
def _compiled(file: str, source: str) -> Any:
    names: dict[str, Any] = {"__name__": "voxelflow_transform", "__file__": file}
    try:
        exec(compile(source, file, "exec"), names)
    except Exception as exc:
        raise Unfit(f"cannot be transformed: {file}{_line(exc, file)}: {_said(exc)}") from exc
    function = names.get(FUNCTION)
    if not callable(function):
        raise Unfit(f"cannot be transformed: {file} has no function {FUNCTION}(volume, row)")
    return function


def _line(exc: BaseException, file: str) -> str:
    """The line of the file that was at work: `, line 3`."""
    number = exc.lineno if isinstance(exc, SyntaxError) else None
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            number = trace.tb_lineno
        trace = trace.tb_next
    return f", line {number}" if number else ""


def _said(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}"


def _short(values: tuple[float, ...]) -> tuple[float, ...]:
    return values[:1] if len(set(values)) == 1 else values


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
