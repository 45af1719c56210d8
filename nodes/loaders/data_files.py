"""The Parquet files of a dataset: which they are, how they are opened, and their rows without the volumes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import VolumeDelta, VolumeParquet, VolumeSpec
from engine.declare.progress import track
from engine.errors import DataError, UnsupportedTable, VoxelflowError, first_line
from engine.storage import is_url, parse_url
from engine.storage.schemes import SCHEMES
from nodes.loaders.joined_columns import joined
from nodes.loaders.rows import Rows
from nodes.table.features import renamed_columns
from nodes.table.selection import no_column
from nodes.table.snapshot import TableFile, local_folder, open_table
from nodes.volume_file.fatal_footer import refuse_damaged
from nodes.volume_file.id_bounds import OTHER_FILE, Described, doubled_column, ends_of, other_content
from nodes.volume_file.layout import spec_of
from nodes.volume_file.page_index import NotIndexable, PageIndex, index_pages
from nodes.volume_file.parts import read_parts

if TYPE_CHECKING:
    from engine.storage.place import Place

STREAMS = 8
"""Row groups in flight at a time, within the loader's memory bound: requests wait for the network, not for a core."""


class FileAccess(Protocol):
    """Opens files by the names that `data_files` gives them: local files, or ranged reads from elsewhere."""

    @property
    def mapped(self) -> bool:
        """The names are local paths: any byte is read at once, so a page index pays."""

    @property
    def streams(self) -> int:
        """Reads that are worth having in flight at a time."""

    def open(self, path: str) -> pa.NativeFile | BinaryIO:
        """A seekable file of the caller's own. Raises `FileNotFoundError`. Called from several threads."""


class LocalFiles:
    """Files on a local disk."""

    mapped = True
    streams = 2

    def open(self, path: str) -> pa.NativeFile:
        return pa.OSFile(path)


LOCAL = LocalFiles()


class RemoteFiles:
    """Files in object storage, by ranged reads and the local cache (if `cached`); `sizes` are their bytes by URL.

    At addresses of an installed package its `Place` opens them, without the cache.
    """

    mapped = False
    streams = STREAMS

    def __init__(self, sizes: Mapping[str, int], *, cached: bool = True) -> None:
        from engine.storage.cache import RangeCache

        self._sizes = sizes
        self._tags: dict[str, str] = {}
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()
        self._cache = RangeCache.from_environment() if cached else None

    def open(self, path: str) -> pa.NativeFile:
        """The file as it was when it was first opened here: its tag is asked for once. Raises `DataError` else."""
        from engine.storage.objects import RemotePath
        from engine.storage.ranged_file import RangedFile

        url = parse_url(path)
        if url.scheme not in SCHEMES:
            return self._open_of_package(path)
        with self._lock:
            tag = self._tags.get(path, "")
        file = RangedFile(RemotePath(url), self._sizes.get(path), tag, self._cache)
        with self._lock:
            self._tags[path] = file.tag
        return pa.PythonFile(file, mode="r")

    def _open_of_package(self, path: str) -> pa.NativeFile:
        from engine.storage.find_place import place_at

        folder, _, name = path.rpartition("/")
        with self._lock:
            # Made once: the package may connect to a server.
            if (place := self._places.get(folder)) is None:
                place = self._places[folder] = place_at(folder)
        return place.open(name, self._sizes[path])


@dataclass(frozen=True)
class DataFiles:
    """A dataset's Parquet files, by the names under which `access` opens them, and the spec of its volumes."""

    paths: tuple[str, ...]
    spec: VolumeSpec
    access: FileAccess = LOCAL
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns of a Delta table that these files hold under other names, each with that name."""
    said: tuple[Described, ...] = ()
    """What the table's log, or the list of Parquet files, says of each; none where files are not to be compared."""


