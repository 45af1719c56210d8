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
from own_models import readme_model
from prediction_parts import make_predictions
from running import Runner
from tiny_models import make_model
from volume_sets import labels_for, make_delta, make_parquet, some_volumes
from volumes import rows_by_polars, rows_by_pyarrow, write_volumes

import nodes
import voxelflow
from engine.declare.datasets import (
    Dataset,
    Predictions,
    Report,
    TrainedModel,
    VolumeDelta,
    VolumeFiles,
    VolumeParquet,
    VolumeSpec,
)
from engine.document.pipeline import Node, Pipeline
from engine.probes import StorageProbe
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace, trust
from nodes.comparison.record import read_trainings
from nodes.prediction.inputs import read_card
from nodes.testing.node import NodeConformance

SHAPE = (12, 12, 8, 2)
GIVEN = Path(__file__).parents[1] / "support" / "given_models.py"


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


def converted(tmp_path: Path, *behind: Node, wires: str, count: int = 300, shape: tuple[int, ...] = SHAPE) -> Pipeline:
    """Volumes in Parquet parts (three hundred in several), and the nodes behind them."""
    write_volumes(tmp_path / "volumes", count, shape=shape)
    return pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet", target_file_mb=1),
        *behind,
        wires=f"folder.out>convert.files {wires}",
    )


def in_a_table(tmp_path: Path, *behind: Node, wires: str, **volumes: Any) -> Pipeline:
    """The same in a Delta table, and the nodes behind it."""
    wires = f"convert.out>table.parquet {wires}"
    return converted(tmp_path, box("table", "ParquetToDelta"), *behind, wires=wires, **volumes)


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


class TestLoadModel(NodeConformance):
    node_type = "LoadModel"
    bad_parameters = {"run": "last", "registered": "models:/brains"}

    def document(self, tmp_path: Path) -> Pipeline:
        from mlflow.models import Model

        folder = tmp_path / "packed"
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "model.keras").write_bytes(b"weights")
        known = {"task": "classification", "class_names": ["a", "b"], "input": {"shape": [4, 3, 2]}}
        Model(metadata=known).save(str(folder / "MLmodel"))
        return pipeline(box("it", "LoadModel", folder=str(folder)))

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        model = outputs["out"]
        assert isinstance(model, TrainedModel)
        return model.spec, read_card(Path(model.uri)).digest()


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


class TestTrainResNet3D(NodeConformance):
    node_type = "TrainResNet3D"
    bad_parameters = {"depth": 19, "epochs": 0, "batch_size": 0, "learning_rate": -1.0, "loader": "guess"}
    # test_session has all points; test_reproduced trains the whole ResNet, here is a model that is soon built.
    commit_points = ("train:after-save",)

    def document(self, tmp_path: Path) -> Pipeline:
        workspace = open_workspace(tmp_path / "workspace")
        workspace.my_models.mkdir()
        (workspace.my_models / "net.py").write_text(readme_model())
        trust(workspace)
        model = {"model_file": str(workspace.my_models / "net.py")}
        it = box("it", "TrainResNet3D", batch_size=8, epochs=2, deterministic=True, **model)
        return in_a_table(tmp_path, it, wires="table.out>it.data", count=40, shape=(8, 8, 8, 1))

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        model = outputs["out"]
        assert isinstance(model, TrainedModel)
        assert (Path(model.uri) / "model.keras").stat().st_size > 10_000
        return json.loads((Path(model.uri) / "history.json").read_text()), dict(model.metrics)


class TestProfileTraining(NodeConformance):
    node_type = "ProfileTraining"
    bad_parameters = {"depth": 19, "batch_sizes": [0], "workers": [65], "steps": 0, "warmup": -1, "loader": "guess"}
    commit_points = ("profile:row-kept",)

    def document(self, tmp_path: Path) -> Pipeline:
        # The whole model takes half a minute a size: test_profile has several sizes, with a small one.
        it = box("it", "ProfileTraining", batch_sizes=[2, 64], optimizer="sgd", steps=1, warmup=0)
        return in_a_table(tmp_path, it, wires="table.out>it.data", count=12, shape=(8, 8, 8, 1))

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


class TestRunAfter(NodeConformance):
    node_type = "RunAfter"

    def document(self, tmp_path: Path) -> Pipeline:
        it = box("it", "RunAfter")
        return in_a_table(tmp_path, it, wires="folder.out>it.files table.out>it.after", count=10)

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        files = outputs["out"]
        assert isinstance(files, VolumeFiles)
        return files.uri, files.count, files.spec


