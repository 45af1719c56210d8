"""ParquetFolder: what files say of their volumes, what its parameters say, and columns that no table holds."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from existing_tables import looked_at, take_parquet
from foreign_tables import run
from npy_folders import context

from engine.declare.datasets import VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError, UnsupportedTable
from nodes.loaders.data_files import read_files
from nodes.parquet_folder import parquet_folder
from nodes.parquet_to_delta import parquet_to_delta
from nodes.viewing import open_view
from nodes.viewing.volumes import VolumesView
from nodes.volume_file.layout import properties, schema

CATS = VolumeSpec(shape=(2, 3, 4), dtype="float32", classes=("cat", "dog"))


def volumes_in(folder: Path, name: str, metadata: Any = None) -> Path:
    """A Parquet file of two volumes of 96 bytes; by `metadata` it says what they are."""
    folder.mkdir(exist_ok=True)
    cells = {"id": [f"{name}{n}" for n in range(2)], "label": [0, 1], "volume": [bytes(96)] * 2}
    table = pa.table(cells, schema=schema(CATS).with_metadata(metadata))
    pq.write_table(table, folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("shape", "dtype", "silent"),
    [
        ((4, 3, 2), "float32", False),
        ((2, 3, 4), "int32", False),
        ((2, 3, 5), "float32", False),
        ((4, 3, 2), "float32", True),  # the file before it says nothing
    ],
    ids=str,
)
def test_parameters_that_say_something_else_than_a_file_are_refused(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, silent: bool
) -> None:
    folder = volumes_in(tmp_path / "in", "b", properties(CATS))
    if silent:
        volumes_in(folder, "a")
    given = VolumeSpec(shape=shape, dtype=dtype)
    (problem,) = looked_at(parquet_folder, tmp_path / "look", folder=str(folder), shape=shape, dtype=dtype).problems
    said = f"b.parquet says that its volumes are 2x3x4 float32, the parameters say {given.describe()}"
    assert (problem.code, problem.parameter, problem.message) == ("VF561", "shape", said)
    assert "Leave shape and dtype empty" in problem.hint
    with pytest.raises(UnsupportedTable, match=said) as caught:
        take_parquet(folder, tmp_path / "work", shape=shape, dtype=dtype)
    assert caught.value.parameter == "shape"


@pytest.mark.parametrize("damage", ["footer", "metadata"])
def test_a_damaged_footer_names_its_file_in_a_line(tmp_path: Path, damage: str) -> None:
    """Arrow's own words of it have more lines, and no file."""
    folder = volumes_in(tmp_path / "in", "a", properties(CATS))
    file = folder / "a.parquet"
    data = file.read_bytes()
    if damage == "footer":
        begins = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        file.write_bytes(data[:begins] + bytes([data[begins] ^ 0x0F]) + data[begins + 1 :])
    else:
        pq.write_table(
            pq.read_table(file).replace_schema_metadata({**properties(CATS), "voxelflow.dtype": "<f4"}), file
        )
    (problem,) = looked_at(parquet_folder, tmp_path / "look", folder=str(folder)).problems
    assert problem.message.startswith("a.parquet ")
    assert "\n" not in problem.message
    with pytest.raises(UnsupportedTable) as caught:
        take_parquet(folder, tmp_path / "work")
    assert caught.value.message == problem.message
    if damage == "footer":
        with pytest.raises(UnsupportedTable, match=r"a\.parquet cannot be read as Parquet: [^\n]+\Z") as caught:
            run(tmp_path / "converted", folder, shape=CATS.shape, dtype=CATS.dtype)
        assert caught.value.hint == "Repair the file, or remove it from the table."


@pytest.mark.parametrize("name", ["id", "label", "volume", "well"])
def test_columns_of_one_name_are_refused(tmp_path: Path, name: str) -> None:
    """Arrow gives none of them, by an error of its own. Nor do ConvertTable and the loaders take one for the other."""
    columns = [pa.array(["a"]), pa.array([1.0]), pa.array([b"x"]), pa.array(["w"]), pa.array(["w"])]
    table = pa.Table.from_arrays(columns, ["id", "label", "volume", "well", name])
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    given: dict[str, Any] = {"shape": (1,), "dtype": "uint8"}
    said = f"a.parquet cannot be read as Parquet: it has 2 columns {name}"
    (problem,) = looked_at(parquet_folder, tmp_path / "look", folder=str(tmp_path / "in"), **given).problems
    assert problem.message == said
    with pytest.raises(UnsupportedTable, match=said):
        take_parquet(tmp_path / "in", tmp_path / "work", **given)
    with pytest.raises(UnsupportedTable, match=said):
        run(tmp_path / "converted", tmp_path / "in", **given)
    with pytest.raises(UnsupportedTable, match=said):
        list(read_files((str(tmp_path / "in" / "a.parquet"),), index_bytes=1, threads=1))


