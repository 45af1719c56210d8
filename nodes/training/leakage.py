"""What is on both sides of a split although it should not be: reported before the first step, with its number."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.errors import DataError
from engine.storage.urls import is_url
from engine.text import plural
from nodes.loaders.arrow_loader import PageIndexedSource
from nodes.loaders.interface import Source
from nodes.loaders.rows import RowNumbers
from nodes.table.selection import known_groups
from nodes.transforms.extent import extent_before

MOST_COMPARED = 200_000
"""Volumes whose checksums are read: a small read each, 2 s for so many that the system has in memory."""
_SECONDS = 10.0
"""What that may take: on a disk that turns, each read is a few milliseconds."""
_AXES = ("x", "y", "z")
MOST_CELLS = 32_000_000
"""Of the table that finds overlaps: 128 MB."""
_LOT = 4_096
_MOST_READ = 1_000
"""Volumes with equal checksums that are compared byte by byte."""


@dataclass(frozen=True)
class Part:
    """Some rows of a source."""

    source: Source
    rows: RowNumbers

    @property
    def labels(self) -> NDArray[np.float32]:
        return self.source.rows.labels[self.rows]


def rows_of_both(one: Part, other: Part) -> RowNumbers:
    """The rows of `other` that are in `one` too: by their numbers in one source, by their ids where two sources read
    one place, as two nodes for one folder, parts of a table that were transformed apart, or two of its versions."""
    if one.source is other.source:
        return np.intersect1d(one.rows, other.rows)
    if _place(one.source) != _place(other.source):
        return np.empty(0, np.int64)
    ours, theirs = (part.source.rows.ids.take(pa.array(part.rows)) for part in (one, other))
    both: RowNumbers = other.rows[pc.is_in(theirs, value_set=ours).to_numpy(zero_copy_only=False)]
    return both


def _place(source: Source) -> str:
    return source.where if is_url(source.where) else os.path.realpath(source.where)


def report_leaks(training: Part, other: Part, verb: str, columns: tuple[str, ...], ctx: TaskContext) -> None:
    """Warn of groups (equal values of `columns`) that are on both sides, and of volumes that have a twin there or
    overlap with one, as patches of one volume do.

    Twins are found by the checksums that the files have. Volumes that are on both sides themselves do not count.
    """
    if not len(training.rows) or not len(other.rows):
        return
    if columns:
        _report_groups(training, other, verb, columns, ctx)
    both = rows_of_both(training, other)
    _report_twins(training, other, both, verb, ctx)
    _report_overlaps(training, other, both, verb, ctx)


def _report_groups(training: Part, other: Part, verb: str, columns: tuple[str, ...], ctx: TaskContext) -> None:
    try:
        ours, theirs = _groups(training, columns), _groups(other, columns)
    except DataError as exc:
        ctx.warn(f"whether groups are on both sides is not known: {exc.message}")
        return
    common = theirs.filter(pc.is_in(theirs, value_set=pc.unique(ours).drop_null()))
    if len(common):
        names = ", ".join(columns)
        ctx.warn(
            f"{plural(len(pc.unique(common)), 'groups')} of {names} on both sides, trained on and {verb}"
            f" ({plural(len(common), 'volumes')} of the latter, for example of {common[0].as_py()}): the figures will"
            f" flatter the model. Split by {names}"
        )


def _groups(part: Part, columns: tuple[str, ...]) -> pa.Array:
    """The group of each row, null for a row that has none."""
    found = part.source.rows.columns(columns)
    return known_groups([found[name].take(pa.array(part.rows)) for name in columns])


def _report_overlaps(training: Part, other: Part, both: RowNumbers, verb: str, ctx: TaskContext) -> None:
    """Of patches, whose `source`, `x`, `y`, `z` say where in which volume their first voxel lay (see CutVolumes)."""
    spec = training.source.spec
    if len(spec.shape) < len(_AXES) or other.source.spec.shape != spec.shape:
        return
    try:
        ours, theirs = _places(training), _places(other)
    except DataError:
        return  # no patches
    if ours is None or theirs is None:
        return
    found = pairs = unknown = 0
    extent = extent_before(spec)
    common = sorted(ours.numbers.keys() & theirs.numbers.keys())
    if extent is None:
        if common:
            ctx.warn(
                "whether patches overlap with others that were trained on is not known: they were resampled or turned"
                " after they were cut"
            )
        return
    # A row on both sides is no neighbour of itself.
    alone = ~np.isin(other.rows, both)
    for name in common:
        before, numbers = ours.numbers[name], theirs.numbers[name]
        after = numbers[alone[numbers]]
        overlapping = count_overlaps(ours.positions[before], theirs.positions[after], extent)
        if overlapping is None:
            unknown += 1
        else:
            found, pairs = found + overlapping[0], pairs + overlapping[1]
    if unknown:
        ctx.warn(
            f"whether patches of {plural(unknown, 'volumes')} overlap with others that were trained on is not known:"
            " their places are too many to compare"
        )
    if found:
        ctx.warn(
            f"{plural(found, 'patches')} {verb} overlap with patches that were trained on ({plural(pairs, 'pairs')}):"
            " the figures will flatter the model. Let SplitDataset split by blocks, with the columns x,y,z"
        )


@dataclass(frozen=True)
class _Places:
    """The first voxel of each patch of a part, (n, 3), and which of them each volume has."""

    positions: NDArray[np.int64]
    numbers: Mapping[str, NDArray[np.int64]]


def _places(part: Part) -> _Places | None:
    """Of the part's rows; None where the columns of these names are others. Raises `DataError` where there are none."""
    found = part.source.rows.columns(("source", *_AXES))
    columns = [found[name].take(pa.array(part.rows)) for name in ("source", *_AXES)]
    names, *axes = columns
    whole = pa.types.is_string(names.type) and all(pa.types.is_integer(axis.type) for axis in axes)
    if not whole or any(column.null_count for column in columns):
        return None
    positions = np.stack([axis.to_numpy().astype(np.int64) for axis in axes], axis=1)
    volumes = pc.unique(names)
    found_at = pc.index_in(names, value_set=volumes).to_numpy()
    # Sorted once, 6 s for 650,000 patches of 5,000 volumes; to look for each name among all took more than 2 minutes.
    order = np.argsort(found_at, kind="stable")
    ends = np.cumsum(np.bincount(found_at, minlength=len(volumes)))
    return _Places(positions, dict(zip(volumes.to_pylist(), np.split(order, ends[:-1]), strict=True)))


