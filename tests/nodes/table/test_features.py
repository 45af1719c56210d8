"""Features of Delta tables: what is read, what is written, and what is refused by its name with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, deletion_vector, ids, read_by_deltalake, rows_of, shards, write_shard
from deltalake import DeltaTable, Schema
from spark_nodes import rows_by_duckdb
from volumes import rows_by_polars, rows_by_pyarrow

from engine.errors import DataError, UnsupportedTable
from nodes.loaders.load import load
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import actions, commit_file
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.snapshot import describe_file, open_table
from nodes.volume_file.layout import properties, schema

Reader = Callable[[str], list[Any]]
READERS: tuple[Reader, ...] = (read_by_deltalake, rows_by_pyarrow, rows_by_polars, rows_by_duckdb)
MAPPING = "delta.columnMapping"


def table_with(
    root: Path,
    *,
    reader: tuple[str, ...] = (),
    writer: tuple[str, ...] = (),
    configuration: dict[str, str] | None = None,
    columns: Any = None,
    partition: str = "",
    others: tuple[dict[str, Any], ...] = (),
    **add: Any,
) -> Path:
    """A table of two files with five volumes, as another program might have made it."""
    protocol: dict[str, Any] = {"minReaderVersion": 3 if reader else 1, "minWriterVersion": 7}
    protocol |= {"readerFeatures": list(reader)} if reader else {}
    protocol |= {"writerFeatures": [*reader, *writer]}
    described = columns or json.loads(Schema.from_arrow(schema(SPEC)).to_json())
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(described),
        "partitionColumns": [partition] if partition else [],
        "createdTime": 1,
        "configuration": properties(SPEC) | (configuration or {}),
    }
    lines = [{"commitInfo": {"inCommitTimestamp": 2**42, "operation": "WRITE"}}, {"protocol": protocol}]
    lines += [{"metaData": metadata}, *others]
    for first, count in ((0, 3), (3, 2)):
        folder = f"{partition}={first}/" if partition else ""
        part = write_shard(root, ids(first, count), name=f"{folder}{first}.parquet")
        file = describe_file(root, part.path)
        action = {"path": file.path, "size": file.bytes, "modificationTime": 1, "dataChange": True}
        values = {partition: str(first)} if partition else {}
        lines.append({"add": action | {"partitionValues": values, "stats": file.statistics()} | (add if first else {})})
    commit_file(root, 0).parent.mkdir(parents=True)
    commit_file(root, 0).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def compacted(root: Path, tmp_path: Path, readers: Sequence[Reader] = READERS) -> dict[str, Any]:
    """Compact the table, let readers look at it, also by a checkpoint; gives what the commit says of itself."""
    done = optimize_delta(open_table(root).reference(str(root)), ctx=context(tmp_path, "o"))
    assert (done.files, done.data_version) == (1, 0)
    (info,) = actions(root, done.version, "commitInfo")
    grown = parquet_to_delta(shards(tmp_path / "p", 4, first=50), table=str(root), ctx=context(tmp_path))
    assert make_checkpoint(root, grown.version, 1)
    for read in readers:
        assert sorted(read(str(root))) == rows_of(ids(0, 5) + ids(50, 4)), read
    return info


def loaded(root: Path) -> list[bytes]:
    with load(str(root), 1, seed=1) as batches:
        return sorted(volume.tobytes() for batch in batches for volume in batch.volumes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {"writer": ("clustering", "domainMetadata")},
        {"writer": ("checkpointProtection",), "configuration": {"delta.requireCheckpointProtectionBeforeVersion": "1"}},
        {"writer": ("rowTracking", "domainMetadata"), "configuration": {"delta.rowTrackingSuspended": "true"}},
        {"writer": ("appendOnly",), "configuration": {"delta.appendOnly": "true"}},
        {"writer": ("changeDataFeed",), "configuration": {"delta.enableChangeDataFeed": "true"}},
        {"reader": ("vacuumProtocolCheck",)},
        {"reader": ("v2Checkpoint",)},
        # Dropping the feature is not needed, nor is having none of it enabled: no file has a deletion vector.
        {"reader": ("deletionVectors",), "configuration": {"delta.enableDeletionVectors": "true"}},
    ],
    ids=lambda asked: "-".join((*asked.get("reader", ()), *asked.get("writer", ()))),
)
def test_features_that_are_written(tmp_path: Path, asked: dict[str, Any]) -> None:
    clusters = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    others = ({"domainMetadata": clusters},) if "clustering" in asked.get("writer", ()) else ()
    # Others than DuckDB do not know the features that readers must know, or not these.
    readers = (rows_by_duckdb,) if "reader" in asked else READERS
    info = compacted(table_with(tmp_path / "t", **asked, others=others), tmp_path, readers)
    assert info["operation"] == "OPTIMIZE"
    assert "inCommitTimestamp" not in info


@pytest.mark.slow
def test_in_commit_timestamps_only_grow(tmp_path: Path) -> None:
    enabled = {"delta.enableInCommitTimestamps": "true"}
    root = table_with(tmp_path / "t", writer=("inCommitTimestamp",), configuration=enabled)
    info = compacted(root, tmp_path)
    assert info["inCommitTimestamp"] == 2**42 + 1, "the commit before is of the far future"
    version = open_table(root).version
    assert json.loads(commit_file(root, version).read_text().splitlines()[0])["commitInfo"]["inCommitTimestamp"] == (
        2**42 + version
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ("rowTracking", "DROP FEATURE rowTracking"),
        ("icebergCompatV2", "DROP FEATURE icebergCompatV2"),
        ("allowColumnDefaults", "DROP FEATURE allowColumnDefaults"),
        ("somethingNew", "DROP FEATURE somethingNew"),
    ],
)
def test_features_that_are_read_alone(tmp_path: Path, feature: str, words: str) -> None:
    root = table_with(tmp_path / "t", writer=(feature,))
    _read_alone(root, tmp_path, feature, words)


def _read_alone(root: Path, tmp_path: Path, name: str, words: str) -> None:
    """Every labelled volume comes; filling and compacting name the reason, before anything is written."""
    table = open_table(root)
    assert loaded(root) == sorted(volume for _, label, volume in rows_of(ids(0, 5)) if label is not None)
    before = sorted(root.rglob("*.parquet"))
    with pytest.raises(UnsupportedTable, match=name) as caught:
        optimize_delta(table.reference(str(root)), ctx=context(tmp_path, "o"))
    assert words in caught.value.hint
    with pytest.raises(UnsupportedTable, match=name) as caught:
        parquet_to_delta(shards(tmp_path / "p", 4, first=50), table=str(root), ctx=context(tmp_path))
    assert words in caught.value.hint
    assert sorted(root.rglob("*.parquet")) == before
    assert DeltaTable(root).version() == 0


def test_partitions_by_other_columns_are_read(tmp_path: Path) -> None:
    columns = json.loads(Schema.from_arrow(schema(SPEC).append(pa.field("site", pa.string()))).to_json())
    root = table_with(tmp_path / "t", columns=columns, partition="site")
    _read_alone(root, tmp_path, "partitioned by site", "selections")


def _mapped(names: dict[str, str]) -> dict[str, Any]:
    columns: dict[str, Any] = json.loads(Schema.from_arrow(schema(SPEC)).to_json())
    for number, column in enumerate(columns["fields"], 1):
        column["metadata"] = {
            f"{MAPPING}.id": number,
            f"{MAPPING}.physicalName": names.get(column["name"], column["name"]),
        }
    return columns


def test_mapped_columns_are_read_where_the_files_have_their_names(tmp_path: Path) -> None:
    """As in a table of files that were there before the mapping was turned on."""
    mode = {f"{MAPPING}.mode": "name", f"{MAPPING}.maxColumnId": "3"}
    root = table_with(tmp_path / "t", reader=("columnMapping",), configuration=mode, columns=_mapped({}))
    _read_alone(root, tmp_path, "maps its columns", "'none'")


@pytest.mark.parametrize(("mode", "names"), [("name", {"label": "col-1f"}), ("id", {})])
def test_columns_with_other_names_in_the_files_are_refused(tmp_path: Path, mode: str, names: dict[str, str]) -> None:
    given = {f"{MAPPING}.mode": mode, f"{MAPPING}.maxColumnId": "3"}
    root = table_with(tmp_path / "t", reader=("columnMapping",), configuration=given, columns=_mapped(names))
    with pytest.raises(UnsupportedTable, match=r"maps (the column label to col-1f|columns by their numbers)") as caught:
        open_table(root)
    assert "'none'" in caught.value.hint


@pytest.mark.slow
def test_deletion_vectors_are_refused_until_they_are_purged(tmp_path: Path) -> None:
    vector = deletion_vector([0])
    root = table_with(tmp_path / "t", reader=("deletionVectors",), deletionVector=vector)
    with pytest.raises(UnsupportedTable, match="has deletion vectors for 1 of its files") as caught:
        open_table(root)
    assert "APPLY (PURGE)" in caught.value.hint
    assert "ConvertTable" in caught.value.hint
    purge = [action["path"] for action in actions(root, 0, "add") if "deletionVector" in action]
    remove = {"path": purge[0], "dataChange": False, "deletionTimestamp": 1, "deletionVector": vector}
    again = describe_file(root, write_shard(root, ids(4, 1), name="purged.parquet").path)
    add = {"path": again.path, "size": again.bytes, "modificationTime": 1, "dataChange": False, "partitionValues": {}}
    lines = [{"remove": remove}, {"add": add | {"stats": again.statistics()}}]
    commit_file(root, 1).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert sum(f.rows for f in open_table(root).files) == 4
    assert rows_by_duckdb(str(root)) == rows_of([*ids(0, 3), *ids(4, 1)])


@pytest.mark.parametrize("path", ["file:///elsewhere/a.parquet", "s3://bucket/t/a.parquet"])
def test_a_shallow_clone_is_refused(tmp_path: Path, path: str) -> None:
    root = table_with(tmp_path / "t", path=path)
    with pytest.raises(UnsupportedTable, match="refers to a file outside its folder") as caught:
        open_table(root)
    assert "shallow clone" in caught.value.hint


@pytest.mark.slow
def test_rows_do_not_leave_a_table_that_only_takes_rows(tmp_path: Path) -> None:
    root, ctx = tmp_path / "t", context(tmp_path)
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), table=str(root), ctx=ctx)
    DeltaTable(root).alter.set_table_properties({"delta.appendOnly": "true"})
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    assert all(action["dataChange"] is False for action in actions(root, done.version, "remove"))
    grown = parquet_to_delta(shards(tmp_path / "p", 3, 4, 5), table=str(root), ctx=ctx)
    assert grown.count == 12
    with pytest.raises(DataError, match=r"delta\.appendOnly"):
        parquet_to_delta(shards(tmp_path / "p", 3), table=str(root), ctx=ctx)


def test_who_wrote_a_file_and_a_commit(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), table=str(root), ctx=context(tmp_path))
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    (info,) = actions(root, done.version, "commitInfo")
    assert info["engineInfo"].startswith("Voxelflow/")
    (file,) = open_table(root).files
    assert pq.read_metadata(root / file.path).created_by.startswith("Voxelflow version ")
