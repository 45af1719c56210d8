"""Volumes from Parquet files that must be decoded or fetched: whole row groups, in a shuffled order.

Several row groups are read at a time, ahead of what is asked for, and handed on in their order; their
stream is shuffled again in windows (`windows`). The order depends on how rows lie in row groups, so it is
another one after the table is rewritten.

Where each volume has a page of its own, as in the tables that Voxelflow makes, a row group's volumes are fetched with
one read and taken out of it where they lie. Everything else is decoded by pyarrow.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from shlex import quote
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import DataError, first_line
from nodes.loaders.data_files import FileAccess, FileRows, refuse_changed, stamp_of
from nodes.loaders.interface import Batch, Loader, Reading, Source
from nodes.loaders.read_ahead import reading_threads
from nodes.loaders.rows import RowNumbers, shuffled
from nodes.loaders.windows import Chunk, batches_from, window_rows
from nodes.volume_file.pages import VolumePages

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeSpec
    from nodes.loaders.rows import Rows

_DECODE_BYTES = 32 << 20
"""Decoded at a time of a row group that is too large to be held whole."""
_WHOLE_BYTES = 64 << 20
"""Largest row group that is read whole, and beside others."""
FASTER = "OptimizeDelta gives the faster layout."
"""What to do about it."""
_AHEAD_BYTES = 192 << 20
"""Memory for row groups that are in flight or wait for their turn."""


class RowGroupSource(Source):
    """`files` lie in the order that `rows.stored` counts in."""

    name = "arrow"
    read_path = "streamed"
    order_survives_rewrite = False

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
        verify: bool,
    ) -> None:
        super().__init__(where, spec, rows)
        self.reason = reason
        """Why the faster way is closed."""
        self.groups = [(file.path, number, file.footer) for file in files for number in range(len(file.groups))]
        self.lengths = [length for file in files for length in file.groups]
        self.starts = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        """Stored position of each row group's first row, and the end."""
        self._stamps = {file.path: file.stamp for file in files}
        ends = np.cumsum([sum(file.groups) for file in files]).tolist()
        self._stored = {file.path: slice(end - sum(file.groups), end) for file, end in zip(files, ends, strict=True)}
        self.row_at = np.empty(len(rows), np.int64)
        """Row number by stored position."""
        self.row_at[rows.stored] = np.arange(len(rows))
        self._access, self._verify, self._pages = access, verify, VolumePages(spec.volume_bytes)
        self.streams = max(access.streams, min(4, cores))
        """Row groups that are read at a time."""
        self.pool = reading_threads(self.streams)

    @property
    def order_identity(self) -> str:
        layout = hashlib.blake2b(self.starts.tobytes() + self.row_at.tobytes(), digest_size=16).hexdigest()
        return f"by-row-group {self.rows.identity()} {layout}"

    def loader(self, chosen: RowNumbers, reading: Reading) -> Loader:
        return RowGroupLoader(self, chosen, reading)

    def read(self, group: int) -> Iterator[NDArray[np.uint8]]:
        """The volumes of a row group, part by part: uint8 (rows, volume bytes)."""
        path, number, footer = self.groups[group]
        try:
            with self._access.open(path) as opened:
                if self._access.mapped and (stamp := stamp_of(opened.fileno())) != self._stamps[path]:
                    rows = self.row_at[self._stored[path]]
                    refuse_changed(path, self.rows.ids.take(pa.array(rows)), self.rows.labels[rows], None)
                    self._stamps[path] = stamp
                own = None if footer is None else self._volume_pages(footer, number)
                yield from self._decoded(opened, group) if own is None else self._own_pages(opened, own, group)
        except FileNotFoundError as exc:
            raise DataError(f"{path} is gone", hint="Something vacuumed the table. Make it again.") from exc
        except (OSError, pa.ArrowInvalid) as exc:
            raise DataError(
                f"{path}: row group {number} cannot be read: {first_line(exc)}",
                hint="The file is damaged or cannot be reached."
                f" `voxelflow verify {quote(self.where)}` lists all damage and says what to do.",
            ) from exc

    def _part_rows(self, group: int) -> int:
        """How many rows of a row group are held at a time: all, unless it is too large."""
        if self.bytes_of(group) <= _WHOLE_BYTES:
            return self.lengths[group]
        return max(1, _DECODE_BYTES // self.spec.volume_bytes)

    def _decoded(self, opened: pa.NativeFile | BinaryIO, group: int) -> Iterator[NDArray[np.uint8]]:
        """By pyarrow, whatever the encoding and compression."""
        path, number, footer = self.groups[group]
        rows = self._part_rows(group)
        whole = rows == self.lengths[group]
        with pq.ParquetFile(
            opened,
            metadata=footer,
            # Only a row group that is held whole anyway may be fetched in one go.
            pre_buffer=whole and not self._access.mapped,
            buffer_size=0 if whole else 1 << 20,
            page_checksum_verification=self._verify,
        ) as file:
            for batch in file.iter_batches(rows, row_groups=[number], columns=["volume"], use_threads=False):
                yield volume_bytes_of(batch.column(0), self.spec.volume_bytes, path)

    def _volume_pages(self, footer: pq.FileMetaData, number: int) -> int | None:
        """Where the row group's volumes begin, if each can have a page of its own by the sizes in the footer."""
        row_group = footer.row_group(number)
        names = [footer.schema.column(column).path for column in range(footer.num_columns)]
        place = names.index("volume")
        chunk, column = row_group.column(place), footer.schema.column(place)
        fits = (
            chunk.compression == "UNCOMPRESSED"
            and chunk.physical_type == "BYTE_ARRAY"
            and not chunk.has_dictionary_page
            and not column.max_definition_level
            and not column.max_repetition_level
            and chunk.num_values == row_group.num_rows
            and chunk.total_compressed_size == row_group.num_rows * self._pages.stride
        )
        return int(chunk.data_page_offset) if fits else None

    def _own_pages(self, opened: pa.NativeFile | BinaryIO, at: int, group: int) -> Iterator[NDArray[np.uint8]]:
        """By arithmetic, from byte `at` on: nothing is decoded, and the volumes are views of what was fetched."""
        pages, step = self._pages, self._part_rows(group)
        for first in range(0, self.lengths[group], step):
            rows = min(step, self.lengths[group] - first)
            data = _fetched(opened, at + first * pages.stride, rows * pages.stride).reshape(rows, pages.stride)
            heads, volumes = data[:, : pages.head_bytes], data[:, pages.head_bytes :]
            good = pages.are_heads(heads)
            if not (first or good.any()):
                # Another writer's pages, whose sizes add up by chance.
                yield from self._decoded(opened, group)
                return
            if not good.all():
                self._refuse(group, first + int(good.argmin()), "has a damaged page header")
            if self._verify:
                for row, (volume, checksum) in enumerate(zip(volumes, pages.checksums(heads), strict=True), first):
                    if pages.checksum(volume) != checksum:
                        self._refuse(group, row, "does not match its checksum")
            yield volumes

    def _refuse(self, group: int, row: int, what: str) -> NoReturn:
        name = self.ids([int(self.row_at[self.starts[group] + row])])[0]
        raise DataError(
            f"{self.groups[group][0]}: the volume {name} {what}",
            hint=f"The file is damaged. `voxelflow verify {quote(self.where)}` lists all damage and says what to do.",
        )

    def bytes_of(self, group: int) -> int:
        """Bytes of a row group's volumes."""
        return self.lengths[group] * self.spec.volume_bytes

    def close(self) -> None:
        """End the reading threads."""
        self.pool.shutdown(cancel_futures=True)


def _fetched(opened: pa.NativeFile | BinaryIO, at: int, count: int) -> NDArray[np.uint8]:
    """Bytes at ... at + count - 1, with one read. Raises `OSError` when the file ends before."""
    opened.seek(at)
    data = opened.read_buffer(count) if isinstance(opened, pa.NativeFile) else opened.read(count)
    out = np.frombuffer(data, np.uint8)
    if len(out) != count:
        raise OSError(f"the file ends {count - len(out):,} bytes too early")
    return out


def volume_bytes_of(column: pa.Array, volume_bytes: int, path: str) -> NDArray[np.uint8]:
    """The values of a binary column as uint8 (rows, volume_bytes), without a copy.

    Raises `DataError` when one is null or of another length.
    """
    column = column.cast(pa.large_binary()) if column.type != pa.binary() else column
    width = np.int32 if column.type == pa.binary() else np.int64
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, width)[column.offset : column.offset + len(column) + 1]
    if column.null_count:
        raise DataError(
            f"{path} has rows without a volume",
            hint="Another program wrote them. Delete them from the table, or convert it with ConvertTable, which lists"
            " such rows.",
        )
    if (np.diff(offsets) != volume_bytes).any():
        raise DataError(
            f"{path} holds volumes that are not {volume_bytes:,} bytes long",
            hint="All volumes of a table have one shape and type. Make the table again.",
        )
    if not len(column):
        return np.empty((0, volume_bytes), np.uint8)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(len(column), volume_bytes)


class RowGroupLoader(Loader):
    """Batches from row groups in a shuffled order, shuffled again in windows."""

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
        in_flight = begun = 0
        try:
            for group in groups:
                while begun < len(groups):
                    size = source.bytes_of(groups[begun])
                    full = len(waiting) > source.streams or in_flight + size > _AHEAD_BYTES
                    if size > _WHOLE_BYTES or (waiting and full):
                        break
                    waiting.append((groups[begun], source.pool.submit(self._whole, groups[begun])))
                    in_flight, begun = in_flight + size, begun + 1
                if waiting and waiting[0][0] == group:
                    yield group, iter(waiting.popleft()[1].result())
                    in_flight -= source.bytes_of(group)
                else:
                    begun += 1
                    yield group, source.read(group)
        finally:
            for _, future in waiting:
                future.cancel()

    def _whole(self, group: int) -> list[NDArray[np.uint8]]:
        return list(self.source.read(group))
