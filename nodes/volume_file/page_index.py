"""Where each volume's bytes lie in a Parquet file, so that any row is read without decoding anything.

A file in the volume layout (`nodes.volume_file.layout`), and how row 70 is found in it:

    the file       | PAR1 | row group 0 | row group 1 | ... | footer | length | PAR1 |
                          :  rows 0-63  : rows 64-127 :
                                        :             `---------------------------.
    row group 1                         | page of ids | page of labels | volumes  |
                                                                       :          :
                            .------------------------------------------'          `-----.
    its volumes             | header | 4 bytes | volume 64 | header | 4 bytes | volume 65 | ... |
                                               ^
                                               first

    row 70 is value 6 of this chunk: it begins at first + 6 * (head + volume bytes), where the head is the page's
    header and the four bytes of the value's length.

The footer has the place and size of each column chunk, its first page header says whether all its pages are such as
Voxelflow writes (`nodes.volume_file.pages`): both are read once, when a table is opened. Then twelve bytes a row are
kept (number of the file, offset), and a volume is one read at a known place; each head is compared when its volume is
read.

Other writers put many volumes into a page, as Voxelflow did before it had checksums. There each page header is read
beforehand. In an uncompressed, PLAIN binary column without nulls, the values of a data page follow each other, each
after four bytes with its length. All values being equally long, a value's offset is arithmetic again:

    offset of value i = start of the page's values + i * (4 + volume bytes) + 4

What this rests on is verified: codec, encoding and absence of nulls from the file's metadata and page
headers, and each page's size, which must be exactly that of its number of values. The length in front of a
value is compared when the value is read, and a page's checksum, where its header has one, before the first
value of the page is (`PageChecks`). Anything else is `NotIndexable`.

Layout: https://github.com/apache/parquet-format (Data Pages, Thrift definition of PageHeader).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.volume_file.fatal_footer import refuse_damaged
from nodes.volume_file.footer import footer_bytes
from nodes.volume_file.pages import (
    DICTIONARY_PAGE,
    HEADER_LIMIT,
    LENGTH,
    PLAIN,
    PageHeader,
    VolumePages,
    crc32,
    parse_header,
)
from nodes.volume_file.thrift import Malformed, read_varint

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_HEADER_BYTES = 256
"""Read for a page header at first; one with statistics may need more."""
_READ_BYTES = 1 << 20
_MANY_GROUPS = 5
"""With so many row groups pyarrow finds what is odd sooner. Statistics are not read here."""
NO_CHECKSUM = -1


class NotIndexable(Exception):
    """The file's volume column is stored in a way that needs decoding; the text says how."""


@dataclass(frozen=True)
class PageIndex:
    """Where the volumes of a file lie.

    `offsets` is each row's byte offset, int64 (rows,), and `alone` whether its volume has a page of its own, as
    Voxelflow writes them, bool (rows,). Of the data pages that hold the others in turn, `rows` counts the values,
    `starts` and `sizes` are the bytes after the header, and `checksums` their CRC-32 or `NO_CHECKSUM`: int64
    (pages,) each.
    """

    offsets: NDArray[np.int64]
    alone: NDArray[np.bool_]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    checksums: NDArray[np.int64]


