"""Thrift's compact protocol, the form of Parquet's footers and page headers: reading and writing structs.

A struct's fields are known by number. What writes gives the bytes of one value; `struct_of` takes fields as
(type, bytes).
Encoding: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TRUE, _FALSE, BYTE, I16, I32, I64, _DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
BOOLEANS = (_TRUE, _FALSE)
"""A boolean field of a struct: its value is its type."""
_DEPTH = 16


class Malformed(ValueError):
    """The bytes are no such struct, or end too early."""


def read_struct(data: bytes) -> tuple[dict[int, object], int]:
    """The fields of the struct at the start of `data` by number, and its length in bytes.

    Numbers are int, booleans bool, text is bytes, structs dicts. Raises `Malformed`.
    """
    try:
        return _struct(data, 0, 0)
    except IndexError:
        raise Malformed("it ends too early") from None


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number and the position after it. Raises `IndexError` at the end of `data`."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise Malformed("a number in it is too long")


def raw_fields(data: bytes) -> dict[int, tuple[int, bytes]]:
    """The fields of the struct at the start of `data` by number, each with its type and its bytes as they are.

    Raises `Malformed`.
    """
    fields: dict[int, tuple[int, bytes]] = {}
    at = number = 0
    try:
        while head := data[at]:
            step, kind = head >> 4, head & 0x0F
            number, start = (number + step, at + 1) if step else _zigzag(data, at + 1)
            at = start if kind in (_TRUE, _FALSE) else _value(data, start, kind, 0)[1]
            fields[number] = kind, data[start:at]
    except IndexError:
        raise Malformed("it ends too early") from None
    return fields


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, object], int]:
    fields: dict[int, object] = {}
    number = 0
    while head := data[at]:
        at += 1
        step, kind = head >> 4, head & 0x0F
        if step:
            number += step
        else:
            number, at = _zigzag(data, at)
        # A boolean field keeps its value in the type.
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[object, int]:
    if depth > _DEPTH:
        raise Malformed("it is nested too deeply")
    if kind in (_TRUE, _FALSE, BYTE):
        return data[at], at + 1
    if kind in (I16, I32, I64):
        return _zigzag(data, at)
    if kind == _DOUBLE:
        return _slice(data, at, 8)
    if kind == BINARY:
        length, at = read_varint(data, at)
        return _slice(data, at, length)
    if kind in (LIST, _SET):
        return _list(data, at, depth)
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    raise Malformed(f"it holds a field of type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[object], int]:
    head = data[at]
    at += 1
    length, kind = head >> 4, head & 0x0F
    if length == 15:
        length, at = read_varint(data, at)
    out: list[object] = []
    for _ in range(length):
        value, at = _value(data, at, kind, depth + 1)
        out.append(value)
    return out, at


def _slice(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if at + length > len(data):
        raise Malformed("it ends too early")
    return data[at : at + length], at + length


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def struct_of(fields: Mapping[int, tuple[int, bytes]]) -> bytes:
    """A struct of these fields, each (type, bytes) by number."""
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
    """A list of values of one type."""
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
    return head + b"".join(items)


def binary(value: bytes) -> bytes:
    """Bytes or UTF-8 text with its length."""
    return varint(len(value)) + value


def integer(value: int) -> bytes:
    """A signed integer of any width, zigzag coded."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def varint(value: int) -> bytes:
    """An unsigned LEB128 number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
