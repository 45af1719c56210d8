"""Where the bytes of each column of a Parquet file lie, read from its footer without pyarrow.

To be used where a footer may be damaged: pyarrow's `RowGroupMetaData.column` ends the process for some footers, such as
those with a histogram of the wrong length, or with encrypted columns.

Layout: https://github.com/apache/parquet-format (src/main/thrift/parquet.thrift, FileMetaData).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from nodes.volume_file.footer import END, MAGIC
from nodes.volume_file.thrift import Malformed, read_struct

_READ_BYTES = 1 << 20
_ROW_GROUPS, _COLUMNS, _METADATA, _ENCRYPTION = 4, 1, 3, 8
_PATH, _CODEC, _VALUES, _LENGTH, _PAGES, _DICTIONARY = 3, 4, 5, 7, 9, 11
_UNCOMPRESSED = 0


@dataclass(frozen=True)
class StoredChunk:
    """A column of a row group: `length` bytes from `start` on that hold `values`, compressed or not."""

    path: str
    compressed: bool
    values: int
    start: int
    length: int

    def bytes_of(self, file: pa.NativeFile) -> Iterator[memoryview]:
        """The stored bytes, a megabyte at a time; fewer where the file ends."""
        left = self.length
        file.seek(self.start)
        while left > 0:
            data = file.read_buffer(min(left, _READ_BYTES))
            if not data.size:
                return
            left -= data.size
            yield memoryview(data)


def stored_chunks(file: pa.NativeFile) -> list[list[StoredChunk]]:
    """The columns of each row group. Raises `Malformed`, a `ValueError`, when the footer does not say that."""
    fields, _ = read_struct(stored_footer(file))
    return [
        [_chunk(column) for column in _list(_dict(group).get(_COLUMNS))] for group in _list(fields.get(_ROW_GROUPS))
    ]


def stored_footer(file: pa.NativeFile) -> bytes:
    """The footer of an open file, as it is stored. Raises `Malformed` when it has none."""
    size = file.size()
    if size < END:
        raise Malformed("it ends too early")
    file.seek(size - END)
    end = bytes(file.read(END))
    length = int.from_bytes(end[: -len(MAGIC)], "little")
    if not end.endswith(MAGIC) or length + END > size:
        raise Malformed("it has no footer")
    file.seek(size - END - length)
    return bytes(file.read(length))


def _chunk(column: object) -> StoredChunk:
    fields = _dict(column)
    if _ENCRYPTION in fields:
        raise Malformed("its columns are encrypted")
    found = _dict(fields.get(_METADATA))
    path = [part.decode("utf-8", "replace") for part in _list(found.get(_PATH)) if isinstance(part, bytes)]
    start = _int(found.get(_PAGES))
    if dictionary := found.get(_DICTIONARY):
        start = min(start, _int(dictionary))
    compressed = _int(found.get(_CODEC)) != _UNCOMPRESSED
    return StoredChunk(".".join(path), compressed, _int(found.get(_VALUES)), start, _int(found.get(_LENGTH)))


def _dict(value: object) -> dict[int, object]:
    if not isinstance(value, dict):
        raise Malformed("it lacks a part")
    return value


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise Malformed("it lacks a list")
    return value


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise Malformed("it lacks a number")
    return value
