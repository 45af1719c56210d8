"""DeltaTable and ParquetFolder: volumes that are in tables already, of ours and of other programs."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from npy_folders import context, rows
from volume_sets import Labels, Volumes, compact, labels_for, make_delta, make_parquet, some_volumes

import nodes
import voxelflow
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Transform, VolumeDelta, VolumeParquet, VolumeSpec
from engine.declare.node_type import NodeType
from engine.errors import DataError, UnsupportedTable, UsageError
from engine.observe.paths import find_path
from nodes.delta_table import delta_table
from nodes.loaders import open_source
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.optimize_delta import optimize_delta
from nodes.parquet_folder import parquet_folder
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import split_dataset
from nodes.train_resnet3d import train_resnet3d
from nodes.transform_volumes import transform_volumes
from nodes.volume_file.layout import properties, schema


@pytest.fixture(scope="module")
def volumes() -> Volumes:
    return some_volumes(20, (4, 3, 2))


@pytest.fixture(scope="module")
def labels(volumes: Volumes) -> Labels:
    return labels_for(volumes, unlabelled=3)


def looked_at(node: NodeType[Any, Any], base: Path, **params: Any) -> CheckContext:
    """What the engine finds out before a run; the preview is the input `made`."""
    (parameter,) = (p for p in node.parameters if p.path_in is not None)
    assert parameter.path_in is not None
    values = {p.name: p.default for p in node.parameters if not p.required} | params
    base.mkdir(exist_ok=True)
    found = find_path(params[parameter.name], parameter.path_in, base, params=values)
    look = CheckContext(params=values, paths={parameter.name: found})
    assert node.scan_hook is not None
    assert node.preview_hook is not None
    look.facts = node.scan_hook(look)
    look.inputs = {"made": node.preview_hook(look)}
    return look


def take_parquet(folder: Path, base: Path, **params: Any) -> VolumeParquet:
    found = looked_at(parquet_folder, base, folder=str(folder), **params).paths["folder"]
    ctx = context(base, "it", found.digest, inputs_found={"folder": Path(found.manifest)})
    return parquet_folder(folder=str(folder), **params, ctx=ctx)


def readme_copy() -> Any:
    """The function of nodes/README.md that writes rows of a table by delta-rs alone."""
    readme = (Path(nodes.__file__ or "").parent / "README.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "def keep_rows" in c)
    names: dict[str, Any] = {}
    exec(compile(code, "nodes/README.md", "exec"), names)
    return names["keep_rows"]


def test_rows_that_another_program_wrote_as_the_guide_says(
    tmp_path: Path, volumes: Volumes, labels: Labels, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read as ours are, only slower, which is reported with what to do about it."""
    source = make_delta(tmp_path / "source", volumes, labels, own=True)
    own = VolumeSpec(shape=(4, 3, 2), dtype="float32", transforms=(Transform(name="clip", parameters={"low": 1.0}),))
    DeltaTable(source.uri).alter.set_table_properties(properties(own), raise_if_not_exists=False)
    source = source.model_copy(update={"version": DeltaTable(source.uri).version()})
    chosen = sorted(volumes)[3:9]
    target = tmp_path / "target"
    readme_copy()(source.uri, source.version, str(target), lambda rows: pc.is_in(rows["id"], pa.array(chosen)))
    taken = delta_table(table=str(target), ctx=context(tmp_path, "it"))
    assert taken.spec == own, "and what was done to the volumes"
    with voxelflow.load(source.uri, batch_size=2, training=False):
        assert capsys.readouterr().err == ""
    with voxelflow.load(str(target), batch_size=2, training=False) as loaded:
        (said,) = capsys.readouterr().err.splitlines()
        found = {name: v for batch in loaded for name, v in zip(loaded.ids(batch.rows), batch.volumes, strict=True)}
    assert found.keys() == {name for name in chosen if labels[name] is not None}
    assert all(np.array_equal(volume, volumes[name].astype(np.float32)) for name, volume in found.items())
    assert "must be decoded" in said
    assert said.endswith("OptimizeDelta gives the faster layout.")


