"""The pages of a Parquet file: their headers, and their checksums.

A column chunk is a row of pages, each after a header that has its size, the number of its values and, where the
writer cared, the CRC-32 (gzip's polynomial) of its bytes as they are stored. Nothing else in a Parquet file shows
a flipped bit: a volume is any bytes.

Voxelflow gives each volume a page of its own:

    | header | 4 bytes | volume 0 | header | 4 bytes | volume 1 | ...

The four bytes are the value's length. So Parquet's checksum is the volume's, and whoever reads one volume, in any
order, can check it without reading others. It lies where it costs least: in front of the volume, so that one read
brings both. All headers are equally long (`VolumePages`), so that a volume is still found by arithmetic.

Layout: https://github.com/apache/parquet-format (Data Pages, Checksumming, Thrift definition of PageHeader).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.storage.checksum import crc32 as crc32
from nodes.volume_file.thrift import I32, STRUCT, Malformed, integer, read_struct, read_varint, struct_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN, RLE = 0, 3
LENGTH = 4
"""Bytes in front of a binary value with its length."""
_CHECKSUM_BYTES = 5
_STATISTICS = 5
"""Field of a DataPageHeader."""
HEADER_LIMIT = 1 << 20
"""Longer page headers are none: statistics of giant values are cut short by every writer."""
_FIRST_TRY = 256
_TOGETHER = 8
"""Pages of volumes whose headers are read at once; of fewer they are read faster one by one."""
_MISMATCH = "the page does not match its checksum"


class PageHeader(NamedTuple):
    """What a page header says: its own length and that of the page after it, both in bytes, and the page's values.

    `levels` are the bytes of the page's levels; None where their length stands at their start (first version of
    data pages). `checksum` is None where the writer made none.
    """

    length: int
    body: int
    kind: int
    values: int
    encoding: int
    levels: int | None
    checksum: int | None
    compressed: bool


def page_header(size: int, values: int, checksum: int) -> bytes:
    """PageHeader of a PLAIN data page of the first version, not compressed."""
    return _header(size, values, integer(_signed(checksum)))


def _header(size: int, values: int, checksum: bytes) -> bytes:
    data = {1: (I32, integer(values)), 2: (I32, integer(PLAIN)), 3: (I32, integer(RLE)), 4: (I32, integer(RLE))}
    fields = {
        1: (I32, integer(DATA_PAGE)),
        2: (I32, integer(size)),
        3: (I32, integer(size)),
        4: (I32, checksum),
        5: (STRUCT, struct_of(data)),
    }
    return struct_of(fields)


def _signed(checksum: int) -> int:
    """The format has no unsigned numbers."""
    return checksum - 2**32 if checksum >= 2**31 else checksum


def _unsigned(zigzag: int) -> int:
    return ((zigzag >> 1) ^ -(zigzag & 1)) % 2**32


_VARINT = rb"([\x80-\xff]*[\0-\x7f])"
_OWN = re.compile(
    rb"\x15\0\x15" + _VARINT + rb"\x15\1\x15" + _VARINT + rb"\x1c\x15" + _VARINT + rb"\x15\0\x15\x06\x15\x06\0\0",
    re.DOTALL,
)
"""The headers of `page_header`, ten times as fast as field by field: a compaction of small files parses three a row."""


def parse_header(data: bytes) -> PageHeader:
    """The page header at the start of `data`. Raises `Malformed`, also when `data` ends too early."""
    if match := _OWN.match(data):
        size, own, values = (read_varint(text, 0)[0] for text in match.groups())
        return PageHeader(match.end(), size >> 1, DATA_PAGE, values >> 1, PLAIN, None, _unsigned(own), False)
    fields, used = read_struct(data)
    kind, body, stored, checksum = fields.get(1), fields.get(2), fields.get(3), fields.get(4)
    if not (isinstance(kind, int) and isinstance(body, int) and isinstance(stored, int)) or min(body, stored) < 0:
        raise Malformed("a page header makes no sense")
    known = checksum % 2**32 if isinstance(checksum, int) else None
    inner = fields.get({DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}.get(kind, 0))
    count = inner.get(1) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(count, int) or count < 0:
        raise Malformed("a page header is incomplete")
    encoding: object = inner.get(4 if kind == DATA_PAGE_V2 else 2)
    levels: int | None = 0
    if kind == DATA_PAGE:
        # Levels in the older bit-packed encoding carry no length in front.
        levels = None if inner.get(3) == RLE else 0
    elif kind == DATA_PAGE_V2:
        levels = int(inner.get(5, -1)) + int(inner.get(6, -1))
    if not isinstance(encoding, int):
        raise Malformed("a page header is incomplete")
    return PageHeader(used, stored, kind, count, encoding, levels, known, body != stored)


class VolumePages:
    """The pages of volumes of `volume_bytes` bytes, one each, as Voxelflow writes them.

    Their headers are equally long: the checksum takes five bytes whatever its value, which the encoding (LEB128)
    allows; pyarrow, DuckDB, polars and delta-rs read it (`tests/nodes/volume_file/test_write.py`).
    """

    def __init__(self, volume_bytes: int) -> None:
        self.volume_bytes = volume_bytes
        length = volume_bytes.to_bytes(LENGTH, "little")
        header = _header(volume_bytes + LENGTH, 1, bytes([0x80] * (_CHECKSUM_BYTES - 1) + [0]))
        self._own = header + length
        self.head = np.frombuffer(self._own, np.uint8)
        """What stands in front of a volume, with a checksum of 0: the header and the length."""
        self.head_bytes = len(self.head)
        self.stride = self.head_bytes + volume_bytes
        self.checksum_at = header.index(b"\x80\x80\x80\x80\0")
        self._begin = crc32(length)
        self._fixed = np.full(self.head_bytes, 0xFF, np.uint8)
        self._fixed[self.checksum_at : self.checksum_at + _CHECKSUM_BYTES] = [0x80, 0x80, 0x80, 0x80, 0xF0]

    def checksum(self, volume: Buffer) -> int:
        """The checksum of the page that holds this volume."""
        return crc32(volume, self._begin)

    def encoded(self, checksum: int) -> bytes:
        """The five bytes that stand at `checksum_at` in the head."""
        signed = _signed(checksum)
        value = signed << 1 if signed >= 0 else (-signed << 1) - 1
        return bytes(
            [
                value & 0x7F | 0x80,
                value >> 7 & 0x7F | 0x80,
                value >> 14 & 0x7F | 0x80,
                value >> 21 & 0x7F | 0x80,
                value >> 28,
            ]
        )

    def are_heads(self, heads: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows of `heads`, uint8 (n, bytes), are heads of such volumes or begin so, whatever their checksums."""
        width = heads.shape[1]
        same: NDArray[np.bool_] = (((heads ^ self.head[:width]) & self._fixed[:width]) == 0).all(axis=1)
        return same

    def checksums(self, heads: NDArray[np.uint8]) -> list[int]:
        """The checksums in these heads."""
        digits = heads[:, self.checksum_at : self.checksum_at + _CHECKSUM_BYTES].astype(np.int64) & 0x7F
        value = digits @ (1 << np.arange(0, 7 * _CHECKSUM_BYTES, 7, dtype=np.int64))
        found: list[int] = (((value >> 1) ^ -(value & 1)) & 0xFFFFFFFF).tolist()
        return found

    def checksum_in(self, head: bytes) -> int | None:
        """The checksum in a head, or in as much of one as has it; None: it is no head of such volumes.

        It says of one what `are_heads` and `checksums` say of many: for so few bytes NumPy takes ten times as long.
        """
        at, end = self.checksum_at, self.checksum_at + _CHECKSUM_BYTES
        if head[:at] != self._own[:at] or head[end:] != self._own[end : len(head)]:
            return None
        a, b, c, d, e = head[at:end]
        if not a & b & c & d & 0x80 or e & 0xF0:
            return None
        return _unsigned(a & 0x7F | (b & 0x7F) << 7 | (c & 0x7F) << 14 | (d & 0x7F) << 21 | e << 28)

    def fills(self, chunk_bytes: int, values: int, start: bytes) -> bool:
        """Whether a column chunk of so many bytes and values that begins with `start` consists of such pages."""
        if chunk_bytes != values * self.stride or len(start) < self.head_bytes:
            return False
        return self.checksum_in(start[: self.head_bytes]) is not None


