"""Every built-in node keeps what `NodeConformance` promises."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from node_conformance import NodeConformance
from running import Runner
from volumes import rows_by_polars, rows_by_pyarrow, write_volumes

import nodes
import voxelflow
from engine.datasets import Dataset, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet
from engine.pipeline import Node, Pipeline
from engine.runs import RunStore
from engine.workspace import Workspace, trust

SHAPE = (12, 12, 8, 2)


def _table(outputs: Mapping[str, Dataset]) -> list[tuple[str, float | None, bytes]]:
    table = outputs["out"]
    assert isinstance(table, VolumeDelta)
    rows = rows_by_pyarrow(table.uri, table.version)
    assert rows == rows_by_polars(table.uri, table.version)
    assert len(rows) == table.count
    return rows


def converted(tmp_path: Path, *behind: Node, wires: str) -> Pipeline:
    """Three hundred volumes in several Parquet parts, and the nodes behind them."""
    write_volumes(tmp_path / "volumes", 300, shape=SHAPE)
    return pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet", target_file_mb=1),
        *behind,
        wires=f"folder.out>convert.files {wires}",
    )


def in_a_table(tmp_path: Path, *behind: Node, wires: str) -> Pipeline:
    """The same in a Delta table, and the nodes behind it."""
    return converted(tmp_path, box("table", "ParquetToDelta"), *behind, wires=f"convert.out>table.parquet {wires}")


class TestVolumeFolder(NodeConformance):
    node_type = "VolumeFolder"

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
        return pipeline(
            box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
            box("it", "NumpyToParquet", target_file_mb=1),
            wires="folder.out>it.files",
        )

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        import pyarrow.parquet as pq

        parquet = outputs["out"]
        assert isinstance(parquet, VolumeParquet)
        parts = json.loads(Path(parquet.manifest).read_text())["parts"]
        # Nothing else is visible in the folder, whatever was killed.
        assert {p["path"] for p in parts} == {p.name for p in Path(parquet.uri).iterdir()}
        return {p["path"]: pq.read_table(Path(parquet.uri) / p["path"]).to_pylist() for p in parts}


class TestParquetToDelta(NodeConformance):
    node_type = "ParquetToDelta"
    bad_parameters = {"mode": "move", "existing": "merge"}
    commit_points = ("delta:file-linked", "delta:before-ledger", "delta:before-commit", "delta:after-commit")

    def document(self, tmp_path: Path) -> Pipeline:
        return converted(tmp_path, box("it", "ParquetToDelta"), wires="convert.out>it.parquet")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        return _table(outputs)


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


class TestTrainResNet3D(NodeConformance):
    node_type = "TrainResNet3D"
    bad_parameters = {"depth": 19, "epochs": 0, "batch_size": 0, "learning_rate": -1.0, "loader": "guess"}
    # Through a whole run with the whole model, each takes a minute: test_session has all points, with a small one.
    commit_points = ("train:after-save",)

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 40, shape=(8, 8, 8, 1))
        return pipeline(
            box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
            box("convert", "NumpyToParquet"),
            box("table", "ParquetToDelta"),
            box("it", "TrainResNet3D", batch_size=8, epochs=2, deterministic=True),
            wires="folder.out>convert.files convert.out>table.parquet table.out>it.data",
        )

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        model = outputs["out"]
        assert isinstance(model, TrainedModel)
        assert (Path(model.uri) / "model.keras").stat().st_size > 100_000_000
        return json.loads((Path(model.uri) / "history.json").read_text()), dict(model.metrics)


def test_every_built_in_node_is_here() -> None:
    covered = {c.node_type for c in NodeConformance.__subclasses__()}
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
