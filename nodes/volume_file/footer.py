"""The footer of a Parquet file: read without the rest, and written for column chunks that were copied as they are.

To write one, schema, key-value metadata and column orders are taken, byte for byte, from the footer that pyarrow
writes for an empty file with the same schema; only the row groups are new.

Layout: https://github.com/apache/parquet-format (src/main/thrift/parquet.thrift, FileMetaData), in
Thrift's compact protocol: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nodes.volume_file.thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    binary,
    integer,
    list_of,
    raw_fields,
    struct_of,
)

MAGIC = b"PAR1"
_TAIL = 8 << 10
"""Read first: the footer of a small file, and more."""
END = 4 + len(MAGIC)
"""Bytes after the footer: its length and the magic."""

_NUM_ROWS, _ROW_GROUPS, _CREATED_BY = 3, 4, 6
_CREATOR_BYTES = 32
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
# By pyarrow's names: its LZ4 is the format's LZ4_RAW. The older framings of LZ4 are not copied.
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}
# Those without a dictionary: pages that need one do not stand for themselves.
_ENCODINGS = {
    "PLAIN": 0,
    "RLE": 3,
    "BIT_PACKED": 4,
    "DELTA_BINARY_PACKED": 5,
    "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7,
    "BYTE_STREAM_SPLIT": 9,
}


@dataclass(frozen=True)
class Chunk:
    """One column of one row group: where its pages lie in the new file, and what they hold.

    `least` and `most` are the encoded minimum and maximum; None for a column without statistics.
    """

    path: str
    physical_type: str
    encodings: frozenset[str]
    codec: str
    values: int
    offset: int
    compressed: int
    uncompressed: int
    nulls: int | None = None
    least: bytes | None = None
    most: bytes | None = None

    @staticmethod
    def can_be_written(physical_type: str, encodings: Iterable[str], codec: str) -> bool:
        """Whether a footer can describe such a chunk; the names are pyarrow's."""
        return physical_type in _TYPES and codec in _CODECS and set(encodings) <= _ENCODINGS.keys()


def footer(template: bytes, rows: int, groups: Sequence[tuple[int, Sequence[Chunk]]]) -> bytes:
    """The footer with its length and magic, to stand after the chunks. `groups` are (rows, chunks).

    `template` is a whole Parquet file without rows. Raises `ValueError` when it is none.
    """
    length = int.from_bytes(template[-END:-4], "little")
    if template[-4:] != MAGIC or template[:4] != MAGIC or length + 12 > len(template):
        raise ValueError("the template is no Parquet file")
    fields = raw_fields(template[-END - length : -END])
    fields[_NUM_ROWS] = (I64, integer(rows))
    fields[_ROW_GROUPS] = (LIST, list_of(STRUCT, [_row_group(i, *g) for i, g in enumerate(groups)]))
    return _signed(fields)


def sign_footer(path: Path) -> None:
    """Name Voxelflow as the creator of a Parquet file that pyarrow wrote. Raises `OSError` and `ValueError`."""
    with path.open("r+b") as file:
        file.seek(-END, os.SEEK_END)
        length = int.from_bytes(file.read(END)[: -len(MAGIC)], "little")
        start = file.seek(-END - length, os.SEEK_END)
        body = _signed(raw_fields(file.read(length)))
        file.seek(start)
        file.write(body)
        file.truncate()


def is_creator(created_by: str) -> bool:
    """Whether a file with this creator was written by Voxelflow."""
    return created_by.startswith("Voxelflow version ")


@cache
def release() -> str:
    """Voxelflow's version, "unknown" where the package is not installed."""
    try:
        return version("voxelflow")
    except PackageNotFoundError:
        return "unknown"


def _signed(fields: dict[int, tuple[int, bytes]]) -> bytes:
    # As long as pyarrow's own: the same rows make a file of the same size, whichever release or pyarrow writes it.
    creator = f"Voxelflow version {release()}".ljust(_CREATOR_BYTES).encode()
    body = struct_of(fields | {_CREATED_BY: (BINARY, binary(creator))})
    return body + struct.pack("<I", len(body)) + MAGIC


def _row_group(number: int, rows: int, chunks: Sequence[Chunk]) -> bytes:
    fields = {
        1: (LIST, list_of(STRUCT, [_column_chunk(c) for c in chunks])),
        2: (I64, integer(sum(c.uncompressed for c in chunks))),
        3: (I64, integer(rows)),
        5: (I64, integer(chunks[0].offset)),
        6: (I64, integer(sum(c.compressed for c in chunks))),
    }
    if number < 2**15:
        fields[7] = (I16, integer(number))
    return struct_of(fields)


def _column_chunk(chunk: Chunk) -> bytes:
    metadata = {
        1: (I32, integer(_TYPES.index(chunk.physical_type))),
        2: (LIST, list_of(I32, [integer(_ENCODINGS[e]) for e in sorted(chunk.encodings)])),
        3: (LIST, list_of(BINARY, [binary(part.encode()) for part in chunk.path.split(".")])),
        4: (I32, integer(_CODECS[chunk.codec])),
        5: (I64, integer(chunk.values)),
        6: (I64, integer(chunk.uncompressed)),
        7: (I64, integer(chunk.compressed)),
        9: (I64, integer(chunk.offset)),
    }
    statistics: dict[int, tuple[int, bytes]] = {}
    if chunk.nulls is not None:
        statistics[3] = (I64, integer(chunk.nulls))
    if chunk.least is not None and chunk.most is not None:
        statistics[5] = (BINARY, binary(chunk.most))
        statistics[6] = (BINARY, binary(chunk.least))
    if statistics:
        metadata[12] = (STRUCT, struct_of(statistics))
    # The offset of the chunk's own copy of its metadata: none, as pyarrow writes it.
    return struct_of({2: (I64, integer(0)), 3: (STRUCT, struct_of(metadata))})


def read_footer(path: Path | str) -> tuple[int, pq.ParquetFile, bytes]:
    """The file's size in bytes, a `ParquetFile` that knows its metadata and schema alone, and the footer's bytes.

    One open and one read, for tables of many small files: measured side by side, two thirds of the time of
    `pyarrow.parquet.read_metadata`. Raises `OSError` and `pyarrow.ArrowException`.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, tail = _tail(file)
    finally:
        os.close(file)
    return size, pq.ParquetFile(pa.BufferReader(tail)), _footer_in(tail)


def footer_bytes(file: int) -> bytes:
    """The footer of an open file, as it is stored; what is none where the file has none. Raises `OSError`."""
    return _footer_in(_tail(file)[1])


def _tail(file: int) -> tuple[int, bytes]:
    """The size of a file, and its end with the footer in it."""
    size = os.fstat(file).st_size
    tail = os.pread(file, min(size, _TAIL), max(0, size - _TAIL))
    wanted = int.from_bytes(tail[-END : -len(MAGIC)], "little") + END
    if len(tail) < wanted <= size:
        tail = os.pread(file, wanted, size - wanted)
    return size, tail


def _footer_in(tail: bytes) -> bytes:
    length = int.from_bytes(tail[-END : -len(MAGIC)], "little")
    return tail[max(0, len(tail) - END - length) : -END]
