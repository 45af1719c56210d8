"""How SplitDataset divides a table: the selections of its three parts.

A part is at most two selections on top of the table's own: one that sets the test volumes aside, and one that divides
the others. Which volume is where follows from hashes, and so from the volume alone; only the ends of strata and of
ranges of time are found in the data (12 bytes of memory a row).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.datasets import Selection, VolumeDelta
from engine.errors import DataError, UnsupportedTable, UsageError
from engine.text import plural
from nodes.conversion.source_hash import SOURCE_HASH
from nodes.loaders.data_files import data_files, read_columns
from nodes.table.selection import columns_for, fractions, held, nan_as_null, stratum, values_as_text
from nodes.transforms.extent import extent_before

SOURCE = "source"
"""The column of CutVolumes with the volume that a patch was cut from."""
_MOST_LABELS = 1_000
"""More distinct labels than these are measurements, not classes, and are not counted."""
BLOCK_VOLUMES = 8
"""Volumes along each axis of a block, where nobody says how large it is."""


class Shares(NamedTuple):
    """Ends in [0, 1]: up to `train` is trained on, then up to `validation` validated on, the rest is for the test."""

    train: float
    validation: float


@dataclass(frozen=True)
class Folds:
    """Part `number` of `count` is validated on, all others are trained on. Counted from 1; a `count` of 0: no folds."""

    count: int = 0
    number: int = 1


Split = tuple[tuple[Selection, ...], tuple[Selection, ...], tuple[Selection, ...]]
"""What to select for train, validation and test."""


def by_hash(salt: str, shares: Shares, folds: Folds, like: Selection) -> Split:
    """Divide by the fractions that selections `like` this one have; its ends and salt do not count."""
    test = like.model_copy(update={"salt": salt, "low": shares.validation, "high": 1.0})

    def clear(low: float, high: float) -> tuple[float, float] | None:
        return (low, high) if like.blocks and low < high else None

    if not folds.count:
        train = like.model_copy(
            update={"salt": salt, "low": 0.0, "high": shares.train, "clear_of": clear(shares.train, 1.0)}
        )
        validation = like.model_copy(
            update={
                "salt": salt,
                "low": shares.train,
                "high": shares.validation,
                "clear_of": clear(shares.validation, 1.0),
            }
        )
        return (train,), (validation,), (test,)
    aside = like.model_copy(
        update={"salt": salt, "low": 0.0, "high": shares.validation, "clear_of": clear(shares.validation, 1.0)}
    )
    rest = (aside,) if shares.validation < 1 else ()
    low, high = (folds.number - 1) / folds.count, folds.number / folds.count
    fold = like.model_copy(update={"salt": f"{salt}.folds", "low": low, "high": high})
    others = fold.model_copy(update={"outside": True, "clear_of": clear(low, high)})
    return (*rest, others), (*rest, fold), (test,)


def by_label(table: VolumeDelta, salt: str, shares: Shares, folds: Folds) -> Split:
    """Divide the volumes of each label by themselves, at ends of their own: every part has its share of them, to one
    volume, and of all labels together."""
    columns = _columns(table, ())
    hashes, names = fractions(columns["id"], salt), stratum(columns["label"])
    like = Selection(salt=salt, low=0, high=1)
    plain = by_hash(salt, shares, folds, like)
    if not folds.count:
        ends = _cuts(hashes, names, salt, [0, shares.train, shares.validation, 1])
        one, two, three = (part[0].model_copy(update={"strata": _strata(ends, n)}) for n, part in enumerate(plain))
        return (one,), (two,), (three,)
    ends = _cuts(hashes, names, salt, [0, shares.validation, 1])
    rest = tuple(each.model_copy(update={"strata": _strata(ends, 0)}) for each in plain[0][:-1])
    test: tuple[Selection, ...] = (plain[2][0].model_copy(update={"strata": _strata(ends, 1)}),)
    kept = held(rest, columns)
    again = fractions(columns["id"], f"{salt}.folds")[kept]
    shares_of_folds = [number / folds.count for number in range(folds.count + 1)]
    inner = _cuts(again, names[kept], f"{salt}.folds", shares_of_folds)
    strata = _strata(inner, folds.number - 1)
    train, validation = ((*rest, part[-1].model_copy(update={"strata": strata})) for part in plain[:2])
    return train, validation, test


def _cuts(
    hashes: NDArray[np.float64], names: NDArray[np.str_], salt: str, shares: list[float]
) -> dict[str, list[float]]:
    """For the volumes of each name, the ends between which these shares of their hashes lie, to one volume.

    Each name has an offset of its own, by which it is rounded up or down. Offsets lie evenly in [0, 1), in an order
    that the salt decides, so that many names with few volumes have their shares together.
    """
    different, places = np.unique(names, return_inverse=True)
    ends = np.cumsum(np.bincount(places, minlength=len(different)))
    of_names = np.split(hashes[np.argsort(places, kind="stable")], ends)[:-1]
    order = np.argsort(fractions(pa.array(different.tolist(), pa.string()), f"{salt}.labels"), kind="stable")
    offsets = np.empty(len(different))
    offsets[order] = (np.arange(len(different)) + 0.5) / max(1, len(different))
    return {
        name: _cut(own, shares, offset)
        for name, own, offset in zip(different.tolist(), of_names, offsets.tolist(), strict=True)
    }


def _cut(hashes: NDArray[np.float64], shares: list[float], offset: float) -> list[float]:
    """The ends for one name. Larger shares never end before smaller ones: all are rounded by one offset."""
    ordered = np.sort(hashes)
    places = [math.floor(share * len(ordered) + offset) for share in shares[1:-1]]
    return [0.0, *(float(ordered[place]) if place < len(ordered) else 1.0 for place in places), 1.0]


def _strata(ends: dict[str, list[float]], number: int) -> tuple[tuple[str, float, float], ...]:
    return tuple((name, cut[number], cut[number + 1]) for name, cut in sorted(ends.items()))


def by_time(table: VolumeDelta, salt: str, shares: Shares, column: str) -> Split:
    """Train on the earliest, validate on later ones, test on the latest; volumes without a time, or with NaN, are
    trained on.

    Raises `DataError` when the column is not there, or has no times or numbers.
    """
    values = _columns(table, (column,))[column]
    kind = values.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (pa.types.is_temporal(kind) or number):
        raise DataError(
            f"the column {column} is {kind}, not times or numbers, so nothing says what comes later",
            hint="Write its dates as 2024-01-31 (with a time: 2024-01-31 14:30), or choose another column.",
            parameter="column",
        )
    known = pc.drop_null(nan_as_null(values))
    known = known.take(pc.sort_indices(known))
    if not len(known):
        raise DataError(f"the column {column} has no value", hint="Choose another column.", parameter="column")

    def at(share: float) -> str | None:
        place = round(share * len(known))
        return values_as_text(known[place].as_py(), kind) if place < len(known) else None

    first, second = at(shares.train), at(shares.validation)

    def part(low: float, high: float, since: str | None, until: str | None) -> Selection:
        """With the share that the range stands for."""
        if low == high:
            return Selection(salt=salt, low=low, high=low)
        return Selection(salt=salt, low=low, high=high, by=(column,), since=since, until=until)

    if first is None:
        return (Selection(salt=salt, low=0, high=1),), (part(1, 1, None, None),), (part(1, 1, None, None),)
    train = part(0, shares.train, None, first)
    validation = part(shares.train, shares.validation, first, second)
    test = part(shares.validation, 1, second, None)
    return (train,), (validation,), (test if second is not None else part(1, 1, None, None),)


def blocks_of(table: VolumeDelta, columns: tuple[str, ...], source: str, block: float, gap: float) -> Selection:
    """What selections by blocks of space are like, of each `source` where a column is named.

    `block` and `gap` of 0 follow from the volumes' shape, in voxels.

    Raises `UsageError` when the positions have more axes than the volumes, a block is shorter than the gap, or no gap
    is given and how much a volume covers does not follow from its shape.
    """
    extent = extent_before(table.spec) if table.spec is not None else ()
    gaps, lengths = gap_and_lengths(extent, columns, block, gap)
    return Selection(salt="", low=0, high=1, by=columns, blocks=lengths, source=source, gap=gaps)


def gap_and_lengths(
    extent: tuple[int, ...] | None, columns: tuple[str, ...], block: float, gap: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The gap between parts, and the length of blocks, along the axis of each column; `extent` is what a volume covers
    (see `extent_before`). Raises as `blocks_of` does."""
    if extent is None and not gap:
        raise UsageError(
            "how near two volumes may lie is not known: they were resampled or turned after they were cut",
            hint="Set gap to the longest side that a volume was cut with, in the voxels of what it was cut from.",
            parameter="gap",
        )
    axes = 3 if extent is None else len(extent)
    if not 1 <= len(columns) <= 3 or (len(columns) > axes and not (block and gap)):
        raise UsageError(
            f"blocks go by one to three columns of positions, not by {', '.join(columns) or 'none'}",
            hint="Name the columns with the positions along X, Y and Z, as in x,y,z.",
            parameter="column",
        )
    gaps = (gap,) * len(columns) if gap else tuple(map(float, (extent or ())[: len(columns)]))
    lengths = tuple(block or BLOCK_VOLUMES * length for length in gaps)
    if any(length < near for length, near in zip(lengths, gaps, strict=True)):
        raise UsageError(
            f"blocks of {block:g} are shorter than the gap of {max(gaps):g} between the parts",
            hint="Make the blocks several times as long as the gap.",
            parameter="block",
        )
    return gaps, lengths


