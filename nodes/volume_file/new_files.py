"""New files of volumes: how they look, how much goes into one, and what writes it.

A file's layout decides its bytes: files of the same rows and the same `FileLayout.key` are equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.datasets import FORMAT_VERSION, VolumeSpec
from engine.errors import DataError
from nodes.volume_file.join import template
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.write import CompressedFile, PlainFile, buffer_rows

MAX_CELL_BYTES = 2**31 - 1 - 4
"""What a page can hold: a value after the four bytes of its length."""
MAX_GROUP_BYTES = 256 << 20
"""Row groups of larger volumes get fewer rows: a reader holds a row group in memory."""
MAX_FILE_ROWS = 65_536
"""Files of tiny volumes stay below their target size: what is held per row counts then."""
_ROW_OVERHEAD = 64
"""About what a row's id, label and length prefix take, in bytes."""
_WRITER = 3
"""Raise it when the same rows would give other bytes: it enters the files' names."""
_BUFFERS = 3
"""Row groups that a writer of compressed files holds at most: its buffer and what pyarrow encodes."""


class VolumeFileWriter(Protocol):
    """A file that takes rows one by one: `buffer()` is where the next volume goes, `keep` says that it is there.

    Nothing is made before the first row. A file of the same rows always has the same bytes.
    """

    @property
    def is_between_groups(self) -> bool:
        """Whether the next row begins a row group."""

    def expect(self, ids: Sequence[str], labels: Sequence[float | None]) -> None:
        """The rows that the row group now beginning will have if none of them is refused."""

    def buffer(self) -> NDArray[np.uint8]:
        """Where the next volume goes, in C order and little-endian; its bytes count once `keep` is called."""

    def keep(self, volume_id: str, label: float | None, values: Sequence[Any] = ()) -> bool:
        """Take the volume in `buffer()` as the next row; True when a row group is full. Raises `OSError`.

        `values` are those of `FileLayout.columns`.
        """

    def finish(self) -> None:
        """Write what is left and the footer; the bytes are then in the system's cache. Raises `OSError`."""

    def close(self) -> None:
        """Close the file, finished or not."""


@dataclass(frozen=True)
class FileLayout:
    """How new files look. `columns` are those besides id, label and volume.

    Raises `DataError` for volumes that a file cannot hold.
    """

    spec: VolumeSpec
    target_bytes: int
    row_group_rows: int
    compression: str
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))

    def __post_init__(self) -> None:
        if self.spec.volume_bytes > MAX_CELL_BYTES:
            raise DataError(
                f"one volume of {self.spec.describe()} has {self.spec.volume_bytes} bytes,"
                f" a table's cell holds {MAX_CELL_BYTES}",
                hint="Cut the volumes into smaller ones.",
            )

    @property
    def file_rows(self) -> int:
        """Rows of a full file: 217 volumes of 360 kB make 78 MB."""
        rows = round(self.target_bytes / (self.spec.volume_bytes + _ROW_OVERHEAD))
        return max(1, min(rows, MAX_FILE_ROWS))

    @property
    def group_rows(self) -> int:
        """Rows of a full row group."""
        by_size = MAX_GROUP_BYTES // self.spec.volume_bytes
        return max(1, min(self.row_group_rows, self.file_rows, by_size))

    @property
    def writer_bytes(self) -> int:
        """Memory for data that a file's writer takes."""
        if self.compression == "none":
            return buffer_rows(self.spec.volume_bytes, self.group_rows) * self.spec.volume_bytes
        return _BUFFERS * self.group_rows * self.spec.volume_bytes

    def key(self) -> str:
        """All that shapes a file's bytes, besides its rows."""
        parts = [FORMAT_VERSION, _WRITER, self.spec.model_dump_json(), self.group_rows, self.compression]
        return json.dumps([*parts, self.columns_text] if len(self.columns) else parts)

    @property
    def columns_text(self) -> str:
        """Names and types of the columns, as text to compare; empty without columns."""
        return str(self.columns.to_string())

    def opener(self) -> Callable[[Path], VolumeFileWriter]:
        """What begins a file at a path. Ask once for many files: it keeps what they have in common."""
        columns, volume_bytes, group_rows = schema(self.spec, self.columns), self.spec.volume_bytes, self.group_rows
        if self.compression == "none":
            empty = template(columns, writer_options())
            return lambda path: PlainFile(path, empty, volume_bytes, group_rows, self.columns)
        return lambda path: CompressedFile(path, columns, self.compression, volume_bytes, group_rows)
