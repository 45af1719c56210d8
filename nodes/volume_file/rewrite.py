"""Copying rows of Parquet files into new files of the volume layout, with bounded memory.

Whole files that are in the layout already are joined without decoding (`nodes.volume_file.join`).
Others, and files of which only some rows stay, are read a row group's worth at a time and written
again: half the speed of `cat`, and three row groups of memory, at most `GROUP_BYTES` each (one row
each when a single volume is larger).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from engine.declare.datasets import VolumeSpec
from engine.errors import DataError, first_line
from engine.storage.files import whole_file
from engine.storage.io_errors import NO_SPACE_TO_WRITE, naming
from engine.storage.page_cache import will_read
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.footer import read_footer, sign_footer
from nodes.volume_file.id_bounds import Ends, read_ends
from nodes.volume_file.join import can_join, is_of_known_writer, join, template
from nodes.volume_file.layout import ROW_GROUP_ROWS, schema, spec_of, writer_options

GROUP_BYTES = 64 << 20
"""Volumes larger than 1 MB get smaller row groups, so that a row group always fits in memory."""
PREFIX = "rewritten-"
"""How the names of files written here begin."""
_HINT = "Run the node that made it again."
_UNREADABLE = "If the file is damaged, `voxelflow verify` of the table lists all damage and says what to do."
_RECIPE = 1
"""Raise it when the same sources would give other files: it enters their names."""


@dataclass(frozen=True)
class RowSource:
    """Rows of one Parquet file of a table, in their order: the half-open ranges `keep`, which are sorted."""

    path: Path
    bytes: int
    keep: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """How many rows that are."""
        return sum(end - start for start, end in self.keep)


@dataclass(frozen=True)
class Recipe:
    """How the new files look: columns, row-group rows, compression, and at how many bytes to begin the next file."""

    schema: pa.Schema
    group_rows: int
    compression: str = "none"
    max_bytes: int = sys.maxsize

    @classmethod
    def of(
        cls, spec: VolumeSpec, columns: pa.Schema, compression: str = "none", max_bytes: int = sys.maxsize
    ) -> Recipe:
        """`columns` are the table's; those of the layout come first and keep its types and metadata."""
        layout = schema(spec)
        extra = [f for f in columns if f.name not in layout.names]
        group_rows = max(1, min(ROW_GROUP_ROWS, min(GROUP_BYTES, max_bytes) // max(1, spec.volume_bytes)))
        return cls(pa.schema([*layout, *extra], metadata=layout.metadata), group_rows, compression, max_bytes)


def rewritten_name(sources: Sequence[RowSource], recipe: Recipe) -> str:
    """A name that only the same rows in the same layout get."""
    text = json.dumps(
        [
            _RECIPE,
            recipe.schema.to_string(show_schema_metadata=True),
            recipe.group_rows,
            recipe.max_bytes,
            recipe.compression,
            [(s.path.name, s.bytes, s.keep) for s in sources],
        ]
    )
    return PREFIX + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Rewritten(NamedTuple):
    """The new files, and how many of the volumes in them could not be checked, having no checksum.

    Volumes that were decoded do not count: pyarrow compares checksums where there are some, and does not say where.
    """

    paths: list[Path]
    unchecked: int = 0


def rewrite(
    sources: Sequence[RowSource], recipe: Recipe, folder: Path, name: str, on_rows: Callable[[int], None]
) -> Rewritten:
    """Write the sources' rows to `NAME.parquet` in `folder`; to `NAME-1.parquet` ... when they fill several files.

    Each file appears whole or not at all, and is for the caller to flush. `on_rows` gets the number of rows as they are
    written. Raises `DataError` when a source cannot be read, or a page of it does not match its checksum.
    """
    if (joined := _join(sources, recipe, folder / f"{name}.parquet", on_rows)) is not None:
        return joined
    out: list[Path] = []
    groups = _groups(sources, recipe)
    group = next(groups, None)
    while group is not None:
        path = folder / (f"{name}-{len(out)}.parquet" if out else f"{name}.parquet")
        with whole_file(path, durable=False) as temporary, naming(path, NO_SPACE_TO_WRITE):
            with (
                pa.OSFile(str(temporary), "wb") as sink,
                pq.ParquetWriter(sink, recipe.schema, **writer_options(recipe.compression)) as writer,
            ):
                last = 0
                while group is not None and (last == 0 or sink.tell() + last <= recipe.max_bytes):
                    before = sink.tell()
                    writer.write_table(group, row_group_size=recipe.group_rows)
                    last = sink.tell() - before
                    on_rows(group.num_rows)
                    group = next(groups, None)
            sign_footer(temporary)
        out.append(path)
    return Rewritten(out)


def _join(sources: Sequence[RowSource], recipe: Recipe, path: Path, on_rows: Callable[[int], None]) -> Rewritten | None:
    """Copy whole files into one without decoding them; None when they are not fit for it."""
    if any(len(s.keep) != 1 or s.keep[0][0] for s in sources) or sum(s.bytes for s in sources) > recipe.max_bytes:
        return None
    for source in sources:
        will_read(source.path)
    empty = template(recipe.schema, writer_options(recipe.compression))
    codec = recipe.compression.upper().replace("NONE", "UNCOMPRESSED")
    # Footers one after another, never all at once: a bin may have thousands of files.
    if not can_join(((s.rows, read_metadata(s.path, s.bytes)) for s in sources), empty, codec, recipe.group_rows):
        return None
    volume_bytes = spec_of(recipe.schema.metadata, str(path)).volume_bytes
    files = ((s.path, read_metadata(s.path, s.bytes)) for s in sources)
    with whole_file(path, durable=False) as temporary:
        unchecked = join(files, temporary, empty, recipe.group_rows, on_rows, volume_bytes)
    return Rewritten([path], unchecked)


def _groups(sources: Iterable[RowSource], recipe: Recipe) -> Iterator[pa.Table]:
    """The rows in tables of one row group each; batches are strung together, not copied."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for source in sources:
        for batch in read_rows(source, recipe.schema, recipe.group_rows):
            _refuse_missing(batch, source.path)
            while batch.num_rows:
                taken = batch.slice(0, recipe.group_rows - rows)
                waiting.append(taken)
                rows += taken.num_rows
                batch = batch.slice(taken.num_rows)
                if rows == recipe.group_rows:
                    yield pa.Table.from_batches(waiting, recipe.schema)
                    waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting, recipe.schema)


def _refuse_missing(batch: pa.RecordBatch, path: Path) -> None:
    """Raise `DataError` for a row without a value that every row must have."""
    for column in batch.schema:
        if not column.nullable and batch.column(column.name).null_count:
            raise DataError(
                f"{path} has rows without {column.name}, which every row of a table of volumes has",
                hint="Another program wrote them. Delete them from the table, or convert it with ConvertTable, which"
                " lists such rows.",
            )


def read_rows(source: RowSource, columns: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The source's rows in batches of at most `batch_rows`, with the columns and types of `columns`.

    Row groups without a wanted row are not touched. Raises `DataError` when the file cannot be read or is too short.
    """
    keep, at_range = source.keep, 0
    end_of_all = max((end for _, end in keep), default=0)
    first = 0
    try:
        # Spark's times, INT96, would become others before 1678 and after 2262 as nanoseconds, Arrow's default.
        with pq.ParquetFile(
            source.path, memory_map=True, page_checksum_verification=True, coerce_int96_timestamp_unit="us"
        ) as file:
            names = [n for n in columns.names if n in file.schema_arrow.names]
            for number in range(file.num_row_groups):
                length = file.metadata.row_group(number).num_rows
                # From range to range, as from row to row: a thinned sample has tens of thousands of both.
                while at_range < len(keep) and keep[at_range][1] <= first:
                    at_range += 1
                if at_range < len(keep) and keep[at_range][0] < first + length:
                    at = first
                    for batch in file.iter_batches(batch_rows, [number], names, use_threads=False):
                        after = at + batch.num_rows
                        while at_range < len(keep) and keep[at_range][0] < after:
                            start, end = keep[at_range]
                            low, high = max(start, at), min(end, after)
                            if low < high:
                                yield _conform(batch.slice(low - at, high - low), columns)
                            if end > after:
                                break
                            at_range += 1
                        at = after
                        if at >= end_of_all:
                            return
                first += length
    except (OSError, pa.ArrowException) as exc:
        raise DataError(f"{source.path} cannot be read: {first_line(exc)}", hint=_UNREADABLE) from exc
    if first < end_of_all:
        raise DataError(f"{source.path} has {first} rows, not the {end_of_all} it should have", hint=_HINT)


def _conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(wanted):
        return batch
    columns: list[Any] = []
    for column in wanted:
        if column.name in batch.schema.names:
            columns.append(batch.column(column.name).cast(column.type))
        else:
            # A column that joined the table later: older files do not have it.
            columns.append(pa.nulls(batch.num_rows, column.type))
    return pa.record_batch(columns, schema=wanted)


@lru_cache(maxsize=2048)
def read_metadata(path: Path, size: int) -> pq.FileMetaData:
    """The footer of a table's file, which never changes, by its path and size. Raises `DataError` when unreadable.

    The last 2,048 are kept (7 kB each, measured): the bins that are being written ask for theirs three times.
    """
    try:
        found, file, footer = read_footer(path)
        if found != size:
            raise DataError(f"{path} has {found} bytes, not {size} as the table's log says", hint=_HINT)
        refuse_fatal(file.metadata, footer, statistics=is_of_known_writer(file.metadata))
        return file.metadata
    except (OSError, UnicodeDecodeError, pa.ArrowException) as exc:  # the second: of a damaged column's name
        raise DataError(f"{path} cannot be read: {first_line(exc)}", hint=_UNREADABLE) from exc


def stored_ends(path: Path) -> Ends:
    """The ends of all ids and labels in a file, by reading them. Raises `DataError` when that cannot be done."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return read_ends(file)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as exc:
        raise DataError(f"{path} cannot be read: {first_line(exc)}", hint=_UNREADABLE) from exc


def layout_problem(metadata: pq.FileMetaData) -> str:
    """How a file's volume column differs from the layout that loaders read fastest, or ""."""
    if (compression := compression_of([metadata])) != "none":
        return f"compressed with {compression}"
    if any(c.has_dictionary_page for c in _volume_chunks(metadata)):
        return "has a dictionary"
    rows = max((metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)), default=0)
    return f"has row groups of {rows} rows" if rows > ROW_GROUP_ROWS else ""


def compression_of(files: Iterable[pq.FileMetaData]) -> str:
    """Compression that the volume columns of these files share: "none", "zstd", "lz4" ...; "none" for a mixture."""
    found = {chunk.compression.lower() for meta in files for chunk in _volume_chunks(meta)}
    return found.pop().replace("uncompressed", "none") if len(found) == 1 else "none"


def _volume_chunks(meta: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in (meta.row_group(i) for i in range(meta.num_row_groups)):
        yield from (c for c in (group.column(i) for i in range(group.num_columns)) if c.path_in_schema == "volume")
