"""A table of another program: which files it has, and how one of them is read."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import DataError, UnsupportedTable, first_line
from engine.storage import is_url, links, manifest
from engine.storage.files import DANGLING, check_regular
from engine.storage.find_place import place_at
from engine.storage.io_errors import number_of, remedy
from engine.storage.objects import RemotePath
from engine.storage.place import Place
from nodes.conversion.columns import to_bools, typed
from nodes.foreign_tables.cells import is_bytes
from nodes.loaders.data_files import LOCAL, FileAccess, RemoteFiles
from nodes.table.existing import identity as table_identity
from nodes.table.features import deletion_vectors, mapped_columns, refuse_unknown_features
from nodes.table.ledger import is_given_once
from nodes.table.log import LOG
from nodes.table.snapshot import is_outside, load_delta
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.id_bounds import doubled_column

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FILES = ("**/*.parquet", "**/*.PARQUET")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class ForeignTable:
    """The files of a table. `names` are their paths below it, `partitions` the values that their folders stand for.

    `stamps` say in which state a file is: its bytes and modification time in ns. In a Delta table, whose files never
    change, it is the time in the log, in ms, or 0 where no other file gets the name. It is pickled.
    """

    where: str
    names: tuple[str, ...]
    stamps: tuple[tuple[int, int], ...]
    partitions: pa.Table
    rows: int | None = None
    """How many rows there are, where that is known without reading the files."""
    left_out: tuple[links.Remark, ...] = ()
    """What is to be said of links in the folder that were not followed."""
    columns: pa.Schema | None = None
    """The columns that a Delta table has by its log. A file may lack one that came later, and hold others, such as
    `_change_type`, that are none of the table's. None for a folder, whose columns are those of its files."""
    deleted: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    """Rows of files that deletion vectors delete, ascending, by the number of the file."""
    mapped: Mapping[str, str | int] = field(default_factory=dict)
    """The columns of a table with column mapping: the name of each in the files, or its number there."""

    def path(self, number: int) -> str:
        """The path or URL of a file."""
        return place_at(self.where).path(self.names[number])

    def stored(self, file: pq.ParquetFile) -> dict[str, str]:
        """Which of the table's columns this file holds, each with its name there."""
        there: dict[str | int, str] = {each.name: each.name for each in file.schema_arrow}
        if any(isinstance(key, int) for key in self.mapped.values()):
            there = {int((each.metadata or {}).get(_FIELD_ID, -1)): each.name for each in file.schema_arrow}
        wanted = file.schema_arrow.names if self.columns is None else self.columns.names
        keys = {name: self.mapped.get(name, name) for name in wanted if name not in self.partitions.column_names}
        return {name: there[key] for name, key in keys.items() if key in there}

    def read(self, file: pq.ParquetFile, wanted: Sequence[str]) -> pa.Table:
        """These columns of the file, as far as it holds them, with the types that the table's log gives them.

        Raises `UnsupportedTable` for values that such a type cannot hold.
        """
        stored = self.stored(file)
        there = [name for name in wanted if name in stored]
        # Arrow takes a name for the beginning of others, too: `a` for `a.b`.
        found = file.read(columns=[stored[name] for name in there], use_threads=False)
        return self._as_logged(plain(found.select([stored[name] for name in there]).rename_columns(there)))

    def kept(self, number: int, count: int) -> NDArray[np.bool_]:
        """Which of a file's `count` rows are rows of the table."""
        kept = np.ones(count, bool)
        if number in self.deleted:
            rows = self.deleted[number]
            kept[rows[rows < count]] = False
        return kept

    def nulls(self, name: str, count: int) -> pa.Array:
        """What a file without this column has of it."""
        return pa.nulls(count, pa.null() if self.columns is None else self.columns.field(name).type)

    def _as_logged(self, found: pa.Table) -> pa.Table:
        for number, name in enumerate(found.column_names if self.columns is not None else ()):
            assert self.columns is not None
            kind = self.columns.field(name).type
            if found.column(number).type == kind:
                continue
            try:
                found = found.set_column(number, name, found.column(number).cast(kind))
            except pa.ArrowException as exc:
                raise UnsupportedTable(
                    f"the column {name} of {self.where} is {kind} by its log, and {found.column(number).type} in a"
                    f" file: {next(iter(str(exc).splitlines()), '')}",
                    hint="Write the table's rows to a new one, or leave the column out by columns = none.",
                    parameter="columns",
                ) from exc
        return found

    def access(self) -> FileAccess:
        """Opens the files by their paths."""
        if not is_url(self.where):
            return LOCAL
        sizes = {self.path(number): size for number, (size, _) in enumerate(self.stamps)}
        return RemoteFiles(sizes, cached=False)


