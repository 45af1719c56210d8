"""Columns that a volume table has beside id, label and volume: what is known of each volume besides its label.

They come from the table of labels (`of_label_table`), and from the readers of volumes
(`volume_sources.Reader.columns`), whose names stay as they are. Every type is one that Parquet, Delta and Spark have.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from engine.text import plural
from nodes.conversion.commas import NUMBER

NO_COLUMNS = pa.schema([])
_OURS = ("id", "label", "volume", "_change_type", "_commit_version", "_commit_timestamp")
"""Names that the volume table has, and those that Delta keeps for itself."""
_NOT_IN_NAMES = re.compile(r"[\s,;{}()=.`]+")
"""What Delta or Spark do not take in a column's name, or take for a path into a nested column."""

_WHOLE_NUMBER = r"^[+-]?(0|[1-9][0-9]*)$"
_LEADING_ZERO = r"^[+-]?0[0-9]"
_BOOLEAN = r"^(?i:true|false)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$"
_ZONED = r"(Z|[+-][0-9]{2}:?[0-9]{2})$"
TIMESTAMP = pa.timestamp("us", tz="UTC")
"""A point in time. One without a zone is taken as UTC: Delta has a type for these that older readers do not know."""
_WORDS = {
    "string": "text",
    "int64": "whole numbers",
    "double": "numbers",
    "bool": "true or false",
    "date32[day]": "dates",
}


@dataclass(frozen=True)
class Named:
    """Columns under names that a table can have. `remarks` say what was renamed or left out, and why."""

    table: pa.Table
    remarks: tuple[str, ...] = ()


def of_label_table(table: pa.Table, taken: Iterable[str] = ()) -> Named:
    """The columns of a table of labels with the types of a volume table. `taken` are names that others have.

    Text as a CSV file has it is typed over the whole column (`typed`); other types are kept, or become the next that
    Delta has. Columns of lists and records are left out, with a remark. Raises `DataError` for a value that the
    column's type in the table cannot hold.
    """
    used = {name.lower() for name in (*_OURS, *taken)}
    columns: dict[str, pa.Array] = {}
    remarks: list[str] = []
    for number, name in enumerate(table.column_names):
        values = table.column(number)
        kind = stored_type(values.type)
        if kind is None:
            remarks.append(f"the column {name} ({values.type}) is left out: a table of volumes holds single values")
            continue
        fitting = _fitting(name, number, used)
        used.add(fitting.lower())
        if fitting != name:
            remarks.append(f"the column {name!r} is kept as {fitting}")
        columns[fitting] = _cast(values, kind, name)
    return Named(pa.table(columns), tuple(remarks))


def _fitting(name: str, number: int, used: set[str]) -> str:
    """The name as a table can have it, and no other column has, whatever its case."""
    plain = _NOT_IN_NAMES.sub("_", unicodedata.normalize("NFC", name).strip()) or f"column_{number + 1}"
    while plain.lower() in used:
        plain += "_"
    return plain


