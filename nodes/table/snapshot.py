"""Reading a Delta table of volumes in a place: one version, its files, its spec.

What would be read wrongly is refused: files outside the table, and what `nodes.table.features` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from engine.declare.datasets import Selection, VolumeDelta, VolumeSpec
from engine.errors import DataError, StaleInput, UnsupportedTable, VoxelflowError, first_line
from engine.storage.find_place import place_at
from engine.storage.objects import redact
from engine.storage.place import Place
from engine.storage.table_lock import WRITER_APP_ID
from nodes.table.features import CommitRules, commit_rules, refuse_unreadable
from nodes.table.log import (
    LOG,
    damaged_type,
    data_version,
    has_version,
    last_writer,
    refuse_damaged,
    refuse_torn,
)
from nodes.table.log_copy import load_copy
from nodes.volume_file.layout import spec_of

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

_BATCH = 50_000
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\\")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_EXPIRY = "delta.setTransactionRetentionDuration"

IN_PLACE = "voxelflow.in_place"
"""Property of a table whose files also belong to a Parquet dataset."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One data file of a table. `path` is where it lies below the table's folder.

    `id_min` and `id_max` bound the ids of its rows (Spark cuts long ones short); `labelled` counts the
    rows with a label. `spelling` is the path in the log where that differs from `quote(path)`.
    """

    path: str
    bytes: int
    rows: int
    labelled: int
    mtime_ms: int
    id_min: str
    id_max: str
    label_min: float | None = None
    label_max: float | None = None
    spelling: str = ""

    @property
    def path_in_log(self) -> str:
        """The path as the log spells it. Readers compare the paths of `add` and `remove` as strings."""
        return self.spelling or quote(self.path)

    def statistics(self) -> str:
        """The file's statistics as the Delta log writes them."""
        least: dict[str, Any] = {"id": self.id_min}
        most: dict[str, Any] = {"id": self.id_max}
        if self.label_min is not None and self.label_max is not None:
            least["label"], most["label"] = self.label_min, self.label_max
        nulls = {"id": 0, "label": self.rows - self.labelled, "volume": 0}
        found = {"numRecords": self.rows, "minValues": least, "maxValues": most, "nullCount": nulls}
        # As UTF-8: delta-rs and DuckDB misread escapes in two halves, as JSON writes characters beyond U+FFFF.
        return json.dumps(found, ensure_ascii=False)


