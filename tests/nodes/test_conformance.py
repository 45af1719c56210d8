"""Every built-in node keeps what `NodeConformance` promises."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from node_conformance import NodeConformance
from prediction_parts import make_predictions
from running import Runner
from tiny_models import make_model
from volume_sets import labels_for, some_volumes
from volumes import rows_by_polars, rows_by_pyarrow, write_volumes

import nodes
import voxelflow
from engine.datasets import Dataset, Predictions, Report, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet
from engine.pipeline import Node, Pipeline
from engine.runs import RunStore
from engine.workspace import Workspace, trust

SHAPE = (12, 12, 8, 2)
GIVEN = Path(__file__).parents[1] / "support" / "given_models.py"


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


class TestProfileTraining(NodeConformance):
    node_type = "ProfileTraining"
    bad_parameters = {"depth": 19, "batch_sizes": [0], "workers": [65], "steps": 0, "warmup": -1, "loader": "guess"}
    commit_points = ("profile:row-kept",)

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 12, shape=(8, 8, 8, 1))
        return pipeline(
            box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
            box("convert", "NumpyToParquet"),
            box("table", "ParquetToDelta"),
            # The whole model takes half a minute a size: test_profile has several sizes, with a small one.
            box("it", "ProfileTraining", batch_sizes=[2, 64], optimizer="sgd", steps=1, warmup=0),
            wires="folder.out>convert.files convert.out>table.parquet table.out>it.data",
        )

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        page = Path(outputs["out"].uri)
        assert "data:image/png;base64," in page.read_text()
        kept = json.loads(page.with_name("profile.json").read_text())
        return [(row["workers"], row["batch_size"], row["outcome"], row["note"]) for row in kept["rows"]]


class _Given:
    """What a test has made comes into the run by a node of the workspace's own."""

    @pytest.fixture
    def runner(self, tmp_path: Path, workspace: Workspace, store: RunStore) -> Runner:
        self.make(tmp_path)
        shutil.copy(GIVEN, workspace.my_nodes / GIVEN.name)
        trust(workspace)
        return Runner(voxelflow.catalog(workspace), workspace, store)

    def make(self, tmp_path: Path) -> None:
        """The reference to the tiny model of this module's tests, which is made when it is first wanted."""
        made = tmp_path.parent / "model"
        if not made.exists():
            make_model(made, SHAPE)
        (tmp_path / "given").mkdir()
        shutil.copy(made / "reference.json", tmp_path / "given")


class TestBatchPredict(_Given, NodeConformance):
    node_type = "BatchPredict"
    bad_parameters = {"batch_size": 0, "rows_per_part": 0}
    # test_batch_predict has all points, in processes that have TensorFlow already.
    commit_points = ("predict:part-done#2", "predict:after-commit")

    def document(self, tmp_path: Path) -> Pipeline:
        write_volumes(tmp_path / "volumes", 30, shape=SHAPE)
        return pipeline(
            box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
            box("convert", "NumpyToParquet"),
            box("model", "GivenModel", folder=str(tmp_path / "given")),
            box("it", "BatchPredict", batch_size=8, rows_per_part=8),
            wires="folder.out>convert.files convert.out>it.data model.out>it.model",
        )

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        from deltalake import DeltaTable

        made = outputs["out"]
        assert isinstance(made, Predictions)
        rows = DeltaTable(made.uri, version=made.version).to_pyarrow_dataset().to_table().sort_by("id").to_pylist()
        assert (len(rows), made.labelled) == (made.count, 30)
        return rows


class TestEvaluateModel(_Given, NodeConformance):
    node_type = "EvaluateModel"
    bad_parameters = {"calibration_bins": 1}

    def make(self, tmp_path: Path) -> None:
        volumes = some_volumes(40, (3, 4, 2))
        made = make_predictions(tmp_path, volumes, labels_for(volumes, unlabelled=4))
        (tmp_path / "given.json").write_text(made.model_dump_json())

    def document(self, tmp_path: Path) -> Pipeline:
        given = box("given", "GivenPredictions", file=str(tmp_path / "given.json"))
        return pipeline(given, box("it", "EvaluateModel"), wires="given.out>it.predictions")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        report = outputs["out"]
        assert isinstance(report, Report)
        figures = dict(report.figures)
        assert (figures["volumes"], figures["unlabelled"], figures["evaluated"]) == (40, 4, 36)
        assert json.loads(Path(report.uri).with_suffix(".json").read_text()).items() >= {"auc": figures["auc"]}.items()
        return figures, Path(report.uri).stat().st_size


class TestRegisterModel(_Given, NodeConformance):
    node_type = "RegisterModel"
    bad_parameters = {"better": "perhaps"}
    commit_points = ("register:version-made", "register:alias-set")

    def document(self, tmp_path: Path) -> Pipeline:
        given = box("given", "GivenModel", folder=str(tmp_path / "given"))
        return pipeline(given, box("it", "RegisterModel", name="brains"), wires="given.out>it.model")

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        report = outputs["out"]
        assert isinstance(report, Report)
        figures = dict(report.figures)
        told = [figures[name] for name in ("name", "version", "alias", "is_best", "metric", "value")]
        assert told == ["brains", "1", "champion", 1, "val_accuracy", 0.625]
        return figures


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
