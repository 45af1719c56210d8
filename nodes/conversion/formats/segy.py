"""SEG-Y: post-stack seismic volumes, one trace for each inline and crossline; segyio reads the headers.

Axes are inlines, crosslines and samples, lines in growing order whatever the order of the traces. A trace that is
missing is NaN. Traces are found by the inline and crossline numbers in their headers: at bytes 189 and 193 (SEG-Y
revision 1), else, where those make no grid, at the other places where programs write them, or at those that `dataset`
names, as in "9,21".
Files may be big-endian, as the standard wants them, or little-endian (revision 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.text import plural
from nodes.conversion.formats import source
from nodes.conversion.formats.geometry import text_of
from nodes.conversion.formats.interface import Axis, Box, OpenVolume, VolumeHeader
from nodes.conversion.formats.segy_traces import TRACE_HEADER_BYTES, Traces
from nodes.conversion.quarantine import Refused

_LINES_AT = ((189, 193), (9, 21), (5, 21), (17, 21), (181, 185))
"""Where the numbers of inline and crossline are, the standard's place first."""
_CDP_X, _CDP_Y, _SCALAR = 181, 185, 71
_DTYPES = {1: "float32", 2: "int32", 3: "int16", 5: "float32", 6: "float64", 8: "int8", 10: "uint32", 11: "uint16",
           16: "uint8"}  # fmt: skip
"""NumPy's name for the code of a sample format; IBM's floats (1) become IEEE's."""
_OTHER_FLOATS = {1: ("IBM", "IEEE", 5), 5: ("IEEE", "IBM", 1)}
"""By the code of a format of four-byte floats: its name, and the name and code of the one that it is confused with."""
_LENGTHS = {1: " m", 2: " ft"}
"""By the code of the measurement system."""
_HEADERS_BYTES = 3_600
_FORMAT_AT = 3_224
"""Where the code of the sample format is, two bytes from the file's beginning on."""
_TRACE_COUNT_AT = 3_512
"""Where revision 2 has the number of traces, eight bytes from the file's beginning on; 0 says nothing."""
_REVISION_AT = 3_500
_FEWEST_VALUES = 32
"""Different values of each of two sizes that show how floats are stored; fewer may be as they are by chance."""
_CHECKED = 64
"""Traces whose headers are compared with what a sorted file would have there, before it is taken for one."""
_MOST_CELLS = 8
"""Places of a grid for each trace that there is; with more the line numbers are no grid."""
_NO_NUMBERS = "its traces have no inline and crossline numbers"
_RUN_BYTES = 8 << 20
_NAMED = 3
_COLUMNS = ("inline", "crossline", "time")