@dataclass(frozen=True)
class DamagedPage:
    """Values `first` to `first + values - 1` of a column chunk, and what is wrong with their page."""

    first: int
    values: int
    reason: str


class ChunkCheck:
    """Checks the pages of a column chunk while its bytes go by: `feed` them in order, then `finish`.

    `values` and `length` are those of the chunk's metadata, `volumes` says how volumes of the table look, for its
    volume column: a damaged header among them costs one volume, where otherwise all that follow it are lost.

    Attributes:
        checked: pages that had a checksum.
        unchecked: pages without one, of which nothing is known.
        damaged: what was found, in the order of the values.
    """

    def __init__(self, values: int, length: int, volumes: VolumePages | None = None) -> None:
        self.checked = self.unchecked = 0
        self.damaged: list[DamagedPage] = []
        self._values = values
        self._bytes_left = length
        self._uniform = volumes if volumes is not None and length == values * volumes.stride else None
        self._first = 0
        """Value that the page at hand begins with."""
        self._head = b""
        self._wanted = self._try_bytes
        self._page: PageHeader | None = None
        self._left = self._checksum = 0
        self._lost = False

    @property
    def _try_bytes(self) -> int:
        return _FIRST_TRY if self._uniform is None else self._uniform.head_bytes - LENGTH

    @property
    def all_compared(self) -> bool:
        """Whether each volume has a page of its own, of which every bit was compared; to be asked after `finish`."""
        return self._uniform is not None

    def feed(self, data: bytes | memoryview) -> None:
        """The next bytes of the chunk."""
        rest = memoryview(data)
        self._bytes_left -= len(rest)
        while rest and not self._lost:
            if self._page is None:
                rest = self._take_header(self._take_volumes(rest))
                continue
            part = rest[: self._left]
            if self._page.checksum is not None:
                self._checksum = crc32(part, self._checksum)
            self._left -= len(part)
            rest = rest[len(part) :]
            if not self._left:
                self._end_page(self._page)

    def finish(self) -> ChunkCheck:
        """All bytes were fed; gives itself."""
        if not self._lost:
            if self._page is not None or self._head or self._bytes_left > 0:
                self._lose("the pages end too early")
            elif self._first != self._values:
                # The bits of a header are not in its checksum: whichever counts wrong, readers shift all values by it.
                reason = f"the page headers count {self._first:,} values, not {self._values:,}"
                self.damaged.append(DamagedPage(0, self._values, reason))
        return self

    def _take_volumes(self, data: memoryview) -> memoryview:
        """Check the pages of volumes that `data` begins with, up to a damaged header; gives the rest."""
        volumes = self._uniform
        if volumes is None or self._head or len(data) < _TOGETHER * volumes.stride:
            return data
        count, stride, begin = len(data) // volumes.stride, volumes.stride, self._try_bytes
        heads = np.frombuffer(data, np.uint8, count * stride).reshape(count, stride)[:, :begin]
        good = volumes.are_heads(heads)
        if not good.all():
            count = int(good.argmin())
        for number, checksum in enumerate(volumes.checksums(heads[:count])):
            at = number * stride
            if crc32(data[at + begin : at + stride]) != checksum:
                self.damaged.append(DamagedPage(self._first + number, 1, _MISMATCH))
        self.checked += count
        self._first += count
        return data[count * stride :]

    def _take_header(self, data: memoryview) -> memoryview:
        held = len(self._head)
        self._head += data[: self._wanted - held]
        header = self._header()
        if header is None:
            rest = data[len(self._head) - held :]
            if len(self._head) == self._wanted:
                self._wanted *= 4
                if self._wanted > HEADER_LIMIT:
                    self._lose("a page header cannot be read")
            return rest
        self._head, self._wanted = b"", self._try_bytes
        self._page, self._left, self._checksum = header, header.body, 0
        if not header.body:
            self._end_page(header)
        return data[header.length - held :]

    def _header(self) -> PageHeader | None:
        """The header that the held bytes begin with; None when they are too few, or none."""
        if self._uniform is not None:
            if len(self._head) < self._try_bytes:
                return None
            body, checksum = self._uniform.volume_bytes + LENGTH, self._uniform.checksum_in(self._head)
            if checksum is None:
                if self._first == 0 and (other := _foreign(self._head)) is not None:
                    # Pages of another writer that add up by chance.
                    self._uniform = None
                    return other
                # Damaged, and its place is known all the same; no checksum is negative.
                checksum = -1
            return PageHeader(self._try_bytes, body, DATA_PAGE, 1, PLAIN, None, checksum, False)
        try:
            return parse_header(self._head)
        except Malformed:
            return None

    def _end_page(self, page: PageHeader) -> None:
        self._page = None
        if page.checksum is None:
            self.unchecked += 1
        else:
            self.checked += 1
            if self._checksum != page.checksum:
                if page.kind == DICTIONARY_PAGE:
                    self._lose("the dictionary does not match its checksum")
                    return
                reason = "the page header is damaged" if page.checksum < 0 else _MISMATCH
                self.damaged.append(DamagedPage(self._first, page.values, reason))
        if page.kind != DICTIONARY_PAGE:
            self._first += page.values

    def _lose(self, reason: str) -> None:
        self._lost = True
        self.damaged.append(DamagedPage(self._first, max(self._values - self._first, 1), reason))


def _foreign(data: bytes) -> PageHeader | None:
    """The page header at the start of `data`, which is as long as ours, if it is whole and one that we never write."""
    with suppress(Malformed):
        found = parse_header(data)
        inner = read_struct(data)[0].get({DATA_PAGE: 5}.get(found.kind, 0))
        # pyarrow's have statistics, with a short checksum they are as long as ours.
        plain = isinstance(inner, dict) and not isinstance(inner.get(_STATISTICS), dict) and not found.compressed
        ours = plain and found.values == 1 and found.checksum is not None
        return None if ours and found.length == len(data) else found
    return None