def data_files(dataset: VolumeDelta | VolumeParquet) -> DataFiles:
    """The files of exactly this version or manifest, never a listing of the folder.

    Raises `UnsupportedTable` for Delta features that would be read wrongly, `StaleInput` when the
    version is gone, `DataError` when there are no rows or object storage cannot be reached, `UsageError`
    for a place that is neither a local folder nor in object storage.
    """
    if isinstance(dataset, VolumeDelta) and is_url(dataset.uri):
        return _remote_files(dataset)
    if isinstance(dataset, VolumeDelta):
        table = open_table(dataset.uri, dataset.version)
        said: tuple[Described, ...] = table.files
        paths = tuple(str(table.root / file.path) for file in table.files)
        spec: VolumeSpec | None = table.spec
        renamed = renamed_columns(table.columns, table.properties)
    else:
        folder = local_folder(dataset.uri)
        parts = [part for part in read_parts(dataset).parts if part.rows]
        said, paths = tuple(parts), tuple(str(folder / part.path) for part in parts)
        spec, renamed = dataset.spec, {}
    if not paths:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Convert some volumes first.")
    return DataFiles(paths, spec or _spec_in(paths[0]), renamed=renamed, said=said)


def _remote_files(dataset: VolumeDelta) -> DataFiles:

    table = open_table(dataset.uri, dataset.version)
    if not table.files:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Convert some volumes first.")
    sizes = {table.place.path(file.path): file.bytes for file in table.files}
    renamed = renamed_columns(table.columns, table.properties)
    return DataFiles(tuple(sizes), table.spec, RemoteFiles(sizes), renamed, table.files)


def _spec_in(path: str) -> VolumeSpec:
    return spec_of(pq.read_schema(path).metadata, path)


Stamp = tuple[int, int]
"""By which a file is known to be the same one still: bytes, and when it was changed in ns. Some network drives give a
file another inode each time."""


def stamp_of(descriptor: int) -> Stamp:
    """The stamp of an open file."""
    stat = os.fstat(descriptor)
    return stat.st_size, stat.st_mtime_ns


@dataclass(frozen=True)
class FileRows:
    """One Parquet file's rows. `index` says where its volumes lie, if that was asked for and can be known."""

    path: str
    ids: pa.ChunkedArray
    labels: NDArray[np.float32]
    groups: tuple[int, ...]
    """Rows in each row group."""
    index: PageIndex | None = None
    reason: str = ""
    """Why the volumes must be decoded."""
    footer: pq.FileMetaData | None = None
    """Kept where reading it again would cost a request."""
    stamp: Stamp = (0, 0)
    """Of a local file when it was read."""


def read_files(
    paths: tuple[str, ...],
    *,
    index_bytes: int | None,
    threads: int,
    access: FileAccess = LOCAL,
    said: Sequence[Described] = (),
) -> Iterator[FileRows]:
    """Each file's rows, in the order of `paths`; with offsets of volumes of `index_bytes`, unless it is None.

    Each is compared with what is `said` of it. Raises `UnsupportedTable` or `DataError` for a file that would be read
    wrongly.
    """
    with ThreadPoolExecutor(max(threads, access.streams)) as pool:
        each: Sequence[Described | None] = said or [None] * len(paths)
        files = pool.map(lambda path, one: _read_file(path, index_bytes, access, one), paths, each)
        yield from track(files, total=len(paths), unit="files", label="reading ids")


def join_rows(files: list[FileRows], where: str, access: FileAccess = LOCAL) -> Rows:
    """The rows of all files, by id; `stored` counts through the files in their order."""
    ids = pa.chunked_array([chunk for file in files for chunk in file.ids.chunks], pa.string())
    paths = [file.path for file in files]
    labels = np.concatenate([file.labels for file in files])
    return Rows.by_id(ids.combine_chunks(), labels, where, lambda names: read_columns(paths, names, access))


