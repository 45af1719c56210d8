"""Reading a Delta table of volumes: one version, its files, its spec. Local folders.

What would be read wrongly is refused: deletion vectors, column mapping, partitions, files outside
the table, and any feature this code does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from engine.datasets import Selection, VolumeDelta, VolumeSpec
from engine.errors import DataError, StaleInput, UnsupportedTable, UsageError, VoxelflowError
from engine.table_lock import WRITER_APP_ID
from nodes.delta.delta_log import data_version
from nodes.delta.log_state import LogState, NotPlain, read_log
from nodes.volume_layout import spec_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema

Place = TypeVar("Place")
_MANY = 50_000

IN_PLACE = "voxelflow.in_place"
"""Property of a table whose files also belong to a Parquet dataset."""

HARMLESS_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"})
"""Reader features that leave the data files readable as they are (column mapping while its mode is "none")."""
_ADVICE = {
    "deletionVectors": "In Spark: REORG TABLE ... APPLY (PURGE), then ALTER TABLE ... DROP FEATURE deletionVectors.",
    "typeWidening": "Write the table again without changed column types.",
}


@dataclass(frozen=True, slots=True)
class TableFile:
    """One data file of a table. `path` lies below the table's folder.

    `id_min` and `id_max` bound the ids of its rows (Spark cuts long ones short); `labelled` counts the
    rows with a label.
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

    def statistics(self) -> str:
        """The file's statistics as the Delta log writes them."""
        least: dict[str, Any] = {"id": self.id_min}
        most: dict[str, Any] = {"id": self.id_max}
        if self.label_min is not None and self.label_max is not None:
            least["label"], most["label"] = self.label_min, self.label_max
        nulls = {"id": 0, "label": self.rows - self.labelled, "volume": 0}
        return json.dumps({"numRecords": self.rows, "minValues": least, "maxValues": most, "nullCount": nulls})


@dataclass(frozen=True)
class TableVersion:
    """One version of a table: what a reader needs, taken from the log. `files` are sorted by their first id."""

    root: Path
    version: int
    spec: VolumeSpec
    files: tuple[TableFile, ...]
    in_place: bool
    token: int
    """Fencing token of the last writer, 0 when there was none."""
    columns: Schema = field(compare=False, repr=False)
    plain_log: bool = field(default=False, compare=False)
    """Whether a commit is nothing more than its lines (`nodes.delta.log_writer`)."""

    def reference(
        self, uri: str, selections: Sequence[Selection] = (), known: tuple[int, int] | None = None
    ) -> VolumeDelta:
        """The dataset reference that pins this version (`known`: see `delta_log.data_version`)."""
        return VolumeDelta(
            uri=uri,
            count=sum(f.rows for f in self.files),
            bytes=sum(f.bytes for f in self.files),
            spec=self.spec,
            version=self.version,
            data_version=data_version(self.root, self.version, known),
            files=len(self.files),
            labelled=sum(f.labelled for f in self.files),
            selections=tuple(selections),
        )


def local_folder(uri: str | Path) -> Path:
    """The folder that a path or `file://` URI names. Raises `UsageError` for other URLs."""
    parts = urlsplit(str(uri))
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if len(parts.scheme) > 1:
        raise UsageError(
            f"the table {uri} does not lie in a local folder",
            hint="This step works in local folders. With object storage VolumeFolder, NumpyToParquet, ParquetToDelta,"
            " OptimizeDelta and training with the loader arrow do, on the backend embedded.",
        )
    return Path(uri)


def is_table(root: Path) -> bool:
    from deltalake import DeltaTable

    return (root / "_delta_log").is_dir() and DeltaTable.is_deltatable(str(root))


def open_table(uri: str | Path, version: int | None = None) -> TableVersion:
    """Open a version of the volume table at `uri` (the newest by default).

    Raises `DataError` when there is no table or its log cannot be read, `StaleInput` when the version is gone,
    `UnsupportedTable` when reading its files as they are would give wrong rows.
    """
    root = local_folder(uri)
    try:
        return _from_state(root, read_log(root, version, removes=False))
    except NotPlain:
        return _from_delta_rs(root, load_delta(root, version))


