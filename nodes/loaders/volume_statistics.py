"""Statistics of volumes for `Measured` steps: one pass over all, or over those of one source after the other.

Percentiles are counted in ranges that are relative to the values (`nodes.loaders.value_statistics`). Where both lie far
from 0 and close together, as those of a magnetic field, a range says too little of how far apart they are: then such
volumes are read again, less a value that lies near, beside which the ranges are narrow.

In memory are one volume, a part of the listing, and for percentiles 8 MB a channel (`nodes.loaders.value_statistics`).
Volumes are added up in the order of the rows, wherever they were read, so the same volumes give the same numbers to the
last bit, also when the pass was killed and went on. How far it is lies in a file with a checksum: one that is damaged
counts for nothing. Each step of a chain has such a file, and keeps it when it is measured: a kill within a later step's
pass costs nothing of the passes before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
from nodes.loaders.measured_volumes import MeasuredVolumes, channels_of
from nodes.loaders.value_statistics import Statistics, ranges_of
from nodes.transforms.steps import ClipMeasured, Measured, Scale, source_of

_SAVE_VALUES = 1 << 28
"""Values after which the pass saves how far it is: seconds of work."""
_ROWS = 20_000
"""Of a listing that are in memory at a time."""
_EXAMPLES = 3
_PERCENTILES = 4
"""Version of how percentiles are measured: raise it when the same volumes give others, so that no kept ones are used.
The first took all volumes for whole numbers where those of the first file are, the second read no volume again, the
third took least and largest value for equal where they lie in one range."""
_FINITE = 2
"""Version of what steps make of volumes with values that are not finite, for which steps have no version of their own.
The first of `_HID_INFINITIES` gave 0 or 1 for infinities, so what came after them was measured of that, too."""
_HID_INFINITIES = {"normalise": ("percentiles", "min-max"), "scale": ("percentiles",)}
"""Kinds of steps, by name."""
_COARSEST = 0.01
"""How wide a range may be beside the distance between the two percentiles."""
_MORE_PASSES = 3
"""Each makes ranges a thousandth as wide or less; after three, what lies in one range is equal but for rounding."""
M = TypeVar("M", bound=Measured)
Numbers = dict[str, tuple[list[float], list[float]]]
"""By source: offset and spread of each channel."""
Origins = dict[str, list[float | None]]
"""By source: for each channel a value near its percentiles, None where these are known well enough."""


@dataclass
class Pass:
    """How far a pass is, kept in a file: the numbers of finished sources, and what is known of the one at work."""

    path: Path
    key: str
    numbers: Numbers = field(default_factory=dict)
    origins: Origins = field(default_factory=dict)
    """Of the sources that are to be read again."""
    whole: set[str] = field(default_factory=set)
    """Those of them that have whole numbers alone: less an origin, volumes are of a type that does not say so."""
    before: Pass | None = None
    """The pass whose origins were subtracted from the volumes of this one."""
    statistics: Statistics | None = None
    within: int = 0
    """Volumes of the source at work that were read."""
    volumes: int = 0
    refused: int = 0
    examples: list[str] = field(default_factory=list)
    unsaved: int = 0

    @classmethod
    def at(cls, path: Path, key: str, ctx: TaskContext) -> Pass:
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
    def _of(cls, saved: pa.Table, path: Path, key: str) -> Pass:
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
        out.origins = dict(head.pop("origins", ()))  # earlier versions have none
        out.whole = set(head.pop("whole_sources", ()))
        for name in ("within", "volumes", "refused", "examples"):
            setattr(out, name, head[name])
        return out

    def save(self) -> None:
        """Write it down: one row of an Arrow file that carries a checksum, the bytes of each array in a column."""
        found = self.statistics
        head = {
            "key": self.key,
            "numbers": [[source, *both] for source, both in self.numbers.items()],
            "origins": [*self.origins.items()],
            "whole_sources": sorted(self.whole),
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
        channels = channels_of(volume, scale)
        self._begun(channels, volume.dtype.kind in "iu", scale).add(volume.reshape(-1, channels))
        self.unsaved += volume.size
        self._seen()

    def add_measured(self, found: MeasuredVolumes, paths: Iterator[str], scale: Measured) -> None:
        """Count volumes that were measured elsewhere; `paths` gives theirs."""
        # In this order: where there is no further look, no path is taken.
        for look, path in zip(found.looks, paths, strict=False):
            try:
                if look.refused:
                    raise Refused("unreadable", look.refused)
                statistics = self._begun(len(look.moments), look.whole, scale)
            except Refused as refused:
                self.leave_out(path, refused)
                continue
            for channel, moments in enumerate(look.moments):
                if moments is not None:
                    statistics.fold(channel, moments)
            self.unsaved += look.size
            self._seen()
        if self.statistics is not None and (counts := found.counts.get(self.statistics.channels)) is not None:
            self.statistics.ranges += counts

    def _begun(self, channels: int, whole: bool, scale: Measured) -> Statistics:
        """The statistics of the source at work, which are those of its first volume's channels. Raises `Refused`.

        Values are whole numbers only while those of every volume are.
        """
        if self.statistics is None:
            self.statistics = Statistics(channels, scale.kind == "percentiles", whole)
        if self.statistics.channels != channels:
            raise Refused("shape", f"has {plural(channels, 'channels')}, those before it {self.statistics.channels}")
        self.statistics.whole &= whole
        return self.statistics

    def leave_out(self, path: str, why: Refused) -> None:
        """Go on without a volume."""
        self.refused += 1
        self.examples = [*self.examples, f"{path} {why.message}"][:_EXAMPLES]
        self._seen()

    def _seen(self) -> None:
        self.within, self.volumes = self.within + 1, self.volumes + 1

    @property
    def is_due(self) -> bool:
        """Whether it is time to save."""
        return self.unsaved >= _SAVE_VALUES

    def finish(self, source: str, scale: Measured) -> None:
        """Keep the numbers of a source: none when there was no value in one of its channels.

        Raises `DataError` for that where all volumes are measured together.
        """
        found = self.statistics
        if found is not None and found.values.all():
            found.whole |= self.before is not None and source in self.before.whole
            self._keep(source, scale, found)
        elif scale.by_source:
            self.numbers[source] = ([], [])
        else:
            raise _nothing_measured(
                "the dataset has no finite value to measure"
                + (f" in {plural(int((found.values == 0).sum()), 'channels')}" if found is not None else "")
            )
        self.statistics, self.within = None, 0

    def _keep(self, source: str, scale: Measured, found: Statistics) -> None:
        """Offset and spread of each channel, as `Normalise` would take them from one volume."""
        varies = found.least < found.most
        if scale.kind == "z-score":
            offset, spread = found.mean, found.deviation()
        elif scale.kind == "min-max":
            offset, spread = found.least, found.most - found.least
        else:
            offset, high = found.percentile(scale.low), found.percentile(scale.high)
            spread = high - offset
            ends = [end for end, percent in ((offset, scale.low), (high, scale.high)) if 0 < percent < 100]
            width = np.max([np.zeros(found.channels), *map(found.widths, ends)], axis=0)
            coarse = varies & (width > _COARSEST * spread)
            # In one range they are equal as far as is known: nearly all values may be one, as a background's are.
            # Of least and largest value more is known.
            equal = ranges_of(offset) == ranges_of(high) if ends else offset == high
            if self.before is not None and not found.whole:
                # In one range again, which beside an origin is as narrow as the distance between two float32 of the
                # values' size: there is no difference that more readings would find.
                coarse &= ~equal
            if coarse.any():
                near = _near(found, offset, high, width).tolist()
                self.origins[source] = [each if wanted else None for each, wanted in zip(near, coarse, strict=True)]
                if found.whole:
                    self.whole.add(source)
            if not isinstance(scale, ClipMeasured):
                spread = np.where(equal, 0.0, spread)
        if not isinstance(scale, ClipMeasured):
            offset = np.where(varies, offset, found.least)
            spread = np.where(varies, np.where(spread == 0, 1.0, spread), 0.0)
        self.numbers[source] = offset.tolist(), spread.tolist()


def _near(
    found: Statistics, low: NDArray[np.float64], high: NDArray[np.float64], width: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A value of each channel near its two percentiles: its least or largest one, which a background often has, or one
    between them; of whole numbers a whole one."""
    between = low + (high - low) / 2
    out = np.where(np.abs(found.most - high) <= width, found.most, np.rint(between) if found.whole else between)
    return np.where(np.abs(found.least - low) <= width, found.least, out)


