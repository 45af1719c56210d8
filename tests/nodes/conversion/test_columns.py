"""What else the label file says of a volume is carried into the parts, with its type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from npy_folders import contents, convert, make_volumes, numbered, parts_of

from engine.declare.datasets import VolumeParquet
from engine.errors import DataError
from engine.text import plural
from nodes.conversion import convert as convert_module
from nodes.conversion.columns import TIMESTAMP, by_file, of_label_table, typed
from nodes.conversion.npy_files import VolumeReader

UTC = dt.UTC


def carried(out: VolumeParquet) -> dict[str, dict[str, Any]]:
    """The columns of each volume besides label and volume, by id."""
    tables = [pq.read_table(Path(out.uri) / part.path).drop(["label", "volume"]) for part in parts_of(out).parts]
    return {row.pop("id"): row for row in pa.concat_tables(tables).to_pylist()}


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "+2", None, "-3"], pa.int64(), [1, 2, None, -3]),
        (["007", "12"], pa.string(), ["007", "12"]),
        (["9" * 30, "1"], pa.string(), ["9" * 30, "1"]),
        (["1", "2.5", "1e3"], pa.float64(), [1.0, 2.5, 1000.0]),
        (["True", "false", None], pa.bool_(), [True, False, None]),
        (["0", "1"], pa.int64(), [0, 1]),
        (["2024-02-29", None], pa.date32(), [dt.date(2024, 2, 29), None]),
        (["2023-02-29"], pa.string(), ["2023-02-29"]),
        (["2024-01-02 03:04"], TIMESTAMP, [dt.datetime(2024, 1, 2, 3, 4, tzinfo=UTC)]),
        (["2024-01-02T03:04:05+02:00"], TIMESTAMP, [dt.datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)]),
        (["2024-01-02T03:04:05Z", "2024-01-02T03:04:05"], pa.string(), None),
        ([None, None], pa.string(), None),
        (["1", "x"], pa.string(), None),
        (["1,5", "2"], pa.string(), None),
    ],
)
def test_the_type_of_a_text_column_follows_from_all_its_values(
    texts: list[str | None], kind: pa.DataType, values: list[Any] | None
) -> None:
    found = typed(pa.array(texts, pa.string()))
    assert (found.type, found.to_pylist()) == (kind, values if values is not None else texts)
    backwards = typed(pa.array(texts[::-1], pa.string()))
    assert backwards.type == kind


@given(st.lists(st.none() | st.text(max_size=6), max_size=8), st.text(max_size=4))
def test_a_text_that_is_no_number_is_never_changed(texts: list[str | None], more: str) -> None:
    column = [*texts, f"x{more}"]
    assert typed(pa.array(column, pa.string())).to_pylist() == column


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Id", "Id_"),
        ("LABEL", "LABEL_"),
        ("volume", "volume_"),
        ("age (years)", "age_years_"),
        ("a.b", "a_b"),
        ("  ", "column_1"),
        ("Größe", "Größe"),
        ("spacing", "spacing_"),
        ("patient", "patient"),
    ],
)
def test_names_that_a_table_cannot_have_are_changed_and_named(name: str, kept: str) -> None:
    named = of_label_table(pa.table({name: ["x"]}), taken=["spacing"])
    assert named.table.column_names == [kept]
    assert named.remarks == (() if kept == name else (f"the column {name!r} is kept as {kept}",))


def test_equal_names_become_different_ones() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["age", "Age", "age"])
    assert of_label_table(table).table.to_pylist() == [{"age": 1, "Age_": 2, "age__": 3}]


@pytest.mark.parametrize(
    ("given_type", "stored", "value"),
    [
        (pa.uint8(), pa.int16(), 255),
        (pa.uint32(), pa.int64(), 2**32 - 1),
        (pa.uint64(), pa.decimal128(20, 0), Decimal(2**64 - 1)),
        (pa.int8(), pa.int8(), -1),
        (pa.float16(), pa.float32(), np.float16(0.5)),
        (pa.large_string(), pa.string(), "x"),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), "x"),
        (pa.timestamp("ns"), TIMESTAMP, dt.datetime(2024, 1, 2, tzinfo=UTC)),
        (pa.date64(), pa.date32(), dt.date(2024, 1, 2)),
        (pa.time32("s"), pa.string(), "03:04:05"),
        (pa.null(), pa.string(), None),
        (pa.decimal128(9, 2), pa.decimal128(9, 2), Decimal("1.25")),
    ],
)
def test_types_of_a_parquet_file_are_kept_or_become_the_next_that_delta_has(
    given_type: pa.DataType, stored: pa.DataType, value: Any
) -> None:
    known = dt.time(3, 4, 5) if pa.types.is_time(given_type) else value
    values = pa.array([known], given_type)
    out = of_label_table(pa.table({"a": values})).table
    assert (out.schema.field("a").type, out["a"].to_pylist()) == (stored, [value])


def test_lists_are_left_out_by_name_and_a_value_that_does_not_fit_is_refused_by_name() -> None:
    table = pa.table({"a": [[1]], "b": [1]})
    named = of_label_table(table)
    assert named.table.column_names == ["b"]
    assert named.remarks == ("the column a (list<item: int64>) is left out: a table of volumes holds single values",)
    with pytest.raises(DataError, match=r"the column t \(timestamp\[ns\]\) does not fit a table"):
        of_label_table(pa.table({"t": pa.array([1], pa.timestamp("ns"))}))


def test_rows_of_one_file_that_differ_leave_that_column_empty() -> None:
    table = pa.table({"a": [1, 1, 2, 3, None], "b": ["x", "y", "z", None, "w"]})
    named = by_file(table, np.array([0, 0, 2, 1, 1]), 4)
    assert named.table.to_pylist() == [
        {"a": 1, "b": None},
        {"a": 3, "b": "w"},
        {"a": 2, "b": "z"},
        {"a": None, "b": None},
    ]
    assert named.remarks == ("b is left empty for 1 file whose rows differ in it",)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_rows_that_say_nan_both_do_not_differ(kind: pa.DataType) -> None:
    """A CSV file has a null there, a Parquet file may have NaN."""
    table = pa.table({"a": pa.array([np.nan, np.nan, 1.0, np.nan, 2.0, None], kind)})
    named = by_file(table, np.array([0, 0, 1, 1, 2, 2]), 3)
    values = named.table["a"].to_pylist()
    assert np.isnan(values[0])
    assert values[1:] == [None, 2.0]
    assert named.remarks == ("a is left empty for 1 file whose rows differ in it",)


@given(st.lists(st.tuples(st.integers(-1, 5), st.none() | st.integers(0, 2) | st.booleans()), max_size=30))
def test_each_file_gets_its_value_or_none_and_nothing_is_lost(rows: list[tuple[int, int | None]]) -> None:
    table = pa.table({"a": pa.array([None if value is None else int(value) for _, value in rows], pa.int64())})
    found = by_file(table, np.array([place for place, _ in rows], np.int64), 6)
    given_values = [{int(v) for place, v in rows if place == file and v is not None} for file in range(6)]
    assert found.table["a"].to_pylist() == [next(iter(v)) if len(v) == 1 else None for v in given_values]
    several = sum(len(v) > 1 for v in given_values)
    assert found.remarks == (
        (f"a is left empty for {plural(several, 'files')} whose rows differ in it",) if several else ()
    )


# --- in the parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_all_columns_of_the_label_file_come_into_the_parts(tmp_path: Path, compression: str) -> None:
    root = tmp_path / "in"
    volumes = make_volumes(root, numbered(30), (4, 4, 2, 1))
    lines = [
        f"v{i:04d}.npy,{i % 3},P{i % 5:03d},{i / 2},{'' if i % 4 else i},2024-01-{i + 1:02d},{i % 2 == 0}"
        for i in range(25)
    ]
    (root / "labels.csv").write_text("file,label,patient,age,score,seen,male\n" + "\n".join(lines))
    out = convert(root, tmp_path / "work", row_group_rows=8, compression=compression)
    found = carried(out)
    assert contents(out).keys() == volumes.keys()
    for i in range(25):
        assert found[f"v{i:04d}.npy"] == {
            "patient": f"P{i % 5:03d}",
            "age": i / 2,
            "score": None if i % 4 else i,
            "seen": dt.date(2024, 1, i + 1),
            "male": i % 2 == 0,
        }
    assert set(found["v0029.npy"].values()) == {None}
    for part in parts_of(out).parts:
        # Every page matches its checksum, and the columns stand behind the volume.
        file = pq.ParquetFile(Path(out.uri) / part.path, page_checksum_verification=True)
        assert file.read().num_rows == part.rows
        assert file.schema_arrow.names == ["id", "label", "volume", "patient", "age", "score", "seen", "male"]


def test_without_further_columns_the_parts_are_byte_for_byte_the_same(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(9))
    text = "file,label\n" + "\n".join(f"v{i:04d},{i % 2}" for i in range(9))
    (root / "labels.csv").write_text(text)
    plain = convert(root, tmp_path / "plain")
    (root / "labels.csv").write_text(text.replace("\n", ",x\n") + ",x")
    none = convert(root, tmp_path / "none", columns="none")
    parts = [[(Path(o.uri) / p.path).read_bytes() for p in parts_of(o).parts] for o in (plain, none)]
    assert parts[0] == parts[1]
    assert [p.path for p in parts_of(plain).parts] == [p.path for p in parts_of(none).parts]
    assert [p.path for p in parts_of(convert(root, tmp_path / "all")).parts] != [p.path for p in parts_of(none).parts]


def test_the_column_with_the_labels_is_chosen_by_name(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, ["a.npy", "b.npy"])
    (root / "labels.csv").write_text("file,label,Diagnosis\na,1,cyst\nb,2,tumour\n")
    out = convert(root, tmp_path / "work", label_column="diagnosis")
    assert out.spec is not None
    assert out.spec.classes == ("cyst", "tumour")
    assert carried(out) == {"a.npy": {"label_": 1}, "b.npy": {"label_": 2}}
    with pytest.raises(DataError, match="no column grade for labels; it has file, label, Diagnosis"):
        convert(root, tmp_path / "work", label_column="grade")
    with pytest.raises(DataError, match="no column label,diagnosis for labels") as caught:
        convert(root, tmp_path / "work", label_column="label,diagnosis")
    assert "A volume has one label" in caught.value.hint


@pytest.mark.slow
def test_a_changed_value_makes_its_part_again_and_no_other(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(60), (50, 50, 10, 1))

    def write(age: int, header: str = "age") -> None:
        lines = [f"v{i:04d},1,{age if i == 45 else i},P{i}" for i in range(60)]
        (root / "labels.csv").write_text(f"file,label,{header},patient\n" + "\n".join(lines))

    def names(out: VolumeParquet) -> list[str]:
        return [p.path for p in parts_of(out).parts]

    write(45)
    first = convert(root, tmp_path / "work", target_file_mb=1)
    assert names(convert(root, tmp_path / "work", previous=first, target_file_mb=1)) == names(first)
    write(46)
    second = convert(root, tmp_path / "work", previous=first, target_file_mb=1)
    assert len(set(names(second)) & set(names(first))) == len(names(first)) - 1
    assert carried(second)["v0045.npy"] == {"age": 46, "patient": "P45"}
    write(46, "years")
    third = convert(root, tmp_path / "work", previous=second, target_file_mb=1)
    assert carried(third)["v0045.npy"] == {"years": 46, "patient": "P45"}


class _Scanner(VolumeReader):
    """A reader that knows something of each volume."""

    def __init__(self, *args: Any, finite: bool) -> None:
        super().__init__(*args, finite=finite)
        self.columns = pa.schema([("spacing", pa.float64()), ("seen", pa.date32())])

    def read(self, path: str, size: int, mtime_ns: int, row: Any) -> tuple[Any, ...]:
        super().read(path, size, mtime_ns, row)
        return (float(path[1:5]) / 2, dt.date(2024, 1, 1) if path > "v0001" else None)


def test_a_reader_gives_columns_of_its_own_and_those_of_the_label_file_make_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        convert_module, "open_reader", lambda *args, finite, reading, hashes: _Scanner(*args, finite=finite)
    )
    root = tmp_path / "in"
    make_volumes(root, numbered(3))
    (root / "labels.csv").write_text("file,label,spacing\nv0000,1,7\nv0001,1,8\n")
    assert carried(convert(root, tmp_path / "work")) == {
        "v0000.npy": {"spacing_": 7, "spacing": 0.0, "seen": None},
        "v0001.npy": {"spacing_": 8, "spacing": 0.5, "seen": dt.date(2024, 1, 1)},
        "v0002.npy": {"spacing_": None, "spacing": 1.0, "seen": dt.date(2024, 1, 1)},
    }