@contextmanager
def open_segy(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a SEG-Y file. Raises `Refused`, for pre-stack data too."""
    size = path.stat().st_size
    if size == 0:
        raise Refused("empty", "is empty")
    if size < _HEADERS_BYTES:
        raise Refused("truncated", f"has {size} bytes, the headers of a SEG-Y file have {_HEADERS_BYTES}")
    grid = _grid_of(str(path), path.stat().st_mtime_ns, size, dataset)
    with path.open("rb") as file:
        traces = Traces(file.fileno(), grid.stored, grid.samples, grid.traces)

        def read_box(box: Box, out: NDArray[Any]) -> None:
            _read(traces, grid, box, out)

        yield OpenVolume(
            VolumeHeader(grid.shape, grid.dtype, grid.columns(), grid.axes, grid.remarks(), grid.summary()),
            lambda out: read_box(Box((0, 0, 0), grid.shape), out),
            read_box,
        )


@dataclass(frozen=True, eq=False)
class _Grid:
    """Where each trace of a file belongs. `trace` has its number by inline and crossline, -1 where there is none."""

    trace: NDArray[np.int32]
    inlines: tuple[int, int]
    """The first, and the step to the next."""
    crosslines: tuple[int, int]
    times: tuple[float, float]
    samples: int
    traces: int
    dtype: str
    world: tuple[float, ...]
    """The affine from voxels to CDP X, CDP Y and time: twelve numbers, none where the headers do not say it."""
    stored: str
    """How the file stores a sample, as `source.stored` says it; IBM's floats have no name in NumPy: `>ibm4`."""
    lengths: str = ""
    """The unit of the coordinates with a blank before, where the file says it."""

    @property
    def shape(self) -> tuple[int, int, int]:
        inlines, crosslines = self.trace.shape
        return inlines, crosslines, self.samples

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (Axis("inline", *self.inlines), Axis("crossline", *self.crosslines), Axis("time", *self.times))

    def summary(self) -> str:
        """Which lines there are: a file that lost some at an end, or has every second one, looks whole."""
        (inlines, crosslines), (time, step) = self.trace.shape, self.times
        samples = f"{self.samples:,} samples of {step:g} ms from {time:g} ms"
        return (
            f"has {_lines('inlines', inlines, self.inlines)}, {_lines('crosslines', crosslines, self.crosslines)} and"
            f" {samples}; {np.count_nonzero(self.trace >= 0):,} traces"
        )

    def remarks(self) -> tuple[str, ...]:
        """What is missing between those lines."""
        there = self.trace >= 0
        if there.all():
            return ()
        lost = []
        for axis, name, (first, step) in ((1, "inline", self.inlines), (0, "crossline", self.crosslines)):
            empty = np.flatnonzero(~there.any(axis=axis))
            if len(empty):
                numbers = ", ".join(str(first + step * int(n)) for n in empty[:_NAMED])
                more = ", ..." if len(empty) > _NAMED else ""
                lost.append(f"{plural(len(empty), name + 's')} ({numbers}{more})")
        inside = there[there.any(axis=1)][:, there.any(axis=0)]
        if holes := int(np.count_nonzero(~inside)):
            lost.append(f"{holes:,} of {inside.size:,} traces {'elsewhere' if lost else 'in its lines'}")
        return (f"lacks {' and '.join(lost)}: their samples are NaN",)

    def columns(self) -> dict[str, float | int | str]:
        out: dict[str, float | int | str] = {
            "inline": self.inlines[0],
            "crossline": self.crosslines[0],
            "time": self.times[0],
            "inline_step": self.inlines[1],
            "crossline_step": self.crosslines[1],
            "time_step": self.times[1],
        }
        if self.world:
            out["affine"] = text_of(np.array([*self.world, 0.0, 0.0, 0.0, 1.0]).reshape(4, 4))
            out["affine_space"] = f"CDP X, CDP Y{self.lengths}, ms"
        return out | source.stored(self.stored, "segyio")


def _lines(name: str, count: int, counted: tuple[int, int]) -> str:
    first, step = counted
    every = f" in steps of {step}" if step > 1 else ""
    return f"{count:,} {name} ({first} to {first + step * (count - 1)}{every})"


@lru_cache(maxsize=16)
def _grid_of(path: str, mtime_ns: int, size: int, dataset: str) -> _Grid:
    """The grid of a file; the numbers in it are those of its time and size. Raises `Refused`."""
    import segyio

    endian = _endian(path)
    with segyio.open(path, "r", ignore_geometry=True, endian=endian) as file:
        code = int(file.format)
        if code not in _DTYPES:
            raise Refused("dtype", f"has samples of the SEG-Y format {code}, which is not read")
        samples, traces = len(file.samples), int(file.tracecount)
        if samples <= 0 or traces <= 0:
            raise Refused("shape", "has no samples")
        _refuse_cut(path, endian, traces)
        if code in _OTHER_FLOATS:
            _refuse_other_floats(path, endian, code, samples, traces)
        trace, inlines, crosslines = _lines_in(file, path, endian, traces, dataset)
        step = float(file.samples[1] - file.samples[0]) if samples > 1 else 1.0
        times = float(file.samples[0]), step
        dtype = _DTYPES[code]
        if (trace < 0).any() and not dtype.startswith("float"):
            dtype = "float32"  # which has a NaN for the traces that are missing
        sign: Literal["<", ">"] = "<" if endian == "little" else ">"
        stored = f"{sign}ibm4" if code == 1 else np.dtype(_DTYPES[code]).newbyteorder(sign).str
        lengths = _LENGTHS.get(int(file.bin[segyio.BinField.MeasurementSystem]), "")
        world = _world(file, trace, times)
        return _Grid(trace, inlines, crosslines, times, samples, traces, dtype, world, stored, lengths)


def _endian(path: str) -> str:
    """The order of a file's bytes: the one in which the code of its sample format is one that there is."""
    with open(path, "rb") as file:
        file.seek(_FORMAT_AT)
        code = file.read(2)
    return "little" if int.from_bytes(code, "little") in _DTYPES else "big"


def _refuse_cut(path: str, endian: str, traces: int) -> None:
    """Raise `Refused` when the header of a file of revision 2 counts other traces than the file has."""
    order: Any = endian
    with open(path, "rb") as file:
        file.seek(_REVISION_AT)
        revision = file.read(1)[0]
        file.seek(_TRACE_COUNT_AT)
        promised = int.from_bytes(file.read(8), order)
    if revision >= 2 and promised and promised != traces:
        reason = "truncated" if traces < promised else "too-long"
        raise Refused(reason, f"has {traces} traces, its header promises {promised}")


def _refuse_other_floats(path: str, endian: str, code: int, samples: int, traces: int) -> None:
    """Raise `Refused` when floats are IBM's and the header says IEEE's, or the reverse.

    Both give plausible numbers. But IBM's have a fraction whose first four bits are never 0, and IEEE's have a 0 there
    about as often as a 1: those bits are the exponent's last and the fraction's first three, so it is a matter of
    values from 1 to 1.125 times a power of two against those from 1.125 to 1.25 times it. Two sizes (first bytes) with
    enough different values must say so, since values of one size may leave out some by their nature.
    """
    length = TRACE_HEADER_BYTES + 4 * samples
    start = Path(path).stat().st_size - traces * length
    dtype = np.dtype(np.uint32).newbyteorder(">" if endian == "big" else "<")
    words = []
    with open(path, "rb") as file:
        for number in np.unique(np.linspace(0, traces - 1, _CHECKED).astype(np.int64)):
            file.seek(start + int(number) * length + TRACE_HEADER_BYTES)
            words.append(np.frombuffer(file.read(4 * min(samples, 1 << 16)), dtype))
    found = np.unique(np.concatenate(words) & 0x7FFF_FFFF)
    sizes, digits = found[found != 0] >> 24, (found[found != 0] >> 20) & 15
    zeros, ones = (np.bincount(sizes[digits == digit], minlength=128) for digit in (0, 1))
    if code == 5:
        other = 50 * zeros.sum() < ones.sum() and np.count_nonzero(ones >= _FEWEST_VALUES) > 1
    else:
        other = np.count_nonzero((zeros >= _FEWEST_VALUES) & (2 * zeros > ones)) > 1
    if other:
        said, stored, right = _OTHER_FLOATS[code]
        raise Refused(
            "format",
            f"has samples that are {stored} floats, its header says {said} floats (format {code}): set the format"
            f" in bytes 3225 and 3226 to {right}",
        )


def _places(dataset: str) -> tuple[tuple[int, int], ...]:
    if not dataset:
        return _LINES_AT
    try:
        inline, crossline = (int(text) for text in dataset.split(","))
    except ValueError:
        inline = crossline = 0
    if not (1 <= inline <= 237 and 1 <= crossline <= 237):
        raise Refused(
            "format", f"is asked for line numbers at {dataset!r}: name the bytes of inline and crossline, as in 189,193"
        )
    return ((inline, crossline),)


_Lines = tuple[NDArray[np.int32], tuple[int, int], tuple[int, int]]


def _lines_in(file: Any, path: str, endian: str, traces: int, dataset: str) -> _Lines:
    """The grid by the first place whose numbers make one, whatever the order of the traces. Raises `Refused`.

    A later place is no better where its traces are sorted: there may be a counter within each line, which makes a whole
    grid of a survey that is skewed, or lacks traces. But a single line with gaps is more likely a number of something
    else: it counts where no place has lines both ways.
    """
    places, single = _places(dataset), None
    for place in places:
        found = _sorted_lines(path, endian, traces, place)
        if found is None and not _shares_cells(file, traces, place):
            lines = _any_lines(file, traces, place)
            found = None if isinstance(lines, str) else lines
        if found is not None and (min(found[0].shape) > 1 or (found[0] >= 0).all()):
            return found
        single = single or found
    if single is not None:
        return single
    said = ""
    for place in places:
        why = _any_lines(file, traces, place)
        if isinstance(why, str) and not (said and why == _NO_NUMBERS):
            said = why
    raise Refused(
        "format",
        f"{said}: only post-stack volumes are read; if the numbers are elsewhere in the headers, name their bytes with"
        " the parameter dataset, as in 189,193",
    )


def _checked(traces: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, traces - 1, _CHECKED).astype(np.int64))