def read_columns(paths: Sequence[str], names: Sequence[str], access: FileAccess = LOCAL) -> pa.Table:
    """Small columns of all files in their order; null in files that do not have them, being older.

    Raises `DataError` for a column that no file has.
    """

    def read(path: str) -> pa.Table:
        with reading(path), access.open(path) as opened, open_checked(opened) as file:
            there = [name for name in names if name in file.schema_arrow.names]
            if there:
                return small_columns(file, there, opened)
            return pa.table({names[0]: pa.nulls(file.metadata.num_rows)})

    with ThreadPoolExecutor(max(2, access.streams)) as pool:
        found = joined(list(pool.map(read, paths)), "the table's files")
    if missing := next(
        (n for n in names if n not in found.column_names or found.schema.field(n).type == pa.null()), ""
    ):
        raise no_column(missing)
    return found


def small_columns(file: pq.ParquetFile, names: Sequence[str], opened: pa.NativeFile | BinaryIO) -> pa.Table:
    """These columns of a file that `open_checked` made of `opened`.

    The times that Spark stores as INT96 are nanoseconds, as Arrow has them, unless these hold one of them wrongly.
    """
    found = file.read(columns=list(names), use_threads=False).replace_schema_metadata()
    for number, (name, kind) in enumerate(zip(found.column_names, found.schema.types, strict=True)):
        # Arrow cannot filter or sort views.
        if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            plain = pa.string() if pa.types.is_string_view(kind) else pa.binary()
            found = found.set_column(number, name, found.column(number).cast(plain))
    columns = (file.schema.column(number) for number in range(file.metadata.num_columns))
    for name in {column.path for column in columns if column.physical_type == "INT96"} & {*names}:
        with suppress(pa.ArrowInvalid):
            found.column(name).cast(pa.timestamp("ns", found.schema.field(name).type.tz))
            # Read again, as other programs store digits there that microseconds do not have.
            precise = pq.ParquetFile(opened, metadata=file.metadata, page_checksum_verification=True)
            times = precise.read(columns=[name], use_threads=False).column(0)
            found = found.set_column(found.column_names.index(name), name, times)
    return found


_OTHER_PART = "Bring the right file back from a copy, or run again from the node that makes or lists it (--from)."


def refuse_other(path: str, opened: pa.NativeFile | BinaryIO, rows: pa.Table, said: Described) -> None:
    """Raise `DataError` where a file with these `rows`, their ids and labels, is not the one of which that is `said`.

    By its size, its rows, and the ends of its ids and labels. Other volumes with the same ids and labels, in a file of
    the same size, are not distinguished. That takes 0.09 of the 0.40 ms in which a file of 64 rows is opened,
    0.14 of 1.36 with 1,920 (medians, all in memory, a machine of two cores).
    """
    problem, of_table = "", isinstance(said, TableFile)
    # Elsewhere each read compares the size.
    if isinstance(opened, pa.OSFile) and (size := opened.size()) != said.bytes:
        problem = f"has {size:,} bytes, not {said.bytes:,}"
    elif len(rows) != said.rows:
        problem = f"has {len(rows):,} rows, not {said.rows:,}"
    else:
        where = "the table's log" if of_table else "the list of the Parquet files"
        labels = rows.column("label") if "label" in rows.column_names else None
        problem = other_content(ends_of(rows.column("id"), labels), said, where)
    if problem:
        raise DataError(f"{path} {problem}", hint=OTHER_FILE if of_table else _OTHER_PART)


def _read_file(path: str, index_bytes: int | None, access: FileAccess, said: Described | None = None) -> FileRows:
    with reading(path), access.open(path) as opened:
        return _rows_of(path, opened, index_bytes, access, said)


