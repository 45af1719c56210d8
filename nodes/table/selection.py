"""Which rows a selection holds: from the columns that it names, a few thousand rows or all of a table at a time.

Membership follows from a row alone and the selection: rows that are added later move no other, and Spark's tasks say
the same as one process. Only the ends of a range of values, and those of strata, are found in the data once, by the
node that makes the selection.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.datasets import Selection, id_digests
from engine.errors import DataError
from engine.text import label_text, plural

_CHUNK = 50_000
Columns = Mapping[str, pa.Array | pa.ChunkedArray]


def columns_for(selections: Sequence[Selection]) -> tuple[str, ...]:
    """The columns that say which rows the selections hold; `id` is among them."""
    return tuple(dict.fromkeys(itertools.chain(("id",), *(each.columns for each in selections))))


def held(selections: Sequence[Selection], columns: Columns) -> NDArray[np.bool_]:
    """Which rows every selection holds. Raises `DataError` when a column is not there, or is of the wrong kind."""
    keep = np.ones(len(columns["id"]), bool)
    for each in selections:
        keep &= _held(each, columns)
    return keep


def _held(selection: Selection, columns: Columns) -> NDArray[np.bool_]:
    if missing := next((name for name in selection.columns if name not in ("id", "label", *columns)), None):
        raise no_column(missing)
    if selection.since is not None or selection.until is not None:
        return _in_range(selection, _whole(columns[selection.by[0]]))
    ids = _whole(columns["id"])
    if selection.blocks:
        sources = _whole(columns[selection.source]) if selection.source else None
        keys, near = _Blocks(selection, [_whole(columns[name]) for name in selection.by], ids, sources).rows()
    else:
        groups = [_as_text(name, _whole(columns[name])) for name in selection.by]
        keys, near = group_fractions(selection.salt, groups, ids), None
    low: NDArray[np.float64] | float = selection.low
    high: NDArray[np.float64] | float = selection.high
    if selection.strata:
        low, high = _ends(selection, _whole(columns["label"]))
    inside = (low <= keys) & (keys < high)
    keep = ~inside if selection.outside else inside
    return keep if near is None else keep & ~near


def no_column(name: str) -> DataError:
    """The error of a selection whose column the dataset lacks."""
    return DataError(
        f"the volumes have no column {name}",
        hint="NumpyToParquet carries the columns of the label file; choose one of them.",
        parameter="column",
    )


def _as_text(name: str, values: pa.Array, parameter: str = "column") -> pa.Array:
    """The values as text, null for NaN. Raises `DataError` for those that are none, such as lists."""
    try:
        return nan_as_null(values).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise DataError(
            f"the column {name} is {values.type}, not texts or numbers, so nothing says what belongs together",
            hint="Choose a column with one text or number for each volume.",
            parameter=parameter,
        ) from exc


def _positions(name: str, values: pa.Array) -> NDArray[np.float64]:
    """NaN for null. Raises `DataError` for values that are no numbers."""
    try:
        out: NDArray[np.float64] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise DataError(
            f"the column {name} is {values.type}, not numbers, so nothing says where a volume lies",
            hint="Name the columns with the positions along X, Y and Z, as in x,y,z.",
            parameter="column",
        ) from exc
    return out


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def fractions(keys: pa.Array, salt: str) -> NDArray[np.float64]:
    """`id_fraction` of texts: float64 (n,). Raises `DataError` for nulls: ids, where a row has none."""
    _refuse_missing(keys)
    raw = keys.cast(pa.string()).cast(pa.binary())
    chunks = (raw.slice(start, _CHUNK).to_pylist() for start in range(0, len(raw), _CHUNK))
    digests = b"".join(id_digests(chunk, salt) for chunk in chunks)
    return (np.frombuffer(digests, ">u8").astype(np.uint64) >> np.uint64(11)) / 2**53


def _refuse_missing(keys: pa.Array) -> None:
    """Raise `DataError` for nulls: rows without an id, and without a group."""
    if missing := keys.null_count:
        raise DataError(
            f"{plural(missing, 'rows')} {'has' if missing == 1 else 'have'} no id",
            hint="Give every row an id of its own.",
        )


def group_keys(columns: Sequence[pa.Array], ids: pa.Array) -> pa.Array:
    """The group of each row as text: its values, and its id where one of them is null. Without columns the ids."""
    return pc.coalesce(known_groups(columns), ids) if columns else ids


def nan_as_null(values: pa.Array) -> pa.Array:
    """The values with null for each NaN: in a column of floats it is no value either."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def known_groups(columns: Sequence[pa.Array]) -> pa.Array:
    """The group of each row as text: its values, one after the other; null where one of them is, or is NaN."""
    texts = [nan_as_null(column).cast(pa.string()) for column in columns]
    return pc.binary_join_element_wise(*texts, "\x1f") if len(texts) > 1 else texts[0]


def group_fractions(salt: str, columns: Sequence[pa.Array], ids: pa.Array) -> NDArray[np.float64]:
    """Where each row's group falls in [0, 1); equal groups are hashed once."""
    if not columns:
        return fractions(ids, salt)
    texts = group_keys(columns, ids)
    _refuse_missing(texts)
    keys = texts.dictionary_encode()
    places: NDArray[np.int64] = keys.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return fractions(keys.dictionary, salt)[places] if len(keys) else np.empty(0)


