"""Where each volume's bytes lie in a Parquet file, so that any row is read without decoding anything.

In an uncompressed, PLAIN binary column without nulls, the values of a data page follow each other,
each behind four bytes with its length. All values being equally long, a value's offset is arithmetic:

    offset of value i = start of the page's values + i * (4 + volume bytes) + 4

What this rests on is verified: codec, encoding and absence of nulls from the file's metadata and page
headers, and each page's size, which must be exactly that of its number of values. The length in front of a
value is compared when the value is read, and a page's checksum, where its header has one, before the first
value of the page is (`arrow_loader`). Anything else is `NotIndexable`.

Layout: https://github.com/apache/parquet-format (Data Pages, Thrift definition of PageHeader).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nodes.loaders.thrift_compact import Malformed, read_struct, read_varint

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_PLAIN, _RLE = 0, 3
_HEADER_BYTES = 256
"""Read for a page header at first; one with statistics may need more."""
_HEADER_LIMIT = 1 << 20


class NotIndexable(Exception):
    """The file's volume column is stored in a way that needs decoding; the text tells how."""


NO_CHECKSUM = -1


@dataclass(frozen=True)
class PageIndex:
    """Where the volumes of a file lie.

    `offsets` is each row's byte offset, int64 (rows,). Of the data pages that hold them in turn, `rows` counts the
    values, `starts` and `sizes` tell the bytes behind the header, and `checksums` their CRC-32 or `NO_CHECKSUM`:
    int64 (pages,) each.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    checksums: NDArray[np.int64]


def index_pages(path: str, metadata: pq.FileMetaData, volume_bytes: int) -> PageIndex:
    """Find every row's volume. Raises `NotIndexable`."""
    pages: list[_Found] = []
    file = os.open(path, os.O_RDONLY)
    try:
        # Page headers lie megabytes apart: without this the kernel reads ahead what nobody wants.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        headers: dict[bytes, _Page] = {}
        for group in range(metadata.num_row_groups):
            pages += _chunk_pages(file, metadata, group, volume_bytes, headers)
    finally:
        os.close(file)
    first, rows, starts, sizes, checksums = np.array(pages, np.int64).reshape(-1, 5).T
    # Value i of a page lies i steps behind its first one.
    begins = np.repeat(np.cumsum(rows) - rows, rows)
    offsets = np.repeat(first, rows) + (4 + volume_bytes) * (np.arange(len(begins)) - begins)
    return PageIndex(offsets, rows, starts, sizes, checksums)


_Found = tuple[int, int, int, int, int]
"""Offset of a page's first volume, its values, its start, size and checksum: the columns of `PageIndex`."""


@dataclass(frozen=True)
class _Page:
    """What a page header says: its own length, the page's length, its values, and its bytes of levels."""

    header: int
    body: int
    values: int
    encoding: int
    levels: int | None
    """`None`: the length of the levels stands at their start (first version of data pages)."""
    checksum: int


def _chunk_pages(
    file: int, metadata: pq.FileMetaData, group: int, volume_bytes: int, headers: dict[bytes, _Page]
) -> list[_Found]:
    row_group = metadata.row_group(group)
    number = _volume_column(metadata)
    column, schema = row_group.column(number), metadata.schema.column(number)
    if column.compression != "UNCOMPRESSED":
        raise NotIndexable(f"its volumes are compressed ({column.compression.lower()})")
    if column.physical_type != "BYTE_ARRAY" or schema.max_repetition_level or schema.max_definition_level > 1:
        raise NotIndexable("its volume column is not plain binary")
    if column.has_dictionary_page:
        raise NotIndexable("its volumes are dictionary encoded")
    out: list[_Found] = []
    at, end, values = column.data_page_offset, column.data_page_offset + column.total_compressed_size, 0
    while values < column.num_values:
        page = _page(file, at, end, headers)
        start = at + page.header
        levels = _levels(file, start, page) if schema.max_definition_level else 0
        if page.encoding != _PLAIN or page.body != levels + page.values * (4 + volume_bytes):
            raise NotIndexable("a page of its volume column is not laid out as volumes of one size")
        out.append((start + levels + 4, page.values, start, page.body, page.checksum))
        at, values = start + page.body, values + page.values
    if values != row_group.num_rows or at != end:
        raise NotIndexable("the pages of its volume column do not add up to its rows")
    return out


