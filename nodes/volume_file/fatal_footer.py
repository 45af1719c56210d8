"""Footers of Parquet files for which pyarrow would end the process instead of raising, or read other columns or rows
than there are.

`RowGroupMetaData.column` and `ColumnChunkMetaData.statistics` let an exception of C++ through: of columns whose
histograms of levels have the wrong length, that are encrypted, that have another type than the schema says, or whose
least value is shorter than its type. Of a small table's 8,480 footer bits 30 do that when one of them is flipped.
A bit in a column's name makes another column of it: this one counts as missing, and all its values as null. But each
row group has the name once more, and how many rows and values there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DataError
from engine.storage.read_only_file import ReadOnlyFile
from nodes.volume_file.plain_footer import is_plain, refuse_bounds
from nodes.volume_file.thrift import Malformed

_SIZE = 1 << 62
"""Size in bytes that the stand-in file reports: larger than any offset in a footer."""
_NO_BYTES = "File too short: expected"
"""How pyarrow begins to say that a page, which it wanted, has no bytes."""


def refuse_fatal(metadata: pq.FileMetaData, footer: bytes | None = None, *, statistics: bool = True) -> None:
    """Raise `pyarrow.ArrowInvalid` where `RowGroupMetaData.column` would end the process for some column of the file,
    and where the columns and rows of a row group are not those of the schema and the file.

    Give the bytes of the `footer` where the `statistics` of a column are asked for, which end it too when they have the
    wrong length, and where these bytes are at hand: with few row groups that is sooner done. Where none are asked for
    say so: then statistics that another writer shortened, as it may, are no reason. Reads nothing. Measured with 3
    columns (`timeit`, medians, a machine of two cores): 0.1 to 0.17 ms for one row group and 0.4 for 30; with the bytes
    of a footer that has nothing odd in it, 0.04 and 1.0 ms (`is_plain`).
    """
    try:
        # Bytes of another length are not those that the metadata was read from: they may not speak for it.
        is_of_it = footer is not None and len(footer) == metadata.serialized_size
        if footer is not None and is_of_it and is_plain(footer, metadata.schema):
            return
        _refuse(metadata)
        if footer is not None:
            refuse_bounds(footer, metadata.schema, shortened=not statistics)
    except (OSError, UnicodeDecodeError, Malformed) as exc:
        raise pa.ArrowInvalid(str(exc)) from exc


def refuse_damaged(path: str, metadata: pq.FileMetaData, footer: bytes | None = None) -> None:
    """As `refuse_fatal` where no statistics are asked for, but raise `DataError` with the file's name."""
    try:
        refuse_fatal(metadata, footer, statistics=False)
    except pa.ArrowInvalid as exc:
        raise DataError(
            f"{path} is damaged: its footer cannot be read ({str(exc).splitlines()[0].rstrip('.')})",
            hint="`voxelflow verify` of the table lists all damage and says what to do.",
        ) from exc


def _refuse(metadata: pq.FileMetaData) -> None:
    groups, columns = range(metadata.num_row_groups), range(metadata.num_columns)
    if any(metadata.row_group(number).num_columns != len(columns) for number in groups):
        raise pa.ArrowInvalid("a row group has not the columns of the schema")
    # What reads the same description on the way to the pages does raise, so it is asked first: for all columns at once,
    # with a file in which there is nothing to read.
    file = pq.ParquetFile(pa.PythonFile(_NoPages(), mode="r"), metadata=metadata, pre_buffer=True)
    batches: Iterator[Any] = file.reader.iter_batches(1, row_groups=groups, column_indices=columns, use_threads=False)
    try:
        next(batches, None)
    except OSError as exc:
        if not str(exc).startswith(_NO_BYTES):
            raise
    if (listed := sum(metadata.row_group(number).num_rows for number in groups)) != metadata.num_rows:
        raise pa.ArrowInvalid(f"it says {metadata.num_rows:,} rows, and its row groups {listed:,}")
    leaves = [metadata.schema.column(place) for place in columns]
    # Text that is none raises where it is asked for: here it is still known of which file.
    _ = metadata.created_by
    for group in map(metadata.row_group, groups):
        for place, leaf in enumerate(leaves):
            chunk, name, wanted = group.column(place), leaf.path, leaf.physical_type
            # A name in which a bit is flipped is that of another column: this one would count as missing.
            if (there := chunk.path_in_schema) not in (name, ""):
                raise pa.ArrowInvalid(f"the column {name} of the schema is {there} in a row group")
            if (found := chunk.physical_type) != wanted:
                raise pa.ArrowInvalid(f"the column {name} is of type {wanted} in the schema and {found} in a row group")
            if not leaf.max_repetition_level and chunk.num_values != group.num_rows:
                counts = f"{group.num_rows:,} rows and {chunk.num_values:,} values"
                raise pa.ArrowInvalid(f"a row group has {counts} of the column {name}")


class _NoPages(ReadOnlyFile):
    """A file of so many bytes, none of which can be read."""

    length = _SIZE

    def read(self, size: int | None = -1) -> bytes:
        # An exception would say it better, but pyarrow never lets go of those that its threads meet: 8 kB a file.
        return b""
