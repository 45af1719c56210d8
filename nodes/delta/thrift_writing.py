"""Writing structs of Thrift's compact protocol, the form of Parquet's footers and page headers.

Each function gives the bytes of one value; a struct's fields are (type, bytes) by number.
Encoding: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

I16, I32, I64, BINARY, LIST, STRUCT = 4, 5, 6, 8, 9, 12


def struct_of(fields: Mapping[int, tuple[int, bytes]]) -> bytes:
    out = bytearray()
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        step = number - last
        out += bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + integer(number)
        out += value
        last = number
    return bytes(out) + b"\0"


def list_of(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
    return head + b"".join(items)


def binary(value: bytes) -> bytes:
    return varint(len(value)) + value


def integer(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
