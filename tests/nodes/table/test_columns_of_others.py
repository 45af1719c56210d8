"""A table of volumes as other programs fill it: times as INT96, types that differ between files, missing values."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import context
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

import voxelflow
from engine.declare.datasets import VolumeDelta
from engine.errors import DataError
from engine.storage import manifest
from nodes.conversion.table_rows import columns_in
from nodes.delta_table import delta_table
from nodes.loaders.chained_volumes import rows_as_files
from nodes.loaders.data_files import data_files, read_columns
from nodes.optimize_delta import optimize_delta
from nodes.split_dataset import split_dataset
from nodes.table.log import commit_file
from nodes.table.selection import group_fractions

UTC = pa.timestamp("us", tz="UTC")
TIMES = [dt.datetime(9999, 12, 31), dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1), dt.datetime(2021, 5, 5, 1, 2, 3, 4)]


def four(first: int = 0, **columns: Any) -> pa.Table:
    """Four volumes with these columns."""
    volumes = [np.full(8, n, "<f4").tobytes() for n in range(first, first + 4)]
    labels = pa.array([0, 1, 0, 1], pa.float32())
    own = {"id": [f"v{n:02d}" for n in range(first, first + 4)], "label": labels, "volume": volumes}
    return pa.table(own | columns)


def filled(folder: Path, columns: pa.Table, *files: pa.Table, **options: Any) -> VolumeDelta:
    """A table with the columns of `columns`, and these files as they are."""
    root = folder / "t"
    write_deltalake(root, columns.slice(0, 0))
    table = DeltaTable(root)
    table.alter.set_table_properties(
        {"voxelflow.shape": "[2, 2, 2]", "voxelflow.dtype": "float32"}, raise_if_not_exists=False
    )
    for number, rows in enumerate(files):
        path = root / f"{number}.parquet"
        pq.write_table(rows, path, **options)
        known = {"numRecords": len(rows), "nullCount": {"id": 0, "label": 0}}
        known |= {"minValues": {"id": rows["id"][0].as_py()}, "maxValues": {"id": rows["id"][-1].as_py()}}
        add = AddAction(path.name, path.stat().st_size, {}, 0, True, json.dumps(known))
        DeltaTable(root).create_write_transaction([add], "append", table.schema())
    taken: VolumeDelta = delta_table(table=str(root), ctx=context(folder, "taken"))
    return taken


def times_in(table: VolumeDelta) -> dict[str, dt.datetime]:
    rows = pa.concat_tables([pq.read_table(uri).select(["id", "seen"]) for uri in DeltaTable(table.uri).file_uris()])
    return {row["id"]: row["seen"].replace(tzinfo=None) for row in rows.to_pylist()}


@pytest.mark.parametrize("store_schema", [False, True])
def test_times_beyond_nanoseconds_stay_what_they_are(tmp_path: Path, store_schema: bool) -> None:
    """Spark writes INT96; as nanoseconds of 64 bits the year 9999 becomes 1816."""
    rows = four(seen=pa.array(TIMES, pa.timestamp("us")).cast(UTC))
    halves = rows.slice(0, 2), rows.slice(2)
    table = filled(tmp_path, rows, *halves, use_deprecated_int96_timestamps=True, store_schema=store_schema)
    listed = rows_as_files(table, tmp_path / "listing.arrow")
    carried = columns_in(manifest.read(listed.manifest))["seen"]
    assert [value.replace(tzinfo=None) for value in carried.to_pylist()] == TIMES
    split = split_dataset(table, by="time", column="seen", validation=0.25, test=0.25, ctx=context(tmp_path, "split"))
    parts = []
    for part in split:
        with voxelflow.load(part, 1, training=False) as volumes:
            parts.append([name for batch in volumes for name in volumes.ids(batch.rows)])
    assert parts == [["v01", "v02"], ["v03"], ["v00"]]
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    assert done.files == 1
    assert times_in(done) == dict(zip(rows["id"].to_pylist(), TIMES, strict=True))


def test_int96_within_nanoseconds_are_read_as_before(tmp_path: Path) -> None:
    """The text of a time decides the part of its group."""
    rows = four(seen=pa.array(TIMES[1:2] * 4, pa.timestamp("us")))
    table = filled(
        tmp_path, four(seen=rows["seen"].cast(UTC)), rows, use_deprecated_int96_timestamps=True, store_schema=False
    )
    assert read_columns(data_files(table).paths, ["seen"]).schema.field("seen").type == pa.timestamp("ns")


def test_digits_that_microseconds_do_not_have_are_kept(tmp_path: Path) -> None:
    """An end of a stored split by time has them: without them its volume would change the side."""
    ends = pa.array([1_600_000_000_123_456_789 + n for n in range(4)], pa.timestamp("ns"))
    whole = four(seen=ends.cast(pa.timestamp("us"), safe=False).cast(UTC))
    rows = four(seen=ends)
    table = filled(tmp_path, whole, rows, use_deprecated_int96_timestamps=True, store_schema=False)
    assert read_columns(data_files(table).paths, ["seen"])["seen"].combine_chunks() == ends


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.string(), pa.array(["a", "b", "c", "d"], pa.large_string())),
        (pa.string(), pa.array(["a", "b", "c", "d"], pa.string_view())),
        (pa.string(), pa.array(["a", "b", "c", "d"]).dictionary_encode()),
        (UTC, pa.array([dt.datetime(2020, 1, day) for day in (1, 2, 3, 4)], pa.timestamp("ns"))),
        (pa.int64(), pa.array([1, 2, 3, 4], pa.int16())),
        (pa.float64(), pa.array([1, 2, 3, 4])),
    ],
    ids=str,
)
def test_types_that_hold_the_same_values_are_one(tmp_path: Path, kind: pa.DataType, column: pa.Array) -> None:
    plain = column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column
    table = filled(tmp_path, four(site=plain.cast(kind)), four(site=plain.cast(kind)), four(4, site=column))
    split = split_dataset(table, by="group", column="site", validation=0.5, ctx=context(tmp_path, "split"))
    counts = [part.selected for part in split]
    assert sum(filter(None, counts)) == 8
    assert all(count is not None and count % 2 == 0 for count in counts), "equal values are in one part"
    assert rows_as_files(table, tmp_path / "listing.arrow").count == 8


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_may_be_held_in_any_form_in_all_files(tmp_path: Path, kind: pa.DataType) -> None:
    site = pa.array(["a", "b", "c", "d"])
    odd = site.dictionary_encode() if pa.types.is_dictionary(kind) else site.cast(kind)
    table = filled(tmp_path, four(site=site), four(site=odd), four(4, site=odd))
    split = split_dataset(table, by="group", column="site", validation=0.5, ctx=context(tmp_path, "split"))
    assert sum(part.selected or 0 for part in split) == 8
    assert rows_as_files(split[0], tmp_path / "listing.arrow").count == split[0].selected


@pytest.mark.parametrize("other", ["site", "label"])
def test_the_parts_of_a_split_do_not_depend_on_types_of_other_columns(tmp_path: Path, other: str) -> None:
    """What reads the part reads other columns beside its own: times have one text for all of them."""
    files = []
    for number in range(10):
        seen = pa.array([dt.datetime(2020, 1, 1 + number, hour) for hour in range(4)], pa.timestamp("us"))
        rows = four(4 * number, seen=seen, site=["a"] * 4)
        odd = {"site": pa.large_string(), "label": pa.float64()}[other] if number > 4 else rows[other].type
        files.append(rows.set_column(rows.column_names.index(other), other, rows[other].cast(odd)))
    columns = files[0].set_column(3, "seen", files[0]["seen"].cast(UTC))
    table = filled(tmp_path, columns, *files, use_deprecated_int96_timestamps=True)
    split = split_dataset(table, by="group", column="seen", validation=0.5, ctx=context(tmp_path, "split"))
    for part in [part for part in split if part.selected]:
        with voxelflow.load(part, 1, training=False) as volumes:
            read = sorted(name for batch in volumes for name in volumes.ids(batch.rows))
        listed = manifest.read(rows_as_files(part, tmp_path / "listing.arrow").manifest)
        assert sorted(listed["path"].to_pylist()) == read
        assert part.selected == len(read)


def test_types_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    table = filled(tmp_path, four(site=["a"] * 4), four(site=["a"] * 4), four(4, site=[1] * 4))
    with pytest.raises(DataError, match=r"have a column with types that do not fit together: .*site"):
        split_dataset(table, by="group", column="site", ctx=context(tmp_path, "split"))
    with pytest.raises(DataError, match=r"have a column with types that do not fit together: .*site"):
        rows_as_files(table, tmp_path / "listing.arrow")


def test_a_row_without_a_volume_is_named_as_such(tmp_path: Path) -> None:
    rows = four()
    missing = rows.set_column(2, "volume", pa.array([None, *rows["volume"].to_pylist()[1:]], pa.binary()))
    table = filled(tmp_path, rows, missing, four(4))
    with voxelflow.load(table, 8) as volumes, pytest.raises(DataError, match=r"0\.parquet has rows without a volume"):
        list(volumes)
    with pytest.raises(DataError, match=r"0\.parquet has rows without volume, which every row") as caught:
        optimize_delta(table, ctx=context(tmp_path, "o"))
    assert "ConvertTable" in caught.value.hint


def test_a_row_without_an_id_is_named_as_such(tmp_path: Path) -> None:
    rows = four()
    missing = rows.set_column(0, "id", pa.array(["v00", "v01", None, "v03"]))
    table = filled(tmp_path, rows, missing, four(4))
    with pytest.raises(DataError, match="1 row has no id"):
        split_dataset(table, ctx=context(tmp_path, "split"))
    with pytest.raises(DataError, match="1 row has no id"):
        group_fractions("salt", [pa.array(["a", None])], pa.array(["v00", None], pa.string()))
    with pytest.raises(DataError, match=r"1 row of .* has no id"):
        rows_as_files(table, tmp_path / "listing.arrow")
    with pytest.raises(DataError, match="1 rows have no id"):
        voxelflow.load(table, 4)
    with pytest.raises(DataError, match=r"0\.parquet has rows without id, which every row"):
        optimize_delta(table, ctx=context(tmp_path, "o"))


def test_a_column_with_another_name_in_the_files_is_not_taken_for_one_of_its_name(tmp_path: Path) -> None:
    """Two columns have swapped their names since: by the names in the files a split would go by the other one."""
    rows = four(patient=["a", "b", "c", "d"], site=["x", "x", "y", "y"])
    table = filled(tmp_path, rows, rows)
    swapped = {"patient": "site", "site": "patient"}
    for version in range(3):
        path = commit_file(tmp_path / "t", version)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for metadata in (line["metaData"] for line in lines if "metaData" in line):
            schema = json.loads(metadata["schemaString"])
            for number, column in enumerate(schema["fields"], 1):
                mapping = {"id": number, "physicalName": column["name"]}
                column["metadata"] = {f"delta.columnMapping.{key}": value for key, value in mapping.items()}
                column["name"] = swapped.get(column["name"], column["name"])
            metadata["schemaString"] = json.dumps(schema)
            metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "5"}
        for line in lines:
            if "protocol" in line:
                line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match="maps the column patient to site in its files") as caught:
        split_dataset(table, by="group", column="patient", ctx=context(tmp_path, "split"))
    assert caught.value.parameter == "column"
    split = split_dataset(table, ctx=context(tmp_path, "plain"))
    assert sum(part.selected or 0 for part in split) == 4