@dataclass(frozen=True)
class TableVersion:
    """One version of a table: what a reader needs, taken from the log. `files` are sorted by their first id."""

    place: Place
    version: int
    spec: VolumeSpec
    files: tuple[TableFile, ...]
    token: int
    """Fencing token of the last writer, 0 when there was none."""
    columns: Schema = field(compare=False, repr=False)
    rules: CommitRules = field(default_factory=CommitRules, compare=False, repr=False)
    """What it asks of the next commit."""
    properties: Mapping[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    """The table's properties, its CHECK constraints among them."""

    @property
    def root(self) -> Path:
        """The table's local folder. Raises `UsageError` where it does not lie in one."""
        return self.place.folder

    @property
    def in_place(self) -> bool:
        """Whether the table's files also belong to a Parquet dataset."""
        return self.properties.get(IN_PLACE) == "true"

    def reference(
        self, uri: str, selections: Sequence[Selection] = (), known: tuple[int, int] | None = None
    ) -> VolumeDelta:
        """The dataset reference that pins this version (`known`: see `nodes.table.log.data_version`)."""
        return VolumeDelta(
            uri=uri,
            count=sum(f.rows for f in self.files),
            bytes=sum(f.bytes for f in self.files),
            spec=self.spec,
            version=self.version,
            data_version=data_version(self.place, self.version, known),
            files=len(self.files),
            labelled=sum(f.labelled for f in self.files),
            selections=tuple(selections),
        )


def local_folder(uri: str | Path) -> Path:
    """The folder that a path or `file://` URI names. Raises `UsageError` for other URLs."""
    return place_at(uri).folder


def is_table(root: Path | Place) -> bool:
    """Whether there is a Delta table."""
    from deltalake import DeltaTable

    place = place_at(root)
    if next(place.names(LOG), None) is None:
        return False
    # Elsewhere than in a local folder that is one more question to a store.
    return place.local_folder is None or DeltaTable.is_deltatable(str(place))


def open_table(where: str | Path | Place, version: int | None = None) -> TableVersion:
    """Open a version of the volume table at a path, URL or place (the newest by default).

    Raises `DataError` when there is no table or its log cannot be read, `StaleInput` when the version is gone,
    `UnsupportedTable` when reading its files as they are would give wrong rows.
    """
    place = place_at(where)
    delta = load_delta(place, version)
    return table_version(delta, place, delta.version())


def table_version(delta: DeltaTable, place: Place, version: int) -> TableVersion:
    """The version of the table at `place` as `delta` has it. Raises `UnsupportedTable`."""
    refuse_unreadable(delta, place)
    configuration = delta.metadata().configuration
    spec = spec_of(configuration, f"the table {place}")
    return TableVersion(
        place=place,
        version=version,
        spec=spec,
        files=sorted_files(files_in_log(delta, place), place),
        token=last_token(delta, place),
        columns=delta.schema(),
        rules=commit_rules(delta, place),
        properties=configuration,
    )


def last_token(delta: DeltaTable, place: Place) -> int:
    """The fencing token of the last writer of this version of the table at `place`, 0 when there was none."""
    # Read only now: delta-rs has not looked at these lines of the log before.
    with naming_files(place, delta.version()):
        token = delta.transaction_version(WRITER_APP_ID) or 0
    if not token and _EXPIRY in delta.metadata().configuration:
        # The table lets transactions expire, in a snapshot: the commit still has it.
        found = last_writer(place, delta.version())
        token = found[1] if found is not None else 0
    return token


def sorted_files(files: list[TableFile], root: object) -> tuple[TableFile, ...]:
    """The files by their first id. Raises `UnsupportedTable` when one is logged twice."""
    # Of two spellings of one path at least one is unusual.
    if any(f.spelling for f in files):
        names: dict[str, str] = {}
        for file in files:
            if (other := names.setdefault(file.path, file.path_in_log)) != file.path_in_log:
                raise UnsupportedTable(
                    f"the log of the table {root} names {file.path} twice, as {other} and as {file.path_in_log},"
                    " so that its rows count twice",
                    hint="Go back to a version before the second name: DeltaTable.restore of the package deltalake.",
                )
    return tuple(sorted(files, key=lambda f: (f.id_min, f.path)))


def load_delta(root: Path | Place, version: int | None = None) -> DeltaTable:
    """delta-rs' table object. Raises as `open_table`."""
    from deltalake import DeltaTable

    place = place_at(root)
    refuse_misread(place)
    folder, address = place.local_folder, place.delta_rs_address
    if folder is not None:
        refuse_torn(folder)
    with naming_files(place, version):
        return DeltaTable(address, version=version) if address is not None else load_copy(place, version)


@contextmanager
def naming_files(place: Place, version: int | None) -> Iterator[None]:
    """What delta-rs cannot read of a log in our words, with the file of the log as far as it is found."""
    from deltalake.exceptions import DeltaError

    folder = place.local_folder
    try:
        yield
    except (DeltaError, OSError) as exc:
        if folder is None:
            # Not chained: the library's text may hold what ours leaves out.
            raise (place.error_of(exc) if isinstance(exc, OSError) else _load_error(place, version, exc)) from None
        if isinstance(exc, OSError):
            raise
        refuse_torn(folder, exc)
        raise _load_error(place, version, exc) from exc


def refuse_misread(place: Place) -> None:
    """Raise `DataError` for a local folder that delta-rs 1.6 looks for under another name."""
    if place.local_folder is not None and (found := _MISREAD.search(str(place))):
        raise DataError(
            f"there can be no Delta table in {place}: delta-rs takes {found[0]} in a path for another character",
            hint="Rename the folder, or put the table elsewhere.",
        )


def _load_error(place: Place, version: int | None, exc: Exception) -> VoxelflowError:
    from deltalake.exceptions import TableNotFoundError

    is_there = not isinstance(exc, TableNotFoundError) and is_table(place)
    if isinstance(exc, TableNotFoundError) or (place.local_folder is None and not is_there):
        return DataError(
            f"there is no Delta table at {place}", hint="Check the path, or run the node that makes it again."
        )
    known = unreadable(place, version, redact(str(exc)), is_there=is_there)
    if found := damaged_type(place, version, str(exc)):
        return found
    if not isinstance(known, UnsupportedTable):
        try:
            refuse_damaged(place, version)
        except VoxelflowError as found:
            return found
        from nodes.table.damaged_checkpoint import damaged_checkpoint  # with pyarrow

        if of_checkpoint := damaged_checkpoint(place, version, redact(str(exc)).partition("\n")[0]):
            return of_checkpoint
    if isinstance(known, StaleInput) and version is not None and has_version(place, version):
        # Not gone, but not to be read now: who takes it for gone deletes its files.
        return DataError(
            f"version {version} of the table {place} cannot be read: {redact(str(exc)).partition(chr(10))[0]}",
            hint="Its log is there. See to the disk or the store, and run it again.",
        )
    return known


def unreadable(root: object, version: int | None, text: str, *, is_there: bool) -> VoxelflowError:
    """The error for what delta-rs says of a log that it cannot read. `is_there`: whether there is a table."""
    text = text.partition("\n")[0]
    if "ax catalog version" in text:
        return UnsupportedTable(
            f"a catalog says which versions the table {root} has (its feature catalogManaged); its log alone does not",
            hint="Write its rows to a table that no catalog manages, with a program that has access to the catalog.",
        )
    if "nsupported" in text or "olumn mapping" in text or "is not supported" in text:
        return UnsupportedTable(
            f"the table {root} uses a Delta feature that is not supported: {text}",
            hint="Write it again without that feature, or drop the feature.",
        )
    if version is not None and is_there:
        return StaleInput(
            f"version {version} of the table {root} cannot be read any more",
            hint="Run the node that makes it again: its log was cleaned, or the table was replaced.",
        )
    return DataError(
        f"the Delta log of {root} cannot be read: {text}",
        hint="Restore the log from a backup, or make the table again.",
    )


def active_paths(delta: DeltaTable) -> set[str]:
    """The active files by their paths below the table."""
    return {unquote(path) for path in logged_paths(delta)}


def logged_paths(delta: DeltaTable) -> list[str]:
    """The paths of the active files as the log spells them."""
    import pyarrow as pa

    paths: list[str] = pa.table(delta.get_add_actions())["path"].to_pylist()
    return paths


def is_outside(logged: str) -> bool:
    """Whether the path of a file, as the log spells it, leads out of the table's folder."""
    path = unquote(logged)
    # Hadoop spells a URL of this machine with one slash: file:/elsewhere/a.parquet.
    return "://" in path or path.startswith("/") or ".." in path.split("/") or _URL.match(logged) is not None


def spelling_of(logged: str, path: str) -> str:
    """`TableFile.spelling` of a file that is logged so."""
    return "" if logged == quote(path) else logged


def active_sizes(delta: DeltaTable) -> dict[str, int]:
    """The bytes of each active file, by its path."""
    return {unquote(path): size for path, size in logged_sizes(delta).items()}


def logged_sizes(delta: DeltaTable) -> dict[str, int]:
    """The bytes of each active file, by its path as the log spells it."""
    import pyarrow as pa

    files = pa.table(delta.get_add_actions())
    return dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


def files_in_log(delta: DeltaTable, place: Place) -> list[TableFile]:
    """The version's data files as the log describes them; those without statistics are read."""
    import pyarrow as pa

    table = pa.table(delta.get_add_actions(flatten=True))
    names = ("path", "size_bytes", "num_records", "null_count.label", "min.id", "max.id")
    optional = ("modification_time", "min.label", "max.label")
    there = set(table.column_names)

    def rows() -> Iterator[tuple[Any, ...]]:
        # A piece at a time: with one file per volume, the values of all of them are most of the memory.
        for batch in table.to_batches(_BATCH):
            columns = [batch[n].to_pylist() if n in there else [None] * batch.num_rows for n in (*names, *optional)]
            yield from zip(*columns, strict=True)

    files = list(_table_files(place, rows()))
    if len(files) > _BATCH:
        # What reading took is given back, not kept for the next time.
        del table
        pa.default_memory_pool().release_unused()
    return files


def _table_files(place: Place, rows: Iterable[tuple[Any, ...]]) -> Iterator[TableFile]:
    sizes: dict[int, int] = {}
    labels: dict[Any, Any] = {}
    for logged, size, count, unlabelled, id_min, id_max, mtime, label_min, label_max in rows:
        path = unquote(logged)
        if is_outside(logged):
            raise UnsupportedTable(
                f"the table {place} refers to a file outside its folder: {path}",
                hint="If it is a shallow clone, use the table that it was made from, or make a deep clone of that."
                " Write the rows of any other table to a new one.",
            )
        if None in (count, unlabelled, id_min, id_max):
            yield replace(describe_file(place, path), spelling=spelling_of(logged, path))
            continue
        # One object for what is equal: with one file per volume, half of the memory.
        id_max = id_min if id_max == id_min else id_max
        size = sizes.setdefault(size, size)
        label_min, label_max = labels.setdefault(label_min, label_min), labels.setdefault(label_max, label_max)
        labelled, mtime, spelling = count - unlabelled, int(mtime or 0), spelling_of(logged, path)
        yield TableFile(path, size, count, labelled, mtime, id_min, id_max, label_min, label_max, spelling)


def describe_file(root: Path | Place, path: str) -> TableFile:
    """The file as it is there, with statistics from its id and label columns.

    Raises `DataError` when it is not a readable Parquet file with these columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    place = place_at(root)
    try:
        found = place.stat(path)
        if found is None:
            raise FileNotFoundError("it is gone")
        rows = labelled = 0
        id_min = id_max = label_min = label_max = None
        with pq.ParquetFile(place.open(path, found.size), page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=65_536, columns=["id", "label"], use_threads=False):
                rows += batch.num_rows
                labelled += batch.num_rows - batch["label"].null_count
                ids, labels = pc.min_max(batch["id"]).as_py(), pc.min_max(batch["label"]).as_py()
                id_min, id_max = _least(id_min, ids["min"]), _most(id_max, ids["max"])
                label_min, label_max = _least(label_min, labels["min"]), _most(label_max, labels["max"])
    except (OSError, KeyError, pa.ArrowException) as exc:
        raise DataError(
            f"{place.path(path)} cannot be read as a file of volumes: {first_line(exc)}",
            hint="Run the node that made it again.",
        ) from exc
    mtime_ms = found.mtime_ns // 1_000_000
    return TableFile(path, found.size, rows, labelled, mtime_ms, id_min or "", id_max or "", label_min, label_max)


def _least(a: Any, b: Any) -> Any:
    return min((x for x in (a, b) if x is not None), default=None)


def _most(a: Any, b: Any) -> Any:
    return max((x for x in (a, b) if x is not None), default=None)
