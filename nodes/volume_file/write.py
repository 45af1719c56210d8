"""Writing a Parquet file of the volume layout, row by row (`nodes.volume_file.new_files.VolumeFileWriter`).

`PlainFile` writes it by hand: volumes go from the buffer they were read into to the file. `CompressedFile` has pyarrow
write a row group at a time.

In a plain file a row group is the page of its ids, the page of its labels, a page for each volume
(`nodes.volume_file.pages`), and a page for each further column. Every page has its checksum. Only a few volumes are in
memory, in a buffer that fits the processor's cache, where their checksums are made. Measured side by side with volumes
of 360 kB, it takes a quarter of the processor time of collecting a row group and giving it to pyarrow, which makes
checksums too; they are 4% of it (a fifth with volumes of 16 kB).

Layout: https://github.com/apache/parquet-format (Data Pages, Thrift definition of PageHeader).
"""

from __future__ import annotations

import errno
import math
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.storage.io_errors import naming
from engine.storage.page_cache import start_writing
from nodes.volume_file.footer import MAGIC, Chunk, footer, sign_footer
from nodes.volume_file.join import chunk_of
from nodes.volume_file.layout import writer_options
from nodes.volume_file.pages import LENGTH, VolumePages, crc32, page_header
from nodes.volume_file.thrift import varint

BUFFER_BYTES = 1 << 20
"""Volumes are written together up to this: small ones cost no call each, large ones stay in the processor's cache."""
_ALIGN = 64
_WRITE_OUT_BYTES = 8 << 20
_ENCODINGS = frozenset({"PLAIN", "RLE"})


