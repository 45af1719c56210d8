"""Volumes from Parquet files that must be decoded: whole row groups, in a shuffled order.

The stream of row groups is shuffled again in windows (`windows`). The order depends on how rows lie
in row groups, so it is another one after the table is rewritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.loaders.interface import Batch, Loader, Promises, Reading, Source
from nodes.loaders.order import shuffled
from nodes.loaders.rows import RowNumbers
from nodes.loaders.windows import Chunk, batches_from, window_rows

if TYPE_CHECKING:
    from engine.datasets import VolumeSpec
    from nodes.loaders.rows import Rows

_DECODE_BYTES = 32 << 20
"""Decoded at a time, however large a row group is."""


class RowGroupSource(Source):
    """`files` are (path, rows in each of its row groups), in the order that `rows.stored` counts in."""

    name = "arrow"

    def __init__(
        self, where: str, spec: VolumeSpec, rows: Rows, files: Sequence[tuple[str, tuple[int, ...]]], reason: str
    ) -> None:
        super().__init__(where, spec, rows)
        self.reason = reason
        """Why the faster way is closed."""
        self.groups = [(path, number) for path, groups in files for number in range(len(groups))]
        lengths = [length for _, groups in files for length in groups]
        self.starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        """Stored position of each row group's first row, and the end."""
        self.row_at = np.empty(len(rows), np.int64)
        """Row number by stored position."""
        self.row_at[rows.stored] = np.arange(len(rows))

    @property
    def promises(self) -> Promises:
        return Promises(order_survives_rewrite=False, restores_without_reading=True)

    @property
    def order_identity(self) -> str:
        layout = hashlib.blake2b(self.starts.tobytes() + self.row_at.tobytes(), digest_size=16).hexdigest()
        return f"by-row-group {self.rows.identity()} {layout}"

    def loader(self, chosen: RowNumbers, reading: Reading) -> Loader:
        return RowGroupLoader(self, chosen, reading)

    def read(self, group: int) -> Iterator[NDArray[np.uint8]]:
        """The volumes of a row group, decoded part by part: uint8 (rows, volume bytes)."""
        path, number = self.groups[group]
        rows = max(1, _DECODE_BYTES // self.spec.volume_bytes)
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(rows, row_groups=[number], columns=["volume"], use_threads=False):
                    yield volume_bytes_of(batch.column(0), self.spec.volume_bytes, path)
        except FileNotFoundError as exc:
            raise DataError(f"{path} is gone", hint="Something vacuumed the table. Make it again.") from exc


def volume_bytes_of(column: pa.Array, volume_bytes: int, path: str) -> NDArray[np.uint8]:
    """The values of a binary column as uint8 (rows, volume_bytes), without a copy.

    Raises `DataError` when one is null or of another length.
    """
    column = column.cast(pa.large_binary()) if column.type != pa.binary() else column
    width = np.int32 if column.type == pa.binary() else np.int64
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, width)[column.offset : column.offset + len(column) + 1]
    if column.null_count or (np.diff(offsets) != volume_bytes).any():
        raise DataError(
            f"{path} holds volumes that are not {volume_bytes:,} bytes long",
            hint="All volumes of a table have one shape and type. Make the table again.",
        )
    if not len(column):
        return np.empty((0, volume_bytes), np.uint8)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(len(column), volume_bytes)


class RowGroupLoader(Loader):
    source: RowGroupSource

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        source, training = self.source, self.reading.training
        chosen = np.zeros(len(source.rows), bool)
        chosen[self.chosen] = True
        before = np.concatenate([[0], np.cumsum(chosen[source.row_at], dtype=np.int64)])
        kept = np.diff(before[source.starts])
        groups = shuffled(len(source.groups), seed, epoch) if training else np.arange(len(source.groups))
        ends = np.cumsum(kept[groups])
        # Skip the row groups that lie wholly before the window of the first batch.
        length = window_rows(self)
        window = first * self.reading.batch_size // length * length
        skip = int(np.searchsorted(ends, window, side="right"))
        begins_at = int(ends[skip - 1]) if skip else 0
        chunks = self._chunks(groups[skip:], kept, chosen)
        return batches_from(self, chunks, begins_at=begins_at, seed=seed, epoch=epoch, first=first)

    def _chunks(self, groups: RowNumbers, kept: RowNumbers, chosen: NDArray[np.bool_]) -> Iterator[Chunk]:
        source = self.source
        for group in groups:
            if not kept[group]:
                continue
            at = int(source.starts[group])
            for data in source.read(int(group)):
                rows = source.row_at[at : at + len(data)]
                at += len(data)
                keep = chosen[rows]
                yield Chunk(rows, data) if keep.all() else Chunk(rows[keep], data[keep])
