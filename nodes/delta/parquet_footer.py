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

from nodes.loaders.thrift_compact import read_varint

MAGIC = b"PAR1"

_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 4, 5, 6, 8, 9, 12
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
    fields[_NUM_ROWS] = (_I64, _integer(rows))
    fields[_ROW_GROUPS] = (_LIST, _list(_STRUCT, [_row_group(i, *g) for i, g in enumerate(groups)]))
    body = _struct(fields)
    return body + struct.pack("<I", len(body)) + MAGIC


def _row_group(number: int, rows: int, chunks: Sequence[Chunk]) -> bytes:
    fields = {
        1: (_LIST, _list(_STRUCT, [_column_chunk(c) for c in chunks])),
        2: (_I64, _integer(sum(c.uncompressed for c in chunks))),
        3: (_I64, _integer(rows)),
        5: (_I64, _integer(chunks[0].offset)),
        6: (_I64, _integer(sum(c.compressed for c in chunks))),
    }
    if number < 2**15:
        fields[7] = (_I16, _integer(number))
    return _struct(fields)


def _column_chunk(chunk: Chunk) -> bytes:
    metadata = {
        1: (_I32, _integer(_TYPES.index(chunk.physical_type))),
        2: (_LIST, _list(_I32, [_integer(_ENCODINGS[e]) for e in sorted(chunk.encodings)])),
        3: (_LIST, _list(_BINARY, [_binary(part.encode()) for part in chunk.path.split(".")])),
        4: (_I32, _integer(_CODECS[chunk.codec])),
        5: (_I64, _integer(chunk.values)),
        6: (_I64, _integer(chunk.uncompressed)),
        7: (_I64, _integer(chunk.compressed)),
        9: (_I64, _integer(chunk.offset)),
    }
    statistics: dict[int, tuple[int, bytes]] = {}
    if chunk.nulls is not None:
        statistics[3] = (_I64, _integer(chunk.nulls))
    if chunk.least is not None and chunk.most is not None:
        statistics[5] = (_BINARY, _binary(chunk.most))
        statistics[6] = (_BINARY, _binary(chunk.least))
    if statistics:
        metadata[12] = (_STRUCT, _struct(statistics))
    # The offset of the chunk's own copy of its metadata: none, as pyarrow writes it.
    return _struct({2: (_I64, _integer(0)), 3: (_STRUCT, _struct(metadata))})


# --- Thrift's compact protocol ----------------------------------------------------------------


def _struct(fields: dict[int, tuple[int, bytes]]) -> bytes:
    out = bytearray()
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        step = number - last
        out += bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _integer(number)
        out += value
        last = number
    return bytes(out) + b"\0"


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _binary(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _integer(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


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
    if kind in (_I16, _I32, _I64):
        return read_varint(data, at)[1]
    if kind == 7:
        return at + 8
    if kind == _BINARY:
        length, at = read_varint(data, at)
        return at + length
    if kind in (_LIST, 10):
        length, item = data[at] >> 4, data[at] & 0x0F
        at += 1
        if length == 15:
            length, at = read_varint(data, at)
        for _ in range(length):
            at = _skip(data, at, item, in_list=True)
        return at
    if kind == _STRUCT:
        while head := data[at]:
            at += 1
            if not head >> 4:
                at = read_varint(data, at)[1]
            at = _skip(data, at, head & 0x0F, in_list=False)
        return at + 1
    raise ValueError(f"the template holds a field of type {kind}")