def index_pages(
    path: str,
    metadata: pq.FileMetaData,
    volume_bytes: int,
    groups: Iterable[int] | None = None,
    *,
    file: int | None = None,
) -> PageIndex:
    """Find every row's volume, or those of some row groups. Raises `NotIndexable`, `DataError` for a damaged footer.

    `file` is a descriptor of it, where it is open. Without one the file at `path` may be another by now: then
    `DataError` is raised where its footer has another length than that of the `metadata`.

    That the footer is looked at first takes 0.06 ms of the 0.37 in which a file of one row group is opened, its ids
    are read and its pages found, and 0.35 of 1.4 ms with 30 (medians, all in memory).
    """
    if file is None:
        opened = os.open(path, os.O_RDONLY)
        try:
            if len(footer_bytes(opened)) != metadata.serialized_size:
                raise DataError(f"{path} was replaced while it was read", hint="Run it again, or open the table again.")
            return index_pages(path, metadata, volume_bytes, groups, file=opened)
        finally:
            os.close(opened)
    pages: list[_Found] = []
    own = VolumePages(volume_bytes)
    refuse_damaged(path, metadata, footer_bytes(file) if metadata.num_row_groups < _MANY_GROUPS else None)
    # Page headers lie megabytes apart: without this the kernel reads ahead what is not needed.
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    headers: dict[bytes, PageHeader] = {}
    for group in range(metadata.num_row_groups) if groups is None else groups:
        pages += _chunk_pages(file, metadata, group, own, headers)
    first, rows, steps, starts, sizes, checksums = np.array(pages, np.int64).reshape(-1, 6).T
    # Value i of a page, or of a run of pages with one value each, lies i steps after its first one.
    begins = np.repeat(np.cumsum(rows) - rows, rows)
    offsets = np.repeat(first, rows) + np.repeat(steps, rows) * (np.arange(len(begins)) - begins)
    shared = steps != own.stride
    alone = np.repeat(~shared, rows)
    return PageIndex(offsets, alone, rows[shared], starts[shared], sizes[shared], checksums[shared])


def read_page(path: str, index: PageIndex, row: int, volume_bytes: int) -> NDArray[np.uint8] | None:
    """The bytes of the volume of a row, one small read, compared with their checksum; None: they are damaged."""
    alone, own = bool(index.alone[row]), VolumePages(volume_bytes)
    head = own.head_bytes if alone else LENGTH
    data = np.empty(head + volume_bytes, np.uint8)
    with open(path, "rb", buffering=0) as source:
        count = os.preadv(source.fileno(), [data.data], int(index.offsets[row]) - head)
    start, volume = data[:head].tobytes(), data[head:]
    if count != len(data):
        return None
    if alone:
        whole = own.checksum(volume.data) == own.checksum_in(start)
    else:
        whole = int.from_bytes(start, "little") == volume_bytes
    return volume if whole else None


_Found = tuple[int, int, int, int, int, int]
"""Of a page, or of all pages of a chunk in which every volume has its own: offset of the first volume, the values, the
step from one to the next, and the page's start, size and checksum."""