def stored_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that a column of this type has in a volume table; None for lists, records and the like."""
    types = pa.types
    if types.is_dictionary(kind):
        return stored_type(kind.value_type)
    wider: Sequence[tuple[Callable[[pa.DataType], bool], pa.DataType]] = (
        (types.is_null, pa.string()),
        (types.is_uint8, pa.int16()),
        (types.is_uint16, pa.int32()),
        (types.is_uint32, pa.int64()),
        (types.is_uint64, pa.decimal128(20, 0)),
        (types.is_float16, pa.float32()),
        (types.is_date, pa.date32()),
        (types.is_timestamp, TIMESTAMP),
        (types.is_time, pa.string()),
        (lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t), pa.string()),
        (lambda t: types.is_binary(t) or types.is_large_binary(t) or types.is_fixed_size_binary(t), pa.binary()),
    )
    found = next((stored for test, stored in wider if test(kind)), None)
    if found is not None:
        return found
    same = types.is_signed_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return kind if same or types.is_decimal128(kind) else None


def _cast(values: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array:
    try:
        if pa.types.is_timestamp(values.type) and values.type.tz is None:
            # As its digits are, whatever the zone of this machine.
            values = values.cast(pa.timestamp("us")).cast(TIMESTAMP)
        return values.cast(kind).combine_chunks()
    except pa.ArrowException as exc:
        raise DataError(
            f"the column {name} ({values.type}) does not fit a table: {next(iter(str(exc).splitlines()))}",
            hint=f"Change it to values that {kind} holds, or set columns to none.",
            parameter="columns",
        ) from exc


def typed(texts: pa.Array) -> pa.Array:
    """Texts as numbers, booleans, dates or times when all of them are, else as they are; null stays null.

    The type follows from all values, not from the first. Whole numbers with leading zeros (007) are names and stay
    text; so do numbers that int64 does not hold, and dates that no calendar has.
    """
    present = pc.drop_null(texts)
    if not len(present):
        return texts

    def all_match(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(present, pattern)).as_py())

    try:
        if all_match(_WHOLE_NUMBER):
            return pc.cast(pc.replace_substring_regex(texts, r"^\+", ""), pa.int64())
        if all_match(_BOOLEAN):
            return pc.equal(pc.utf8_lower(texts), "true")
        if all_match(_DATE):
            return pc.cast(texts, pa.date32())
        if all_match(_TIME):
            return _times(texts, all_match(_ZONED))
        if not pc.any(pc.match_substring_regex(present, _LEADING_ZERO)).as_py():
            return pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        pass
    return texts


def _times(texts: pa.Array, zoned: bool) -> pa.Array:
    """Raises `ArrowInvalid` for a mixture of times with a zone and without."""
    if zoned:
        return pc.cast(texts, TIMESTAMP)
    return pc.cast(pc.cast(texts, pa.timestamp("us")), TIMESTAMP)


def columns_with_commas(table: pa.Table) -> dict[str, str]:
    """The columns of text all of whose values are numbers, some with a comma, and one of these values each."""
    out: dict[str, str] = {}
    for name in table.column_names:
        values = table.column(name).drop_null()
        if not pa.types.is_string(values.type) or not len(values):
            continue
        if pc.all(pc.match_substring_regex(values, NUMBER)).as_py():
            commas = values.filter(pc.match_substring(values, ","))
            if len(commas):
                out[name] = commas[0].as_py().strip()
    return out


def describe(columns: pa.Schema) -> str:
    """`patient (text), age (whole numbers)`."""
    return ", ".join(f"{field.name} ({_WORDS.get(str(field.type), str(field.type))})" for field in columns)


@dataclass(frozen=True)
class ByFile:
    """Which row of a table speaks for each file: -1 for none, and for the files whose rows differ (`conflicts`)."""

    row: NDArray[np.int64]
    conflicts: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        places: NDArray[np.int64],
        present: NDArray[np.bool_],
        count: int,
        differ: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
    ) -> ByFile:
        """`places` gives the file of each row, -1 for none. Rows that are not `present` are as if they were not there.

        `differ(a, b)` compares rows one by one.
        """
        counted = np.flatnonzero((places >= 0) & present)
        rows = counted[np.argsort(places[counted], kind="stable")]
        named = places[rows]
        again = np.flatnonzero(named[1:] == named[:-1])
        conflicts = np.zeros(count, bool)
        if len(again):
            conflicts[named[again[differ(rows[again], rows[again + 1])]]] = True
        row = np.full(count, -1, np.int64)
        row[named] = rows
        row[conflicts] = -1
        return cls(row, conflicts)


def by_file(table: pa.Table, places: NDArray[np.int64], count: int) -> Named:
    """The columns with one row for each of `count` files; `places` gives the file of each row of the `table`, -1 none.

    A file that no row names has nulls. So has one whose rows differ in a column: in that column, with a remark.
    """
    columns: dict[str, pa.Array] = {}
    remarks: list[str] = []
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        is_floating = pa.types.is_floating(values.type)

        def differ(
            a: NDArray[np.int64], b: NDArray[np.int64], values: pa.Array = values, is_floating: bool = is_floating
        ) -> NDArray[np.bool_]:
            one, other = values.take(pa.array(a)), values.take(pa.array(b))
            found = to_bools(pc.not_equal(one, other))
            # A NaN is unequal to itself, and two that say the same do not differ.
            return found & ~to_bools(pc.and_(pc.is_nan(one), pc.is_nan(other))) if is_floating else found

        found = ByFile.of(places, to_bools(pc.is_valid(values)), count, differ)
        columns[name] = values.take(pa.array(found.row, mask=found.row < 0))
        if several := int(np.count_nonzero(found.conflicts)):
            remarks.append(f"{name} is left empty for {plural(several, 'files')} whose rows differ in it")
    return Named(pa.table(columns), tuple(remarks))


def to_bools(values: Any) -> NDArray[np.bool_]:
    out: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False).astype(bool)
    return out