def open_checked(opened: pa.NativeFile | BinaryIO, **options: Any) -> pq.ParquetFile:
    """The file, whose columns beside the volumes are compared with their checksums: that costs next to nothing.

    Times that are stored as INT96 are read as microseconds: as nanoseconds the year 9999 would be 1816.
    """
    return pq.ParquetFile(opened, page_checksum_verification=True, coerce_int96_timestamp_unit="us", **options)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise `DataError` or `UnsupportedTable` with the file's name for what cannot be read in it."""
    try:
        yield
    except FileNotFoundError as exc:
        raise DataError(f"{path} is gone", hint="Run the node that makes the table again.") from exc
    except (pa.ArrowInvalid, UnicodeDecodeError) as exc:  # the second: of a damaged column's name
        raise UnsupportedTable(
            f"{path} cannot be read as Parquet: {first_line(exc)}", hint="Make the table again."
        ) from exc
    except OSError as exc:
        if exc.errno:  # the machine's trouble, not the file's
            raise
        raise DataError(
            f"{path} is damaged: {str(exc).splitlines()[0].rstrip('.')}",
            hint="`voxelflow verify` with the table's folder lists all damage and says what to do.",
        ) from exc


def _rows_of(
    path: str, opened: pa.NativeFile | BinaryIO, index_bytes: int | None, access: FileAccess, said: Described | None
) -> FileRows:
    # Elsewhere than on a local disk the small columns of all row groups are asked for at once.
    with open_checked(opened, pre_buffer=not access.mapped) as file:
        names = set(file.schema_arrow.names)
        if missing := {"id", "volume"} - names:
            raise UnsupportedTable(
                f"{path} has no column {' and '.join(sorted(missing))}",
                hint="Choose a volume table: it has the columns id, label and volume.",
            )
        if problem := doubled_column(file.schema_arrow.names):
            raise pa.ArrowInvalid(problem)
        table = file.read(columns=["id", "label"] if "label" in names else ["id"], use_threads=False)
        metadata = file.metadata
    groups = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    labels = _labels(table.column("label"), path) if "label" in names else np.full(len(table), np.nan, np.float32)
    if said is not None:
        refuse_other(path, opened, table, said)
    ids = table.column("id").cast(pa.string())
    if not access.mapped:
        # Without the footer's bytes: they may be one more request, which takes longer.
        refuse_damaged(path, metadata)
        return FileRows(path, ids, labels, groups, None, "it is not on a local disk", metadata)
    stamp = stamp_of(opened.fileno())
    if index_bytes is None:
        return FileRows(path, ids, labels, groups, stamp=stamp)
    try:
        # From the file that is open: another one may have its name by now.
        index = index_pages(path, metadata, index_bytes, file=opened.fileno())
    except NotIndexable as exc:
        return FileRows(path, ids, labels, groups, None, str(exc), stamp=stamp)
    return FileRows(path, ids, labels, groups, index, stamp=stamp)


def refuse_changed(path: str, ids: pa.Array, labels: NDArray[np.float32], index_bytes: int | None) -> FileRows:
    """The local file at `path`, which has another stamp by now, read again: a copy of it is as good.

    Raises `DataError` where its rows are no longer those with these `ids` and `labels`, in their order.
    """
    try:
        found = _read_file(path, index_bytes, LOCAL)
    except VoxelflowError as exc:
        raise changed(path, exc.message.removeprefix(f"{path} ")) from exc
    if not found.ids.combine_chunks().equals(ids) or not np.array_equal(found.labels, labels, equal_nan=True):
        raise changed(path, "it holds other rows now")
    return found


def changed(path: str, what: str) -> DataError:
    """The error for a file that is another one since the table was opened."""
    return DataError(
        f"{path} was changed while the table was read: {what}",
        hint="Bring the right file back from a copy, and run it again.",
    )


def _labels(column: pa.ChunkedArray, path: str) -> NDArray[np.float32]:
    """Labels as float32, NaN for none."""
    try:
        values = column.cast(pa.float32(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise UnsupportedTable(
            f"{path}: its labels are {column.type}, not numbers",
            hint="Store the class number 0, 1, ... in the column label.",
        ) from exc
    return np.asarray(values.to_numpy(), np.float32)