def _sorted_lines(path: str, endian: str, traces: int, place: tuple[int, int]) -> _Lines | None:
    """The grid of a whole file that is sorted by its lines, from a few headers; None when it does not look like one."""
    import segyio

    try:
        with segyio.open(path, "r", *place, strict=True, endian=endian) as file:
            inlines, crosslines = np.asarray(file.ilines), np.asarray(file.xlines)
            if len(file.offsets) != 1 or len(inlines) * len(crosslines) != traces:
                return None
            first, second = _regular(inlines), _regular(crosslines)
            if first is None or second is None or traces == 1:
                return None
            shape = len(inlines), len(crosslines)
            by_inline = int(file.sorting) == 2
            trace = np.arange(traces, dtype=np.int32)
            trace = trace.reshape(shape) if by_inline else trace.reshape(shape[::-1]).T
            checked = _checked(traces)
            at, across = np.divmod(checked, shape[1]) if by_inline else np.divmod(checked, shape[0])[::-1]
            for key, wanted in zip(place, (inlines[at], crosslines[across]), strict=True):
                found = [int(file.header[int(n)][key]) for n in checked]
                if not np.array_equal(found, wanted):
                    return None
            return _growing(trace, first, second)
    except (ValueError, RuntimeError, KeyError, OSError, IndexError):
        return None