_ARRAYS = ("values", "mean", "squares", "least", "most", "ranges")


def _nothing_measured(message: str) -> DataError:
    hint = "Repair or remove its volumes, or normalise each volume by itself."
    return DataError(message, hint=hint, parameter="statistics")


def _cell(array: NDArray[Any]) -> pa.Array:
    """One cell with the bytes of an array, which are not copied."""
    ends = pa.py_buffer(np.array([0, array.nbytes], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(array)])


@dataclass(frozen=True)
class Measuring:
    """A step that is to be measured: over the volumes of `order`, as `volumes` gives them; `key` is what it is of."""

    scale: Measured
    volumes: TransformedVolumes
    order: Order
    key: str


class AddVolumes(Protocol):
    """Adds the volumes that are missing in `state`, in their order, finishes each source and saves now and then.

    Raises `DataError` when all volumes are measured together and have no value to measure.
    """

    def __call__(self, work: Measuring, state: Pass, ctx: TaskContext) -> None: ...


def read_here(work: Measuring, state: Pass, ctx: TaskContext) -> None:
    """See `AddVolumes`: one volume after the other is read by this process."""
    order, at = work.order, work.order.reached(state)
    files = order.files(at)
    meter = Meter(len(order), "volumes", "measuring", state.volumes)
    for source, end in order.left(state):
        for path, size, mtime_ns in islice(files, end - at):
            try:
                state.add(work.volumes.read(path, (size, mtime_ns))[0], work.scale)
            except Refused as refused:
                state.leave_out(path, refused)
            if state.is_due:
                state.save()
                ctx.commit_point("statistics saved")
            meter.add(1)
            ctx.check_cancelled()
        at = end
        state.finish(source, work.scale)
    meter.finish()


