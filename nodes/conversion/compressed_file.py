"""Writing a Parquet file of the volume layout with compression: pyarrow does it, a row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodes.volume_layout import writer_options


class CompressedFile:
    """The same as `PlainFile`, for compressed files. It holds a row group, and pyarrow about as much twice again."""

    def __init__(self, path: Path, columns: pa.Schema, compression: str, volume_bytes: int, group_rows: int) -> None:
        self._path, self._columns, self._options = path, columns, writer_options(compression)
        self._length = volume_bytes
        self._buffer = np.empty((group_rows, volume_bytes), np.uint8)
        self._ids: list[str] = []
        self._labels: list[float | None] = []
        self._writer: pq.ParquetWriter | None = None

    @property
    def is_between_groups(self) -> bool:
        return not self._ids

    def expect(self, ids: Sequence[str], labels: Sequence[float | None]) -> None:
        """Nothing is gained by knowing."""

    def room(self) -> NDArray[np.uint8]:
        row: NDArray[np.uint8] = self._buffer[len(self._ids)]
        return row

    def keep(self, volume_id: str, label: float | None) -> bool:
        self._ids.append(volume_id)
        self._labels.append(label)
        full = len(self._ids) == len(self._buffer)
        if full:
            self._write_group()
        return full

    def finish(self) -> None:
        if self._ids:
            self._write_group()
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
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
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._columns), row_group_size=rows)
        self._ids, self._labels = [], []
