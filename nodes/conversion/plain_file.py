"""Writing a Parquet file of the volume layout by hand: volumes go from the buffer they were read into to the file.

A row group is the page of its ids, the page of its labels and one page with its volumes, each behind the
four bytes of its length: the bytes that pyarrow writes for this layout, less the statistics in its page
headers. Page headers stand in front of pages and tell their sizes, and the size of a page of volumes is
known beforehand. So only a few volumes are in memory, in a buffer that the processor's cache holds.
Measured side by side, it takes a third of the processor time of collecting a row group and giving it to pyarrow.

Pages carry no checksum, as pyarrow's do not by default: it would take as long as all the rest.

Layout: https://github.com/apache/parquet-format (Data Pages, Thrift definition of PageHeader).
"""

from __future__ import annotations

import errno
import math
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nodes.delta.parquet_footer import MAGIC, Chunk, footer
from nodes.delta.thrift_writing import I32, STRUCT, integer, struct_of, varint
from nodes.durable_files import start_writing

BUFFER_BYTES = 1 << 20
"""Volumes are written together up to this: small ones cost no call each, large ones stay in the processor's cache."""
_LENGTH = 4
_ALIGN = 64
_WRITE_OUT_BYTES = 8 << 20
_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
_ENCODINGS = frozenset({"PLAIN", "RLE"})


