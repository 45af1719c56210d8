from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, ids, label_of, read_by_deltalake, rows_of, shards, volume_of, write_shard
from deltalake import DeltaTable, Schema, write_deltalake
from volumes import rows_by_polars, rows_by_pyarrow

from engine.errors import DataError, StaleInput, UnsupportedTable, UsageError
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import data_version, last_writer, oldest_since, removed_since
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.snapshot import is_table, local_folder, open_table
from nodes.volume_file.layout import properties, schema


def _hand_written(
    root: Path,
    *,
    protocol: dict[str, Any] | None = None,
    configuration: dict[str, str] | None = None,
    partitions: list[str] | None = None,
    columns: pa.Schema | None = None,
    **add: Any,
) -> Path:
    """A table whose log says what it is told to say."""
    part = write_shard(root, ids(0, 3), name="a.parquet")
    action = {"path": "a.parquet", "partitionValues": {}, "size": part.bytes, "modificationTime": 1, "dataChange": True}
    lines = [
        {"protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": Schema.from_arrow(columns or schema(SPEC)).to_json(),
                "partitionColumns": partitions or [],
                "createdTime": 1,
                "configuration": properties(SPEC) | (configuration or {}),
            }
        },
        {"add": action | add},
    ]
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    return root


_VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 1,
}


def _features(*names: str) -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(names), "writerFeatures": list(names)}


def test_a_version_is_pinned_by_the_log(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    opened = open_table(table.uri, table.version)
    assert opened.spec == SPEC
    assert [f.rows for f in opened.files] == [3, 4]
    assert [(f.id_min, f.id_max) for f in opened.files] == [("vol-00000", "vol-00002"), ("vol-00003", "vol-00006")]
    assert sum(f.labelled for f in opened.files) == sum(label_of(i) is not None for i in ids(0, 7)) == table.labelled
    # A file that lies about in the folder belongs to no version.
    write_shard(Path(table.uri), ids(50, 5))
    assert open_table(table.uri).files == opened.files


@pytest.mark.slow
def test_every_reader_gives_the_same_rows(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 70, 1), ctx=context(tmp_path))
    compacted = optimize_delta(table, ctx=context(tmp_path, "o"))
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars):
        for version in (table.version, compacted.version, None):
            assert read(table.uri, version) == rows_of(ids(0, 74)), (read, version)