def buffer_rows(volume_bytes: int, group_rows: int) -> int:
    """Volumes of `volume_bytes` that a `PlainFile` buffers, at most `group_rows`."""
    return max(1, min(group_rows, BUFFER_BYTES // VolumePages(volume_bytes).stride))


class PlainFile:
    """One new file at `path`. Rows come one by one: `buffer()` is where the next volume goes, `keep` says it is there.

    Before the first volume of a row group `expect` announces the rows to come: what comes before the volumes
    is made of it. Others may come; then the row group is corrected when it is full, which moves its bytes once.
    A file of the same rows always has the same bytes. Nothing is made before the first row.
    """

    def __init__(
        self, path: Path, template: bytes, volume_bytes: int, group_rows: int, columns: pa.Schema | None = None
    ) -> None:
        """`template` is a whole file without rows, with its schema; `columns` are those after the volume."""
        self._path, self._template = path, template
        self._columns = columns if columns is not None and len(columns) else None
        self._pages, self._group_rows = VolumePages(volume_bytes), group_rows
        self._buffer_rows = buffer_rows(volume_bytes, group_rows)
        self._buffer = _aligned(self._buffer_rows * self._pages.stride, self._pages.head_bytes)
        rows = self._buffer.reshape(self._buffer_rows, -1)
        rows[:, : self._pages.head_bytes] = self._pages.head
        self._volumes: list[NDArray[np.uint8]] = list(rows[:, self._pages.head_bytes :])
        self._out: int | None = None
        self._end = self._flushing = 0
        self._groups: list[tuple[int, list[Chunk]]] = []
        self._begin_group(_Front((), ()))

    @property
    def is_between_groups(self) -> bool:
        """Whether the next row begins a row group."""
        return not self._ids

    def expect(self, ids: Sequence[str], labels: Sequence[float | None]) -> None:
        """The rows that the row group now beginning will have if none of them is refused."""
        self._front = _Front(ids, labels)

    def buffer(self) -> NDArray[np.uint8]:
        """Where the next volume goes; its bytes count once `keep` is called."""
        return self._volumes[self._buffered]

    def keep(self, volume_id: str, label: float | None, values: Sequence[Any] = ()) -> bool:
        """Take the volume in `buffer()` as the next row; True when a row group is full. Raises `OSError`.

        `values` are those of the further columns.
        """
        self._seal()
        self._ids.append(volume_id)
        self._labels.append(label)
        self._values.append(values)
        self._buffered += 1
        full = len(self._ids) == self._group_rows
        if full or self._buffered == self._buffer_rows:
            self._write_buffered()
        if full:
            self._end_group()
        return full

    def _seal(self) -> None:
        """Put the checksum of the volume in `buffer()` in front of it."""
        encoded = self._pages.encoded(self._pages.checksum(self._volumes[self._buffered].data))
        at = self._buffered * self._pages.stride + self._pages.checksum_at
        self._buffer.data[at : at + len(encoded)] = encoded

    def finish(self) -> None:
        """Write what is left and the footer; the bytes are then in the system's cache. Raises `OSError`."""
        if self._ids:
            if self._buffered:
                self._write_buffered()
            self._end_group()
        if self._out is not None:
            rows = sum(rows for rows, _ in self._groups)
            self._write([footer(self._template, rows, self._groups)])
        self.close()

    def close(self) -> None:
        """Close the file, finished or not."""
        if self._out is not None:
            os.close(self._out)
            self._out = None

    def _begin_group(self, front: _Front) -> None:
        self._front = front
        self._start = self._end
        self._ids: list[str] = []
        self._labels: list[float | None] = []
        self._values: list[Sequence[Any]] = []
        self._buffered = 0

    def _write_buffered(self) -> None:
        pieces: list[bytes | memoryview] = []
        if self._out is None:
            self._out = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            pieces.append(MAGIC)
            self._start = len(MAGIC)
        if self._end <= self._start:
            pieces.append(self._front.bytes)
        self._write([*pieces, self._buffer.data[: self._buffered * self._pages.stride]])
        self._buffered = 0
        if self._end - self._flushing >= _WRITE_OUT_BYTES:
            assert self._out is not None
            start_writing(self._out, self._flushing, self._end - self._flushing)
            self._flushing = self._end

    def _end_group(self) -> None:
        front = self._front
        if front.rows != (self._ids, self._labels):
            front = _Front(self._ids, self._labels)
            self._replace_front(front)
        chunks = front.chunks(self._start, self._pages.stride)
        if self._columns is not None:
            data, trailing = _trailing(self._columns, self._values, self._end)
            self._write(data)
            chunks += trailing
        self._groups.append((len(self._ids), chunks))
        self._begin_group(front)

    def _replace_front(self, front: _Front) -> None:
        """Other rows came than were expected: replace what comes before the volumes, whatever its length."""
        assert self._out is not None
        before, after = self._start + len(self._front.bytes), self._start + len(front.bytes)
        with naming(self._path):
            for offset, length in _pieces(self._end - before if after != before else 0, backwards=after > before):
                data = os.pread(self._out, length, before + offset)
                if len(data) != length:
                    raise OSError(errno.EIO, "cannot be moved", str(self._path))
                _write_at(self._out, data, after + offset)
            _write_at(self._out, front.bytes, self._start)
            self._end += after - before
            os.ftruncate(self._out, self._end)

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        assert self._out is not None
        views = [memoryview(piece) for piece in pieces]
        with naming(self._path):
            while views:
                done = os.pwritev(self._out, views, self._end)
                self._end += done
                while views and done >= len(views[0]):
                    done -= len(views.pop(0))
                if views:
                    views[0] = views[0][done:]


class CompressedFile:
    """The same as `PlainFile`, compressed by pyarrow. It holds a row group, and pyarrow about as much twice again."""

    def __init__(self, path: Path, columns: pa.Schema, compression: str, volume_bytes: int, group_rows: int) -> None:
        self._path, self._columns, self._options = path, columns, writer_options(compression)
        self._length = volume_bytes
        self._buffer = np.empty((group_rows, volume_bytes), np.uint8)
        self._ids: list[str] = []
        self._labels: list[float | None] = []
        self._values: list[Sequence[Any]] = []
        self._writer: pq.ParquetWriter | None = None

    @property
    def is_between_groups(self) -> bool:
        """See `PlainFile`."""
        return not self._ids

    def expect(self, ids: Sequence[str], labels: Sequence[float | None]) -> None:
        """Nothing is gained by knowing."""

    def buffer(self) -> NDArray[np.uint8]:
        """See `PlainFile`."""
        row: NDArray[np.uint8] = self._buffer[len(self._ids)]
        return row

    def keep(self, volume_id: str, label: float | None, values: Sequence[Any] = ()) -> bool:
        """See `PlainFile`."""
        self._ids.append(volume_id)
        self._labels.append(label)
        self._values.append(values)
        full = len(self._ids) == len(self._buffer)
        if full:
            self._write_group()
        return full

    def finish(self) -> None:
        """See `PlainFile`."""
        if self._ids:
            self._write_group()
        self.close()

    def close(self) -> None:
        """See `PlainFile`."""
        if self._writer is not None:
            with naming(self._path):
                self._writer.close()
                sign_footer(self._path)
            self._writer = None

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, self._columns, **self._options)
        rows = len(self._ids)
        offsets = np.arange(rows + 1, dtype=np.int64) * self._length
        # The buffer itself becomes the column: no copy before Parquet's own.
        volumes = pa.Array.from_buffers(
            pa.binary(),
            rows,
            [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self._buffer.reshape(-1))],
        )
        columns = [pa.array(self._ids, pa.string()), pa.array(self._labels, pa.float32()), volumes]
        columns += _arrays(list(self._columns)[len(columns) :], self._values)
        with naming(self._path):
            self._writer.write_table(pa.Table.from_arrays(columns, schema=self._columns), row_group_size=rows)
        self._ids, self._labels, self._values = [], [], []


