"""Figures of the columns that volumes have besides id and label: how many have a value, which, from where to where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from nodes.table.selection import nan_as_null

_SHORT_FLOATS = {pa.float16(): np.float16, pa.float32(): np.float32}
"""As Python's floats they show their rounding errors: 63.20000076293945 for 63.2."""
MOST_DIFFERENT = 1_000
"""Different values that are counted; of a column with more only that."""


@dataclass
class ColumnFigures:
    """A column's `filled` values, the least and the greatest of them (`ends`), and some of the different ones.

    NaN is no value. Ends and different values stay None without one, and where Arrow cannot compare them.
    """

    name: str
    kind: pa.DataType
    filled: int = 0
    ends: pa.Array | None = None
    different: pa.Array | None = None

    def add(self, values: pa.Array) -> None:
        """Take in some rows."""
        values = nan_as_null(values.cast(_comparable(values.type))).drop_null()
        if not len(values):
            return
        self.filled += len(values)
        # Of Arrow's arrays, not of Python's values: Python has no day after the year 9999.
        with suppress(pa.ArrowNotImplementedError):
            ends = pc.min_max(_joined(self.ends, values))
            self.ends = pa.array([ends["min"], ends["max"]], values.type)
        if self.different is None or len(self.different) <= MOST_DIFFERENT:
            with suppress(pa.ArrowNotImplementedError):
                self.different = pc.unique(_joined(self.different, values)).slice(0, MOST_DIFFERENT + 1)

    def row(self) -> tuple[str, ...]:
        """As a person reads it: name, type, values, different ones, from, to."""
        return (self.name, str(self.kind), f"{self.filled:,}", self._several(), *self._ends())

    def _several(self) -> str:
        if self.different is None:
            return "" if self.filled else "0"
        found = len(self.different)
        return f"over {MOST_DIFFERENT:,}" if found > MOST_DIFFERENT else f"{found:,}"

    def _ends(self) -> tuple[str, str]:
        if self.ends is None:
            return "", ""
        ends = self.ends
        if types.is_duration(self.kind):
            ends = ends.cast(self.kind)
        elif isinstance(self.kind, pa.BaseExtensionType):
            ends = pa.ExtensionArray.from_storage(self.kind, ends.cast(self.kind.storage_type))
        return _text(ends[0]), _text(ends[1])


def shown_columns(columns: pa.Schema) -> list[pa.Field]:
    """The columns besides those of the layout that hold single values a person can read."""
    return [f for f in columns if f.name not in ("id", "label", "volume") and _is_readable(f.type)]


def column_figures(fields: Iterable[pa.Field], batches: Iterator[pa.RecordBatch]) -> list[ColumnFigures]:
    """The figures of these columns over all batches."""
    found = [ColumnFigures(f.name, decoded(f.type)) for f in fields]
    for batch in batches:
        for figures in found:
            figures.add(batch.column(figures.name))
    return found


def decoded(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, however the file keeps them: of a dictionary, as pandas writes categories, that of
    its values."""
    if types.is_dictionary(kind):
        return decoded(kind.value_type)
    return pa.string() if types.is_string_view(kind) else kind


def python_values(values: pa.ChunkedArray) -> list[Any]:
    """The values as Python has them, None for none. Those of a column in which it lacks one, such as a day after the
    year 9999, a time in a zone that it does not know or a text that is not UTF-8, are texts; a short float is the
    shortest number that it is."""
    if short := _SHORT_FLOATS.get(decoded(values.type)):
        return [None if value is None else float(str(short(value))) for value in values.to_pylist()]
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError, KeyError):
        found = [_text(value) if value.is_valid else None for value in values]
    return found


def _is_readable(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.UuidType):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _is_readable(kind.storage_type)
    if types.is_dictionary(kind):
        return _is_readable(kind.value_type)
    of_bytes = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return not (types.is_nested(kind) or any(fits(kind) for fits in of_bytes))


def _comparable(kind: pa.DataType) -> pa.DataType:
    """A type that has the values of `kind` in their order, and that Arrow compares."""
    kind = decoded(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return _comparable(kind.storage_type)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_boolean(kind):
        return pa.int8()
    if types.is_duration(kind):
        return pa.int64()
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _joined(before: pa.Array | None, values: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([values] if before is None else [before, values])


def _text(value: pa.Scalar) -> str:
    """As Python writes it; as Arrow does where Python has no such value, or does not know its time zone. Of a text
    that is not UTF-8 the bytes that are none become U+FFFD."""
    try:
        found = value.as_py()
        return str(_SHORT_FLOATS.get(value.type, lambda same: same)(found))
    except (OverflowError, ValueError, KeyError):
        held = value
        while isinstance(held, pa.DictionaryScalar | pa.ExtensionScalar):
            held = held.value
        if isinstance(held, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            # Other programs write texts that are not UTF-8, and Parquet does not check them.
            return bytes(held.as_buffer()).decode(errors="replace")
        if types.is_timestamp(value.type) and value.type.tz:
            return f"{value.cast(pa.timestamp(value.type.unit)).cast(pa.string())}Z"
        return str(value.cast(pa.string()))