def count_overlaps(
    ours: NDArray[np.int64], theirs: NDArray[np.int64], size: tuple[int, ...], most: int = MOST_CELLS
) -> tuple[int, int] | None:
    """How many boxes of `size` at the positions `theirs` (n, 3) overlap with some at `ours` (m, 3), in how many pairs.

    By a summed-area table over the positions that occur on each axis: some tens of nanoseconds a box, however many
    overlap. None where it would have more than `most` cells.
    """
    if not len(ours) or not len(theirs):
        return 0, 0
    axes = [np.unique(ours[:, axis]) for axis in range(ours.shape[1])]
    shape = tuple(len(values) + 1 for values in axes)
    if math.prod(shape) > most:
        return None
    table = np.zeros(shape, np.int32)
    np.add.at(table, tuple(np.searchsorted(values, ours[:, axis]) + 1 for axis, values in enumerate(axes)), 1)
    for axis in range(table.ndim):
        np.cumsum(table, axis=axis, out=table)
    # Those that begin less than a size before or after: the corners of a box in the table.
    low = [np.searchsorted(v, theirs[:, axis] - size[axis], side="right") for axis, v in enumerate(axes)]
    high = [np.searchsorted(v, theirs[:, axis] + size[axis], side="left") for axis, v in enumerate(axes)]
    inside = np.zeros(len(theirs), np.int64)
    for corner in itertools.product((0, 1), repeat=table.ndim):
        at = tuple((low, high)[end][axis] for axis, end in enumerate(corner))
        inside += (-1) ** (table.ndim - sum(corner)) * table[at].astype(np.int64)
    return int(np.count_nonzero(inside)), int(inside.sum())


def _report_twins(training: Part, other: Part, both: RowNumbers, verb: str, ctx: TaskContext) -> None:
    ours, theirs = training.rows, np.setdiff1d(other.rows, both)
    if len(ours) + len(theirs) > MOST_COMPARED:
        ctx.info(
            f"volumes on both sides under different ids are not looked for: there are {len(ours) + len(theirs):,}"
            f" volumes, and the checksums of up to {MOST_COMPARED:,} are compared"
        )
        return
    end = time.monotonic() + _SECONDS
    before, after = _checksums(training.source, ours, end), _checksums(other.source, theirs, end)
    if before is None or after is None:
        if time.monotonic() > end:
            ctx.info(
                "volumes on both sides under different ids are not looked for: reading their checksums took more than"
                f" {_SECONDS:g} s"
            )
        return
    order = np.argsort(before, kind="stable")
    found = np.flatnonzero(np.isin(after, before))
    pairs: list[tuple[str, str]] = []
    for place in found[:_MOST_READ].tolist():
        at = int(order[np.searchsorted(before, after[place], sorter=order)])
        one, twin = int(ours[at]), int(theirs[place])
        if _equal(training.source, one, other.source, twin):
            pairs.append((training.source.ids([one])[0], other.source.ids([twin])[0]))
    if pairs:
        least = "at least " if len(found) > _MOST_READ else ""
        ctx.warn(
            f"{least}{plural(len(pairs), 'volumes')} on both sides, {verb} and under another id trained on, for example"
            f" {pairs[0][1]} and {pairs[0][0]}: the figures will flatter the model"
        )


def _checksums(source: Source, rows: RowNumbers, end: float) -> NDArray[np.int64] | None:
    """None where they are not known without reading the volumes, or not before `end`."""
    if not isinstance(source, PageIndexedSource):
        return None
    found = [np.empty(0, np.int64)]
    for start in range(0, len(rows), _LOT):
        lot = source.checksums(rows[start : start + _LOT])
        if lot is None or time.monotonic() > end:
            return None
        found.append(lot)
    return np.concatenate(found)


def _equal(source: Source, row: int, other: Source, twin: int) -> bool:
    """Whether two volumes with one checksum are equal."""
    assert isinstance(source, PageIndexedSource)
    assert isinstance(other, PageIndexedSource)
    volumes = np.empty((2, *source.spec.shape), np.float32)
    source.fill(np.array([row]), volumes[:1])
    other.fill(np.array([twin]), volumes[1:])
    return bool(np.array_equal(volumes[0].view(np.uint32), volumes[1].view(np.uint32)))
