"""Every built-in node keeps what `NodeConformance` promises; those of models are in `test_conformance_of_models.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from conformance_pipelines import SHAPE, converted, in_a_table
from running import Runner
from volume_sets import labels_for, make_delta, make_parquet, some_volumes
from volumes import rows_by_polars, rows_by_pyarrow, write_volumes

import nodes
import voxelflow
from engine.declare.datasets import (
    Dataset,
    VolumeDelta,
    VolumeFiles,
    VolumeParquet,
)
from engine.document.pipeline import Pipeline
from engine.probes import StorageProbe
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust
from nodes.testing.node import NodeConformance


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    """Each node is run and killed a dozen times."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("forked_trainings")


def _table(outputs: Mapping[str, Dataset]) -> list[tuple[str, float | None, bytes]]:
    table = outputs["out"]
    assert isinstance(table, VolumeDelta)
    rows = rows_by_pyarrow(table.uri, table.version)
    assert rows == rows_by_polars(table.uri, table.version)
    assert len(rows) == table.count
    return rows


class TestVolumeFolder(NodeConformance):
    node_type = "VolumeFolder"
    bad_parameters = {"format": "jpeg"}

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 10)
        return pipeline(box("it", "VolumeFolder", folder=str(tmp_path / "volumes")))

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        files = outputs["out"]
        assert isinstance(files, VolumeFiles)
        return files.count, files.bytes, files.spec


class TestSyntheticVolumes(NodeConformance):
    node_type = "SyntheticVolumes"
    bad_parameters = {"count": 0, "classes": 1, "dtype": "object", "noise": -1, "shape": [0, 4]}
    commit_points = ("synthetic:file-written", "synthetic:file-renamed")

    def document(self, tmp_path: Path) -> Pipeline:
        return pipeline(box("it", "SyntheticVolumes", count=20, shape=[8, 8, 6, 2], classes=3, dtype="int16"))

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        files = outputs["out"]
        assert isinstance(files, VolumeFiles)
        return {p.name: p.read_bytes() for p in sorted(Path(files.uri).iterdir())}, files.spec


class TestTransformVolumes(NodeConformance):
    node_type = "TransformVolumes"
    bad_parameters = {"normalise": "mean", "axes": "abc", "size": [-1, 2, 2], "dtype": "complex64"}

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 10)
        folder = box("folder", "VolumeFolder", folder=str(tmp_path / "volumes"))
        it = box("it", "TransformVolumes", size=[4, 4, 4], normalise="z-score")
        return pipeline(folder, it, wires="folder.out>it.volumes")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        files = outputs["out"]
        assert isinstance(files, VolumeFiles)
        return files.count, files.spec, files.transforms


class TestTransformedTable(TestTransformVolumes):
    """The rows of a table, which are listed."""

    def document(self, tmp_path: Path) -> Pipeline:
        it = box("it", "TransformVolumes", clip_low=0.0, dtype="float64")
        return converted(tmp_path, it, wires="convert.out>it.volumes", count=20)


class TestNumpyToParquet(NodeConformance):
    node_type = "NumpyToParquet"
    bad_parameters = {"target_file_mb": 0, "labels": "guess", "compression": "gzip", "max_bad_files": -1}
    commit_points = (
        "parquet:part-written",
        "parquet:part-renamed",
        "parquet:before-manifest",
        "parquet:after-manifest",
    )

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 300, shape=SHAPE)
        folder = box("folder", "VolumeFolder", folder=str(tmp_path / "volumes"))
        return pipeline(folder, box("it", "NumpyToParquet", target_file_mb=1), wires="folder.out>it.files")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        import pyarrow.parquet as pq

        parquet = outputs["out"]
        assert isinstance(parquet, VolumeParquet)
        parts = json.loads(Path(parquet.manifest).read_text())["parts"]
        # Nothing else is visible in the folder, whatever was killed.
        assert {p["path"] for p in parts} == {p.name for p in Path(parquet.uri).iterdir()}
        return {p["path"]: pq.read_table(Path(parquet.uri) / p["path"]).to_pylist() for p in parts}


