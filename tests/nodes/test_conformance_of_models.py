"""The built-in nodes that train, ask and judge models keep what `NodeConformance` promises."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from conformance_pipelines import SHAPE, converted, in_a_table
from own_models import readme_model
from prediction_parts import make_predictions
from running import Runner
from tiny_models import make_model
from volume_sets import labels_for, some_volumes

import voxelflow
from engine.declare.datasets import (
    Dataset,
    Predictions,
    Report,
    TrainedModel,
    VolumeSpec,
)
from engine.document.pipeline import Pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace, trust
from nodes.comparison.record import read_trainings
from nodes.prediction.inputs import read_card
from nodes.testing.node import NodeConformance

GIVEN = Path(__file__).parents[1] / "support" / "given_models.py"


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    """Each node is run and killed a dozen times."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("forked_trainings")


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
