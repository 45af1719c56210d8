"""Writing a Parquet footer for column chunks that were copied as they are.

Schema, key-value metadata and column orders are taken, byte for byte, from the footer that pyarrow
writes for an empty file with the same schema; only the row groups are written here.

Layout: https://github.com/apache/parquet-format (src/main/thrift/parquet.thrift, FileMetaData), in
Thrift's compact protocol: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodes.delta.thrift_writing import BINARY, I16, I32, I64, LIST, STRUCT, binary, integer, list_of, struct_of
from nodes.loaders.thrift_compact import read_varint

MAGIC = b"PAR1"

_NUM_ROWS, _ROW_GROUPS = 3, 4
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
        return physical_type in _TYPES and codec in _CODECS and set(encodings) <= _ENCODINGS.keys()


def footer(template: bytes, rows: int, groups: Sequence[tuple[int, Sequence[Chunk]]]) -> bytes:
    """The footer with its length and magic, to stand behind the chunks. `groups` are (rows, chunks).

    `template` is a whole Parquet file without rows. Raises `ValueError` when it is none.
    """
    length = int.from_bytes(template[-8:-4], "little")
    if template[-4:] != MAGIC or template[:4] != MAGIC or length + 12 > len(template):
        raise ValueError("the template is no Parquet file")
    fields = _fields(template[-8 - length : -8])
    fields[_NUM_ROWS] = (I64, integer(rows))
    fields[_ROW_GROUPS] = (LIST, list_of(STRUCT, [_row_group(i, *g) for i, g in enumerate(groups)]))
    body = struct_of(fields)
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


def _fields(data: bytes) -> dict[int, tuple[int, bytes]]:
    """The struct's fields by number, each with its type and its bytes as they are."""
    out: dict[int, tuple[int, bytes]] = {}
    at = number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            raw, at = read_varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        end = _skip(data, at, head & 0x0F, in_list=False)
        out[number] = (head & 0x0F, data[at:end])
        at = end
    return out


def _skip(data: bytes, at: int, kind: int, *, in_list: bool) -> int:
    """The position behind a value."""
    if kind in (1, 2):
        # A boolean field keeps its value in the type.
        return at + 1 if in_list else at
    if kind == 3:
        return at + 1
    if kind in (I16, I32, I64):
        return read_varint(data, at)[1]
    if kind == 7:
        return at + 8
    if kind == BINARY:
        length, at = read_varint(data, at)
        return at + length
    if kind in (LIST, 10):
        length, item = data[at] >> 4, data[at] & 0x0F
        at += 1
        if length == 15:
            length, at = read_varint(data, at)
        for _ in range(length):
            at = _skip(data, at, item, in_list=True)
        return at
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            if not head >> 4:
                at = read_varint(data, at)[1]
            at = _skip(data, at, head & 0x0F, in_list=False)
        return at + 1
    raise ValueError(f"the template holds a field of type {kind}")