def _shares_cells(file: Any, traces: int, place: tuple[int, int]) -> bool:
    """Whether some headers already show that this place does not tell traces apart: then it is not read in all."""
    checked = _checked(traces)
    found = [tuple(int(file.header[int(n)][key]) for key in place) for n in checked]
    return len(set(found)) < len(found)


def _growing(trace: NDArray[np.int32], inlines: tuple[int, int], crosslines: tuple[int, int]) -> _Lines:
    """The same with line numbers that grow."""
    (first, step), (other, other_step) = inlines, crosslines
    if step < 0:
        trace, first, step = trace[::-1], first + step * (trace.shape[0] - 1), -step
    if other_step < 0:
        trace, other, other_step = trace[:, ::-1], other + other_step * (trace.shape[1] - 1), -other_step
    return trace, (first, step), (other, other_step)


def _regular(lines: NDArray[Any]) -> tuple[int, int] | None:
    """The first line and the step, None when steps differ."""
    steps = np.diff(lines)
    if len(steps) and (steps[0] == 0 or (steps != steps[0]).any()):
        return None
    return int(lines[0]), int(steps[0]) if len(steps) else 1


def _any_lines(file: Any, traces: int, place: tuple[int, int]) -> _Lines | str:
    """The grid from the headers of all traces, in whatever order they are; else why their numbers make none."""
    inlines, crosslines = (np.asarray(file.attributes(key)[:], np.int64) for key in place)
    (first, step, count), (other, other_step, others) = _axis(inlines), _axis(crosslines)
    if traces > 1 and count == others == 1:
        return _NO_NUMBERS
    if count * others > max(_MOST_CELLS * traces, 64):
        return f"the inline and crossline numbers of its {traces} traces make no grid"
    cells = (inlines - first) // step * others + (crosslines - other) // other_step
    trace = np.full(count * others, -1, np.int32)
    trace[cells] = np.arange(traces, dtype=np.int32)
    if np.count_nonzero(trace >= 0) < traces:
        return f"has several traces for one inline and crossline ({traces} for {np.count_nonzero(trace >= 0)})"
    return trace.reshape(count, others), (first, step), (other, other_step)