def _chunk_pages(
    file: int, metadata: pq.FileMetaData, group: int, own: VolumePages, headers: dict[bytes, PageHeader]
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
    if not schema.max_definition_level and column.num_values == row_group.num_rows:
        # The first head alone says what all are: the others are compared when their volumes are read.
        start = _read_at(file, own.head_bytes, at)
        if own.fills(column.total_compressed_size, column.num_values, start):
            return [(at + own.head_bytes, column.num_values, own.stride, 0, 0, NO_CHECKSUM)]
    step = LENGTH + own.volume_bytes
    while values < column.num_values:
        page = _page(file, at, end, headers)
        start_of_values = at + page.length
        levels = _levels(file, start_of_values, page) if schema.max_definition_level else 0
        if page.encoding != PLAIN or page.body != levels + page.values * step:
            raise NotIndexable("a page of its volume column is not laid out as volumes of one size")
        checksum = NO_CHECKSUM if page.checksum is None else page.checksum
        out.append((start_of_values + levels + LENGTH, page.values, step, start_of_values, page.body, checksum))
        at, values = start_of_values + page.body, values + page.values
    if values != row_group.num_rows or at != end:
        raise NotIndexable("the pages of its volume column do not add up to its rows")
    return out


def _read_at(file: int, count: int, at: int) -> bytes:
    """Bytes of an open file, fewer where it ends. Raises `NotIndexable` for a place that no file has."""
    try:
        return os.pread(file, count, at)
    except (OSError, OverflowError) as exc:
        if isinstance(exc, OSError) and exc.errno != errno.EINVAL:
            raise
        raise NotIndexable("a page of its volume column lies outside of it") from None


def _levels(file: int, start: int, page: PageHeader) -> int:
    """Bytes of the levels of a nullable column's page. Raises `NotIndexable` when it holds a null."""
    length, prefix = page.levels, 0
    if length is None:
        length, prefix = int.from_bytes(_read_at(file, 4, start), "little"), 4
    if length > page.body or not _all_present(_read_at(file, length, start + prefix), page.values):
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


def _page(file: int, at: int, end: int, headers: dict[bytes, PageHeader]) -> PageHeader:
    """The page at byte `at`. Pages of equal size mostly have equal headers: `headers` remembers them.

    Those with checksums differ, so they are not remembered.
    """
    length = _HEADER_BYTES
    while True:
        data = _read_at(file, min(length, end - at), at)
        for header, page in headers.items():
            if data.startswith(header):
                return page
        try:
            page = parse_header(data)
            break
        except Malformed as exc:
            length *= 4
            if len(data) >= end - at or length > HEADER_LIMIT:
                raise NotIndexable(f"a page header of its volume column cannot be read: {exc}") from exc
    if page.kind == DICTIONARY_PAGE or page.compressed:
        raise NotIndexable("its volume column holds pages that are not plain data")
    if page.values < 1:
        raise NotIndexable("a page header of its volume column makes no sense")
    if len(headers) < 8 and page.length <= _HEADER_BYTES and page.checksum is None:
        headers[data[: page.length]] = page
    return page


class PageChecks:
    """Which page of which file each row lies in, and which pages are found right. For several threads.

    Of pages with several volumes: those that hold one alone are checked by whoever reads it.

    Two threads may check one page at the same time; both come to the same answer.
    """

    def __init__(self, indexes: Sequence[PageIndex]) -> None:
        rows = np.concatenate([index.rows for index in indexes])
        self._page = np.full(sum(len(index.alone) for index in indexes), -1, np.int32)
        """By a row's stored position; -1 for a volume with a page of its own."""
        alone = np.concatenate([index.alone for index in indexes])
        self._page[~alone] = np.repeat(np.arange(len(rows), dtype=np.int32), rows)
        self._starts = np.concatenate([index.starts for index in indexes])
        self._sizes = np.concatenate([index.sizes for index in indexes])
        self._checksums = np.concatenate([index.checksums for index in indexes])
        self._pending = self._checksums != NO_CHECKSUM
        self._left = int(self._pending.sum())
        self._lock = threading.Lock()

    @property
    def pending(self) -> bool:
        """Whether any page is still to be checked."""
        return self._left > 0

    def is_right(self, stored: int, file: int) -> bool:
        """Whether the page of the row at this stored position has its checksum, read through descriptor `file`."""
        page = self._page[stored]
        if page < 0 or not self._pending[page]:
            return True
        if _checksum(file, int(self._starts[page]), int(self._sizes[page])) != self._checksums[page]:
            return False
        with self._lock:
            self._left -= int(self._pending[page])
            self._pending[page] = False
        return True


def _checksum(file: int, start: int, size: int) -> int:
    buffer = memoryview(bytearray(min(size, _READ_BYTES)))
    value, end = 0, start + size
    while start < end:
        count = os.preadv(file, [buffer[: end - start]], start)
        if not count:
            return NO_CHECKSUM
        value = crc32(buffer[:count], value)
        start += count
    return value


def checks_for(indexes: Sequence[PageIndex]) -> PageChecks | None:
    """None when no page with several volumes has a checksum, as in the tables that Voxelflow makes."""
    if any((index.checksums != NO_CHECKSUM).any() for index in indexes):
        return PageChecks(indexes)
    return None


def positions(indexes: Sequence[PageIndex]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number of the file and offset in it of each row's volume, by stored position."""
    numbers = np.repeat(np.arange(len(indexes), dtype=np.int32), [len(index.offsets) for index in indexes])
    return numbers, np.concatenate([index.offsets for index in indexes])