def read(dataset: VolumeDelta | VolumeParquet) -> dict[str, tuple[list[float], float]]:
    """Voxels and label by id, as training reads them."""
    source = open_source("arrow", dataset, cores=1)
    try:
        rows = np.arange(len(source.rows))
        assert source.spec.shape is not None
        out = np.empty((len(rows), *source.spec.shape), np.float32)
        source.fill(rows, out) if hasattr(source, "fill") else pytest.fail("read in another way")
        ids = source.rows.ids.to_pylist()
        return {
            name: (volume.ravel().tolist(), float(label))
            for name, volume, label in zip(ids, out, source.rows.labels, strict=True)
        }
    finally:
        source.close()


def same(found: dict[str, tuple[list[float], float]], volumes: Volumes, labels: Labels) -> bool:
    wanted = {name: np.asarray(volume, np.float32).ravel().tolist() for name, volume in volumes.items()}
    given = {name: None if np.isnan(label) else label for name, (_, label) in found.items()}
    return {name: values for name, (values, _) in found.items()} == wanted and given == dict(labels)


def test_a_table_is_used_in_place(tmp_path: Path, volumes: Volumes, labels: Labels) -> None:
    made = make_delta(tmp_path, volumes, labels)
    before = {p: p.stat().st_mtime_ns for p in Path(made.uri).rglob("*")}
    look = looked_at(delta_table, tmp_path / "look", table=made.uri)
    table = delta_table(table=made.uri, ctx=context(tmp_path, "it"))
    assert look.problems == []
    assert look.inputs["made"].dataset == table
    known = [label for label in labels.values() if label is not None]
    assert {min(known), max(known)} <= set(look.inputs["made"].labels) <= set(known)
    assert not look.inputs["made"].labels_complete
    assert (table.count, table.version, table.labelled) == (20, made.version, 17)
    assert same(read(table), volumes, labels)
    assert {p: p.stat().st_mtime_ns for p in Path(made.uri).rglob("*")} == before


def test_only_other_rows_make_it_run_again(tmp_path: Path, volumes: Volumes, labels: Labels) -> None:
    made = make_delta(tmp_path, volumes, labels)

    def digest(**params: Any) -> str:
        return looked_at(delta_table, tmp_path / "look", table=made.uri, **params).paths["table"].digest

    first = digest()
    compact(made, volumes)
    assert digest() == first, "compacted"
    compacted = DeltaTable(made.uri).version()
    DeltaTable(made.uri).delete("id = 'no such'")
    DeltaTable(made.uri).delete(f"id = '{min(volumes)}'")
    assert digest() != first
    assert digest(version=compacted) == first
    assert delta_table(table=made.uri, version=compacted, ctx=context(tmp_path, "it")).count == 20
    assert delta_table(table=made.uri, ctx=context(tmp_path, "it")).count == 19


def test_a_table_of_another_program_is_taken_once_it_says_shape_and_dtype(tmp_path: Path) -> None:
    root = str(tmp_path / "foreign")
    table = pa.table({"id": ["a", "b"], "volume": [bytes(range(6)), bytes(range(6, 12))], "age": [3, 4]})
    write_deltalake(str(tmp_path / "unlabelled"), table)
    (problem,) = looked_at(delta_table, tmp_path / "look", table=str(tmp_path / "unlabelled")).problems
    assert "has no column label" in problem.message
    write_deltalake(root, table.append_column("label", pa.array([1, None], pa.float32())))
    look = looked_at(delta_table, tmp_path / "look", table=root)
    (problem,) = look.problems
    assert problem.code == "VF560"
    assert "voxelflow.shape" in problem.message
    properties = {"voxelflow.shape": "[3, 2]", "voxelflow.dtype": "uint8"}
    DeltaTable(root).alter.set_table_properties(properties, raise_if_not_exists=False)
    found = delta_table(table=root, ctx=context(tmp_path, "it"))
    assert (found.count, found.labelled, found.spec) == (2, 1, VolumeSpec(shape=(3, 2), dtype="uint8"))
    for place in (tmp_path / "nowhere", tmp_path):
        place.mkdir(exist_ok=True)
        assert [p.code for p in looked_at(delta_table, tmp_path / "look", table=str(place)).problems] == ["VF560"]