def test_the_files_can_be_looked_at_before_a_run(tmp_path: Path) -> None:
    folder = volumes_in(tmp_path / "in", "a", properties(CATS))
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(folder))
    there = look.inputs["made"].dataset
    assert isinstance(there, VolumeParquet)
    assert (there.uri, there.manifest, there.count) == (str(folder), look.paths["folder"].manifest, 2)
    view = open_view(there, {})
    assert isinstance(view, VolumesView)
    assert view.rows.row(1).id == "a1"
    refused = looked_at(parquet_folder, tmp_path / "look", folder=str(folder), shape=(1, 2), dtype="int8")
    assert refused.inputs["made"].dataset is None


@pytest.mark.parametrize("silent", ["", "a", "c"])
def test_what_a_file_says_of_its_classes_is_kept_where_parameters_say_its_shape(tmp_path: Path, silent: str) -> None:
    """And so it is beside a file that says nothing, before it or after it."""
    folder = volumes_in(tmp_path / "in", "b", properties(CATS))
    if silent:
        volumes_in(folder, silent)
    params: dict[str, Any] = {"shape": CATS.shape, "dtype": CATS.dtype}
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(folder), **params)
    assert (look.problems, look.inputs["made"].spec) == ([], CATS)
    assert take_parquet(folder, tmp_path / "work", **params).spec == CATS
    volumes_in(folder, "d", properties(CATS.model_copy(update={"classes": ("bird", "cat")})))
    (problem,) = looked_at(parquet_folder, tmp_path / "look", folder=str(folder), **params).problems
    with pytest.raises(DataError, match=r"d\.parquet has volumes of") as caught:
        take_parquet(folder, tmp_path / "work", **params)
    assert problem.message == caught.value.message


def test_a_file_whose_own_word_cannot_be_understood_is_taken_by_the_parameters(tmp_path: Path) -> None:
    params: dict[str, Any] = {"shape": (2, 3, 4), "dtype": "float32"}
    for number, said in enumerate(({"voxelflow.shape": "[2,3,4]", "voxelflow.dtype": "<f4"}, {})):
        folder = tmp_path / f"in{number}"
        folder.mkdir()
        table = pa.table({"id": ["a"], "volume": [bytes(96)]}).replace_schema_metadata(said)
        pq.write_table(table, folder / "a.parquet")
        assert looked_at(parquet_folder, tmp_path / f"look{number}", folder=str(folder), **params).problems == []
        assert take_parquet(folder, tmp_path / f"work{number}", **params).spec == VolumeSpec(
            shape=(2, 3, 4), dtype="float32"
        )
    newer = {"voxelflow.shape": "[2,3,4]", "voxelflow.dtype": "float32", "voxelflow.format": "99"}
    pq.write_table(table.replace_schema_metadata(newer), folder / "a.parquet")
    with pytest.raises(UnsupportedTable, match="newer than this Voxelflow"):
        take_parquet(folder, tmp_path / "work", **params)


