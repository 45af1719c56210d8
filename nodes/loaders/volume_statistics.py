"""Statistics of volumes for `Measured` steps: one pass over all, or over those of one source after the other.

In memory are one volume, a part of the listing, and for percentiles 8 MB a channel: a count of values for each of a
million ranges, whose ends differ by 0.05% (`_bins`). Counts are whole numbers and sums are added up in the order of the
rows, so the same volumes give the same numbers to the last bit, also when the pass was killed and went on. How far it
is lies in a file with a checksum: one that is damaged counts for nothing. Each step of a chain has such a file, and
keeps it when it is measured: a kill within a later step's pass costs nothing of the passes before.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from engine.errors import DataError
from engine.storage import arrow_file, manifest
from engine.storage.files import whole_file
from engine.storage.io_errors import OUT_OF_RESOURCES, number_of
from engine.text import plural
from nodes.conversion.quarantine import Refused
from nodes.conversion.whole_volumes import TransformedVolumes
from nodes.transforms.steps import ClipMeasured, Measured, source_of

_BITS = 20
"""Bits of a float32 that say in which range it is counted: sign, exponent and 11 of the 23 of its fraction."""
_SAVE_VALUES = 1 << 28
"""Values after which the pass saves how far it is: seconds of work."""
_ROWS = 20_000
"""Of a listing that are in memory at a time."""
_EXAMPLES = 3
M = TypeVar("M", bound=Measured)


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
        self.ranges = np.zeros((self.channels, 1 << _BITS if self.counting else 0), np.int64)

    def add(self, volume: NDArray[Any]) -> None:
        """Count a volume: its values as (n, channels)."""
        for channel in range(self.channels):
            values = np.ascontiguousarray(volume[:, channel])
            if values.dtype.kind == "f":
                values = values[np.isfinite(values)]
            if not len(values):
                continue
            wide = values.astype(np.float64, copy=False)
            mean, count = float(wide.mean()), int(self.values[channel])
            total, apart = count + len(values), mean - float(self.mean[channel])
            self.mean[channel] += apart * len(values) / total
            self.squares[channel] += float(((wide - mean) ** 2).sum()) + apart * apart * count * len(values) / total
            self.values[channel] = total
            self.least[channel] = min(self.least[channel], float(values.min()))
            self.most[channel] = max(self.most[channel], float(values.max()))
            if self.counting:
                self.ranges[channel] += np.bincount(_bins(values), minlength=1 << _BITS)

    def deviation(self) -> NDArray[np.float64]:
        """The standard deviation of each channel."""
        out: NDArray[np.float64] = np.sqrt(self.squares / np.maximum(self.values, 1))
        return out

    def percentile(self, percent: float) -> NDArray[np.float64]:
        """The percentile of each channel, within 0.05% of the true one; minimum and maximum are exact."""
        return np.array([self._percentile(channel, percent) for channel in range(self.channels)])

    def _percentile(self, channel: int, percent: float) -> float:
        place = percent / 100 * (int(self.values[channel]) - 1)
        upto = np.cumsum(self.ranges[channel])
        first, part = math.floor(place), place - math.floor(place)
        low, high = (self._value(channel, upto, rank) for rank in (first, math.ceil(place)))
        return float(np.clip(low + (high - low) * part, self.least[channel], self.most[channel]))

    def _value(self, channel: int, upto: NDArray[np.int64], rank: int) -> float:
        """The value with so many before it, as if the values of a range lay evenly in it."""
        at = int(np.searchsorted(upto, rank, side="right"))
        inside = int(self.ranges[channel, at])
        low, high = _ends(at)
        if self.whole and high - low < 1:
            return float(math.ceil(low))
        found = low + (high - low) * (rank - (int(upto[at]) - inside) + 0.5) / inside
        return float(np.rint(found)) if self.whole else found


def _bins(values: NDArray[Any]) -> NDArray[np.int64]:
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


@dataclass
class _Pass:
    """How far a pass is, kept in a file: the numbers of finished sources, and what is known of the one at work."""

    path: Path
    key: str
    numbers: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    statistics: Statistics | None = None
    within: int = 0
    """Volumes of the source at work that were read."""
    volumes: int = 0
    refused: int = 0
    examples: list[str] = field(default_factory=list)
    unsaved: int = 0

    @classmethod
    def at(cls, path: Path, key: str, ctx: TaskContext) -> _Pass:
        """Where the pass with this key stopped; from the start where nothing of it is there, or it is damaged."""
        try:
            with pa.OSFile(str(path)) as file:
                saved = arrow_file.read_table(file.read_buffer())
            return cls._of(saved, path, key)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as exc:
            if number_of(exc) in OUT_OF_RESOURCES:
                raise  # nothing is wrong with the file
            ctx.warn(f"how far the measuring was cannot be read ({path}: {exc}): all volumes are measured again")
        return cls(path, key)

    @classmethod
    def _of(cls, saved: pa.Table, path: Path, key: str) -> _Pass:
        out = cls(path, key)
        head = json.loads(saved["head"][0].as_py())
        if head.pop("key") != key:
            return out
        if (shape := head.pop("channels")) is not None:
            out.statistics = Statistics(shape, head.pop("counting"), head.pop("whole"))
            for name in _ARRAYS:
                array = getattr(out.statistics, name)
                array[...] = np.frombuffer(saved[name][0].as_buffer(), array.dtype).reshape(array.shape)
        out.numbers = {source: (low, high) for source, low, high in head.pop("numbers")}
        for name in ("within", "volumes", "refused", "examples"):
            setattr(out, name, head[name])
        return out

    def save(self) -> None:
        """Write it down: one row of an Arrow file that carries a checksum, the bytes of each array in a column."""
        found = self.statistics
        head = {
            "key": self.key,
            "numbers": [[source, *both] for source, both in self.numbers.items()],
            "channels": found.channels if found is not None else None,
            **({"counting": found.counting, "whole": found.whole} if found is not None else {}),
            **{name: getattr(self, name) for name in ("within", "volumes", "refused", "examples")},
        }
        arrays = {name: getattr(found, name) for name in _ARRAYS} if found is not None else {}
        row = pa.record_batch({"head": [json.dumps(head)], **{name: _cell(array) for name, array in arrays.items()}})
        with (
            whole_file(self.path, durable=True) as temporary,
            pa.OSFile(str(temporary), "wb") as file,
            arrow_file.new_file(file, row.schema) as writer,
        ):
            writer.write_batch(row)
        self.unsaved = 0

    def add(self, volume: NDArray[Any], scale: Measured) -> None:
        """Count a volume. Raises `Refused` when it has other channels than those before it."""
        channels = volume.shape[3] if scale.by_channel and volume.ndim == 4 else 1
        if self.statistics is None:
            self.statistics = Statistics(channels, scale.kind == "percentiles", volume.dtype.kind in "iu")
        if self.statistics.channels != channels:
            raise Refused("shape", f"has {plural(channels, 'channels')}, those before it {self.statistics.channels}")
        self.statistics.add(volume.reshape(-1, channels))
        self.unsaved += volume.size

    def finish(self, source: str, scale: Measured) -> None:
        """Keep the numbers of a source. Raises `DataError` when there was no value in one of its channels."""
        found = self.statistics
        if found is None or not found.values.all():
            raise DataError(
                f"{source or 'the dataset'} has no finite value to measure"
                + (f" in {plural(int((found.values == 0).sum()), 'channels')}" if found is not None else ""),
                hint="Repair or remove its volumes, or normalise each volume by itself.",
                parameter="statistics",
            )
        self.numbers[source] = _numbers(scale, found)
        self.statistics, self.within = None, 0


_ARRAYS = ("values", "mean", "squares", "least", "most", "ranges")


def _cell(array: NDArray[Any]) -> pa.Array:
    """One cell with the bytes of an array, which are not copied."""
    ends = pa.py_buffer(np.array([0, array.nbytes], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(array)])


def _numbers(scale: Measured, found: Statistics) -> tuple[list[float], list[float]]:
    """Offset and spread of each channel, as `Normalise` would take them from one volume."""
    if isinstance(scale, ClipMeasured):
        offset, high = found.percentile(scale.low), found.percentile(scale.high)
        return offset.tolist(), (high - offset).tolist()
    if scale.kind == "z-score":
        offset, spread = found.mean, found.deviation()
    elif scale.kind == "min-max":
        offset, spread = found.least, found.most - found.least
    else:
        offset, high = found.percentile(scale.low), found.percentile(scale.high)
        # In one range they are equal as far as is known: nearly all values may be one, as those of a background are.
        spread = np.where(_bins(offset) == _bins(high), 0.0, high - offset)
    constant = found.least == found.most
    spread = np.where(constant, 0.0, np.where(spread == 0, 1.0, spread))
    return np.where(constant, found.least, offset).tolist(), spread.tolist()


def measured(scale: M, volumes: TransformedVolumes, listing: pa.Table, ctx: TaskContext) -> M:
    """The step of `measure`."""
    return measure(scale, volumes, listing, ctx)[0]


def measure(scale: M, volumes: TransformedVolumes, listing: pa.Table, ctx: TaskContext) -> tuple[M, int]:
    """The step with its numbers, measured over all volumes of `listing` (path, size, mtime_ns) as `volumes` gives them;
    and how many could not be read.

    These are left out with a warning: who reads the volumes later puts them into quarantine. A pass that was killed
    goes on where it last saved, and one that had ended reads no volume. Raises `DataError` when a source has no value
    to measure.
    """
    order = _Order.of(listing, by_source=scale.by_source)
    key = statistics_key(scale, volumes, listing)
    state = _Pass.at(ctx.scratch / f"statistics-{key}.arrow", key, ctx)
    meter = Meter(len(listing), "volumes", "measuring", state.volumes)
    # Sources are finished in this order.
    done = len(state.numbers)
    at = (order.ends[done - 1] if done else 0) + state.within
    files = order.files(listing, at)
    for source, end in zip(order.sources[done:], order.ends[done:], strict=True):
        for path, size, mtime_ns in islice(files, end - at):
            try:
                state.add(volumes.read(path, (size, mtime_ns))[0], scale)
            except Refused as refused:
                state.refused += 1
                state.examples = [*state.examples, f"{path} {refused.message}"][:_EXAMPLES]
            state.within, state.volumes = state.within + 1, state.volumes + 1
            if state.unsaved >= _SAVE_VALUES:
                state.save()
                ctx.commit_point("statistics saved")
            meter.add(1)
            ctx.check_cancelled()
        at = end
        state.finish(source, scale)
    if len(state.numbers) > done:
        state.save()
        ctx.commit_point("statistics measured")
    meter.finish()
    if state.refused:
        ctx.warn(f"{plural(state.refused, 'volumes')} could not be measured: {'; '.join(state.examples)}")
    found = [(source, *state.numbers[source]) for source in order.sources]
    step = replace(
        scale,
        sources=tuple(source for source, _, _ in found) if scale.by_source else (),
        offsets=tuple(tuple(offsets) for _, offsets, _ in found),
        spreads=tuple(tuple(spreads) for _, _, spreads in found),
    )
    return step, state.refused


def statistics_key(scale: Measured, volumes: TransformedVolumes, listing: pa.Table) -> str:
    """Of all that the numbers follow from: the steps before and the volumes that there are."""
    out = hashlib.blake2b(json.dumps([step.as_json() for step in (*volumes.steps, scale)]).encode(), digest_size=16)
    for name in ("path", "size", "mtime_ns"):
        for (column,) in listing.select([name]).to_batches(max_chunksize=_ROWS):
            out.update("".join([f"{text}\0" for text in column.to_pylist()]).encode("utf-8", "surrogateescape"))
    return out.hexdigest()


@dataclass(frozen=True)
class _Order:
    """The rows of a listing, those of one source after the other; 8 bytes a row."""

    sources: list[str]
    """Sorted by name; one without a name when all volumes are measured together."""
    ends: list[int]
    """Where in the order the rows of each source end."""
    places: NDArray[np.int64] | None = None
    """The rows; None: as they are listed."""

    @classmethod
    def of(cls, listing: pa.Table, *, by_source: bool) -> _Order:
        if not by_source:
            return cls([""], [len(listing)]) if len(listing) else cls([], [])
        numbers: dict[str, int] = {}
        of_rows = np.empty(len(listing), np.int32)
        for row, file in enumerate(manifest.entries(listing)):
            of_rows[row] = numbers.setdefault(source_of(file.path), len(numbers))
        sources = sorted(numbers)
        ranks = np.empty(len(sources), np.int32)
        ranks[[numbers[source] for source in sources]] = np.arange(len(sources))
        ranked = ranks[of_rows]
        ends = np.cumsum(np.bincount(ranked, minlength=len(sources))).tolist()
        return cls(sources, ends, np.argsort(ranked, kind="stable"))

    def files(self, listing: pa.Table, begin: int) -> Iterator[manifest.FileEntry]:
        """The files from a place in the order on, some thousands in memory at a time."""
        if self.places is None:
            yield from manifest.entries(listing.slice(begin))
            return
        for at in range(begin, len(self.places), _ROWS):
            yield from manifest.entries(listing.take(self.places[at : at + _ROWS]))