def buffer_rows(volume_bytes: int, group_rows: int) -> int:
    """Volumes that are held at a time."""
    return max(1, min(group_rows, BUFFER_BYTES // (volume_bytes + _LENGTH)))


class PlainFile:
    """One new file at `path`. Rows come one by one: `room()` is where the next volume goes, `keep` says it is there.

    Before the first volume of a row group `expect` tells which rows are to come: what stands in front of the volumes
    is made of it. Others may come; then the row group is put right when it is full, which moves its bytes once.
    A file of the same rows always has the same bytes. Nothing is made before the first row.
    """

    def __init__(self, path: Path, template: bytes, volume_bytes: int, group_rows: int) -> None:
        """`template` is a whole file without rows, with the schema of this one."""
        self._path, self._template = path, template
        self._length, self._group_rows = volume_bytes, group_rows
        self._buffer_rows = buffer_rows(volume_bytes, group_rows)
        self._buffer = _aligned(self._buffer_rows * (volume_bytes + _LENGTH))
        self._buffer.reshape(self._buffer_rows, -1)[:, :_LENGTH] = np.frombuffer(
            volume_bytes.to_bytes(_LENGTH, "little"), np.uint8
        )
        self._out: int | None = None
        self._end = self._on_its_way = 0
        self._groups: list[tuple[int, list[Chunk]]] = []
        self._begin_group(_Front((), (), volume_bytes))

    @property
    def is_between_groups(self) -> bool:
        return not self._ids

    def expect(self, ids: Sequence[str], labels: Sequence[float | None]) -> None:
        """The rows that the row group now beginning will have if none of them is refused."""
        self._front = _Front(ids, labels, self._length)

    def room(self) -> NDArray[np.uint8]:
        """Where the next volume goes; its bytes count once `keep` is called."""
        first = self._held * (self._length + _LENGTH) + _LENGTH
        return self._buffer[first : first + self._length]

    def keep(self, volume_id: str, label: float | None) -> bool:
        """Take the volume in `room()` as the next row; True when a row group is full. Raises `OSError`."""
        self._ids.append(volume_id)
        self._labels.append(label)
        self._held += 1
        full = len(self._ids) == self._group_rows
        if full or self._held == self._buffer_rows:
            self._write_held()
        if full:
            self._end_group()
        return full

    def finish(self) -> None:
        """Write what is left and the footer; the bytes are then in the system's cache. Raises `OSError`."""
        if self._ids:
            if self._held:
                self._write_held()
            self._end_group()
        if self._out is not None:
            rows = sum(rows for rows, _ in self._groups)
            self._write([footer(self._template, rows, self._groups)])
        self.close()

    def close(self) -> None:
        if self._out is not None:
            os.close(self._out)
            self._out = None

    def _begin_group(self, front: _Front) -> None:
        self._front = front
        self._start = self._end
        self._ids: list[str] = []
        self._labels: list[float | None] = []
        self._held = 0

    def _write_held(self) -> None:
        pieces: list[bytes | memoryview] = []
        if self._out is None:
            self._out = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            pieces.append(MAGIC)
            self._start = len(MAGIC)
        if self._end <= self._start:
            pieces.append(self._front.bytes)
        self._write([*pieces, self._buffer.data[: self._held * (self._length + _LENGTH)]])
        self._held = 0
        if self._end - self._on_its_way >= _WRITE_OUT_BYTES:
            assert self._out is not None
            start_writing(self._out, self._on_its_way, self._end - self._on_its_way)
            self._on_its_way = self._end

    def _end_group(self) -> None:
        front = self._front
        if front.rows != (self._ids, self._labels):
            front = _Front(self._ids, self._labels, self._length)
            self._put_right(front)
        self._groups.append((len(self._ids), front.chunks(self._start)))
        self._begin_group(front)

    def _put_right(self, front: _Front) -> None:
        """Other rows came than were expected: replace what stands in front of the volumes, whatever its length."""
        assert self._out is not None
        before, after = self._start + len(self._front.bytes), self._start + len(front.bytes)
        for offset, length in _pieces(self._end - before if after != before else 0, backwards=after > before):
            data = os.pread(self._out, length, before + offset)
            if len(data) != length or os.pwrite(self._out, data, after + offset) != length:
                raise OSError(errno.EIO, "cannot be moved", str(self._path))
        os.pwrite(self._out, front.bytes, self._start)
        self._end += after - before
        os.ftruncate(self._out, self._end)

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        assert self._out is not None
        views = [memoryview(piece) for piece in pieces]
        while views:
            done = os.pwritev(self._out, views, self._end)
            self._end += done
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if views:
                views[0] = views[0][done:]


class _Front:
    """What stands in front of a row group's volumes: the pages of its ids and labels, and their page's header."""

    def __init__(self, ids: Sequence[str], labels: Sequence[float | None], volume_bytes: int) -> None:
        self.rows = (list(ids), list(labels))
        self._volumes = len(ids) * (volume_bytes + _LENGTH)
        texts = [text.encode() for text in ids]
        self._texts = texts
        self._present = [label for label in labels if label is not None]
        names = b"".join(len(text).to_bytes(_LENGTH, "little") + text for text in texts)
        levels = _levels([label is not None for label in labels])
        values = np.array(self._present, "<f4").tobytes()
        self._id_page = _page(names, len(ids))
        self._label_page = _page(len(levels).to_bytes(4, "little") + levels + values, len(ids))
        self._volume_header = _header(self._volumes, len(ids))
        self.bytes = self._id_page + self._label_page + self._volume_header

    def chunks(self, start: int) -> list[Chunk]:
        """The row group's column chunks when its first page stands at byte `start`."""
        count = len(self._texts)
        label_at = start + len(self._id_page)
        volume_at = label_at + len(self._label_page)
        least, most = _bounds(self._present)
        return [
            _chunk("id", "BYTE_ARRAY", count, start, len(self._id_page), 0, min(self._texts), max(self._texts)),
            _chunk("label", "FLOAT", count, label_at, len(self._label_page), count - len(self._present), least, most),
            _chunk("volume", "BYTE_ARRAY", count, volume_at, len(self._volume_header) + self._volumes),
        ]


def _chunk(
    path: str,
    kind: str,
    count: int,
    offset: int,
    size: int,
    nulls: int | None = None,
    least: bytes | None = None,
    most: bytes | None = None,
) -> Chunk:
    return Chunk(path, kind, _ENCODINGS, "UNCOMPRESSED", count, offset, size, size, nulls, least, most)


def _bounds(values: Sequence[float]) -> tuple[bytes | None, bytes | None]:
    """Encoded minimum and maximum; the format wants a zero in them to be -0 and +0."""
    numbers = [v for v in values if not math.isnan(v)]
    if not numbers:
        return None, None
    return struct.pack("<f", min(numbers) or -0.0), struct.pack("<f", max(numbers) or 0.0)


def _page(data: bytes, values: int) -> bytes:
    return _header(len(data), values) + data


def _header(size: int, values: int) -> bytes:
    """PageHeader of a data page of the first version, not compressed."""
    data = {1: (I32, integer(values)), 2: (I32, integer(_PLAIN)), 3: (I32, integer(_RLE)), 4: (I32, integer(_RLE))}
    return struct_of(
        {
            1: (I32, integer(_DATA_PAGE)),
            2: (I32, integer(size)),
            3: (I32, integer(size)),
            5: (STRUCT, struct_of(data)),
        }
    )


def _levels(present: Sequence[bool]) -> bytes:
    """Definition levels of an optional column, in the hybrid of runs and bit-packed groups."""
    if len(set(present)) < 2:
        return varint(len(present) << 1) + bytes(present[:1])
    groups = -(-len(present) // 8)
    return varint(groups << 1 | 1) + np.packbits(np.array(present, bool), bitorder="little").tobytes()


def _aligned(size: int) -> NDArray[np.uint8]:
    """A buffer whose first volume, behind its length, begins where processors like it."""
    raw = np.empty(size + _ALIGN, np.uint8)
    first = -(raw.ctypes.data + _LENGTH) % _ALIGN
    return raw[first : first + size]


def _pieces(total: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    starts = range(0, total, BUFFER_BYTES)
    for start in reversed(starts) if backwards else starts:
        yield start, min(BUFFER_BYTES, total - start)