class PartCount(NamedTuple):
    """How many volumes a part has, and how many of them each label; no labels where these are too many for classes."""

    volumes: int
    labels: dict[float, int]


def count_parts(table: VolumeDelta, parts: Sequence[Sequence[Selection]]) -> list[PartCount]:
    """What each part of the table holds, in their order. Raises `DataError` when a column is not there."""
    columns = _columns(table, columns_for([each for part in parts for each in part]))
    labels = columns["label"].to_numpy(zero_copy_only=False).astype(np.float64)
    few = len(np.unique(labels)) <= _MOST_LABELS
    kept = [held(part, columns) for part in parts]
    return [PartCount(int(np.count_nonzero(rows)), _label_counts(labels[rows]) if few else {}) for rows in kept]


def _label_counts(labels: NDArray[np.float64]) -> dict[float, int]:
    found, counts = np.unique(labels[np.isfinite(labels)], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def count_sources(table: VolumeDelta) -> int:
    """How many volumes its patches were cut from, by the column `source` of CutVolumes; 0 without that column."""
    try:
        return int(pc.count_distinct(nan_as_null(_columns(table, (SOURCE,))[SOURCE])).as_py())
    except DataError:
        return 0


class Copies(NamedTuple):
    """Volumes in one part whose file has a copy, of another name, in another part; and two such files."""

    volumes: int
    file: str
    other: str

    def words(self) -> str:
        return (
            f"{plural(self.volumes, 'volumes')} {'is' if self.volumes == 1 else 'are'} in another part than a copy of"
            f" the file, for example {self.file} and {self.other}: the figures will flatter the model"
        )


def parted_copies(table: VolumeDelta, split: Split) -> Copies | None:
    """Copies of files that are in several parts, by the column `source_sha256`; None: no copies, or no such column.

    A volume's file is its `source`, where the table has that column of CutVolumes, else its id.
    """
    needed = columns_for([each for part in split for each in part])
    try:
        columns = _columns(table, (*needed, SOURCE_HASH))
    except DataError:
        return None
    try:
        files = _columns(table, (SOURCE,))[SOURCE]
    except DataError:
        files = columns["id"]
    hashes = columns[SOURCE_HASH]
    if not pa.types.is_string(hashes.type) or not pa.types.is_string(files.type):
        return None
    # Only the few files that have a copy are looked at one by one.
    named = pa.table({"hash": hashes, "file": files}).group_by("hash").aggregate([("file", "count_distinct")])
    several = named.filter(pc.greater(named["file_count_distinct"], 1))["hash"].drop_null()
    doubtful = np.flatnonzero(pc.is_in(hashes, value_set=several.combine_chunks()).to_numpy(zero_copy_only=False))
    if not len(doubtful):
        return None
    parts = [held(part, columns)[doubtful] for part in split]
    rows = list(zip(hashes.take(doubtful).to_pylist(), files.take(doubtful).to_pylist(), strict=True))
    where: dict[str, set[tuple[str, int]]] = {}
    found: list[tuple[str, str, int]] = []
    for place, (key, file) in enumerate(rows):
        part = next((number for number, inside in enumerate(parts) if inside[place]), None)
        if part is not None:
            where.setdefault(key, set()).add((file, part))
            found.append((key, file, part))
    pairs = [
        (file, other)
        for key, file, part in found
        if (other := next((f for f, p in sorted(where[key]) if f != file and p != part), None)) is not None
    ]
    return Copies(len(pairs), *pairs[0]) if pairs else None


def _columns(table: VolumeDelta, names: tuple[str, ...]) -> dict[str, pa.Array]:
    """Columns of the volumes that the table's own selections hold; `id` and `label` are among them.

    Raises `DataError` for one that is not there, `UnsupportedTable` for one that files hold under another name.
    """
    wanted = tuple(dict.fromkeys(("id", "label", *names, *columns_for(table.selections))))
    found = data_files(table)
    if name := next((name for name in wanted if name in found.renamed), ""):
        raise UnsupportedTable(
            f"the table {table.uri} maps the column {name} to {found.renamed[name]} in its files (the Delta feature"
            " columnMapping)",
            hint="Split by another column, or take the table's rows under their names by ConvertTable.",
            parameter="column",
        )
    read = read_columns(found.paths, wanted, found.access)
    columns = {name: read.column(name).combine_chunks() for name in wanted}
    kept = pa.array(held(table.selections, columns))
    return {name: column.filter(kept) for name, column in columns.items()}
