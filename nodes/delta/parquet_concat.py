"""Joining Parquet files without decoding them: their column chunks are copied by the kernel.

A data page stands for itself when its chunk has no dictionary, so the pages of several small row
groups, one behind the other, are the column chunk of one larger row group. Memory: none for data.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nodes.delta.parquet_footer import MAGIC, Chunk, footer
from nodes.durable_files import start_writing

_WRITER = "parquet-cpp-arrow"
"""Whose files are taken: others count the bytes of a chunk in ways of their own."""
_FLOATS = {"FLOAT": "<f", "DOUBLE": "<d"}
_BUFFER = 1 << 20
_SMALL = 32 << 10
"""Smaller chunks are read and written together: a call for each would cost more than their bytes."""
_WRITE_OUT_BYTES = 8 << 20


class _Piece(NamedTuple):
    """One row group of one source file."""

    path: Path
    group: pq.RowGroupMetaData


def template(columns: pa.Schema, options: dict[str, Any]) -> bytes:
    """A Parquet file without rows: what the new file's schema is taken from."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, columns, **options).close()
    return bytes(sink.getvalue())


def can_join(files: Iterable[tuple[int, pq.FileMetaData]], empty: bytes, codec: str, group_rows: int) -> bool:
    """Whether the pages of these files may stand one behind the other in a file with the schema of `empty`.

    `files` are the rows that each must have, and its footer; `codec` is pyarrow's name of the
    compression that all of them must have.
    """
    schema = pq.ParquetFile(pa.BufferReader(empty)).schema
    for rows, meta in files:
        if meta.num_rows != rows or not meta.created_by.startswith(_WRITER) or not meta.schema.equals(schema):
            return False
        for group in _groups_of(meta):
            if group.num_rows > group_rows:
                return False
            for chunk in _chunks_of(group):
                plain = Chunk.can_be_written(chunk.physical_type, chunk.encodings, chunk.compression)
                if chunk.has_dictionary_page or chunk.compression != codec or not plain:
                    return False
    return True


def join(
    files: Iterable[tuple[Path, pq.FileMetaData]],
    target: Path,
    empty: bytes,
    group_rows: int,
    on_rows: Callable[[int], None],
) -> None:
    """Write the rows of the files, in their order, to `target`, in row groups of at most `group_rows`.

    Call it for files of which `can_join` said yes. Raises `OSError`.
    """
    out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(out, MAGIC)
        groups: list[tuple[int, list[Chunk]]] = []
        on_its_way = 0
        for pieces in _merged(files, group_rows):
            groups.append((sum(p.group.num_rows for p in pieces), _copy(out, pieces)))
            written = os.lseek(out, 0, os.SEEK_CUR)
            if written - on_its_way >= _WRITE_OUT_BYTES:
                start_writing(out, on_its_way, written - on_its_way)
                on_its_way = written
            on_rows(groups[-1][0])
        end = memoryview(footer(empty, sum(rows for rows, _ in groups), groups))
        while end:
            end = end[os.write(out, end) :]
    finally:
        os.close(out)


def _merged(files: Iterable[tuple[Path, pq.FileMetaData]], group_rows: int) -> Iterator[list[_Piece]]:
    """Neighbouring row groups that together have at most `group_rows` rows."""
    pieces: list[_Piece] = []
    rows = 0
    for path, meta in files:
        for group in _groups_of(meta):
            if pieces and rows + group.num_rows > group_rows:
                yield pieces
                pieces, rows = [], 0
            pieces.append(_Piece(path, group))
            rows += group.num_rows
    if pieces:
        yield pieces


def _copy(out: int, pieces: Sequence[_Piece]) -> list[Chunk]:
    """Copy the pieces' chunks behind one another, column by column; gives the chunks they became."""
    files = {p.path: os.open(p.path, os.O_RDONLY | os.O_CLOEXEC) for p in pieces}
    try:
        made = []
        for columns in zip(*(_chunks_of(p.group) for p in pieces), strict=True):
            offset = os.lseek(out, 0, os.SEEK_CUR)
            small: list[bytes] = []
            for piece, chunk in zip(pieces, columns, strict=True):
                start, length = chunk.data_page_offset, chunk.total_compressed_size
                if length < _SMALL:
                    small.append(_read(files[piece.path], start, length))
                    continue
                _write(out, small)
                _copy_range(files[piece.path], start, length, out)
            _write(out, small)
            made.append(_chunk(columns, offset))
        return made
    finally:
        for file in files.values():
            os.close(file)


def _read(file: int, offset: int, length: int) -> bytes:
    data = os.pread(file, length, offset)
    if len(data) != length:
        raise OSError(errno.EIO, "a Parquet file ends before its last column")
    return data


def _write(out: int, pieces: list[bytes]) -> None:
    """Write the pieces and forget them."""
    data = memoryview(b"".join(pieces))
    pieces.clear()
    while data:
        data = data[os.write(out, data) :]


def _copy_range(file: int, offset: int, length: int, out: int) -> None:
    while length:
        # The kernel copies; where it cannot, a buffer does.
        done = _copy_in_kernel(file, offset, length, out)
        if not done:
            data = _read(file, offset, min(length, _BUFFER))
            done = os.write(out, data)
        offset, length = offset + done, length - done


def _copy_in_kernel(file: int, offset: int, length: int, out: int) -> int:
    if not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(file, out, length, offset)
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        return 0


def _chunk(columns: Sequence[pq.ColumnChunkMetaData], offset: int) -> Chunk:
    first = columns[0]
    least, most, nulls = _statistics(columns)
    return Chunk(
        path=first.path_in_schema,
        physical_type=first.physical_type,
        encodings=frozenset(e for c in columns for e in c.encodings),
        codec=first.compression,
        values=sum(c.num_values for c in columns),
        offset=offset,
        compressed=sum(c.total_compressed_size for c in columns),
        uncompressed=sum(c.total_uncompressed_size for c in columns),
        nulls=nulls,
        least=least,
        most=most,
    )


def _statistics(columns: Sequence[pq.ColumnChunkMetaData]) -> tuple[bytes | None, bytes | None, int | None]:
    """Encoded minimum and maximum, and the number of nulls, over several chunks; None where one does not tell."""
    found = [c.statistics for c in columns]
    if any(s is None or not s.has_null_count for s in found):
        return None, None, None
    nulls = sum(s.null_count for s in found)
    # A chunk of nulls alone has no minimum and does not count.
    told = [s for s in found if s.has_min_max]
    if not told or any(not s.has_min_max and s.num_values for s in found):
        return None, None, nulls
    least, most = min(s.min_raw for s in told), max(s.max_raw for s in told)
    kind = columns[0].physical_type
    if kind in _FLOATS:
        return struct.pack(_FLOATS[kind], least), struct.pack(_FLOATS[kind], most), nulls
    if kind == "BYTE_ARRAY" and told[0].logical_type.type == "STRING":
        # UTF-8 sorts as the text does.
        least, most = (v.encode() if isinstance(v, str) else v for v in (least, most))
        return least, most, nulls
    # Other types sort in ways of their own, and the layout has no statistics for them.
    return None, None, nulls


def _groups_of(meta: pq.FileMetaData) -> Iterator[pq.RowGroupMetaData]:
    return (meta.row_group(i) for i in range(meta.num_row_groups))


def _chunks_of(group: pq.RowGroupMetaData) -> list[pq.ColumnChunkMetaData]:
    return [group.column(i) for i in range(group.num_columns)]
