"""Figures of the columns that volumes have besides id and label: how many have a value, which, from where to where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nodes.table.selection import nan_as_null

MOST_DIFFERENT = 1_000
"""Different values that are counted; of a column with more only that."""


@dataclass
class ColumnFigures:
    """A column's `filled` values, their least and greatest, and some of the different ones; each is None for none.

    NaN is no value.
    """

    name: str
    kind: str
    filled: int = 0
    least: Any = None
    most: Any = None
    different: set[Any] = field(default_factory=set)

    def add(self, values: pa.Array) -> None:
        """Take in some rows."""
        values = nan_as_null(values).drop_null()
        if not len(values):
            return
        self.filled += len(values)
        ends = pc.min_max(values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values).as_py()
        self.least = ends["min"] if self.least is None else min(self.least, ends["min"])
        self.most = ends["max"] if self.most is None else max(self.most, ends["max"])
        if len(self.different) <= MOST_DIFFERENT:
            self.different.update(pc.unique(values).slice(0, MOST_DIFFERENT + 1).to_pylist())

    def row(self) -> tuple[str, ...]:
        """As a person reads it: name, type, values, different ones, from, to."""
        several = f"over {MOST_DIFFERENT:,}" if len(self.different) > MOST_DIFFERENT else f"{len(self.different):,}"
        ends = ("" if end is None else str(end) for end in (self.least, self.most))
        return (self.name, self.kind, f"{self.filled:,}", several, *ends)


def shown_columns(columns: pa.Schema) -> list[pa.Field]:
    """The columns besides those of the layout that hold single values a person can read."""
    fields = (f for f in columns if f.name not in ("id", "label", "volume"))
    return [f for f in fields if not (pa.types.is_nested(f.type) or pa.types.is_binary(f.type))]


def column_figures(fields: Iterable[pa.Field], batches: Iterator[pa.RecordBatch]) -> list[ColumnFigures]:
    """The figures of these columns over all batches."""
    found = [ColumnFigures(f.name, str(f.type)) for f in fields]
    for batch in batches:
        for figures in found:
            figures.add(batch.column(figures.name))
    return found
