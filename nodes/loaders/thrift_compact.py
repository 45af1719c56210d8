"""Reading one struct of Thrift's compact protocol, the form of Parquet's page headers.

Encoding: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
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
    """An unsigned LEB128 number and the position behind it. Raises `IndexError` at the end of `data`."""
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


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, object], int]:
    fields: dict[int, object] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
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


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[object, int]:
    if depth > _DEPTH:
        raise Malformed("it is nested too deeply")
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind in (_I16, _I32, _I64):
        return _zigzag(data, at)
    if kind == _DOUBLE:
        return _slice(data, at, 8)
    if kind == _BINARY:
        length, at = read_varint(data, at)
        return _slice(data, at, length)
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    if kind == _STRUCT:
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
