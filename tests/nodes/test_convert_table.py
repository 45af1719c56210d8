"""ConvertTable: nested lists, petastorm's arrays and plain bytes of other programs become files of volumes."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import delete_by_vector
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from foreign_tables import (
    LISTS,
    SHAPE,
    Encode,
    as_bytes,
    by_petastorm,
    bytes_in,
    look,
    nested,
    run,
    some,
    stored_columns,
    table_of,
)
from npy_folders import context, parts_of, reasons, rows
from store_fixtures import upload_folder

from engine.errors import DataError, TooManyBadFiles, VoxelflowError
from engine.observe.paths import find_path
from nodes.delta_table import delta_table
from nodes.parquet_folder import parquet_folder
from nodes.table.ledger import is_given_once
from nodes.table.log import actions

npy, npz = by_petastorm("NdarrayCodec"), by_petastorm("CompressedNdarrayCodec")


@pytest.mark.slow
@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize(
    ("encode", "kind", "params"),
    [
        (np.ndarray.tolist, LISTS, {}),
        (np.ndarray.tolist, nested(pa.float64()), {"dtype": "float32"}),
        (lambda v: v.ravel().tolist(), pa.list_(pa.float32()), {"shape": SHAPE}),
        (npy, pa.binary(), {}),
        (npz, pa.binary(), {}),
        (np.ndarray.tobytes, pa.binary(), {"shape": SHAPE, "dtype": "float32"}),
    ],
    ids=["nested", "nested doubles", "flat", "npy", "npz", "bytes"],
)
def test_what_others_write_becomes_volumes(
    tmp_path: Path, encode: Encode, kind: pa.DataType, params: dict[str, Any], delta: bool
) -> None:
    volumes = some(20)
    written = table_of(volumes, encode, kind)
    if delta:
        write_deltalake(tmp_path / "table", written)
    else:
        (tmp_path / "table" / "sub").mkdir(parents=True)
        pq.write_table(written.slice(0, 12), tmp_path / "table" / "a.parquet", row_group_size=5)
        pq.write_table(written.slice(12), tmp_path / "table" / "sub" / "b.parquet")
    seen = look(tmp_path, tmp_path / "table", **params)
    preview = seen.inputs["made"]
    assert seen.problems == []
    assert (preview.columns, preview.labels) == (("well",), (0.0, 1.0))
    out, said = run(tmp_path, tmp_path / "table", **params)
    assert out.spec is not None
    assert (out.spec.shape, out.spec.dtype, out.spec.classes) == (SHAPE, "float32", ("fault", "salt"))
    assert preview.spec == out.spec
    assert "columns: well (int32)" in said
    found = rows(out)
    assert bytes_in(out) == as_bytes(volumes)
    assert [found[f"p{n:03d}"][0] for n in (0, 1, 19)] == [0.0, 1.0, None]
    stored = pa.concat_tables([pq.read_table(Path(out.uri) / p.path) for p in parts_of(out).parts])
    assert stored.schema.field("well").type == pa.int32()
    assert sorted(stored["well"].to_pylist()) == [n // 4 for n in range(20)]


@pytest.mark.slow
def test_rows_that_are_added_are_all_that_is_converted(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write_deltalake(table, table_of(some(12)))
    first, _ = run(tmp_path, table)
    digests = [look(tmp_path, table).paths["table"].digest]
    write_deltalake(table, table_of(some(5, 50)), mode="append")
    digests.append(look(tmp_path, table).paths["table"].digest)
    assert digests[0] != digests[1], "the engine runs the node again"
    second, said = run(tmp_path, table, 2, first)
    assert said[-1] == "17 volumes in 2 parts; 5 rows converted now, 1 part was there already"
    DeltaTable(table).delete("name = 'p003'")
    third, _ = run(tmp_path, table, 3, second)
    assert rows(third).keys() == rows(second).keys() - {"p003"}
    other, said = run(tmp_path, table, 4, third, id_column="well", max_bad_rows=20)
    assert {name for name in rows(other) if name.startswith("p")} == set(), "other ids, other rows"
    assert any("converted again" in text for text in said)


def test_rows_that_are_no_volumes_are_listed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    good = some(1)["p000"]
    cells: list[Any] = [
        npy(good), None, npy(good[:2]), npy(good.astype("float64")), b"nothing", npy(good)[:-4], npz(good)[:60],
        npy(np.where(good > 0, np.nan, good)), _pickled(), npy(good), npz(good),
    ]  # fmt: skip
    table = pa.table({"id": [f"v{n}" for n in range(11)], "volume": pa.array(cells, pa.binary())})
    pq.write_table(table.append_column("label", pa.array([1] * 9 + [None, 2])), tmp_path / "t" / "a.parquet")
    with pytest.raises(TooManyBadFiles, match="8 rows cannot be converted, 7 allowed") as caught:
        run(tmp_path, tmp_path / "t", max_bad_rows=7)
    assert "max_bad_rows" in caught.value.hint
    out, _ = run(tmp_path, tmp_path / "t", max_bad_rows=9, unlabelled="quarantine")
    assert (out.count, out.quarantined) == (2, 9)
    assert reasons(out) == {
        "a.parquet#1": "empty",
        "a.parquet#2": "shape",
        "a.parquet#3": "dtype-differs",
        "a.parquet#4": "format",
        "a.parquet#5": "truncated",
        "a.parquet#6": "format",
        "a.parquet#7": "not-finite",
        "a.parquet#8": "pickle",
        "a.parquet#9": "label-missing",
    }


def _pickled() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}], object), allow_pickle=True)
    return out.getvalue()


def test_problems_are_reported_before_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    good = [some(1)["p000"].tolist()] * 3
    columns = {"left": pa.array(good, LISTS), "right": pa.array(good, LISTS), "depth": pa.array([1.5, 2.5, 3.5])}
    columns["flat"] = pa.array([[1.0] * 24] * 3)
    columns["raw"] = pa.array([b"x" * 9] * 3)
    pq.write_table(pa.table(columns), folder / "a.parquet")
    for params, field, text in (
        ({}, "volume_column", "several columns that can be volumes: left, right, flat, raw"),
        ({"volume_column": "depth"}, "volume_column", "is double, not lists of numbers or bytes"),
        ({"volume_column": "flat"}, "shape", "flat lists of 24 numbers, which do not say the volumes' shape"),
        ({"volume_column": "raw"}, "shape", "row 0 of a.parquet holds bytes of neither .npy nor .npz"),
        ({"volume_column": "raw", "shape": (5,), "dtype": "uint8"}, "volume_column", "has 9 bytes, 5 uint8 has 5"),
        ({"volume_column": "left", "label_column": "kind"}, "label_column", "no column kind; it has left (list<"),
        ({"volume_column": "left", "label_column": "right"}, "label_column", "which is no label"),
        ({"volume_column": "left", "id_column": "right"}, "id_column", "which is no id"),
        ({"volume_column": "left", "shape": (5,)}, "volume_column", "row 0 of a.parquet is 4x3x2, not 5"),
    ):
        (problem,) = look(tmp_path, folder, **params).problems
        assert (problem.code, problem.parameter) == ("VF562", field), problem
        assert text in problem.message
        with pytest.raises(VoxelflowError) as caught:
            run(tmp_path, folder, **params)
        assert caught.value.message == problem.message
    seen = look(tmp_path, folder, volume_column="left", label_column="depth")
    assert [(p.code, p.severity, "flat is left out" in p.message) for p in seen.problems] == [
        ("VF563", "warning", False),
        ("VF563", "warning", True),
    ]
    assert seen.inputs["made"].columns == ("raw",)
    out, said = run(tmp_path, folder, volume_column="left", label_column="depth")
    assert rows(out).keys() == {"a.parquet#0", "a.parquet#1", "a.parquet#2"}
    assert sorted(label for label, _ in rows(out).values() if label) == [1.5, 2.5, 3.5]
    assert any("right is left out: it holds lists" in text for text in said)
    pq.write_table(pa.table(columns | {"depth": pa.array([1, 1, 1])}), folder / "a.parquet")
    with pytest.raises(DataError, match="the value of depth is that of another row in 2 rows of "):
        run(tmp_path, folder, volume_column="left", id_column="depth")
    (tmp_path / "none").mkdir()
    (problem,) = look(tmp_path, tmp_path / "none").problems
    assert "no Parquet files" in problem.message


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "it is a named pipe, not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
        (lambda path: path.symlink_to("nothing"), "it is a link whose target is missing"),
    ],
)
def test_what_is_no_regular_file_is_reported_at_once(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"volume": pa.array([some(1)["p000"].tolist()] * 3, LISTS)}), folder / "a.parquet")
    make(folder / "b.parquet")
    (problem,) = look(tmp_path, folder).problems
    assert problem.message == f"{folder / 'b.parquet'} cannot be read: {said}"
    with pytest.raises(VoxelflowError, match=said):
        run(tmp_path, folder)


def test_a_link_whose_target_is_missing_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    rows_of_it = {"volume": pa.array([some(1)["p000"].tolist()] * 3, LISTS)}
    pq.write_table(pa.table(rows_of_it), folder / "a.parquet")
    (folder / "day=2").symlink_to("nothing")
    seen = look(tmp_path, folder)
    said = "1 link is left out: day=2 (its target nothing is missing)"
    assert [(p.code, p.severity) for p in seen.problems] == [("VF313", "warning")]
    assert said in seen.problems[0].message
    out, messages = run(tmp_path, folder)
    assert any(said in message and f"`rm {folder}/day=2`" in message for message in messages)
    assert (out.count, out.labelled) == (3, 0), "and nothing but volumes is a table, too"


def test_the_sources_of_tables_name_convert_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "table", table_of(some(3)))
    (tmp_path / "files").mkdir()
    pq.write_table(table_of(some(3)), tmp_path / "files" / "a.parquet")
    with pytest.raises(VoxelflowError) as caught:
        delta_table(table=str(tmp_path / "table"), ctx=context(tmp_path, "delta"))
    assert "ConvertTable" in caught.value.hint
    node = {p.name: p.path_in for p in parquet_folder.parameters}["folder"]
    assert node is not None
    found = find_path(str(tmp_path / "files"), node, tmp_path)
    ctx = context(tmp_path, "parquet", inputs_found={"folder": Path(found.manifest)})
    with pytest.raises(VoxelflowError) as caught:
        parquet_folder(folder=str(tmp_path / "files"), ctx=ctx)
    assert "ConvertTable" in caught.value.hint


def test_the_volumes_and_a_label_are_found_in_any_case(tmp_path: Path) -> None:
    """A label is carried no second time; where there is one of the very name, others are columns like any."""
    (tmp_path / "t").mkdir()
    volumes = some(3)
    written = table_of(volumes).rename_columns(["name", "Label", "well", "IMAGE"])
    written = written.append_column("spare", written["IMAGE"])
    pq.write_table(written, tmp_path / "t" / "a.parquet")
    seen = look(tmp_path, tmp_path / "t")
    assert [(p.code, "spare is left out" in p.message) for p in seen.problems] == [("VF563", True)]
    assert (seen.inputs["made"].columns, seen.inputs["made"].labels) == (("well",), (0.0, 1.0))
    out, _ = run(tmp_path, tmp_path / "t")
    assert bytes_in(out) == as_bytes(volumes)
    assert {name: row["label"] for name, row in stored_columns(out).items()} == {"p000": 0, "p001": 1, "p002": None}
    assert stored_columns(out)["p000"].keys() == {"label", "well"}
    exact = written.append_column("class", pa.array([5, 6, 7])).append_column("id", pa.array(["x", "y", "z"]))
    pq.write_table(exact, tmp_path / "t" / "a.parquet")
    out, _ = run(tmp_path, tmp_path / "t", 2)
    assert [label for _, (label, _) in sorted(rows(out).items())] == [5, 6, 7]
    assert rows(out).keys() == {"x", "y", "z"}


@pytest.mark.parametrize("columns", [["Name", "Y", "well"], ["ID", "Class", "LABEL", "Label"]])
def test_columns_that_may_be_something_else_are_columns_like_any(tmp_path: Path, columns: list[str]) -> None:
    (tmp_path / "t").mkdir()
    written = pa.table({"image": table_of(some(3))["image"], **{name: ["a", "a", "b"] for name in columns}})
    pq.write_table(written, tmp_path / "t" / "a.parquet")
    out, _ = run(tmp_path, tmp_path / "t")
    assert (out.count, out.labelled) == (3, 0)


@pytest.mark.parametrize("delta", [False, True])
def test_folders_that_stand_for_a_column_give_its_values(tmp_path: Path, delta: bool) -> None:
    """As Spark, delta-rs and PyArrow partition tables."""
    table, volumes = tmp_path / "table", some(9)
    written = table_of(volumes)
    if delta:
        write_deltalake(table, written, partition_by=["class", "well"])
    else:
        pq.write_to_dataset(written, table, partition_cols=["class", "well"])
        (table / "_temporary").mkdir()
        (table / "_temporary" / "half.parquet").write_bytes(b"half a file")
    out, _ = run(tmp_path, table)
    assert out.spec is not None
    assert out.spec.classes == ("fault", "salt")
    assert bytes_in(out) == as_bytes(volumes)
    assert [rows(out)[f"p{n:03d}"][0] for n in (0, 1, 8)] == [0.0, 1.0, None]
    stored = pa.concat_tables([pq.read_table(Path(out.uri) / p.path) for p in parts_of(out).parts])
    assert sorted(stored["well"].to_pylist()) == [n // 4 for n in range(9)]


def test_files_may_differ_in_columns_types_and_string_views(tmp_path: Path) -> None:
    """A column that was added later, and types that only hold the same values otherwise."""
    folder, volumes = tmp_path / "t", some(6)
    folder.mkdir()
    written = table_of(volumes)
    older = written.slice(0, 3).drop_columns(["well", "class"])
    newer = written.slice(3).set_column(0, "name", written.slice(3)["name"].cast(pa.string_view()))
    newer = newer.set_column(1, "class", newer["class"].combine_chunks().dictionary_encode())
    pq.write_table(older, folder / "a.parquet")
    pq.write_table(newer, folder / "b.parquet")
    out, _ = run(tmp_path, folder)
    assert bytes_in(out) == as_bytes(volumes)
    assert [label for _, (label, _) in sorted(rows(out).items())] == [None, None, None, 1.0, 0.0, None]
    pq.write_table(pa.table({"name": ["x"]}), folder / "c.parquet")
    with pytest.raises(VoxelflowError, match=r"c\.parquet has no column image, which other files of the table have"):
        run(tmp_path, folder)


def test_times_with_and_without_a_zone_are_one_column(tmp_path: Path) -> None:
    """As some writers of a folder keep the zone and others do not: those without are taken as UTC."""
    folder, volumes = tmp_path / "t", some(4)
    folder.mkdir()
    written, noon = table_of(volumes), datetime(2026, 3, 1, 12)
    for number, kind in enumerate((pa.timestamp("us", "UTC"), pa.timestamp("ns"))):
        times = pa.array([noon, noon]).cast(pa.timestamp("ns")).cast(kind)
        part = written.slice(2 * number, 2)
        pq.write_table(part.set_column(part.column_names.index("well"), "well", times), folder / f"{number}.parquet")
    out, _ = run(tmp_path, folder)
    stored = pa.concat_tables([pq.read_table(Path(out.uri) / p.path) for p in parts_of(out).parts])
    assert stored["well"].to_pylist() == [noon.replace(tzinfo=UTC)] * 4


def test_a_column_without_a_value_in_a_file_has_no_type_there(tmp_path: Path) -> None:
    """As pandas writes it, also in a file without rows; and volumes may be missing in the first rows of all files."""
    folder, volumes = tmp_path / "t", some(20)
    folder.mkdir()
    written = table_of(volumes)
    cells = [None] * 9 + written["image"].to_pylist()[9:]
    pq.write_table(written.set_column(3, "image", pa.array(cells, LISTS)), folder / "a.parquet")
    nothing = pa.table({name: pa.nulls(2) for name in written.column_names} | {"name": ["x", "y"]})
    pq.write_table(nothing, folder / "b.parquet")
    pq.write_table(pa.table({name: pa.nulls(0) for name in written.column_names}), folder / "c.parquet")
    seen = look(tmp_path, folder, max_bad_rows=11)
    assert seen.problems == []
    assert (seen.inputs["made"].columns, seen.inputs["made"].labels) == (("well",), (0.0, 1.0))
    out, _ = run(tmp_path, folder, max_bad_rows=11)
    assert bytes_in(out) == {name: data for name, data in as_bytes(volumes).items() if name > "p008"}
    assert set(reasons(out).values()) == {"empty"}
    pq.write_table(nothing, folder / "a.parquet")
    (problem,) = look(tmp_path, folder).problems
    assert problem.parameter == "table"


@pytest.mark.parametrize(
    ("column", "parameter", "hint"),
    [("class", "label_column", "another column"), ("name", "id_column", "another column"), ("well", "columns", "none")],
)
def test_types_that_do_not_fit_together_are_reported_at_their_parameter(
    tmp_path: Path, column: str, parameter: str, hint: str
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    written = table_of(some(4))
    place = written.column_names.index(column)
    for number, kind in enumerate(([1, 2, 3, 4], ["a", "b", "c", "d"])):
        pq.write_table(written.set_column(place, column, pa.array(kind)), folder / f"{number}.parquet")
    problems = look(tmp_path, folder).problems
    assert [(p.code, p.parameter) for p in problems] == ([("VF562", parameter)] if column == "class" else [])
    with pytest.raises(VoxelflowError, match=rf"types that do not fit together: .*{column}") as caught:
        run(tmp_path, folder)
    assert caught.value.parameter == parameter
    assert hint in caught.value.hint


@pytest.mark.parametrize(("column", "parameter"), [("name", "id_column"), ("well", "columns")])
def test_values_that_do_not_fit_together_are_reported_with_their_column(
    tmp_path: Path, column: str, parameter: str
) -> None:
    """Their types do, as not all whole numbers fit among decimal ones."""
    folder = tmp_path / "t"
    folder.mkdir()
    written = table_of(some(2))
    place = written.column_names.index(column)
    for number, cells in enumerate(([2**53 + 1, 2], [0.5, 1.5])):
        pq.write_table(written.set_column(place, column, pa.array(cells)), folder / f"{number}.parquet")
    with pytest.raises(VoxelflowError, match=rf"types that do not fit together: {column}: ") as caught:
        run(tmp_path, folder)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("name", "once"),
    [
        ("part-00000-8b9f7b7e-1d5f-4b3e-9f6f-0c1c9f6b2a11-c000.snappy.parquet", True),
        ("8B9F7B7E-1D5F-4B3E-9F6F-0C1C9F6B2A11.parquet", True),
        ("0123456789abcdef0123456789abcdef.parquet", True),
        ("00000000000000000001-0123456789abcdef.parquet", True),
        ("part-00000.parquet", False),
        ("00000000000000000001.parquet", False),
    ],
)
def test_a_name_with_a_hash_or_a_uuid_says_what_a_file_holds(name: str, once: bool) -> None:
    assert is_given_once(name) == once


def test_a_table_that_is_made_anew_is_converted_anew(tmp_path: Path) -> None:
    """Another Delta table at the same place, with a file of the same name and size."""
    table, before = tmp_path / "t", None
    for number in (1, 2):
        shutil.rmtree(table, ignore_errors=True)
        table.mkdir()
        volumes = dict(zip(some(6), some(6, 100 * number).values(), strict=True))
        written = table_of(volumes, np.ndarray.tobytes, pa.binary())
        pq.write_table(written, table / "part-0.parquet", compression="none")
        os.utime(table / "part-0.parquet", (number, number))
        convert_to_deltalake(table)
        before, _ = run(tmp_path, table, number, before, shape=SHAPE, dtype="float32")
        assert bytes_in(before) == as_bytes(volumes)


def test_times_beyond_nanoseconds_are_read_as_they_are(tmp_path: Path) -> None:
    """Spark writes INT96; as nanoseconds of 64 bits the year 9999 becomes 1816."""
    (tmp_path / "t").mkdir()
    days = [datetime(9999, 12, 31, 1, 2, 3, 4), datetime(2262, 5, 1), datetime(2022, 1, 1), datetime(1, 1, 1)]
    written = table_of(some(4)).append_column("day", pa.array(days, pa.timestamp("us")))
    pq.write_table(written, tmp_path / "t" / "a.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    for delta in (False, True):
        if delta:
            convert_to_deltalake(tmp_path / "t")
        out, _ = run(tmp_path / str(delta), tmp_path / "t")
        found = [row["day"].replace(tzinfo=None) for _, row in sorted(stored_columns(out).items())]
        assert found == days


def test_values_of_many_bytes_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    written = table_of(some(4)).append_column("scan", pa.array([bytes([n]) * 9000 for n in range(4)]))
    written = written.append_column("hash", pa.array([bytes([n]) * 16 for n in range(4)]))
    pq.write_table(written, tmp_path / "t" / "a.parquet", use_dictionary=False)
    out, said = run(tmp_path, tmp_path / "t")
    stored = pq.read_table(Path(out.uri) / parts_of(out).parts[0].path)
    assert {"well", "hash"} <= set(stored.column_names)
    assert "scan" not in stored.column_names
    assert any(text.startswith("the column scan is left out: its values have 9,0") for text in said)


def test_labels_that_are_none_and_other_names_of_columns_are_reported_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    count = 10_001
    columns = {"x y": pa.array(range(count)), "class": [f"c{n}" for n in range(count)]}
    columns["volume"] = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(np.arange(count), 1), 1)
    pq.write_table(pa.table(columns), tmp_path / "t" / "a.parquet")
    seen = look(tmp_path, tmp_path / "t")
    assert [(p.code, p.parameter) for p in seen.problems] == [("VF563", "columns"), ("VF564", "label_column")]
    assert "there are 10001 different labels" in seen.problems[1].message
    assert seen.inputs["made"].columns == ("x_y",)
    with pytest.raises(DataError, match=r"column class of .* cannot be used for labels: there are 10001") as caught:
        run(tmp_path, tmp_path / "t")
    assert caught.value.parameter == "label_column"
    assert look(tmp_path, tmp_path / "t", label_column="x y", columns="none").problems == []


@pytest.mark.slow
@pytest.mark.parametrize("group", [7, 1000])
def test_row_groups_of_any_size_are_decoded_once(tmp_path: Path, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts of one row group: threads take turns, and go on where the one before has stopped."""
    from nodes.foreign_tables import rows as module

    volumes = some(100, shape=(40, 40, 8))
    (tmp_path / "t").mkdir()
    pq.write_table(table_of(volumes, npy, pa.binary()), tmp_path / "t" / "a.parquet", row_group_size=group)
    monkeypatch.setattr(module, "_WHOLE_BYTES", 1 << 20)
    monkeypatch.setattr(module, "_BUFFER", 1 << 16)
    monkeypatch.setattr(module, "_BATCH_ROWS", 5)
    opened, cursor = [], module._Cursor
    monkeypatch.setattr(module, "_Cursor", lambda *args: opened.append(args) or cursor(*args))
    out, _ = run(tmp_path, tmp_path / "t", target_file_mb=1, cores=4)
    assert len(parts_of(out).parts) == 5
    assert bytes_in(out) == as_bytes(volumes)
    groups = -(-100 // group)
    # A thread that comes before the one whose rows are before its own lets that one begin anew.
    assert groups <= len(opened) <= 2 * groups + 3


@pytest.mark.slow
@pytest.mark.parametrize("delta", [False, True])
def test_tables_in_object_storage(azure: str, tmp_path: Path, delta: bool) -> None:
    volumes = some(20)
    if delta:
        written = table_of(volumes).set_column(1, "class", pa.array(["a b=ü" if n % 2 else "x" for n in range(20)]))
        write_deltalake(tmp_path / "table", written, partition_by=["class"])
        (path,) = (each["path"] for each in actions(tmp_path / "table", 0, "add") if "x" in each["path"][:9])
        (other,) = (each["path"] for each in actions(tmp_path / "table", 0, "add") if each["path"] != path)
        delete_by_vector(tmp_path / "table", path, [0])
        delete_by_vector(tmp_path / "table", other, [9])
        del volumes["p000"], volumes["p019"]
    else:
        (tmp_path / "table" / "well=3").mkdir(parents=True)
        pq.write_table(table_of(volumes).drop_columns("well"), tmp_path / "table" / "well=3" / "a.parquet")
    url = upload_folder(tmp_path / "table", f"{azure}/table")
    seen = look(tmp_path, url)
    assert seen.problems == []
    out, _ = run(tmp_path / "there", url)
    assert seen.inputs["made"].spec == out.spec
    here, _ = run(tmp_path / "here", tmp_path / "table")
    assert bytes_in(out) == as_bytes(volumes)
    assert rows(out) == rows(here)
