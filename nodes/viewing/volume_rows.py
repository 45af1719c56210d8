"""The rows of a dataset of volumes, found one by one: no scan, whatever their number.

A row's number is its place in the dataset: files in the order of the log or the manifest, rows in the order of the
file. The log says how many rows each file has, the file's footer how many each row group, and the page index where in
a row group a volume lies. So a volume takes three small reads, and its id and label one of 64 rows. What does need all
rows, their labels or a selection's members, is read once, when it is asked for.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import Selection, VolumeFiles, VolumeSpec
from engine.errors import DataError, VoxelflowError
from engine.storage import is_url, manifest
from nodes.conversion.formats import NPY, endings_of
from nodes.conversion.labels import LABEL_TABLES, LabelRule, Labels, find_labels
from nodes.conversion.npy_files import Header, header_of, parse_header, spread
from nodes.conversion.quarantine import Refused
from nodes.conversion.table_rows import is_rows, labels_in
from nodes.conversion.volume_sources import label_file_at, reading_of, sample_headers, volumes_of
from nodes.conversion.whole_volumes import TransformedVolumes
from nodes.inspection.column_figures import python_values
from nodes.loaders.data_files import STREAMS, FileAccess, open_checked, read_columns, reading
from nodes.loaders.row_groups import volume_bytes_of
from nodes.table.selection import columns_for, held
from nodes.transforms.function_file import refuse_untrusted
from nodes.transforms.steps import spacing_of
from nodes.volume_file.page_index import NotIndexable, index_pages, read_page

K = TypeVar("K")
V = TypeVar("V")
_FOOTERS, _GROUPS = 64, 256
"""Files and row groups that are remembered."""


class VolumeRow(NamedTuple):
    """What is known of a row besides its volume; `label` is NaN where there is none.

    `columns` has the values of `VolumeRows.columns`, None where the row has none.
    """

    id: str
    label: float
    file: str
    columns: tuple[Any, ...] = ()


class VolumeRows(ABC):
    """Rows of volumes of one `spec`. For several threads.

    `columns` names what is known of each row besides id and label.
    """

    def __init__(self, count: int, spec: VolumeSpec, columns: Sequence[str] = ()) -> None:
        self.count, self.spec, self.columns = count, spec, tuple(columns)

    @abstractmethod
    def row(self, number: int) -> VolumeRow:
        """A row without its volume."""

    @abstractmethod
    def volume(self, number: int) -> NDArray[Any]:
        """Its volume, of the spec's shape. Raises `DataError` when it is damaged or gone."""

    def spacing(self, number: int) -> tuple[float, float, float] | None:
        """Millimetres from voxel to voxel along X, Y and Z; None where the row does not say."""
        return spacing_of(dict(zip(self.columns, self.row(number).columns, strict=True)))

    @abstractmethod
    def labels(self) -> NDArray[np.float32]:
        """The labels of all rows, NaN for none. Reads them all, once."""

    @property
    def unread_label_files(self) -> int:
        """How many files `labels` would open now."""
        return 0

    @abstractmethod
    def find(self, volume_id: str) -> int | None:
        """The number of the row with this id, None when there is none. Reads all ids, once."""

    @property
    def note(self) -> str:
        """What a person must know of them: that they are a sample; else ""."""
        return ""

    @property
    def streams(self) -> int:
        """Reads that are worth having in flight at a time."""
        return 2

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Which of the rows belong to the dataset."""
        return ()

    def holds(self, number: int) -> bool:
        """Whether the row belongs to the dataset."""
        if all(each.by_id for each in self.selections):
            return all(each.holds(self.row(number).id) for each in self.selections)
        members = self.members()
        place = int(np.searchsorted(members, number))
        return place < len(members) and int(members[place]) == number

    def members(self) -> NDArray[np.int64]:
        """Numbers of the rows that belong to the dataset. Reads all ids, once, where it is a selection."""
        return np.arange(self.count)

    def sample(self, count: int) -> list[NDArray[Any]]:
        """Up to `count` volumes at equal distances over all rows, also those that no selection holds: a table and its
        splits have one scale. What cannot be read is left out."""

        def read(number: int) -> NDArray[Any] | None:
            try:
                return self.volume(number)
            except (VoxelflowError, OSError):
                return None

        with ThreadPoolExecutor(self.streams) as pool:
            return [volume for volume in pool.map(read, spread(self.count, count)) if volume is not None]

    def check(self, number: int) -> int:
        """The number. Raises `DataError` when there is no such row."""
        if not 0 <= number < self.count:
            raise DataError(f"there is no volume {number:,}", hint=f"Choose one of {self.count:,}, counted from 0.")
        return number

    def close(self) -> None:  # noqa: B027 - not every dataset holds something open
        """Let go of what is open."""


class _Kept(Generic[K, V]):
    """The latest values of a function. Two threads that ask for one key may both make it."""

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        self._make, self._most = make, most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: K) -> V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = self._make(key)
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


class TableFile(NamedTuple):
    """A Parquet file of a table, by the name under which it is opened, its rows, and its name for people."""

    path: str
    rows: int
    name: str


class _Footer(NamedTuple):
    metadata: pq.FileMetaData
    starts: NDArray[np.int64]
    """Number in the file of each row group's first row, and the end."""