class TestCutVolumes(NodeConformance):
    node_type = "CutVolumes"
    commit_points = TestNumpyToParquet.commit_points
    content = TestNumpyToParquet.content
    bad_parameters = {
        "size": [0, 8, 8],
        "stride": [-1, 8, 8],
        "labels": "guess",
        "label_rule": "first",
        "label_share": 2,
        "positions": "feet",
        "within": -1,
        "seed": -1,
        "edges": "wrap",
        "not_finite": "drop",
        "bad_volumes": "ignore",
        "target_file_mb": 0,
        "compression": "gzip",
        "row_group_rows": 0,
        "threads": -1,
    }

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 3, shape=(40, 40, 24, 2))
        folder = box("folder", "VolumeFolder", folder=str(tmp_path / "volumes"))
        it = box("it", "CutVolumes", size=[12, 12, 12], stride=[8, 8, 12], target_file_mb=1)
        return pipeline(folder, it, wires="folder.out>it.files")


class TestNiftiToParquet(TestNumpyToParquet):
    """The same for a format that a library reads."""

    commit_points = ("parquet:part-written", "parquet:before-manifest")

    def document(self, tmp_path: Path) -> Pipeline:
        import nibabel

        (tmp_path / "scans").mkdir()
        for name, volume in some_volumes(30, shape=(8, 7, 6)).items():
            nibabel.save(nibabel.Nifti1Image(volume, None), tmp_path / "scans" / f"{Path(name).stem}.nii.gz")
        folder = box("folder", "VolumeFolder", folder=str(tmp_path / "scans"))
        return pipeline(folder, box("it", "NumpyToParquet", target_file_mb=1), wires="folder.out>it.files")


class TestTransformedToParquet(TestNumpyToParquet):
    """The same for volumes of two shapes that are transformed on the way."""

    commit_points = ("parquet:part-written", "parquet:before-manifest")

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 200, shape=SHAPE)
        write_volumes(tmp_path / "volumes", 40, shape=(14, 13, 9, 2), first=200)
        return pipeline(
            box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
            box("changed", "TransformVolumes", size=list(SHAPE[:3]), normalise="z-score"),
            box("it", "NumpyToParquet", target_file_mb=1),
            wires="folder.out>changed.volumes changed.out>it.files",
        )


class TestParquetToDelta(NodeConformance):
    node_type = "ParquetToDelta"
    bad_parameters = {"mode": "move", "existing": "merge"}
    commit_points = ("delta:file-linked", "delta:before-ledger", "delta:before-commit", "delta:after-commit")

    def document(self, tmp_path: Path) -> Pipeline:
        return converted(tmp_path, box("it", "ParquetToDelta"), wires="convert.out>it.parquet")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        return _table(outputs)


class TestDeltaTable(NodeConformance):
    node_type = "DeltaTable"
    bad_parameters = {"version": -1}

    def document(self, tmp_path: Path) -> Pipeline:
        volumes = some_volumes(30)
        made = make_delta(tmp_path, volumes, labels_for(volumes))
        return pipeline(box("it", "DeltaTable", table=made.uri))

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        table = outputs["out"]
        assert isinstance(table, VolumeDelta)
        return table.count, table.labelled, rows_by_pyarrow(table.uri, table.version)


class TestParquetFolder(NodeConformance):
    node_type = "ParquetFolder"
    bad_parameters = {"dtype": "object"}

    def document(self, tmp_path: Path) -> Pipeline:
        volumes = some_volumes(30)
        made = make_parquet(tmp_path, volumes, labels_for(volumes))
        return pipeline(box("it", "ParquetFolder", folder=made.uri))

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        parquet = outputs["out"]
        assert isinstance(parquet, VolumeParquet)
        return parquet.count, parquet.labelled, parquet.bytes, json.loads(Path(parquet.manifest).read_text())["parts"]


class TestConvertTable(NodeConformance):
    node_type = "ConvertTable"
    commit_points = ("parquet:part-written", "parquet:before-manifest")
    content = TestNumpyToParquet.content
    bad_parameters = {
        "shape": [0, 4],
        "dtype": "object",
        "columns": "some",
        "unlabelled": "drop",
        "not_finite": "drop",
        "max_bad_rows": -1,
        "target_file_mb": 0,
        "threads": -1,
    }

    def document(self, tmp_path: Path) -> Pipeline:
        import pyarrow as pa
        import pyarrow.parquet as pq

        (tmp_path / "lists").mkdir()
        volumes = some_volumes(90)
        rows = pa.table({"id": list(volumes), "volume": [volume.tolist() for volume in volumes.values()]})
        pq.write_table(rows, tmp_path / "lists" / "a.parquet", row_group_size=40)
        return pipeline(box("it", "ConvertTable", table=str(tmp_path / "lists"), dtype="float32", target_file_mb=1))


