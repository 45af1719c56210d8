"""ConvertTable takes a Delta table as its log says: columns, their types and names, and which rows are deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import delete_by_vector
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction
from foreign_tables import as_bytes, bytes_in, look, run, some, stored_columns, table_of
from npy_folders import reasons, rows

from engine.errors import VoxelflowError
from nodes.table.log import actions, commit_file


def add_file(table: Path, name: str, written: pa.Table, **options: Any) -> None:
    """Commit a file of another writer, which may hold other columns than the table has."""
    pq.write_table(written, table / name, **options)
    delta = DeltaTable(table)
    action = AddAction(name, (table / name).stat().st_size, {}, 0, True, f'{{"numRecords": {len(written)}}}')
    delta.create_write_transaction([action], "append", delta.schema())


def test_a_delta_table_has_the_columns_that_its_log_says(tmp_path: Path) -> None:
    """Not those of its files: Spark's files of a table with change data hold `_change_type`, which is none of it."""
    table, volumes = tmp_path / "table", some(3)
    first = table_of(volumes).slice(0, 1).append_column("_change_type", pa.array(["seen"]))
    write_deltalake(table, first)
    delta = DeltaTable(table)
    delta.alter.set_table_properties({"delta.enableChangeDataFeed": "true"}, raise_if_not_exists=False)
    more = table_of(volumes).slice(1, 2)
    for name in ("_commit_version", "more"):
        more = more.append_column(name, pa.array([7, 8]))
    add_file(table, "more.parquet", more)
    out, said = run(tmp_path, table)
    assert look(tmp_path, table).inputs["made"].columns == ("well", "_change_type_")
    assert "the column '_change_type' is kept as _change_type_" in said, "this one is the table's own"
    assert bytes_in(out) == as_bytes(volumes)
    assert stored_columns(out) == {
        "p000": {"label": 0.0, "well": 0, "_change_type_": "seen"},
        "p001": {"label": 1.0, "well": 0, "_change_type_": None},
        "p002": {"label": None, "well": 0, "_change_type_": None},
    }


@pytest.mark.slow
def test_columns_that_a_delta_table_got_later_are_null_in_older_files(tmp_path: Path) -> None:
    """Also those that no file of the sample has, or none at all yet."""
    table, volumes = tmp_path / "table", some(30)
    written = table_of(volumes)
    write_deltalake(table, written.slice(0, 0).drop_columns("class"))
    for number in range(30):
        if number == 5:
            added = [Field("class", PrimitiveType("string")), Field("depth", PrimitiveType("double"))]
            DeltaTable(table).alter.add_columns([*added, Field("seen", PrimitiveType("date"))])
        row = written.slice(number, 1)
        row = row.append_column("depth", pa.array([1.5])) if number == 5 else row.drop_columns("class")
        add_file(table, f"{number:02d}.parquet", row)
    seen = look(tmp_path, table)
    assert seen.problems == []
    assert seen.inputs["made"].columns == ("well", "depth", "seen")
    out, _ = run(tmp_path, table)
    assert bytes_in(out) == as_bytes(volumes)
    assert out.spec is not None
    assert out.spec.classes == ("salt",)
    found = stored_columns(out)
    assert found["p005"] == {"label": 0.0, "well": 1, "depth": 1.5, "seen": None}
    assert found["p006"] == {"label": None, "well": 1, "depth": None, "seen": None}
    assert sum(row["depth"] is None for row in found.values()) == 29


@pytest.mark.parametrize("partitioned", [False, True])
def test_files_may_hold_nothing_but_volumes(tmp_path: Path, partitioned: bool) -> None:
    """Its other columns were added later, or are partition values in the names of folders."""
    table, volumes = tmp_path / "table", some(4)
    written = table_of(volumes).select(["class", "image"] if partitioned else ["image"])
    write_deltalake(table, written, partition_by=["class"] if partitioned else None)
    if not partitioned:
        DeltaTable(table).alter.add_columns([Field("class", PrimitiveType("string"))])
    out, _ = run(tmp_path, table)
    assert sorted(bytes_in(out).values()) == sorted(as_bytes(volumes).values())
    assert sorted(str(label) for label, _ in rows(out).values()) == (
        ["0.0", "0.0", "1.0", "None"] if partitioned else ["None"] * 4
    )