def _axis(lines: NDArray[np.int64]) -> tuple[int, int, int]:
    """First line, step and number of lines of an axis that has all these lines."""
    found = np.unique(lines)
    step = int(np.gcd.reduce(np.diff(found))) if len(found) > 1 else 1
    return int(found[0]), step, int(found[-1] - found[0]) // step + 1


def _world(file: Any, trace: NDArray[np.int32], times: tuple[float, float]) -> tuple[float, ...]:
    """The affine from voxels to CDP X, CDP Y and time, by three traces far from each other; () without coordinates."""
    there = np.argwhere(trace >= 0)
    sums = there.sum(axis=1), there[:, 0] - there[:, 1]
    corners = [there[int(place)] for place in (sums[0].argmin(), sums[1].argmax(), sums[1].argmin(), sums[0].argmax())]
    rows, places = [], []
    for inline, crossline in {(int(a), int(b)) for a, b in corners}:
        header = file.header[int(trace[inline, crossline])]
        scalar = int(header[_SCALAR]) or 1
        factor = 1 / -scalar if scalar < 0 else float(scalar)
        rows.append((inline, crossline, 1))
        places.append((header[_CDP_X] * factor, header[_CDP_Y] * factor))
    known, wanted = np.array(rows, np.float64), np.array(places, np.float64)
    if np.linalg.matrix_rank(known) < 3 or (wanted == wanted[0]).all():
        return ()
    solved, *_ = np.linalg.lstsq(known, wanted, rcond=None)
    (ax, ay), (bx, by), (cx, cy) = solved.tolist()
    return (ax, bx, 0.0, cx, ay, by, 0.0, cy, 0.0, 0.0, times[1], times[0])


def _read(traces: Traces, grid: _Grid, box: Box, out: NDArray[Any]) -> None:
    """Put the samples of a box into `out`: neighbours in the file are read together."""
    (x, y, z), (x_end, y_end, z_end) = box
    numbers = grid.trace[x:x_end, y:y_end].reshape(-1)
    rows = np.argsort(numbers, kind="stable")
    numbers = numbers[rows]
    missing = int(np.searchsorted(numbers, 0))
    values = (
        out.reshape(len(rows), z_end - z) if out.flags.c_contiguous else np.empty((len(rows), z_end - z), out.dtype)
    )
    values[rows[:missing]] = np.nan if missing else 0
    most = max(1, _RUN_BYTES // (4 * grid.samples))
    start = missing
    ends = [*(np.flatnonzero(np.diff(numbers[missing:]) != 1) + missing + 1).tolist(), len(numbers)]
    for end in ends if missing < len(numbers) else ():
        for first in range(start, end, most):
            last = min(end, first + most)
            found = traces.read(int(numbers[first]), int(numbers[last - 1]) + 1)
            place = rows[first:last]
            # Mostly a run of the file is one of the box, too: then nothing is gathered.
            in_order = int(place[-1]) - int(place[0]) == len(place) - 1 and bool((np.diff(place) == 1).all())
            values[slice(int(place[0]), int(place[-1]) + 1) if in_order else place] = found[:, z:z_end]
        start = end
    if not out.flags.c_contiguous:
        out[...] = values.reshape(out.shape)