@pytest.mark.parametrize("source", [delta_table, parquet_folder], ids=lambda node: node.name)
@pytest.mark.parametrize(("label", "code"), [(1.0, "VF513"), (0.5, "VF512")])
def test_labels_with_which_a_training_is_sure_to_fail_are_seen_before_it(
    tmp_path: Path, volumes: Volumes, label: float, code: str, source: Any
) -> None:
    if source is delta_table:
        made = make_delta(tmp_path, volumes, dict.fromkeys(volumes, label)).uri
        look = looked_at(delta_table, tmp_path / "look", table=made)
    else:
        made = make_parquet(tmp_path, volumes, dict.fromkeys(volumes, label)).uri
        look = looked_at(parquet_folder, tmp_path / "look", folder=made)
    training = CheckContext(
        params={p.name: p.default for p in train_resnet3d.parameters} | {"batch_size": 2},
        inputs={"data": look.inputs["made"]},
    )
    assert train_resnet3d.preview_hook is not None
    train_resnet3d.preview_hook(training)
    assert [problem.code for problem in training.problems if problem.severity == "error"] == [code]


def test_files_of_ours_are_taken_where_they_lie(tmp_path: Path, volumes: Volumes, labels: Labels) -> None:
    made = make_parquet(tmp_path, volumes, labels)
    look = looked_at(parquet_folder, tmp_path / "look", folder=made.uri)
    found = take_parquet(Path(made.uri), tmp_path / "work")
    assert look.problems == []
    assert look.inputs["made"].spec == found.spec
    assert (look.inputs["made"].count, look.inputs["made"].labelled, look.inputs["made"].columns) == (20, 17, ())
    assert not look.inputs["made"].labels_complete
    assert (found.count, found.labelled, found.bytes) == (20, 17, made.bytes)
    assert same(read(found), volumes, labels)


def test_files_of_another_program_need_shape_and_dtype(tmp_path: Path, volumes: Volumes) -> None:
    root = tmp_path / "in"
    (root / "deep").mkdir(parents=True)
    for number, (name, volume) in enumerate(list(volumes.items())[:4]):
        row = {"id": [name], "volume": [volume.tobytes()], "label": pa.array([number], pa.int64()), "site": ["x"]}
        pq.write_table(pa.table(row), root / "deep" / f"{number}.parquet", compression="zstd")
    pq.write_table(pa.table({"id": pa.array([], pa.string()), "volume": pa.array([], pa.binary())}), root / "z.parquet")
    dtype = next(iter(volumes.values())).dtype.name
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(root))
    assert [(p.code, p.parameter) for p in look.problems] == [("VF561", "folder")]
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(root), shape=(4, 3, 2), dtype=dtype)
    assert (look.problems, look.inputs["made"].columns) == ([], ("site",))
    assert (look.inputs["made"].labels, look.inputs["made"].labels_complete) == ((0.0, 1.0, 2.0, 3.0), True)
    (root / "deep" / "5.parquet").write_bytes(b"no Parquet")
    look = looked_at(parquet_folder, tmp_path / "look", folder=str(root), shape=(4, 3, 2), dtype=dtype)
    assert (look.inputs["made"].count, look.inputs["made"].labels_complete) == (None, False)
    (root / "deep" / "5.parquet").unlink()
    found = take_parquet(root, tmp_path / "work", shape=(4, 3, 2), dtype=dtype)
    assert (found.count, found.labelled) == (4, 4)
    assert sorted(open_source("arrow", found, cores=1).rows.ids.to_pylist()) == sorted(list(volumes)[:4])
    for params in ({"shape": (4, 3, 2)}, {"dtype": dtype}, {"shape": (0, 1), "dtype": dtype}):
        with pytest.raises(DataError, match="belong together"):
            take_parquet(root, tmp_path / "work", **params)


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


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "b.parquet cannot be read: it is a named pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "b.parquet cannot be read: it is a device"),
        (lambda path: path.symlink_to("nothing"), "b.parquet cannot be read: it is a link whose target is missing"),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, volumes: Volumes, labels: Labels, make: Callable[[Path], object], said: str
) -> None:
    folder = Path(make_parquet(tmp_path / "made", volumes, labels).uri)
    make(folder / "b.parquet")
    with pytest.raises(UnsupportedTable, match=said):
        take_parquet(folder, tmp_path / ".work")