def test_statistics_are_in_the_log(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    found = pa.table(DeltaTable(table.uri).get_add_actions(flatten=True)).to_pylist()[0]
    assert found["num_records"] == 3
    assert (found["min.id"], found["max.id"]) == ("vol-00000", "vol-00002")
    assert (found["min.label"], found["max.label"]) == (0.0, 1.0)
    assert (found["null_count.id"], found["null_count.label"], found["null_count.volume"]) == (0, 1, 0)


def test_properties_hold_the_spec(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    found = DeltaTable(table.uri).metadata().configuration
    assert properties(SPEC).items() <= found.items()
    assert found["delta.checkpointInterval"] == "10"


def test_a_file_without_statistics_is_read(tmp_path: Path) -> None:
    root = _hand_written(tmp_path / "t")
    (file,) = open_table(root).files
    assert (file.rows, file.labelled, file.id_min, file.id_max) == (3, 2, "vol-00000", "vol-00002")


def test_names_are_decoded(tmp_path: Path) -> None:
    root = _hand_written(tmp_path / "a table")
    (root / "a.parquet").rename(root / "b c%20é.parquet")
    log = root / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"a.parquet"', '"b%20c%2520%C3%A9.parquet"'))
    (file,) = open_table(root).files
    assert file.path == "b c%20é.parquet"
    assert read_by_deltalake(str(root)) == rows_of(ids(0, 3))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": _features("typeWidening")}, "typeWidening"),
        ({"protocol": _features("somethingNew")}, "somethingNew"),
        ({"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}, "not supported"),
        (
            {
                "protocol": {"minReaderVersion": 2, "minWriterVersion": 5},
                "configuration": {"delta.columnMapping.mode": "name"},
            },
            "olumn",
        ),
        ({"partitions": ["label"], "partitionValues": {"label": "1.0"}}, "partitioned by label"),
        ({"path": "file:///elsewhere/a.parquet"}, "outside its folder"),
        ({"path": "../a.parquet"}, "outside its folder"),
        ({"configuration": {"voxelflow.format": "99"}}, "newer"),
        ({"configuration": {"voxelflow.shape": "nonsense"}}, "broken"),
        ({"columns": schema(SPEC).remove(2)}, "no column volume"),
        ({"columns": schema(SPEC).set(1, pa.field("label", pa.string()))}, "column label of type string"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    root = _hand_written(tmp_path / "t", **changes)
    with pytest.raises(UnsupportedTable, match=words) as caught:
        open_table(root)
    assert caught.value.hint or "broken" in words


def test_a_deletion_vector_that_is_gone_is_damage(tmp_path: Path) -> None:
    """Deleted rows would come back if it were passed over."""
    root = _hand_written(tmp_path / "t", protocol=_features("deletionVectors"), deletionVector=_VECTOR)
    with pytest.raises(DataError, match=r"a deletion vector .* cannot be read: .*not found") as caught:
        open_table(root)
    assert not isinstance(caught.value, UnsupportedTable)
    assert "RESTORE TABLE" in caught.value.hint


@pytest.mark.parametrize("feature", ["timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"])
def test_features_that_leave_files_as_they_are_pass(tmp_path: Path, feature: str) -> None:
    assert len(open_table(_hand_written(tmp_path / "t", protocol=_features(feature))).files) == 1


def test_a_table_that_is_not_ours_says_so(tmp_path: Path) -> None:
    write_deltalake(
        str(tmp_path / "t"), pa.table({"id": ["a"], "label": pa.array([1], pa.float32()), "volume": [b"x"]})
    )
    with pytest.raises(UnsupportedTable, match="not a volume table"):
        open_table(tmp_path / "t")


@pytest.mark.parametrize("name", ["50%25", "back\\slash"])
def test_a_folder_that_delta_rs_misreads_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="delta-rs takes") as caught:
        parquet_to_delta(shards(tmp_path / "p", 3), table=str(tmp_path / name / "t"), ctx=context(tmp_path))
    assert "Rename" in caught.value.hint
    with pytest.raises(DataError, match="delta-rs takes"):
        open_table(_hand_written(tmp_path / name / "other"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b", "100%", "a%zz", "日本 é&?#=x", "q'u\"o;[1]~"])
def test_a_table_may_be_in_a_folder_of_any_other_name(tmp_path: Path, name: str) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), table=str(tmp_path / name / "t"), ctx=context(tmp_path))
    assert optimize_delta(table, ctx=context(tmp_path, "o")).files == 1
    assert make_checkpoint(Path(table.uri), 2, 1)
    assert open_table(table.uri).version == 2


def test_missing_tables_and_versions(tmp_path: Path) -> None:
    assert not is_table(tmp_path / "none")
    with pytest.raises(DataError, match="no Delta table"):
        open_table(tmp_path / "none")
    root = _hand_written(tmp_path / "t")
    with pytest.raises(StaleInput, match="version 7"):
        open_table(root, 7)


def test_only_local_folders(tmp_path: Path) -> None:
    assert local_folder("file:///a%20b/c") == Path("/a b/c")
    assert local_folder("/a%20b") == Path("/a%20b")
    with pytest.raises(UsageError, match="local"):
        local_folder("s3://bucket/table")


def test_the_data_version_ignores_commits_that_change_no_row(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    root = Path(table.uri)
    compacted = optimize_delta(table, ctx=context(tmp_path, "o"))
    DeltaTable(root).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert (table.version, table.data_version) == (1, 1)
    assert (compacted.version, compacted.data_version) == (2, 1)
    assert data_version(root, 3) == 1
    assert data_version(root, 3, known=(2, 1)) == 1
    assert data_version(root, 0) == 0
    appended = parquet_to_delta(shards(tmp_path / "p", 3, 4, 5), ctx=context(tmp_path))
    assert (appended.version, appended.data_version) == (4, 4)
    assert data_version(root, 4, known=(2, 1)) == 4
    # A search does not look behind what is known already, even when it is wrong.
    assert data_version(root, 3, known=(3, 77)) == 77


def test_a_cleaned_log_counts_as_changed(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    root = Path(table.uri)
    optimize_delta(table, ctx=context(tmp_path, "o"))
    DeltaTable(root).create_checkpoint()
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020d}.json").unlink()
    assert data_version(root, 2) == 2
    assert data_version(root, 2, known=(1, 1)) == 1


def test_what_the_log_records_of_removals_and_writers(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    root = Path(table.uri)
    small = {f.path for f in open_table(root).files}
    optimize_delta(table, ctx=context(tmp_path, "o"))
    assert removed_since(root, 0) == small
    assert removed_since(root, 2) == set()
    assert last_writer(root, 2) == (2, 2)
    assert last_writer(root, 1) == (1, 1)
    DeltaTable(root).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert last_writer(root, 3) == (2, 2)
    assert oldest_since(root, 0) == 0
    assert oldest_since(root, 2**40) == 3


def test_volumes_are_stored_little_endian(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 1), ctx=context(tmp_path))
    (file,) = open_table(table.uri).files
    assert pq.read_table(Path(table.uri) / file.path)["volume"][0].as_py() == volume_of("vol-00000")
