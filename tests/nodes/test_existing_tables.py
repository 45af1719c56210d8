"""DeltaTable and ParquetFolder: volumes that are in tables already, of ours and of other programs."""

from __future__ import annotations

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
from existing_tables import looked_at, take_parquet
from npy_folders import context, rows
from volume_sets import Labels, Volumes, compact, labels_for, make_delta, make_parquet, some_volumes

import nodes
import voxelflow
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Transform, VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError, UnsupportedTable, UsageError
from nodes.delta_table import delta_table
from nodes.loaders import open_source
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.optimize_delta import optimize_delta
from nodes.parquet_folder import parquet_folder
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import split_dataset
from nodes.train_resnet3d import train_resnet3d
from nodes.transform_volumes import transform_volumes
from nodes.volume_file.layout import properties


@pytest.fixture(scope="module")
def volumes() -> Volumes:
    return some_volumes(20, (4, 3, 2))


@pytest.fixture(scope="module")
def labels(volumes: Volumes) -> Labels:
    return labels_for(volumes, unlabelled=3)


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