def measured(scale: M, volumes: TransformedVolumes, listing: pa.Table, ctx: TaskContext) -> M:
    """The step of `measure`."""
    return measure(scale, volumes, listing, ctx)[0]


def measure(
    scale: M, volumes: TransformedVolumes, listing: pa.Table, ctx: TaskContext, add: AddVolumes = read_here
) -> tuple[M, int]:
    """The step with its numbers, measured over all volumes of `listing` (path, size, mtime_ns) as `volumes` gives them;
    and how many could not be read.

    These are left out with a warning: who reads the volumes later puts them into quarantine. So are sources without a
    value to measure, of which the step has no numbers. A pass that was killed goes on where it last saved, and one that
    had ended reads no volume. Raises `DataError` when nothing has a value to measure.
    """
    order = Order.of(listing, by_source=scale.by_source)
    state = _passed(scale, volumes, listing, order, ctx, add)
    numbers, refused = state.numbers, state.refused
    if state.origins:
        numbers, refused = _measured_nearer(scale, volumes, order, state, ctx, add)
    found = [(source, *numbers[source]) for source in order.sources if numbers[source][0]]
    if len(found) < len(order.sources):
        _warn_of_left_out([source for source in order.sources if not numbers[source][0]], scale, ctx)
        if not found:
            raise _nothing_measured("no source has a finite value to measure")
    step = replace(
        scale,
        sources=tuple(source for source, _, _ in found) if scale.by_source else (),
        offsets=tuple(tuple(offsets) for _, offsets, _ in found),
        spreads=tuple(tuple(spreads) for _, _, spreads in found),
    )
    return step, refused


def _passed(
    scale: Measured,
    volumes: TransformedVolumes,
    listing: pa.Table,
    order: Order,
    ctx: TaskContext,
    add: AddVolumes,
    before: Pass | None = None,
    refused: int = 0,
) -> Pass:
    """A finished pass over the volumes, with a warning where more than `refused` could not be read."""
    key = statistics_key(scale, volumes, listing)
    state = Pass.at(ctx.scratch / f"statistics-{key}.arrow", key, ctx)
    state.before = before
    if len(state.numbers) < len(order.sources):
        add(Measuring(scale, volumes, order, key), state, ctx)
        state.save()
        ctx.commit_point("statistics measured")
    if state.refused > refused:
        ctx.warn(f"{plural(state.refused, 'volumes')} could not be measured: {'; '.join(state.examples)}")
    return state


def _measured_nearer(
    scale: Measured, volumes: TransformedVolumes, order: Order, first: Pass, ctx: TaskContext, add: AddVolumes
) -> tuple[Numbers, int]:
    """The numbers of a first pass, with those of its `origins` measured again; and how many volumes were refused."""
    numbers = {source: (list(offsets), list(spreads)) for source, (offsets, spreads) in first.numbers.items()}
    last, origins, refused = first, first.origins, first.refused
    for _ in range(_MORE_PASSES):
        if not origins:
            break
        what = plural(len(origins), "sources") if scale.by_source else "all volumes"
        ctx.info(f"percentiles lie close together for values of their size: {what} read once more")
        listing = order.listing_of(origins)
        again = Order.of(listing, by_source=scale.by_source)
        last = _passed(scale, volumes.then(_less(scale, origins)), listing, again, ctx, add, last, refused)
        refused = max(refused, last.refused)
        for source, (offsets, spreads) in last.numbers.items():
            # No numbers: what was there before cannot be read now, which was warned of.
            for channel, origin in enumerate(origins[source] if offsets else ()):
                if origin is not None:
                    numbers[source][0][channel] = origin + offsets[channel]
                    numbers[source][1][channel] = spreads[channel]
        origins = _nearer(origins, last.origins)
    return numbers, refused