def _from_state(root: Path, state: LogState) -> TableVersion:
    import pyarrow as pa

    columns = _columns_of(state)
    configuration = state.configuration
    _refuse_partitions_and_columns(state.metadata.get("partitionColumns") or (), columns, root)
    files = [file for batch in state.files() for file in _table_files(root, _by_column(batch), describe_file)]
    if len(files) > _MANY:
        # What reading took is given back, not kept for the next time.
        pa.default_memory_pool().release_unused()
    return TableVersion(
        root=root,
        version=state.version,
        spec=spec_of(configuration, f"the table {root}"),
        files=_sorted(files),
        in_place=configuration.get(IN_PLACE) == "true",
        token=int(state.transactions.get(WRITER_APP_ID, {}).get("version", 0)),
        columns=columns,
        plain_log=_lets_files_be_removed(configuration),
    )


def _columns_of(state: LogState) -> Schema:
    from deltalake import Schema
    from deltalake.exceptions import DeltaError

    try:
        return Schema.from_json(state.metadata["schemaString"])
    except (DeltaError, KeyError, TypeError, ValueError) as exc:
        raise NotPlain(str(exc)) from exc


def _by_column(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    least, most, nulls = (batch[name].flatten() for name in ("minValues", "maxValues", "nullCount"))
    columns = (batch["path"], batch["size"], batch["numRecords"], nulls[1], least[0], most[0])
    return zip(*(c.to_pylist() for c in (*columns, batch["modificationTime"], least[1], most[1])), strict=True)


def _from_delta_rs(root: Path, delta: DeltaTable) -> TableVersion:
    refuse_unsupported(delta, root)
    configuration = delta.metadata().configuration
    return TableVersion(
        root=root,
        version=delta.version(),
        spec=spec_of(configuration, f"the table {root}"),
        files=_sorted(files_in_log(delta, root, describe_file)),
        in_place=configuration.get(IN_PLACE) == "true",
        token=delta.transaction_version(WRITER_APP_ID) or 0,
        columns=delta.schema(),
        plain_log=has_plain_log(delta),
    )


def _sorted(files: list[TableFile]) -> tuple[TableFile, ...]:
    return tuple(sorted(files, key=lambda f: (f.id_min, f.path)))


def load_delta(root: Path, version: int | None = None) -> DeltaTable:
    """delta-rs' table object, with its errors told in ours."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(str(root), version=version)
    except TableNotFoundError as exc:
        raise DataError(f"there is no Delta table at {root}", hint="Run the node that makes it again.") from exc
    except DeltaError as exc:
        raise unreadable(root, version, str(exc), is_there=is_table(root)) from exc


def unreadable(root: object, version: int | None, text: str, *, is_there: bool) -> VoxelflowError:
    """What delta-rs says of a log that it cannot read, in our words. `is_there`: whether there is a table."""
    if "nsupported" in text or "olumn mapping" in text or "is not supported" in text:
        return UnsupportedTable(
            f"the table {root} uses a Delta feature that is not supported: {text}",
            hint="Write it again without that feature, or drop the feature.",
        )
    if version is not None and is_there:
        return StaleInput(
            f"version {version} of the table {root} cannot be read any more",
            hint="Its log was cleaned or the table was replaced: run the node that makes it again.",
        )
    return DataError(f"the Delta log of {root} cannot be read: {text}")


def has_plain_log(delta: DeltaTable) -> bool:
    """Whether the table asks writers for nothing but the first versions of the protocol, and lets files be removed."""
    protocol = delta.protocol()
    first = protocol.min_reader_version <= 1 and protocol.min_writer_version <= 2
    return first and _lets_files_be_removed(delta.metadata().configuration)


def _lets_files_be_removed(configuration: Mapping[str, str | None]) -> bool:
    return (configuration.get("delta.appendOnly") or "false").lower() != "true"


def active_paths(delta: DeltaTable) -> set[str]:
    import pyarrow as pa

    return {unquote(path) for path in pa.table(delta.get_add_actions())["path"].to_pylist()}


def refuse_unsupported(delta: DeltaTable, root: object) -> None:
    """Raise `UnsupportedTable` when the files of the table at `root` are not to be read as they are."""
    protocol, metadata = delta.protocol(), delta.metadata()
    for feature in sorted(set(protocol.reader_features or ()) - HARMLESS_FEATURES):
        raise UnsupportedTable(
            f"the table {root} uses the Delta feature {feature}, with which its files cannot be read as they are",
            hint=_ADVICE.get(feature, "Drop the feature or write the table again without it."),
        )
    if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        raise UnsupportedTable(
            f"the table {root} maps its columns to other names", hint="Write it again without column mapping."
        )
    _refuse_partitions_and_columns(metadata.partition_columns, delta.schema(), root)


def _refuse_partitions_and_columns(partitions: Sequence[str], schema: Schema, root: object) -> None:
    if partitions:
        raise UnsupportedTable(
            f"the table {root} is partitioned by {', '.join(partitions)}",
            hint="Write it again without partitions: selections do their work.",
        )
    columns = {f.name: f.type for f in schema.fields}
    for name, wanted in (("id", "string"), ("label", "float"), ("volume", "binary")):
        found = getattr(columns.get(name), "type", None)
        if found != wanted:
            raise UnsupportedTable(
                f"the table {root} has {f'a column {name} of type {found}' if found else f'no column {name}'},"
                f" where a volume table has one of type {wanted}",
                hint="Make volume tables with NumpyToParquet and ParquetToDelta.",
            )


def files_in_log(delta: DeltaTable, root: Place, describe: Callable[[Place, str], TableFile]) -> list[TableFile]:
    """The version's data files as the log tells them; `describe` looks at those without statistics."""
    import pyarrow as pa

    table = pa.table(delta.get_add_actions(flatten=True))
    names = ("path", "size_bytes", "num_records", "null_count.label", "min.id", "max.id")
    optional = ("modification_time", "min.label", "max.label")
    columns = [
        table[n].to_pylist() if n in table.column_names else [None] * table.num_rows for n in (*names, *optional)
    ]
    return list(_table_files(root, zip(*columns, strict=True), describe))


def _table_files(
    root: Place, rows: Iterable[tuple[Any, ...]], describe: Callable[[Place, str], TableFile]
) -> Iterator[TableFile]:
    sizes: dict[int, int] = {}
    labels: dict[Any, Any] = {}
    for path, size, count, unlabelled, id_min, id_max, mtime, label_min, label_max in rows:
        path = unquote(path)
        if "://" in path or path.startswith("/") or ".." in path.split("/"):
            raise UnsupportedTable(
                f"the table {root} refers to a file outside its folder: {path}",
                hint="It may be a shallow clone: make a full copy of it.",
            )
        if None in (count, unlabelled, id_min, id_max):
            yield describe(root, path)
            continue
        # One object for what is equal: with a file a volume, half of the memory.
        id_max = id_min if id_max == id_min else id_max
        size = sizes.setdefault(size, size)
        label_min, label_max = labels.setdefault(label_min, label_min), labels.setdefault(label_max, label_max)
        yield TableFile(path, size, count, count - unlabelled, int(mtime or 0), id_min, id_max, label_min, label_max)


def describe_file(root: Path, path: str) -> TableFile:
    """The file as it stands on disk, with statistics from its id and label columns.

    Raises `DataError` when it is not a readable Parquet file with these columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    full = root / path
    try:
        stat = full.stat()
        rows = labelled = 0
        id_min = id_max = label_min = label_max = None
        with pq.ParquetFile(full, memory_map=True) as file:
            for batch in file.iter_batches(batch_size=65_536, columns=["id", "label"], use_threads=False):
                rows += batch.num_rows
                labelled += batch.num_rows - batch["label"].null_count
                ids, labels = pc.min_max(batch["id"]).as_py(), pc.min_max(batch["label"]).as_py()
                id_min, id_max = _least(id_min, ids["min"]), _most(id_max, ids["max"])
                label_min, label_max = _least(label_min, labels["min"]), _most(label_max, labels["max"])
    except (OSError, KeyError, pa.ArrowException) as exc:
        raise DataError(
            f"{full} cannot be read as a file of volumes: {exc}", hint="Run the node that made it again."
        ) from exc
    mtime_ms = stat.st_mtime_ns // 1_000_000
    return TableFile(path, stat.st_size, rows, labelled, mtime_ms, id_min or "", id_max or "", label_min, label_max)


def _least(a: Any, b: Any) -> Any:
    return min((x for x in (a, b) if x is not None), default=None)


def _most(a: Any, b: Any) -> Any:
    return max((x for x in (a, b) if x is not None), default=None)