class TestOptimizeDelta(NodeConformance):
    node_type = "OptimizeDelta"
    bad_parameters = {"target_file_mb": 5000, "vacuum": "perhaps"}
    commit_points = ("optimize:file-written", "optimize:before-commit", "optimize:after-commit")
    # A table that is compact already gives it nothing to do, so the table is made anew too.
    redo = {"fresh": True}

    def document(self, tmp_path: Path) -> Pipeline:
        return in_a_table(tmp_path, box("it", "OptimizeDelta", target_file_mb=2), wires="table.out>it.table")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        return _table(outputs)


class TestInspectDataset(NodeConformance):
    node_type = "InspectDataset"
    bad_parameters = {"sample": 0}

    def document(self, tmp_path: Path) -> Pipeline:
        return converted(tmp_path, box("it", "InspectDataset"), wires="convert.out>it.dataset")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        return dict(outputs["out"].details())


class TestProbeStorage(NodeConformance):
    node_type = "ProbeStorage"
    bad_parameters = {"seconds": 4, "limit_mb": 0}
    commit_points = ("probe:written", "probe:kept")

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 10, shape=SHAPE)
        (tmp_path / "place").mkdir()
        folder = box("folder", "VolumeFolder", folder=str(tmp_path / "volumes"))
        it = box("it", "ProbeStorage", place=str(tmp_path / "place"), seconds=5, limit_mb=4)
        return pipeline(folder, it, wires="folder.out>it.volumes")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        page = Path(outputs["out"].uri)
        assert "<svg" in page.read_text()
        found = StorageProbe.model_validate_json(page.with_name("probe.json").read_text())
        # Nothing is left behind, whatever was killed.
        assert list(Path(found.place).iterdir()) == []
        return sorted(outputs["out"].details()), found.epoch_files, found.epoch_file_bytes, found.epoch_is


class TestSplitDataset(NodeConformance):
    node_type = "SplitDataset"
    bad_parameters = {"validation": 1.5, "test": -0.1, "seed": -1}

    def document(self, tmp_path: Path) -> Pipeline:
        return in_a_table(tmp_path, box("it", "SplitDataset"), wires="table.out>it.table")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        ids: dict[str, list[str]] = {}
        for port, table in outputs.items():
            assert isinstance(table, VolumeDelta)
            rows = rows_by_pyarrow(table.uri, table.version)
            ids[port] = [i for i, _, _ in rows if all(s.holds(i) for s in table.selections)]
        every = sorted(i for part in ids.values() for i in part)
        assert every == [i for i, _, _ in rows]
        return ids


class TestRunAfter(NodeConformance):
    node_type = "RunAfter"

    def document(self, tmp_path: Path) -> Pipeline:
        it = box("it", "RunAfter")
        return in_a_table(tmp_path, it, wires="folder.out>it.files table.out>it.after", count=10)

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        files = outputs["out"]
        assert isinstance(files, VolumeFiles)
        return files.uri, files.count, files.spec


def test_every_built_in_node_is_here() -> None:
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_conformance*.py")]
    covered = {name for text in texts for name in re.findall(r'^    node_type = "(\w+)"$', text, re.MULTILINE)}
    assert covered == {t.name for t in voxelflow.catalog()}
    assert len(nodes.BUILT_IN) == len(covered)


@pytest.mark.slow
def test_the_readmes_node_runs(tmp_path: Path, workspace: Workspace, store: RunStore) -> None:
    """The example of nodes/README.md, as a person would follow it."""
    readme = (Path(nodes.__file__).parent / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    (workspace.my_nodes / "keep_class.py").write_text(code[1])
    trust(workspace)
    catalog = voxelflow.catalog(workspace)
    assert catalog.problems == []
    document = in_a_table(tmp_path, box("labels", "CountLabels", at_least=2), wires="table.out>labels.table")
    run, tasks = Runner(catalog, workspace, store).run(document)
    assert run.state == "done", run.error
    assert tasks["labels"].outputs["out"].details() == {"0.0": 150, "1.0": 150}