class TestCompareTrainings(_Given, NodeConformance):
    node_type = "CompareTrainings"
    bad_parameters = {"volumes": 0, "epochs": 0}
    commit_points = ("compare:report-written",)

    def make(self, tmp_path: Path) -> None:
        (tmp_path / "given").mkdir()
        model = TrainedModel(uri=str(tmp_path / "given"), spec=VolumeSpec(shape=SHAPE, dtype="float32"))
        (tmp_path / "given" / "reference.json").write_text(model.model_dump_json())

    def document(self, tmp_path: Path) -> Pipeline:
        given = {"folder": str(tmp_path / "given")}
        nodes = (
            box("then", "RunAfter"),
            box("slow", "GivenTraining", **given),
            box("fast", "GivenTraining", loader="arrow", waiting_s=1.0, **given),
            box("it", "CompareTrainings"),
        )
        wires = "folder.out>then.files table.out>then.after then.out>slow.data table.out>fast.data"
        return in_a_table(tmp_path, *nodes, wires=f"{wires} slow.out>it.files fast.out>it.table", count=10)

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        page = Path(outputs["out"].uri)
        assert page.read_text().count("data:image/png;base64,") == 2
        slow, fast = read_trainings(page.with_name("comparison.json"))
        assert (slow.loader, slow.preparation_s, slow.volumes, slow.epoch_s) == ("npy", 0, 10, 5)
        assert (fast.loader, fast.epoch_s, fast.waiting_share) == ("arrow", 2.5, 0.5)
        # Converting and the table; not the waiting for it, which is the files'.
        assert fast.preparation_s is not None
        assert fast.preparation_s > 0
        assert (slow.losses, slow.complete) == (((1, 1.0), (2, 0.5), (3, 1 / 3)), True)
        figures = outputs["out"].details()
        assert (figures["files_to_table"], figures["cpu_arrow_volumes_per_s"]) == (2, 4)
        return figures, slow, fast


class TestCrossValidation(_Given, NodeConformance):
    node_type = "CrossValidation"
    metrics = (
        {"loss": 0.5, "val_auc": 0.8, "seconds": 3.0},
        {"val_auc": 0.9, "loss": 0.3},
        {"loss": 0.4, "val_auc": 0.7, "val_loss": 1.0},
    )

    def make(self, tmp_path: Path) -> None:
        for number, metrics in enumerate(self.metrics):
            folder = tmp_path / f"given {number}"
            folder.mkdir()
            model = TrainedModel(uri=str(folder), spec=VolumeSpec(shape=SHAPE, dtype="float32"), metrics=metrics)
            (folder / "reference.json").write_text(model.model_dump_json())

    def document(self, tmp_path: Path) -> Pipeline:
        given = [box(f"m{n}", "GivenModel", folder=str(tmp_path / f"given {n}")) for n in range(3)]
        return pipeline(
            *given, box("it", "CrossValidation"), wires="m0.out>it.fold_1 m1.out>it.fold_2 m2.out>it.fold_4"
        )

    def content(self, outputs: Mapping[str, Dataset]) -> Any:
        report = outputs["out"]
        assert isinstance(report, Report)
        figures = dict(report.figures)
        assert list(figures) == ["folds", "val_auc", "val_auc_std", "loss", "loss_std"]
        assert list(figures.values()) == pytest.approx([3, 0.8, 0.1, 0.4, 0.1])
        headline = report.headline()
        assert headline is not None
        assert headline[0] == "val_auc"
        page = Path(report.uri).read_text()
        assert "fold 4" in page
        return figures, page


class TestBatchPredict(_Given, NodeConformance):
    node_type = "BatchPredict"
    bad_parameters = {"batch_size": 0, "rows_per_part": 0}
    # test_batch_predict has all points, in processes that have TensorFlow already.
    commit_points = ("predict:part-done#2", "predict:after-commit")

    def document(self, tmp_path: Path) -> Pipeline:
        model = box("model", "GivenModel", folder=str(tmp_path / "given"))
        it = box("it", "BatchPredict", batch_size=8, rows_per_part=8)
        return converted(tmp_path, model, it, wires="convert.out>it.data model.out>it.model", count=30)

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
        found = [figures[name] for name in ("name", "version", "alias", "is_best", "metric", "value")]
        assert found == ["brains", "1", "champion", 1, "val_accuracy", 0.625]
        return figures


def test_every_built_in_node_is_here() -> None:
    covered = {c.node_type for c in NodeConformance.__subclasses__() if c.__module__ == __name__}
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