def test_axes_of_length_one_at_the_end_contradict_nothing_and_classes_are_named(tmp_path: Path) -> None:
    one = {"voxelflow.shape": "[2,3,4,1]", "voxelflow.dtype": "float32"}
    table = pa.table({"id": ["a"], "volume": [bytes(96)]})
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(table.replace_schema_metadata(one), folder / "a.parquet")
    assert take_parquet(folder, tmp_path / "work", shape=(2, 3, 4), dtype="float32").count == 1
    other = one | {"voxelflow.classes": '["cat", "dog"]'}
    pq.write_table(table.replace_schema_metadata(other), folder / "b.parquet")
    with pytest.raises(DataError, match=r"and the classes cat, dog, the files before it .* and the classes \(none\)"):
        take_parquet(folder, tmp_path / "again")


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(96)], ids=str)
def test_volumes_of_other_lengths_than_the_parameters_say_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """In files of other programs, which say nothing themselves."""
    params: dict[str, Any] = {"shape": (2, 3, 5), "dtype": "float32"}
    table = pa.table({"id": ["a", "b"], "volume": pa.array([bytes(96)] * 2, kind)})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet", compression="zstd")
    (problem,) = looked_at(parquet_folder, tmp_path / "look", folder=str(tmp_path / "in"), **params).problems
    assert (problem.code, problem.parameter) == ("VF561", "shape")
    assert problem.message == "the volumes of a.parquet have 96 bytes, 2x3x5 float32 has 120"
    with pytest.raises(UnsupportedTable, match=problem.message):
        take_parquet(tmp_path / "in", tmp_path / "work", **params)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["a"]}, "has no column volume; it has id: string"),
        ({"id": [1], "volume": [b"x"]}, "the column id of a.parquet is int64"),
        ({"id": ["a"], "volume": [[1.0, 2.0]]}, "the column volume of a.parquet is list<"),
        ({"id": ["a"], "volume": [b"x"], "label": ["cat"]}, "the column label of a.parquet is string"),
        ({"id": [None, "a"], "volume": [b"x", b"y"]}, "a.parquet has rows without an id"),
    ],
)
def test_what_is_no_table_of_volumes_is_refused_with_its_columns(
    tmp_path: Path, columns: dict[str, list[Any]], said: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    look = looked_at(parquet_folder, tmp_path / ".look", folder=str(tmp_path), shape=(1,), dtype="uint8")
    assert [problem.code for problem in look.problems] == ["VF561"]
    assert said in look.problems[0].message
    with pytest.raises(UnsupportedTable, match=said):
        take_parquet(tmp_path, tmp_path / ".work", shape=(1,), dtype="uint8")
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    with pytest.raises(UnsupportedTable, match="cannot be read as Parquet"):
        take_parquet(tmp_path, tmp_path / ".work", shape=(1,), dtype="uint8")


def file_of(folder: Path, columns: dict[str, Any], labels: Any = None, name: str = "a") -> Path:
    """A Parquet file of four volumes of one byte, with these labels or none, and these columns."""
    folder.mkdir(exist_ok=True)
    given = pa.array([0, 1, 0, 1] if labels is None else labels, pa.float32())
    names = {"id": [f"{name}{n}" for n in range(4)], "volume": [b"x"] * 4, "label": given}
    pq.write_table(pa.table(names | columns), folder / f"{name}.parquet")
    return folder


SEEN = [dt.datetime(2024, 1, day) for day in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(SEEN, pa.timestamp("ns")),
        pa.array([[each] for each in SEEN], pa.list_(pa.timestamp("ns"))),
        pa.array(SEEN, pa.timestamp("us", "Europe/Oslo")),
        pa.array([1.0] * 4, pa.float16()),
        pa.array([dt.time(1, 2)] * 4, pa.time64("us")),
        pa.array([1] * 4, pa.uint8()),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_that_no_table_holds_is_refused_before_there_is_one(tmp_path: Path, column: pa.Array) -> None:
    """So the corrected file is taken; and so it is with a table that is there, which gets no such column."""
    folder, table = file_of(tmp_path / "in", {"seen": column}), tmp_path / "table"

    def fill(number: int) -> VolumeDelta:
        given = take_parquet(folder, tmp_path / f"work{number}", shape=(1,), dtype="uint8")
        return parquet_to_delta(given, table=str(table), ctx=context(tmp_path, "delta"))

    with pytest.raises(DataError, match=r"a\.parquet: Delta has no type for the column seen \("):
        fill(0)
    assert not table.exists()
    file_of(folder, {"seen": pa.array(SEEN, pa.timestamp("us", "UTC"))})
    assert fill(1).count == 4
    file_of(folder, {"other": column}, name="b")
    with pytest.raises(DataError, match=r"b\.parquet: Delta has no type for the column other \("):
        fill(2)
    file_of(folder, {}, name="b")
    found = fill(3)
    assert found.count == 8
    assert DeltaTable(found.uri).schema().to_json().count('"name"') == 4


def test_files_without_labels_or_of_two_kinds_make_no_table(tmp_path: Path) -> None:
    """The latter are looked at before the first commit too."""
    folder, table = file_of(tmp_path / "in", {"age": [1, 2, 3, 4]}), tmp_path / "table"
    file_of(folder, {"age": ["1", "2", "3", "4"]}, name="b")
    given = take_parquet(folder, tmp_path / "work", shape=(1,), dtype="uint8")
    with pytest.raises(DataError, match=r"column age of b\.parquet is"):
        parquet_to_delta(given, table=str(table), ctx=context(tmp_path, "delta"))
    rows_of_a = pq.read_table(folder / "a.parquet")
    (folder / "b.parquet").unlink()
    pq.write_table(rows_of_a.drop(["label"]), folder / "a.parquet")
    given = take_parquet(folder, tmp_path / "again", shape=(1,), dtype="uint8")
    with pytest.raises(DataError, match=r"a\.parquet has no column label, where a volume table has one") as caught:
        parquet_to_delta(given, table=str(table), ctx=context(tmp_path, "delta"))
    assert "ConvertTable" in caught.value.hint
    for labels in ([0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0]):
        kept = rows_of_a.drop(["label"]).append_column("label", pa.array(labels))
        pq.write_table(kept, folder / "a.parquet")
        given = take_parquet(folder, tmp_path / str(labels), shape=(1,), dtype="uint8")
        with pytest.raises(DataError, match=r"a\.parquet has a column label of type (long|double), where") as caught:
            parquet_to_delta(given, table=str(table), ctx=context(tmp_path, "delta"))
        assert "ConvertTable" in caught.value.hint
    assert not table.exists()


def test_a_label_that_is_nan_is_none(tmp_path: Path) -> None:
    folder = file_of(tmp_path / "in", {}, [0.0, float("nan"), None, 1.0])
    found = take_parquet(folder, tmp_path / "work", shape=(1,), dtype="uint8")
    assert (found.count, found.labelled) == (4, 2)
    assert parquet_to_delta(found, ctx=context(tmp_path, "delta")).labelled == 2
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(folder), shape=(1,), dtype="uint8")
    assert look.inputs["made"].labels == (0.0, 1.0)
    file_of(folder, {}, [float("nan")] * 4)
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(folder), shape=(1,), dtype="uint8")
    assert (look.inputs["made"].count, look.inputs["made"].labelled) == (4, None), "the footer does not say"