def _arrays(columns: Iterable[pa.Field], rows: Sequence[Sequence[Any]]) -> list[pa.Array]:
    return [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(columns)]


def _trailing(columns: pa.Schema, rows: Sequence[Sequence[Any]], offset: int) -> tuple[list[memoryview], list[Chunk]]:
    """The pages of a row group's further columns, and their chunks when the first begins at byte `offset`.

    pyarrow encodes them, whatever their types, into a file in memory that they are taken from.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, columns, **writer_options()) as writer:
        writer.write_table(pa.Table.from_arrays(_arrays(columns, rows), schema=columns), row_group_size=len(rows))
    file = sink.getvalue()
    group = pq.ParquetFile(pa.BufferReader(file)).metadata.row_group(0)
    data, chunks = [], []
    for column in (group.column(number) for number in range(group.num_columns)):
        start, size = column.data_page_offset, column.total_compressed_size
        data.append(memoryview(file)[start : start + size])
        chunks.append(chunk_of([column], offset))
        offset += size
    return data, chunks


class _Front:
    """What comes before a row group's volumes: the pages of its ids and labels."""

    def __init__(self, ids: Sequence[str], labels: Sequence[float | None]) -> None:
        self.rows = (list(ids), list(labels))
        texts = [text.encode() for text in ids]
        self._texts = texts
        self._present = [label for label in labels if label is not None]
        names = b"".join(len(text).to_bytes(LENGTH, "little") + text for text in texts)
        levels = _levels([label is not None for label in labels])
        values = np.array(self._present, "<f4").tobytes()
        self._id_page = _page(names, len(ids))
        self._label_page = _page(len(levels).to_bytes(4, "little") + levels + values, len(ids))
        self.bytes = self._id_page + self._label_page

    def chunks(self, start: int, stride: int) -> list[Chunk]:
        """The row group's column chunks when its first page begins at byte `start`; a volume takes `stride` bytes."""
        count = len(self._texts)
        label_at = start + len(self._id_page)
        volume_at = label_at + len(self._label_page)
        least, most = _bounds(self._present)
        return [
            _chunk("id", "BYTE_ARRAY", count, start, len(self._id_page), 0, min(self._texts), max(self._texts)),
            _chunk("label", "FLOAT", count, label_at, len(self._label_page), count - len(self._present), least, most),
            _chunk("volume", "BYTE_ARRAY", count, volume_at, count * stride),
        ]


def _page(body: bytes, values: int) -> bytes:
    return page_header(len(body), values, crc32(body)) + body


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


def _levels(present: Sequence[bool]) -> bytes:
    """Definition levels of an optional column, in the hybrid of runs and bit-packed groups."""
    if len(set(present)) < 2:
        return varint(len(present) << 1) + bytes(present[:1])
    groups = -(-len(present) // 8)
    return varint(groups << 1 | 1) + np.packbits(np.array(present, bool), bitorder="little").tobytes()


def _write_at(out: int, data: bytes, offset: int) -> None:
    """All of it: a write to a disk that is nearly full may take a part, and only the next one says why."""
    view = memoryview(data)
    while view:
        done = os.pwrite(out, view, offset)
        view, offset = view[done:], offset + done


def _aligned(size: int, head: int) -> NDArray[np.uint8]:
    """A buffer whose first volume, after its `head` bytes, begins where processors like it."""
    raw = np.empty(size + _ALIGN, np.uint8)
    first = -(raw.ctypes.data + head) % _ALIGN
    return raw[first : first + size]


def _pieces(total: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    starts = range(0, total, BUFFER_BYTES)
    for start in reversed(starts) if backwards else starts:
        yield start, min(BUFFER_BYTES, total - start)