def test_a_file_that_is_written_anew_under_its_name_gives_its_new_volumes(tmp_path: Path) -> None:
    """Of volumes of one size the new file has as many bytes as the old one."""
    folder, found = tmp_path / "in", []
    for level in (100, 200):
        arrays = {f"v{n}": np.full((4, 4, 4), level + n, np.float32) for n in range(8)}
        folder.mkdir(exist_ok=True)
        table = pa.table({"id": list(arrays), "volume": [array.tobytes() for array in arrays.values()]})
        pq.write_table(table, folder / "part-0.parquet", compression="none")
        given = take_parquet(folder, tmp_path / str(level), shape=(4, 4, 4), dtype="float32")
        files = transform_volumes(given, clip_low=0.0, ctx=context(tmp_path, f"transform-{level}"))
        previous = {"out": found[-1][1]} if found else {}
        made = numpy_to_parquet(files, ctx=context(tmp_path, "parquet", previous=previous))
        values = {name: float(np.frombuffer(data, "<f4")[0]) for name, (_, data) in rows(made).items()}
        assert values == {name: float(array[0, 0, 0]) for name, array in arrays.items()}
        found.append((given.bytes, made))
    assert found[0][0] == found[1][0]


def test_a_table_that_is_made_anew_gives_its_new_volumes(tmp_path: Path) -> None:
    """Another Delta table at the same place, with a file of the same name and size."""
    folder, found = tmp_path / "t", list[VolumeParquet]()
    for level in (100, 200):
        arrays = {f"v{n}": np.full((4, 4, 4), level + n, np.float32) for n in range(8)}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        cells = {"id": list(arrays), "volume": [array.tobytes() for array in arrays.values()]}
        cells["label"] = pa.nulls(8, pa.float32())
        pq.write_table(pa.table(cells), folder / "part-0.parquet", compression="none")
        os.utime(folder / "part-0.parquet", (level, level))
        convert_to_deltalake(folder)
        said = {"voxelflow.shape": "[4, 4, 4]", "voxelflow.dtype": "float32"}
        DeltaTable(folder).alter.set_table_properties(said, raise_if_not_exists=False)
        table = delta_table(table=str(folder), ctx=context(tmp_path, "table"))
        files = transform_volumes(table, clip_low=0.0, ctx=context(tmp_path, f"transform-{level}"))
        previous = {"out": found[-1]} if found else {}
        found.append(numpy_to_parquet(files, ctx=context(tmp_path, "parquet", previous=previous)))
        values = {name: float(np.frombuffer(data, "<f4")[0]) for name, (_, data) in rows(found[-1]).items()}
        assert values == {name: float(array[0, 0, 0]) for name, array in arrays.items()}


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


def test_files_of_polars_are_taken_where_they_lie(tmp_path: Path) -> None:
    """Its texts and bytes are Arrow's large ones, which petastorm does not read."""
    (tmp_path / "in").mkdir()
    cells: dict[str, Any] = {"id": pa.array(["a", "b"], pa.large_string()), "label": pa.array([0, 1], pa.float32())}
    cells["volume"] = pa.array([bytes([n] * 8) for n in (3, 4)], pa.large_binary())
    cells["site"] = pa.array(["x", "y"], pa.large_string())
    pq.write_table(pa.table(cells), tmp_path / "in" / "a.parquet")
    taken = take_parquet(tmp_path / "in", tmp_path / "work", shape=(2, 2, 2), dtype="uint8")
    table = parquet_to_delta(taken, ctx=context(tmp_path, "table"))
    done = optimize_delta(table, rewrite_layout=True, ctx=context(tmp_path, "optimized"))
    for data in (taken, table, done):
        with voxelflow.load(data, 1, training=False) as loaded:
            assert [(loaded.ids(b.rows), float(b.volumes.max())) for b in loaded] == [(["a"], 3.0), (["b"], 4.0)]
    split = split_dataset(done, by="group", column="site", validation=0.5, ctx=context(tmp_path, "split"))
    assert sum(part.selected or 0 for part in split) == 2
    with (
        voxelflow.load(taken, 1, loader="petastorm") as loaded,
        pytest.raises(UsageError, match="petastorm does not read the column id, volume") as caught,
    ):
        list(loaded)
    assert "loader arrow" in caught.value.hint