def test_a_file_whose_values_are_not_of_the_type_in_the_log_is_refused(tmp_path: Path) -> None:
    table, volumes = tmp_path / "table", some(4)
    write_deltalake(table, table_of(volumes).slice(0, 2))
    other = table_of(volumes).slice(2).set_column(2, "well", pa.array(["12", "twelve"]))
    add_file(table, "other.parquet", other)
    with pytest.raises(VoxelflowError, match=r"column well of .* is int32 by its log, and string in a file: .*twelve"):
        run(tmp_path, table)
    assert bytes_in(run(tmp_path, table, columns="none")[0]) == as_bytes(volumes)


@pytest.mark.slow
def test_rows_that_deletion_vectors_delete_are_left_out(tmp_path: Path) -> None:
    table, volumes = tmp_path / "table", some(12)
    written = table_of(volumes).set_column(1, "class", pa.array(["gone"] * 2 + ["salt", "fault"] * 5))
    write_deltalake(table, written)
    first, _ = run(tmp_path, table)
    digest = look(tmp_path, table).paths["table"].digest
    (path,) = (action["path"] for action in actions(table, 0, "add"))
    delete_by_vector(table, path, [0, 1, 7])
    seen = look(tmp_path, table)
    assert seen.problems == []
    assert seen.paths["table"].digest != digest
    assert (seen.inputs["made"].figures["rows"], seen.inputs["made"].labels) == (9, (0.0, 1.0))
    out, said = run(tmp_path, table, 2, first)
    assert "3 rows left out, which the table's deletion vectors delete" in said
    del volumes["p000"], volumes["p001"], volumes["p007"]
    assert bytes_in(out) == as_bytes(volumes)
    assert out.spec is not None
    assert out.spec.classes == ("fault", "salt"), "not those of rows that are deleted"
    fresh, _ = run(tmp_path / "anew", table, id_column="well", max_bad_rows=9)
    assert reasons(fresh).keys() == {f"{path}#{row}" for row in (3, 5, 6, 9, 10, 11)}, "rows keep their numbers"
    delete_by_vector(table, path, range(12))
    with pytest.raises(VoxelflowError, match="has no rows"):
        run(tmp_path, table, 3, out)


def map_columns(table: Path, names: dict[str, str]) -> None:
    """Let the log give columns of the files other names, as Spark's RENAME COLUMN does."""
    lines = [json.loads(line) for line in commit_file(table, 0).read_text().splitlines()]
    (metadata,) = (line["metaData"] for line in lines if "metaData" in line)
    schema = json.loads(metadata["schemaString"])
    for number, column in enumerate(schema["fields"], 1):
        column["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": column["name"],
        }
        column["name"] = names.get(column["name"], column["name"])
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"}
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    commit_file(table, 0).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_columns_have_the_names_that_the_log_gives_them(tmp_path: Path) -> None:
    """Two columns of the files may even have swapped their names."""
    table, volumes = tmp_path / "table", some(9)
    swapped = table_of(volumes).rename_columns(["class", "name", "col-5f3e", "image"])
    write_deltalake(table, swapped)
    before = look(tmp_path, table).paths["table"].digest
    map_columns(table, {"class": "name", "name": "class", "col-5f3e": "well, of the field"})
    seen = look(tmp_path, table)
    assert seen.paths["table"].digest != before, "other names are another table"
    assert seen.inputs["made"].columns == ("well_of_the_field",)
    out, _ = run(tmp_path, table)
    assert bytes_in(out) == as_bytes(volumes)
    assert [rows(out)[f"p{n:03d}"][0] for n in (0, 1, 8)] == [0.0, 1.0, None]
    assert [row["well_of_the_field"] for _, row in sorted(stored_columns(out).items())] == [n // 4 for n in range(9)]
