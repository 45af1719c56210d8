"""Volumes from Parquet files that must be decoded or fetched: whole row groups, in a shuffled order.

Several row groups are read at a time, ahead of what is asked for, and handed on in their order; their
stream is shuffled again in windows (`windows`). The order depends on how rows lie in row groups, so it is
another one after the table is rewritten.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.loaders.file_access import FileAccess
from nodes.loaders.file_rows import FileRows
from nodes.loaders.interface import Batch, Loader, Promises, Reading, Source
from nodes.loaders.order import shuffled
from nodes.loaders.reading_threads import reading_threads
from nodes.loaders.rows import RowNumbers
from nodes.loaders.windows import Chunk, batches_from, window_rows

if TYPE_CHECKING:
    from engine.datasets import VolumeSpec
    from nodes.loaders.rows import Rows

_DECODE_BYTES = 32 << 20
"""Decoded at a time of a row group that is too large to be held whole."""
_WHOLE_BYTES = 64 << 20
"""Largest row group that is read whole, and beside others."""
_AHEAD_BYTES = 192 << 20
"""Memory for row groups that are under way or wait for their turn."""


class RowGroupSource(Source):
    """`files` lie in the order that `rows.stored` counts in."""

    name = "arrow"
    read_path = "streamed"

    def __init__(
        self,
        where: str,
        spec: VolumeSpec,
        rows: Rows,
        files: Sequence[FileRows],
        reason: str,
        *,
        access: FileAccess,
        cores: int,
    ) -> None:
        super().__init__(where, spec, rows)
        self.reason = reason
        """Why the faster way is closed."""
        self.groups = [(file.path, number, file.footer) for file in files for number in range(len(file.groups))]
        self.lengths = [length for file in files for length in file.groups]
        self.starts = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        """Stored position of each row group's first row, and the end."""
        self.row_at = np.empty(len(rows), np.int64)
        """Row number by stored position."""
        self.row_at[rows.stored] = np.arange(len(rows))
        self._access = access
        self.streams = max(access.streams, min(4, cores))
        """Row groups that are read at a time."""
        self.pool = reading_threads(self.streams)

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
        path, number, footer = self.groups[group]
        whole = self.bytes_of(group) <= _WHOLE_BYTES
        rows = self.lengths[group] if whole else max(1, _DECODE_BYTES // self.spec.volume_bytes)
        try:
            with (
                self._access.open(path) as opened,
                # Only a row group that is held whole anyway may be fetched in one go.
                pq.ParquetFile(
                    opened,
                    metadata=footer,
                    pre_buffer=whole and not self._access.mapped,
                    buffer_size=0 if whole else 1 << 20,
                    page_checksum_verification=True,
                ) as file,
            ):
                for batch in file.iter_batches(rows, row_groups=[number], columns=["volume"], use_threads=False):
                    yield volume_bytes_of(batch.column(0), self.spec.volume_bytes, path)
        except FileNotFoundError as exc:
            raise DataError(f"{path} is gone", hint="Something vacuumed the table. Make it again.") from exc
        except (OSError, pa.ArrowInvalid) as exc:
            raise DataError(
                f"{path}: row group {number} cannot be read: {exc}",
                hint="The file is damaged or cannot be reached. If it is damaged, make the table again.",
            ) from exc

    def bytes_of(self, group: int) -> int:
        return self.lengths[group] * self.spec.volume_bytes

    def close(self) -> None:
        """End the reading threads."""
        self.pool.shutdown(cancel_futures=True)


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
        wanted = groups[skip:]
        chunks = self._chunks(wanted[kept[wanted] > 0].tolist(), chosen)
        return batches_from(self, chunks, begins_at=begins_at, seed=seed, epoch=epoch, first=first)

    def _chunks(self, groups: list[int], chosen: NDArray[np.bool_]) -> Iterator[Chunk]:
        source = self.source
        for group, parts in self._ahead(groups):
            at = int(source.starts[group])
            for data in parts:
                rows = source.row_at[at : at + len(data)]
                at += len(data)
                keep = chosen[rows]
                yield Chunk(rows, data) if keep.all() else Chunk(rows[keep], data[keep])

    def _ahead(self, groups: list[int]) -> Iterator[tuple[int, Iterator[NDArray[np.uint8]]]]:
        """The row groups in their order, the next ones being read meanwhile, as far as memory for them goes."""
        source = self.source
        waiting: deque[tuple[int, Future[list[NDArray[np.uint8]]]]] = deque()
        under_way = begun = 0
        try:
            for group in groups:
                while begun < len(groups):
                    size = source.bytes_of(groups[begun])
                    full = len(waiting) > source.streams or under_way + size > _AHEAD_BYTES
                    if size > _WHOLE_BYTES or (waiting and full):
                        break
                    waiting.append((groups[begun], source.pool.submit(self._whole, groups[begun])))
                    under_way, begun = under_way + size, begun + 1
                if waiting and waiting[0][0] == group:
                    yield group, iter(waiting.popleft()[1].result())
                    under_way -= source.bytes_of(group)
                else:
                    begun += 1
                    yield group, source.read(group)
        finally:
            for _, future in waiting:
                future.cancel()

    def _whole(self, group: int) -> list[NDArray[np.uint8]]:
        return list(self.source.read(group))