def stratum(labels: pa.Array) -> NDArray[np.str_]:
    """The labels (n) as the strata of a selection name them, n texts: "" for none."""
    names, places = _strata(labels)
    return np.array(names or [""])[places]


def _strata(labels: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """The different strata, and which of them each label is in."""
    values = labels.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    different, places = np.unique(values, return_inverse=True)
    return ["" if np.isnan(value) else label_text(value) for value in different], places.astype(np.int64)


def _ends(selection: Selection, labels: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # One look at all rows for each label would take hours where a label is a measurement, and each another one.
    names, places = _strata(labels)
    ends = {name: (least, most) for name, least, most in selection.strata}
    low, high = np.array([ends.get(name, (selection.low, selection.high)) for name in names]).reshape(-1, 2).T
    return low[places], high[places]


def _in_range(selection: Selection, values: pa.Array) -> NDArray[np.bool_]:
    """Nulls and NaN count as before everything."""
    values = nan_as_null(values)
    keep = np.ones(len(values), bool)
    if selection.since is not None:
        keep &= _true(pc.greater_equal(values, _end(selection.since, values.type)), missing=False)
    if selection.until is not None:
        keep &= _true(pc.less(values, _end(selection.until, values.type)), missing=True)
    return keep


def _end(text: str, kind: pa.DataType) -> pa.Scalar:
    """The end of a range as a value of the column."""
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(kind):
            raise
        # Earlier versions read some columns as nanoseconds that are microseconds now.
        return pc.cast(pa.scalar(text).cast(pa.timestamp("ns", kind.tz)), kind, safe=False)


def _true(values: pa.Array, *, missing: bool) -> NDArray[np.bool_]:
    out: NDArray[np.bool_] = pc.fill_null(values, missing).to_numpy(zero_copy_only=False)
    return out


class _Blocks:
    """Positions in blocks of space; each block falls on one side by its hash.

    A position p lies in block floor(p / length) on each axis. Volumes at p and q meet only if |p - q| < gap on every
    axis; then q's block meets the box of p -+ gap. So when one of them is left out whenever that box touches a block of
    the other's side, no two volumes of different sides meet, however the blocks lie. Each source has a space, and so
    blocks, of its own.
    """

    def __init__(
        self, selection: Selection, positions: Sequence[pa.Array], ids: pa.Array, sources: pa.Array | None
    ) -> None:
        self._selection, self._ids = selection, ids
        axes = [_positions(name, values) for name, values in zip(selection.by, positions, strict=True)]
        self._at = np.stack(axes, axis=1) if len(ids) else np.empty((0, len(positions)))
        self._known = np.isfinite(self._at).all(axis=1)
        self._names: list[str] = []
        self._sources = np.zeros(len(ids), np.int64)
        if sources is not None:
            sources = _as_text(selection.source, sources, "source_column")
            self._known &= pc.is_valid(sources).to_numpy(zero_copy_only=False)
            coded = pc.fill_null(sources, "").dictionary_encode()
            self._names, self._sources = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
        self._lengths = np.array(selection.blocks, np.float64)

    def rows(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The fraction of each row's block (of its id, where the position is not known), and whether it is too near
        to the blocks that the selection must stay clear of."""
        known = np.flatnonzero(self._known)
        at = self._at[known]
        own = np.floor(at / self._lengths).astype(np.int64)
        sources = self._sources[known]
        found = np.empty(len(self._ids))
        found[known] = self._fractions(own, sources)
        others = np.flatnonzero(~self._known)
        found[others] = fractions(self._ids.take(pa.array(others)), self._selection.salt)
        near = np.zeros(len(self._ids), bool)
        if self._selection.clear_of is not None:
            near[known] = self._near(at, own, sources)
        return found, near

    def _near(self, at: NDArray[np.float64], own: NDArray[np.int64], sources: NDArray[np.int64]) -> NDArray[np.bool_]:
        gap = np.array(self._selection.gap, np.float64)
        least = np.floor((at - gap) / self._lengths).astype(np.int64)
        most = np.floor((at + gap) / self._lengths).astype(np.int64)
        assert self._selection.clear_of is not None
        low, high = self._selection.clear_of
        near = np.zeros(len(at), bool)
        reach = int(np.max(np.maximum(own - least, most - own), initial=0))
        for offset in itertools.product(range(-reach, reach + 1), repeat=at.shape[1]):
            block = own + np.array(offset)
            touched = np.flatnonzero(((least <= block) & (block <= most)).all(axis=1) & ~near)
            if len(touched):
                where = self._fractions(block[touched], sources[touched])
                near[touched] |= (low <= where) & (where < high)
        return near

    def _fractions(self, blocks: NDArray[np.int64], sources: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(blocks):
            return np.empty(0)
        different, places = np.unique(np.column_stack([sources, blocks]), axis=0, return_inverse=True)
        named = (([self._names[source]] if self._names else []) + block for source, *block in different.tolist())
        names = pa.array([json.dumps(block) for block in named], pa.string())
        return fractions(names, self._selection.salt)[places.reshape(-1)]


def values_as_text(value: Any, kind: pa.DataType) -> str:
    """A value of a column as the ends of a range have it."""
    text: str = pa.scalar(value, kind).cast(pa.string()).as_py()
    return text