class _Group(NamedTuple):
    ids: list[str]
    labels: list[float]
    columns: list[tuple[Any, ...]]


class TableRows(VolumeRows):
    """Rows of Parquet files."""

    def __init__(
        self,
        files: Sequence[TableFile],
        spec: VolumeSpec,
        access: FileAccess,
        selections: tuple[Selection, ...] = (),
        columns: Sequence[str] = (),
        sampled_of: int | None = None,
    ) -> None:
        """`sampled_of`: how many files there are, where `files` is a sample."""
        self.files, self._sampled_of = files, sampled_of
        self._starts = np.concatenate([[0], np.cumsum([file.rows for file in files], dtype=np.int64)])
        super().__init__(int(self._starts[-1]), spec, columns)
        self._access, self._selections = access, selections
        self._footer = _Kept(self._read_footer, _FOOTERS)
        self._group = _Kept(self._read_group, _GROUPS)
        self._scan = threading.Lock()
        self._labels: NDArray[np.float32] | None = None
        self._members: NDArray[np.int64] | None = None
        self._ids: pa.ChunkedArray | None = None

    @property
    def note(self) -> str:
        if self._sampled_of is None:
            return ""
        return (
            f"a sample: {len(self.files):,} of {self._sampled_of:,} files, since so many take minutes to open;"
            " OptimizeDelta joins small files"
        )

    @property
    def streams(self) -> int:
        return self._access.streams

    @property
    def selections(self) -> tuple[Selection, ...]:
        return self._selections

    def row(self, number: int) -> VolumeRow:
        file, group, within = self._place(self.check(number))
        rows = self._group((file, group))
        return VolumeRow(rows.ids[within], rows.labels[within], self.files[file].name, rows.columns[within])

    def volume(self, number: int) -> NDArray[Any]:
        file, group, within = self._place(self.check(number))
        data = self._by_index(file, group, within) if self._access.mapped else None
        if data is None:
            data = self._decoded(file, group, within)
        return data.view(np.dtype(self.spec.dtype).newbyteorder("<")).reshape(self.spec.shape)

    def labels(self) -> NDArray[np.float32]:
        with self._scan:
            if self._labels is None:
                found = [_numbers(part) for column in self._columns("label") for part in column.chunks]
                self._labels = np.concatenate([np.empty(0, np.float32), *found])
            return self._labels

    @property
    def unread_label_files(self) -> int:
        return len(self.files) if self._labels is None else 0

    def members(self) -> NDArray[np.int64]:
        if not self._selections:
            return super().members()
        with self._scan:
            if self._members is None:
                names = columns_for(self._selections)
                table = read_columns([file.path for file in self.files], names, self._access)
                keep = held(self._selections, {name: table.column(name) for name in names})
                self._members = np.flatnonzero(keep).astype(np.int64)
            return self._members

    def find(self, volume_id: str) -> int | None:
        with self._scan:
            if self._ids is None:
                self._ids = _chunks_of(self._columns("id"))
        found = pc.index(self._ids, volume_id).as_py()
        return None if found < 0 else int(found)

    def _columns(self, name: str) -> list[pa.ChunkedArray]:
        def read(file: TableFile) -> pa.ChunkedArray:
            with reading(file.path), self._access.open(file.path) as opened, open_checked(opened) as table:
                if name not in table.schema_arrow.names:
                    return pa.chunked_array([pa.nulls(table.metadata.num_rows, pa.float32())])
                return table.read(columns=[name], use_threads=False).column(0)

        with ThreadPoolExecutor(self.streams) as pool:
            return list(pool.map(read, self.files))

    def _place(self, number: int) -> tuple[int, int, int]:
        """Its file, its row group, and its number in that."""
        file = int(np.searchsorted(self._starts, number, side="right")) - 1
        in_file = number - int(self._starts[file])
        starts = self._footer(file).starts
        group = int(np.searchsorted(starts, in_file, side="right")) - 1
        if group >= len(starts) - 1:
            raise DataError(f"{self.files[file].path} has fewer rows than the table says", hint=_VERIFY)
        return file, group, in_file - int(starts[group])

    def _read_footer(self, file: int) -> _Footer:
        path = self.files[file].path
        try:
            with self._access.open(path) as opened, pq.ParquetFile(opened) as found:
                metadata = found.metadata
        except FileNotFoundError as exc:
            raise DataError(f"{path} is gone", hint="Run the node that makes the table again.") from exc
        except pa.ArrowInvalid as exc:
            raise DataError(f"{path} cannot be read as Parquet: {exc}", hint=_VERIFY) from exc
        rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        return _Footer(metadata, np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]))

    def _read_group(self, key: tuple[int, int]) -> _Group:
        file, group = key
        path, metadata = self.files[file].path, self._footer(file).metadata
        names = metadata.schema.to_arrow_schema().names
        try:
            with (
                self._access.open(path) as opened,
                pq.ParquetFile(opened, metadata=metadata, page_checksum_verification=True) as found,
            ):
                wanted = [n for n in ("id", "label", *self.columns) if n in names]
                rows = found.read_row_group(group, columns=wanted, use_threads=False)
        except (OSError, pa.ArrowException) as exc:
            raise DataError(f"{path}: row group {group} cannot be read: {exc}", hint=_VERIFY) from exc
        ids: list[str] = rows.column("id").cast(pa.string()).to_pylist()
        none: list[None] = [None] * len(ids)
        known = [python_values(rows.column(n)) if n in rows.column_names else none for n in self.columns]
        columns = list(zip(*known, strict=True)) if known else [()] * len(ids)
        if "label" not in rows.column_names:
            return _Group(ids, [math.nan] * len(ids), columns)
        labels: list[float | None] = rows.column("label").cast(pa.float64(), safe=False).to_pylist()
        return _Group(ids, [math.nan if label is None else label for label in labels], columns)

    def _by_index(self, file: int, group: int, within: int) -> NDArray[np.uint8] | None:
        """The volume's bytes from their place, compared with their checksum; None where they must be decoded."""
        path, size = self.files[file].path, self.spec.volume_bytes
        try:
            index = index_pages(path, self._footer(file).metadata, size, [group])
        except NotIndexable:
            return None
        volume = read_page(path, index, within, size)
        if volume is None:
            name = self._group((file, group)).ids[within]
            raise DataError(f"{path}: the volume {name} is damaged", hint=_VERIFY)
        return volume

    def _decoded(self, file: int, group: int, within: int) -> NDArray[np.uint8]:
        path, metadata = self.files[file].path, self._footer(file).metadata
        try:
            with (
                self._access.open(path) as opened,
                pq.ParquetFile(opened, metadata=metadata, page_checksum_verification=True) as found,
            ):
                for batch in found.iter_batches(within + 1, row_groups=[group], columns=["volume"], use_threads=False):
                    data: NDArray[np.uint8] = volume_bytes_of(batch.column(0), self.spec.volume_bytes, path)[within]
                    return data
        except (OSError, pa.ArrowException) as exc:
            raise DataError(f"{path}: row group {group} cannot be read: {exc}", hint=_VERIFY) from exc
        raise DataError(f"{path}: row group {group} is empty", hint=_VERIFY)