def _levels(file: int, start: int, page: _Page) -> int:
    """Bytes of the levels of a nullable column's page. Raises `NotIndexable` when it holds a null."""
    length, prefix = page.levels, 0
    if length is None:
        length, prefix = int.from_bytes(os.pread(file, 4, start), "little"), 4
    if length > page.body or not _all_present(os.pread(file, length, start + prefix), page.values):
        raise NotIndexable("its volume column holds nulls, or marks them in an old way")
    return prefix + length


def _all_present(levels: bytes, values: int) -> bool:
    """Whether definition levels (hybrid of runs and bit-packed groups, one bit each) are all 1."""
    at = seen = 0
    try:
        while seen < values:
            head, at = read_varint(levels, at)
            if head & 1:
                count = min(8 * (head >> 1), values - seen)
                bits = int.from_bytes(levels[at : at + (head >> 1)], "little")
                present = bits & ((1 << count) - 1) == (1 << count) - 1
                at += head >> 1
            else:
                count, present = head >> 1, levels[at] == 1
                at += 1
            if not present or not count:
                return False
            seen += count
    except (IndexError, Malformed):
        return False
    return True


def _volume_column(metadata: pq.FileMetaData) -> int:
    for number in range(metadata.num_columns):
        if metadata.schema.column(number).path == "volume":
            return number
    raise NotIndexable("it has no column volume")


def _page(file: int, at: int, end: int, headers: dict[bytes, _Page]) -> _Page:
    """The page at byte `at`. Pages of equal size mostly have equal headers: `headers` remembers them.

    Those with checksums differ, so they are not remembered.
    """
    length = _HEADER_BYTES
    while True:
        data = os.pread(file, min(length, end - at), at)
        for header, page in headers.items():
            if data.startswith(header):
                return page
        try:
            fields, used = read_struct(data)
            break
        except Malformed as exc:
            length *= 4
            if len(data) >= end - at or length > _HEADER_LIMIT:
                raise NotIndexable(f"a page header of its volume column cannot be read: {exc}") from exc
    page = _parse(fields, used)
    if len(headers) < 8 and used <= _HEADER_BYTES and page.checksum == NO_CHECKSUM:
        headers[data[:used]] = page
    return page


def _parse(fields: dict[int, object], used: int) -> _Page:
    """Fields by their numbers in PageHeader, DataPageHeader and DataPageHeaderV2."""
    kind, body, stored = fields.get(1), fields.get(2), fields.get(3)
    data = fields.get(5 if kind == _DATA_PAGE else 8)
    if kind not in (_DATA_PAGE, _DATA_PAGE_V2) or not isinstance(data, dict) or body != stored:
        raise NotIndexable("its volume column holds pages that are not plain data")
    if kind == _DATA_PAGE:
        # Levels in the older bit-packed encoding carry no length in front.
        values, encoding, levels = data.get(1), data.get(2), None if data.get(3) == _RLE else 0
    else:
        values, encoding, levels = data.get(1), data.get(4), int(data.get(5, -1)) + int(data.get(6, -1))
    if not (isinstance(body, int) and isinstance(values, int) and isinstance(encoding, int)):
        raise NotIndexable("a page header of its volume column is incomplete")
    if body < 0 or values < 1:
        raise NotIndexable("a page header of its volume column makes no sense")
    checksum = fields.get(4)
    return _Page(used, body, values, encoding, levels, checksum % 2**32 if isinstance(checksum, int) else NO_CHECKSUM)