def identity(path: str, params: Mapping[str, Any]) -> str:
    """What the table holds: of a Delta table its version that last changed rows and its columns, of a folder its files.

    Raises `VoxelflowError` when there is no such table.
    """
    if not _has_log(path):
        return manifest.digest(_listing(path))
    # A column may come, or get another name, without a change of any row.
    columns = json.dumps(json.loads(load_delta(place_at(path)).schema().to_json()), sort_keys=True)
    return f"{table_identity(path, {})}-{hashlib.sha256(columns.encode()).hexdigest()[:16]}"


def _has_log(where: str) -> bool:
    """Whether there is a Delta log, be it damaged: files without it may be of rows that were deleted."""
    return next(place_at(where).names(LOG), None) is not None


def _listing(where: str, left_out: manifest.LeftOut | None = None) -> pa.Table:
    """The Parquet files of a folder. Hidden folders, and Spark's own such as `_temporary`, are left out."""
    found = manifest.list_remote(RemotePath.at(where), _FILES) if is_url(where) else _local_listing(where, left_out)
    hidden = [
        any(part.startswith("_") and "=" not in part for part in path.split("/"))
        for path in found["path"].to_pylist()
    ]  # fmt: skip
    return found.filter(pa.array([not each for each in hidden], pa.bool_()))


def _local_listing(where: str, left_out: manifest.LeftOut | None) -> pa.Table:
    try:
        return manifest.list_folder(Path(where), _FILES, left_out=left_out)
    except OSError as exc:
        raise DataError(f"{exc.filename} cannot be read: {exc.strerror}", hint=remedy(exc)) from exc


def has_files(where: str) -> bool:
    """Whether there are Parquet files below this folder or URL. Raises `DataError` when it cannot be listed."""
    return len(_listing(where)) > 0


def find_table(where: str) -> ForeignTable:
    """A Delta table, or the Parquet files in a folder, local or in object storage.

    Raises `DataError` when there is none, `UnsupportedTable` for a Delta feature that would be read wrongly.
    """
    found = any_table(where)
    if not found.names:
        raise DataError(
            f"{where} has no Parquet files",
            hint="Choose the folder of a Delta table, or one with Parquet files.",
            parameter="table",
        )
    return found


def any_table(where: str) -> ForeignTable:
    """The same, also where it has no file yet."""
    return _delta(where) if _has_log(where) else _folder(where)


def _delta(where: str) -> ForeignTable:
    place = place_at(where)
    delta = load_delta(place)
    partitioned = delta.metadata().partition_columns
    refuse_unknown_features(delta, place)
    files = pa.table(delta.get_add_actions(flatten=True)).sort_by("path")
    logged = files["path"].to_pylist()
    names = tuple(unquote(path) for path in logged)
    if outside := next((name for name, path in zip(names, logged, strict=True) if is_outside(path)), ""):
        raise UnsupportedTable(
            f"the table {place} refers to a file outside its folder: {outside}",
            hint="Use the table that this shallow clone was made from, or make a deep clone of that.",
        )
    counts = files["num_records"]
    partitions = files.select([f"partition.{name}" for name in partitioned]).rename_columns(partitioned)
    deleted = _deleted(delta, place, names)
    rows = None if counts.null_count else sum(counts.to_pylist()) - sum(map(len, deleted.values()))
    # A table that was made anew may have another file under the name of an earlier one.
    written = (int(ms or 0) for ms in files["modification_time"].to_pylist())
    times = [0 if is_given_once(name.rpartition("/")[2]) else ms for name, ms in zip(names, written, strict=True)]
    stamps = tuple(zip(files["size_bytes"].to_pylist(), times, strict=True))
    columns = plain(pa.schema(delta.schema().to_arrow()).empty_table()).schema
    mapped = mapped_columns(delta)
    return ForeignTable(where, names, stamps, partitions, rows, columns=columns, deleted=deleted, mapped=mapped)