def _less(scale: Measured, origins: Origins) -> Scale:
    """The step that subtracts the origins."""
    values = tuple(tuple(origin or 0.0 for origin in each) for each in origins.values())
    ones = tuple((1.0,) * len(each) for each in values)
    sources = tuple(origins) if scale.by_source else ()
    return Scale("z-score", scale.by_channel, by_source=scale.by_source, sources=sources, offsets=values, spreads=ones)


def _nearer(origins: Origins, found: Origins) -> Origins:
    """The origins of another pass, where one that subtracted `origins` found that another is needed."""
    out: Origins = {}
    for source, beside in found.items():
        both = zip(origins[source], beside, strict=True)
        out[source] = [None if old is None or new is None else old + new for old, new in both]
    return {source: each for source, each in out.items() if any(origin is not None for origin in each)}


def _warn_of_left_out(sources: list[str], scale: Measured, ctx: TaskContext) -> None:
    where = " in one of the channels" if scale.by_channel else ""
    names = ", ".join(sources[:_EXAMPLES]) + (" ..." if len(sources) > _EXAMPLES else "")
    ctx.warn(f"{plural(len(sources), 'sources')} left out, without a finite value to measure{where}: {names}")


def statistics_key(scale: Measured, volumes: TransformedVolumes, listing: pa.Table) -> str:
    """Of all that the numbers follow from: the steps before and the volumes that there are."""
    what: list[Any] = [step.as_json() for step in (*volumes.steps, scale)]
    if scale.kind == "percentiles":
        what.append(_PERCENTILES)
    if any(getattr(step, "kind", None) in _HID_INFINITIES.get(step.name, ()) for step in volumes.steps):
        what.append({"finite": _FINITE})
    out = hashlib.blake2b(json.dumps(what).encode(), digest_size=16)
    for name in ("path", "size", "mtime_ns"):
        for (column,) in listing.select([name]).to_batches(max_chunksize=_ROWS):
            out.update("".join([f"{text}\0" for text in column.to_pylist()]).encode("utf-8", "surrogateescape"))
    return out.hexdigest()


@dataclass(frozen=True)
class Order:
    """The rows of a listing, those of one source after the other; 8 bytes a row."""

    listing: pa.Table
    sources: list[str]
    """Sorted by name; one without a name when all volumes are measured together."""
    ends: list[int]
    """Where in the order the rows of each source end."""
    places: NDArray[np.int64] | None = None
    """The rows; None: as they are listed."""

    @classmethod
    def of(cls, listing: pa.Table, *, by_source: bool) -> Order:
        if not by_source:
            return cls(listing, [""], [len(listing)]) if len(listing) else cls(listing, [], [])
        numbers: dict[str, int] = {}
        of_rows = np.empty(len(listing), np.int32)
        for row, file in enumerate(manifest.entries(listing)):
            of_rows[row] = numbers.setdefault(source_of(file.path), len(numbers))
        sources = sorted(numbers)
        ranks = np.empty(len(sources), np.int32)
        ranks[[numbers[source] for source in sources]] = np.arange(len(sources))
        ranked = ranks[of_rows]
        ends = np.cumsum(np.bincount(ranked, minlength=len(sources))).tolist()
        return cls(listing, sources, ends, np.argsort(ranked, kind="stable"))

    def __len__(self) -> int:
        return len(self.listing)

    def reached(self, state: Pass) -> int:
        """The place in the order that a pass has come to."""
        done = len(state.numbers)
        return (self.ends[done - 1] if done else 0) + state.within

    def left(self, state: Pass) -> Iterator[tuple[str, int]]:
        """The sources that are not finished, with where they end: sources are finished in this order."""
        done = len(state.numbers)
        return zip(self.sources[done:], self.ends[done:], strict=True)

    def rows(self, begin: int, end: int) -> pa.Table:
        """The rows of the listing between two places in the order."""
        if self.places is None:
            return self.listing.slice(begin, end - begin)
        return self.listing.take(self.places[begin:end])

    def listing_of(self, sources: Collection[str]) -> pa.Table:
        """The rows of these sources alone."""
        if self.places is None or len(sources) == len(self.sources):
            return self.listing
        begins = (0, *self.ends)
        kept = [slice(*each) for name, *each in zip(self.sources, begins, self.ends, strict=False) if name in sources]
        return self.listing.take(np.concatenate([self.places[each] for each in kept]))

    def files(self, begin: int) -> Iterator[manifest.FileEntry]:
        """The files from a place in the order on, some thousands in memory at a time."""
        for at in range(begin, len(self), _ROWS):
            yield from manifest.entries(self.rows(at, min(at + _ROWS, len(self))))
