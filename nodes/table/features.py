"""Which features of Delta tables are read and written, and what a person can do about the others.

A feature is named in the table's protocol, or stands for one of the first versions of the protocol. Most of what is
refused would give wrong rows, or a table that its other programs take for damaged.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Table Features).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from engine.errors import DataError, UnsupportedTable
from engine.storage.find_place import place_at
from engine.storage.objects import redact
from engine.storage.place import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema

_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Reader features that leave the data files readable as they are."""
_LOOKED_AT = frozenset({"deletionVectors", "columnMapping"})
"""Reader features with which it depends on the table."""
_PLAIN = frozenset(
    {
        *("appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "identityColumns", "invariants"),
        *("checkpointProtection", "clustering", "deletionVectors", "domainMetadata", "inCommitTimestamp"),
        *("columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
    }
)
"""Writer features with which a commit of whole files has the same lines as without, or those of `CommitRules`."""
_COLUMNS = (("id", "string"), ("label", "float"), ("volume", "binary"))
_MAPPING = "delta.columnMapping.mode"
_LOCAL = "file://"


@dataclass(frozen=True)
class CommitRules:
    """What a version of a table asks of the next commit.

    `refusal` and `hint` say why it takes none of ours; "" when it does.
    """

    append_only: bool = False
    in_commit_timestamps: bool = False
    refusal: str = ""
    hint: str = ""

    def check(self, table: object) -> None:
        """Raise `UnsupportedTable` when the table takes no commit of ours."""
        if self.refusal:
            raise UnsupportedTable(f"the table {table} cannot be written: {self.refusal}", hint=self.hint)


def is_append_only(properties: Mapping[str, str | None]) -> bool:
    """Whether rows may not leave a table with these properties."""
    return _is_true(properties, "delta.appendOnly")


def commit_rules(delta: DeltaTable, root: object) -> CommitRules:
    """What this version of the table at `root` asks of the next commit."""
    protocol, metadata = delta.protocol(), delta.metadata()
    properties = metadata.configuration
    alter = f"ALTER TABLE delta.`{root}`"
    refusal = hint = ""
    features = set(protocol.writer_features or ())
    if _is_true(properties, "delta.rowTrackingSuspended"):
        features.discard("rowTracking")
    if protocol.min_writer_version > 7:
        refusal = f"it asks for version {protocol.min_writer_version} of the Delta protocol"
        hint = "Update Voxelflow."
    elif unknown := sorted(features - _PLAIN):
        refusal = f"it uses the Delta feature {' and '.join(unknown)}, which Voxelflow reads but does not write"
        hint = f"In Spark: {'; '.join(f'{alter} DROP FEATURE {name}' for name in unknown)}. Or choose another table."
    elif metadata.partition_columns:
        refusal = (
            f"it is partitioned by {', '.join(metadata.partition_columns)}, which Voxelflow reads but does not write"
        )
        hint = "Choose another table: selections do the work of partitions."
    elif (mode := properties.get(_MAPPING) or "none") != "none":
        refusal = f"it maps its columns to other names ({_MAPPING} is {mode}), which Voxelflow reads but does not write"
        hint = f"In Spark: {alter} SET TBLPROPERTIES ('{_MAPPING}' = 'none'). Or choose another table."
    timestamps = "inCommitTimestamp" in features and _is_true(properties, "delta.enableInCommitTimestamps")
    return CommitRules(is_append_only(properties), timestamps, refusal, hint)


def refuse_unreadable(delta: DeltaTable, root: object) -> None:
    """Raise `UnsupportedTable` when the files of the table at `root` are not to be read, as they are, as volumes."""
    refuse_features(delta, root, [name for name, _ in _COLUMNS])
    _refuse_columns(delta.schema(), root)


def refuse_features(delta: DeltaTable, root: object, names: Sequence[str]) -> None:
    """Raise `UnsupportedTable` when the files do not hold what these columns of the table do, under their names."""
    metadata = delta.metadata()
    refuse_unknown_features(delta, root)
    _refuse_partitions(metadata.partition_columns, root, names)
    _refuse_mapping(delta.schema(), metadata.configuration, root, names)
    if files := sum(1 for _ in deletion_vectors(delta, root)):
        raise UnsupportedTable(
            f"the table {root} has deletion vectors for {files:,} of its files: rows that these files still hold"
            " are deleted (the Delta feature deletionVectors)",
            hint=f"{_purge(root)} Or take its rows without the deleted ones by ConvertTable.",
        )


def refuse_unknown_features(delta: DeltaTable, root: object) -> None:
    """Raise `UnsupportedTable` for a feature that may change what the files mean in a way that is not known here."""
    for feature in sorted(set(delta.protocol().reader_features or ()) - _HARMLESS - _LOOKED_AT):
        raise UnsupportedTable(
            f"the table {root} uses the Delta feature {feature}, with which its files cannot be read as they are",
            hint=f"In Spark: ALTER TABLE delta.`{root}` DROP FEATURE {feature}. Or write its rows to a new table.",
        )


def deletion_vectors(delta: DeltaTable, root: object) -> Iterator[tuple[str, pa.BooleanArray]]:
    """Each file of which rows were deleted by a deletion vector: its path below the table, and which rows are kept.

    Rows beyond the end of the array are kept, too. Raises `DataError` when one is gone or damaged.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    from nodes.table.inline_vectors import refuse_damaged_vectors

    if "deletionVectors" not in (delta.protocol().reader_features or ()):
        return
    above = unquote(delta.table_uri).rstrip("/") + "/"
    # Where delta-rs has the log: that may be a copy.
    log = root if isinstance(root, Place) and not above.startswith(_LOCAL) else place_at(above)
    refuse_damaged_vectors(log, delta.version(), root)
    try:
        for batch in pa.RecordBatchReader.from_stream(delta.deletion_vectors()):
            kept = batch["selection_vector"]
            for number, uri in enumerate(batch["filepath"]):
                yield unquote(uri.as_py()).removeprefix(above), kept[number].values
    except (DeltaError, OSError, pa.ArrowException) as exc:
        raise DataError(
            f"a deletion vector of the table {root} cannot be read: {redact(str(exc)).partition(chr(10))[0]}",
            hint="Without it the rows that it deletes would come back. Bring its file back from a copy, or go back to a"
            f" version before it, in Spark: RESTORE TABLE delta.`{root}` TO VERSION AS OF ...",
        ) from None


def _purge(root: object) -> str:
    # Dropping the feature is not needed, and would ask every writer for checkpointProtection.
    return (
        f"Rewrite these files in Spark: REORG TABLE delta.`{root}` APPLY (PURGE). So that no new ones come:"
        f" ALTER TABLE delta.`{root}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')."
    )


def mapped_columns(delta: DeltaTable) -> dict[str, str | int]:
    """Of a table with column mapping, by which each column is found in its files: a name, or a number.

    Empty for a table without. Raises `UnsupportedTable` for a column that has none.
    """
    mode = delta.metadata().configuration.get(_MAPPING) or "none"
    if mode == "none":
        return {}
    key = "delta.columnMapping.id" if mode == "id" else "delta.columnMapping.physicalName"
    found: dict[str, str | int] = {}
    for column in delta.schema().fields:
        value = (column.metadata or {}).get(key)
        if mode not in ("id", "name") or value is None:
            raise UnsupportedTable(
                f"{_MAPPING} is {mode}, and the log does not say by which {key} the files hold the column"
                f" {column.name}",
                hint="Write the table's rows to a new one.",
            )
        found[column.name] = int(value) if mode == "id" else str(value)
    return found


def renamed_columns(columns: Schema, properties: Mapping[str, str | None]) -> dict[str, str]:
    """Of a table with column mapping the columns that its files hold under other names, each with that name."""
    if (properties.get(_MAPPING) or "none") == "none":
        return {}
    given = {f.name: str((f.metadata or {}).get("delta.columnMapping.physicalName", f.name)) for f in columns.fields}
    return {name: other for name, other in given.items() if other != name}


def _refuse_mapping(columns: Schema, properties: Mapping[str, str | None], root: object, names: Sequence[str]) -> None:
    mode = properties.get(_MAPPING) or "none"
    if mode == "none":
        return
    given = {f.name: (f.metadata or {}).get("delta.columnMapping.physicalName", f.name) for f in columns.fields}
    other = [f"{name} to {given[name]}" for name in names if given.get(name, name) != name]
    if other or mode != "name":
        mapped = f"the column {other[0]}" if other else "columns by their numbers"
        raise UnsupportedTable(
            f"the table {root} maps {mapped} in its files (the Delta feature columnMapping)",
            hint=f"In Spark 4: ALTER TABLE delta.`{root}` SET TBLPROPERTIES ('{_MAPPING}' = 'none'), which rewrites"
            " its files. Or take its rows under their names by ConvertTable.",
        )


def _refuse_partitions(partitions: Sequence[str], root: object, names: Sequence[str]) -> None:
    missing = [name for name in names if name in partitions]
    if missing:
        raise UnsupportedTable(
            f"the table {root} is partitioned by {', '.join(missing)}: its files do not hold that column",
            hint="Write it again without partitions: selections do their work.",
        )


def _refuse_columns(schema: Schema, root: object) -> None:
    if problem := not_of_volumes(schema):
        raise UnsupportedTable(
            f"the table {root} has {problem}",
            hint="Make volume tables with NumpyToParquet and ParquetToDelta; ConvertTable converts others.",
        )


def not_of_volumes(schema: Schema) -> str:
    """What these columns have that those of a volume table have not, or lack; "" where they are such columns."""
    columns = {f.name: f.type for f in schema.fields}
    for name, wanted in _COLUMNS:
        found = getattr(columns.get(name), "type", None)
        if found != wanted:
            there = f"a column {name} of type {found}" if found else f"no column {name}"
            return f"{there}, where a volume table has one of type {wanted}"
    return ""


def _is_true(properties: Mapping[str, str | None], name: str) -> bool:
    return (properties.get(name) or "false").lower() == "true"
