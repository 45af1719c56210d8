"""Volumes measured by Spark, for the figures that TransformVolumes measures once: one task a stretch of their order.

The same figures as embedded's to the last digit: a task gives five numbers a channel of each volume, and counts, which
are whole numbers; the driver adds them up in embedded's order. What a task has measured is a file in scratch under the
name of its stretch, so a task that Spark runs twice leaves one file, and a driver that was killed finds what its tasks
had finished. The driver removes the files when it has saved what they say.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeFiles
from engine.declare.progress import Meter
from engine.errors import DataError
from nodes.conversion.formats import Reading
from nodes.conversion.quarantine import Refused
from nodes.conversion.volume_sources import reading_of
from nodes.conversion.whole_volumes import TransformedVolumes
from nodes.loaders.measured_volumes import MeasuredVolumes, is_whole, read_measured, write_measured
from nodes.loaders.volume_statistics import Measuring, Order, Pass
from nodes.spark.session import executor_point, results
from nodes.transforms.parameters import transform_of
from nodes.transforms.steps import Measured

_MOST_TASKS = 1000
"""Volumes may be more than are worth a Spark task each."""
Stretch = tuple[int, int]
"""Where volumes begin and end in the order."""


@dataclass(frozen=True)
class MeasureOnSpark:
    """See `nodes.loaders.volume_statistics.AddVolumes`."""

    files: VolumeFiles

    def __call__(self, work: Measuring, state: Pass, ctx: TaskContext) -> None:
        at = work.order.reached(state)
        paths = (entry.path for entry in work.order.files(at))
        added: list[Path] = []
        with contextlib.closing(self._measured(work, at, ctx)) as files:
            stretches = _read(files, added)
            for source, end in work.order.left(state):
                while at < end:
                    found = next(stretches)
                    state.add_measured(found, paths, work.scale)
                    at += len(found.looks)
                    ctx.commit_point("statistics added")
                    if state.is_due:
                        state.save()
                        ctx.commit_point("statistics saved")
                        while added:
                            added.pop().unlink(missing_ok=True)
                state.finish(source, work.scale)

    def _measured(self, work: Measuring, begin: int, ctx: TaskContext) -> Generator[Path, None, None]:
        """The files of all stretches from `begin` on, in their order, each as soon as it is there."""
        folder = ctx.scratch / f"measured-{work.key}"
        folder.mkdir(exist_ok=True)
        stretches = _stretches(begin, len(work.order))
        paths = [folder / f"{first}-{last}.arrow" for first, last in stretches]
        there = {place for place, path in enumerate(paths) if is_whole(path)}
        missing = [place for place in range(len(paths)) if place not in there]
        known = sum(stretches[place][1] - stretches[place][0] for place in there)
        meter = Meter(len(work.order), "volumes", "measuring", begin + known)
        # A name of its own: a task of a killed run that still lives must not read this run's listing for its own.
        listing = ctx.scratch / f"measuring-{secrets.token_hex(8)}.arrow"
        try:
            _write_listing(work.order, [stretches[place] for place in missing], listing)
            # Not the files' own chain: there may be a step more before what is measured.
            steps = tuple(map(transform_of, work.volumes.steps))
            task = _Measure(self.files.uri, reading_of(self.files)._replace(transforms=steps), work.scale, listing)
            items = [
                _Item(number, paths[place], stretches[place][1] - stretches[place][0])
                for number, place in enumerate(missing)
            ]
            following, nothing = 0, list[tuple[int | None, None]]([(None, None)])
            with contextlib.closing(results(ctx, items, task, meter=meter, amount=lambda item: item.rows)) as done:
                for number, _ in chain(nothing, done):
                    if number is not None:
                        there.add(missing[number])
                    while following in there:
                        yield paths[following]
                        following += 1
            meter.finish()
        finally:
            listing.unlink(missing_ok=True)


class _Item(NamedTuple):
    """A stretch to be measured: its number in the listing, the file to write, and how many volumes it has."""

    number: int
    path: Path
    rows: int


@dataclass(frozen=True)
class _Measure:
    """The work of one Spark task. `listing` holds the rows of all stretches."""

    uri: str
    reading: Reading
    scale: Measured
    listing: Path

    def __call__(self, item: _Item) -> None:
        write_measured(item.path, self._sources(_rows(self.listing, item.number)))
        executor_point("statistics measured")

    def _sources(self, rows: pa.RecordBatch) -> Iterator[MeasuredVolumes]:
        volumes = TransformedVolumes.at(self.uri, self.reading)
        sources = rows["source"].to_numpy()
        ends = [*(np.flatnonzero(np.diff(sources)) + 1).tolist(), len(rows)]
        files = zip(*(rows[name].to_pylist() for name in ("path", "size", "mtime_ns")), strict=True)
        at = 0
        for end in ends:
            found = MeasuredVolumes()
            for _ in range(at, end):
                path, size, mtime_ns = next(files)
                try:
                    found.add(volumes.read(path, (size, mtime_ns))[0], self.scale)
                except Refused as refused:
                    found.refuse(refused.message)
            at = end
            yield found


def _stretches(begin: int, end: int) -> list[Stretch]:
    """The same ones whenever it is asked, but for the first, which begins where a pass was."""
    each = max(1, -(-end // _MOST_TASKS))
    places = [begin, *range((begin // each + 1) * each, end, each), end]
    return list(pairwise(places)) if begin < end else []


def _write_listing(order: Order, stretches: Sequence[Stretch], path: Path) -> None:
    """A record batch for each stretch, which says of each row which source it is of."""
    ends = np.array(order.ends)
    writer = None
    with pa.OSFile(str(path), "wb") as sink, contextlib.ExitStack() as stack:
        for begin, end in stretches:
            rows = order.rows(begin, end).select(["path", "size", "mtime_ns"]).replace_schema_metadata()
            sources = np.searchsorted(ends, np.arange(begin, end), side="right")
            (batch,) = rows.append_column("source", pa.array(sources)).combine_chunks().to_batches()
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_file(sink, batch.schema))
            writer.write_batch(batch)


def _rows(path: Path, number: int) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).get_batch(number)


def _read(files: Iterator[Path], read: list[Path]) -> Iterator[MeasuredVolumes]:
    """What the files say; those that have said all are put into `read`."""
    for path in files:
        try:
            yield from read_measured(path)
        except (OSError, ValueError) as exc:
            raise DataError(
                f"what was measured of some volumes cannot be read ({path}: {exc})",
                hint="Run it again: these are measured again. If it comes back, check the disk of the scratch folder.",
            ) from exc
        read.append(path)