def _chunks_of(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.cast(pa.string()) for column in columns for chunk in column.chunks], pa.string())


_VERIFY = "`voxelflow verify` lists all damage and says what to do."


class FolderRows(VolumeRows):
    """A file each, those of a manifest."""

    def __init__(self, dataset: VolumeFiles) -> None:
        try:
            listing = manifest.read(dataset.manifest)
        except FileNotFoundError as exc:
            raise DataError(f"the listing {dataset.manifest} is gone", hint="Run the pipeline again.") from exc
        # A listing from before a run has the tables of labels, too.
        self._reading = reading_of(dataset)
        # That from a run has the volumes themselves, which may be made of several files each.
        is_made = LABEL_TABLES in (listing.schema.metadata or {})
        volumes = listing if is_made else volumes_of(listing, dataset.uri, self._reading)
        self._paths = volumes["path"].combine_chunks()
        self._uri = dataset.uri
        self._rows = volumes if is_rows(volumes) else None
        self._own = threading.local()
        refuse_untrusted(dataset.transforms, "this result")
        spec = dataset.spec or self._sampled()
        if spec is None:
            raise DataError(
                f"none of the files in {dataset.uri} can be read as a volume",
                hint="Check that the folder was copied whole.",
            )
        super().__init__(len(self._paths), spec)
        self._scan = threading.Lock()
        self._found: Labels | None = None

    def _sampled(self) -> VolumeSpec | None:
        names = [self._paths[i].as_py() for i in spread(len(self._paths))]
        return sample_headers(self._uri, names, self._reading).majority

    @property
    def streams(self) -> int:
        return STREAMS if is_url(self._uri) else 2

    @property
    def labels_known(self) -> bool:
        """Whether `labels` has been asked for."""
        return self._found is not None

    def row(self, number: int) -> VolumeRow:
        name = str(self._paths[self.check(number)])
        label = math.nan if self._found is None else float(self._found.values[number])
        return VolumeRow(name, label, name)

    def volume(self, number: int) -> NDArray[Any]:
        """The file's array, whatever its shape: mapped and not read, where it lies on a disk."""
        name = str(self._paths[self.check(number)])
        try:
            if self._reading.takes_whole:
                volumes: TransformedVolumes | None = getattr(self._own, "volumes", None)
                if volumes is None:
                    volumes = self._own.volumes = TransformedVolumes.at(self._uri, self._reading)
                return self._noted(number, *volumes.read(name, self._stamp(number)))
            if self._reading != NPY:
                from nodes.conversion.formats.reader import read_with_header, volume_files

                files = volume_files(self._uri, self._reading)
                return self._noted(number, *read_with_header(files, name, self._reading, None))
            if is_url(self._uri):
                return self._remote(name)
            header = header_of(self._uri, name)
            order = "F" if header.fortran_order else "C"
            path = f"{self._uri}/{name}"
            return np.memmap(path, header.dtype, "r", header.offset, header.shape, order)  # type: ignore[call-overload, no-any-return]
        except Refused as exc:
            raise DataError(f"{name} {exc.message}", hint="Replace the file and run the pipeline again.") from exc
        except FileNotFoundError as exc:
            raise DataError(f"{name} is gone since the folder was listed", hint="Run the pipeline again.") from exc

    def spacing(self, number: int) -> tuple[float, float, float] | None:
        if not self._reading.takes_whole and self._reading == NPY:
            return None
        known: tuple[int, Mapping[str, Any]] | None = getattr(self._own, "known", None)
        if known is None or known[0] != number:
            self.volume(number)
            known = self._own.known
        return spacing_of(known[1])

    def _noted(self, number: int, volume: NDArray[Any], known: Mapping[str, Any]) -> NDArray[Any]:
        """The volume; what is known of it besides is kept until another one is read."""
        self._own.known = number, known
        return volume

    def _stamp(self, number: int) -> tuple[int, int] | None:
        """Where a row of a table lies; a file is taken as it is."""
        rows = self._rows
        return None if rows is None else (rows["size"][number].as_py(), rows["mtime_ns"][number].as_py())

    def find(self, volume_id: str) -> int | None:
        found = pc.index(pc.utf8_normalize(self._paths, form="NFC"), volume_id).as_py()
        return None if found < 0 else int(found)

    def _remote(self, name: str) -> NDArray[Any]:
        from engine.storage.objects import RemotePath

        data, _ = (RemotePath.at(self._uri) / name).read()
        raw = bytes(data)
        header: Header = parse_header(lambda length, offset: raw[offset : offset + length], len(raw))
        flat = np.frombuffer(raw, header.dtype, math.prod(header.shape), header.offset)
        return flat.reshape(header.shape, order="F" if header.fortran_order else "C")

    def labels(self) -> NDArray[np.float32]:
        with self._scan:
            if self._found is None and self._rows is not None:
                self._found = labels_in(self._rows, carry=False)
                self.spec = self.spec.model_copy(update={"classes": self._found.classes})
            if self._found is None:
                with label_file_at(self._uri) as table:
                    ids = pc.utf8_normalize(self._paths, form="NFC")
                    self._found = find_labels(ids, LabelRule(found=table, endings=endings_of(self._reading)))
                self.spec = self.spec.model_copy(update={"classes": self._found.classes})
            return self._found.values


def _numbers(labels: pa.Array) -> NDArray[np.float32]:
    """NaN where there is none. Not by `to_numpy`, for which pyarrow would import pandas first: 0.2 s."""
    there = pc.fill_null(labels.cast(pa.float32(), safe=False), pa.scalar(np.nan, pa.float32()))
    # DLPack refuses empty arrays.
    return np.asarray(np.from_dlpack(there), np.float32) if len(there) else np.empty(0, np.float32)