def _deleted(delta: DeltaTable, place: Place, names: Sequence[str]) -> dict[int, NDArray[np.int64]]:
    """`ForeignTable.deleted`."""
    vectors = {path: np.flatnonzero(~to_bools(kept)) for path, kept in deletion_vectors(delta, place)}
    numbers = {name: number for number, name in enumerate(names)}
    if other := sorted(vectors.keys() - numbers.keys()):
        raise UnsupportedTable(
            f"the table {place} has a deletion vector for {other[0]}, which its log does not list",
            hint="Write its rows to a new table.",
        )
    return {numbers[path]: rows for path, rows in vectors.items()}


def _folder(where: str) -> ForeignTable:
    left_out = manifest.LeftOut()
    entries = list(manifest.entries(_listing(where, left_out)))
    names = tuple(entry.path for entry in entries)
    stamps = tuple((entry.size, entry.mtime_ns) for entry in entries)
    remarks = tuple(links.remarks(where, left_out.links))
    return ForeignTable(where, names, stamps, _hive_partitions(names), left_out=remarks)


def _hive_partitions(names: Sequence[str]) -> pa.Table:
    """The columns that the files' folders stand for: `class=salt/part-0.parquet`."""
    values = [
        {key: unquote(value) for part in name.split("/")[:-1] for key, sign, value in [part.partition("=")] if sign}
        for name in names
    ]
    columns = list(dict.fromkeys(key for each in values for key in each))
    texts = {
        key: pa.array([None if each.get(key) == _NO_PARTITION else each.get(key) for each in values], pa.string())
        for key in columns
    }
    return pa.table({key: typed(column) for key, column in texts.items()})


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raises `DataError` when the file is gone or cannot be read."""
    try:
        yield
    except FileNotFoundError as exc:
        if exc.strerror == DANGLING:
            raise DataError(
                f"{path} cannot be read: {DANGLING}", hint="Put the file back, or remove the link."
            ) from exc
        raise DataError(f"{path} is gone", hint="The table changed while it was read. Run the pipeline again.") from exc
    except (pa.ArrowException, OSError, UnicodeDecodeError) as exc:  # the last: of a damaged column's name
        if (number := number_of(exc)) is not None:  # Arrow's own errors about the bytes have none
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else os.strerror(number)
            raise DataError(f"{path} cannot be read: {why}", hint=remedy(exc)) from exc
        raise UnsupportedTable(
            f"{path} cannot be read as Parquet: {first_line(exc)}",
            hint="Repair the file, or remove it from the table.",
        ) from exc


@contextmanager
def opened(
    table: ForeignTable, access: FileAccess, number: int, metadata: pq.FileMetaData | None = None, buffer: int = 0
) -> Iterator[pq.ParquetFile]:
    """One of the table's files. With `buffer` a row group is read so many bytes at a time, else a column at once.

    Raises `DataError`.
    """
    path = table.path(number)
    with reading(path):
        if access.mapped:
            _refuse_changed(path, table.stamps[number], timed=table.columns is None)
        # What is read ahead is a whole row group: worth it where requests are dear and all of it is wanted.
        whole = not buffer and not access.mapped
        with (
            access.open(path) as source,
            pq.ParquetFile(
                source,
                metadata=metadata,
                buffer_size=buffer,
                pre_buffer=whole,
                page_checksum_verification=True,
                # As nanoseconds, Arrow's default, times after 2262 would become others.
                coerce_int96_timestamp_unit="us",
            ) as file,
        ):
            if metadata is None:
                refuse_fatal(file.metadata)
                if problem := doubled_column(file.schema_arrow.names):
                    raise pa.ArrowInvalid(problem)
            yield file


def _refuse_changed(path: str, stamp: tuple[int, int], *, timed: bool) -> None:
    check_regular(Path(path), sys.maxsize)
    found = Path(path).stat()
    if found.st_size != stamp[0] or (timed and stamp[1] != found.st_mtime_ns):
        raise DataError(f"{path} has changed since it was listed", hint="Run the pipeline again.")


def plain(table: pa.Table) -> pa.Table:
    """The columns without the types that name only how values are held: dictionaries, views, large texts."""
    for number, (name, held) in enumerate(zip(table.schema.names, table.schema.types, strict=True)):
        kind = held.value_type if pa.types.is_dictionary(held) else held
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            kind = pa.string()
        elif is_bytes(kind):
            kind = pa.binary()
        if kind != held:
            table = table.set_column(number, name, table.column(number).cast(kind))
    return table.replace_schema_metadata()