@pytest.mark.parametrize(
    ("kind", "statistics"),
    [(pa.float32(), True), (pa.float32(), ["id"]), (pa.float16(), True), (pa.int8(), True)],
    ids=["float32", "nothing said of labels", "float16", "int8"],
)
def test_the_rows_are_known_where_a_footer_says_nothing_of_its_labels(
    tmp_path: Path, kind: pa.DataType, statistics: bool | list[str]
) -> None:
    (tmp_path / "in").mkdir()
    cells = {"id": ["a", "b", "c"], "volume": [bytes(8)] * 3, "label": pa.array([0.0, None, 3.0]).cast(kind)}
    pq.write_table(pa.table(cells), tmp_path / "in" / "a.parquet", write_statistics=statistics)
    found = looked_at(parquet_folder, tmp_path / "look", folder=str(tmp_path / "in"), shape=(8,), dtype="uint8")
    said = found.inputs["made"]
    is_said = statistics is True and kind != pa.float16()
    assert (said.count, said.labelled, said.labels) == (3, *((2, (0.0, 3.0)) if is_said else (None, ())))


@pytest.mark.parametrize(
    ("kind", "odd"),
    [(pa.int64(), 2**24 + 1), (pa.int64(), 2**53 + 1), (pa.uint32(), 2**24 + 1), (pa.int32(), 2**24 + 1)],
    ids=str,
)
def test_a_whole_label_that_32_bits_do_not_hold_is_named(tmp_path: Path, kind: pa.DataType, odd: int) -> None:
    (tmp_path / "in").mkdir()
    for number, label in enumerate((odd, 2**25)):
        rows_of_it = {"id": ["a", "b"], "volume": [bytes(8)] * 2, "label": pa.array([label, None], kind)}
        pq.write_table(pa.table(rows_of_it), tmp_path / "in" / "a.parquet")
        if number:
            found = take_parquet(tmp_path / "in", tmp_path / "work", shape=(2, 2, 2), dtype="uint8")
            assert (found.count, found.labelled) == (2, 1)
            continue
        said = f"the column label of a.parquet: label {odd} is not exact in 32 bits"
        with pytest.raises(UnsupportedTable, match=said):
            take_parquet(tmp_path / "in", tmp_path / "work", shape=(2, 2, 2), dtype="uint8")
