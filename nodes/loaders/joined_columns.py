"""Columns of several files as one, where other programs gave them different types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from engine.errors import UnsupportedTable
from nodes.conversion.columns import stored_type


def joined(tables: Sequence[pa.Table], files: str, parameters: Mapping[str, str] | None = None) -> pa.Table:
    """The rows of several files, one after the other; null where a file does not have a column.

    Of types that hold the same values otherwise, as other programs write them (large texts, dictionaries, times of
    other units), one is taken. `files` says in messages whose files they are. With `parameters`, which name some of
    the columns, the others were read because of the parameter `columns`.

    Raises `UnsupportedTable` for a column whose types do not fit together.
    """
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException:
        pass
    # Each for itself: the values of a column, and so the parts of its groups, do not depend on which others are read.
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    columns = {}
    for name in names:
        try:
            columns[name] = _joined_column(tables, name)
        except pa.ArrowException as exc:
            said = next(iter(str(exc).splitlines()), "")
            parameter = (parameters or {}).get(name, "columns")
            otherwise = "set columns to none" if parameter == "columns" else "name another column"
            raise UnsupportedTable(
                f"{files} have a column with types that do not fit together: {name}: {said}",
                hint="Write them with one schema, "
                + ("or convert them with ConvertTable." if parameters is None else f"or {otherwise}."),
                parameter=None if parameters is None else parameter,
            ) from exc
    return pa.table(columns)


def _joined_column(tables: Sequence[pa.Table], name: str) -> pa.ChunkedArray:
    """Raises `pa.ArrowException`."""
    own = [
        table.select([name]) if name in table.column_names else pa.table({name: pa.nulls(len(table))})
        for table in tables
    ]
    for options in ("default", "permissive"):
        with suppress(pa.ArrowException):
            return pa.concat_tables(own, promote_options=options).column(0)
    return pa.concat_tables([_as_stored(table) for table in own], promote_options="permissive").column(0)


def _as_stored(table: pa.Table) -> pa.Table:
    """The one column with the type that a volume table has for it, where it has one."""
    name, kind, values = table.column_names[0], table.schema.types[0], table.column(0)
    stored = stored_type(kind)
    if stored in (None, kind) or pa.types.is_null(kind):
        return table
    if pa.types.is_timestamp(kind):
        # A table's times have microseconds; what is finer is cut off, as Spark does.
        values = values.cast(pa.timestamp("us", kind.tz), safe=kind.unit != "ns")
    return pa.table({name: values.cast(stored)})
