"""Looking at models and predictions: what their files say, and the volumes that belong to them."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from volume_sets import Labels, Volumes, labels_for, make_delta, some_volumes

from engine.declare.datasets import Dataset, Predictions, Report, TrainedModel, VolumeDelta
from engine.declare.view import ChartPanel, DatasetView, Document, Gallery, Table
from engine.errors import DataError
from engine.viewing.scales import GalleryScales
from nodes.loaders import open_source
from nodes.training.augmentation import Augmentation, augment
from nodes.training.rows import SPLIT_SALT
from nodes.viewing import open_view
from nodes.viewing.models import matrix_chart

_MEAN, _VARIANCE = 3.0, 4.0


def _view(dataset: Dataset, made_from: Mapping[str, Dataset] | None = None) -> DatasetView:
    view = open_view(dataset, made_from or {})
    assert view is not None
    return view


def _charts(view: DatasetView, name: str) -> dict[str, Any]:
    panel = view.panels[name]
    assert isinstance(panel, ChartPanel)
    return {chart.title: chart for chart in panel.charts({})}


def _gallery(view: DatasetView, name: str) -> Gallery:
    panel = view.panels[name]
    assert isinstance(panel, Gallery)
    return panel


@pytest.fixture(scope="module")
def volumes() -> Volumes:
    return some_volumes(30)


@pytest.fixture(scope="module")
def labels(volumes: Volumes) -> Labels:
    return labels_for(volumes)


@pytest.fixture
def data(tmp_path: Path, volumes: Volumes, labels: Labels) -> VolumeDelta:
    return make_delta(tmp_path, volumes, labels)


class TestTrainedModels:
    @pytest.fixture
    def model(self, tmp_path: Path, data: VolumeDelta) -> TrainedModel:
        folder = tmp_path / "model"
        folder.mkdir()
        assert data.spec is not None
        shape = data.spec.shape
        history = [
            {"loss": 0.9, "val_loss": 1.0, "auc": 0.5, "epoch_seconds_training": 3.0},
            {"loss": 0.5, "val_loss": float("nan"), "auc": 0.7, "epoch_seconds_training": 3.0},
        ]
        (folder / "history.json").write_text(json.dumps(history))
        (folder / "confusion.json").write_text(json.dumps({"classes": ["a", "b"], "validation": [[3, 1], [0, 4]]}))
        channels = shape[3] if len(shape) > 3 else 1
        described = {
            "input": {"shape": list(shape)},
            "normalisation": {"mean": [_MEAN] * channels, "variance": [_VARIANCE] * channels},
            "epoch": 2,
            "training": {"seed": 7, "loader": "arrow", "validation_share": 0.3, "flips": "X", "noise": 0.2},
            "data": data.model_dump(mode="json"),
            "validation": None,
        }
        (folder / "model.json").write_text(json.dumps(described))
        layers = [
            {"class_name": "InputLayer", "config": {"name": "volume", "batch_shape": [None, 8, 8, 8, 2]}},
            {
                "class_name": "Functional",
                "config": {
                    "name": "backbone",
                    "layers": [
                        {
                            "class_name": "Conv3D",
                            "config": {"name": "conv", "filters": 4, "kernel_size": [3, 3, 3], "use_bias": False},
                            "build_config": {"input_shape": [None, 8, 8, 8, 2]},
                        }
                    ],
                },
            },
            {
                "class_name": "Dense",
                "config": {"name": "logits", "units": 3, "use_bias": True},
                "build_config": {"input_shape": [None, 4]},
            },
        ]
        with zipfile.ZipFile(folder / "model.keras", "w") as archive:
            archive.writestr("config.json", json.dumps({"config": {"layers": layers}}))
        return TrainedModel(uri=str(folder), spec=data.spec)

    def test_curves_of_training_and_validation_share_a_chart(self, model: TrainedModel) -> None:
        charts = _charts(_view(model), "curves")
        assert charts.keys() == {"Loss", "AUC"}
        assert charts["Loss"].series == {"training": (0.9, 0.5), "validation": (1.0, None)}
        assert charts["Loss"].x == (1.0, 2.0)

    def test_the_confusion_matrix(self, model: TrainedModel) -> None:
        chart = _charts(_view(model), "confusion")["Validation"]
        assert (chart.x, chart.series) == (("a", "b"), {"a": (3, 1), "b": (0, 4)})

    def test_layers_also_those_of_models_in_it(self, model: TrainedModel) -> None:
        panel = _view(model).panels["layers"]
        assert isinstance(panel, Table)
        rows = [row.cells for row in panel.page(0, 50, {}).rows]
        assert [(row[0], row[4]) for row in rows] == [
            ("volume", 0), ("backbone/conv", 27 * 2 * 4), ("logits", 4 * 3 + 3),
        ]  # fmt: skip

    @pytest.mark.slow
    @pytest.mark.parametrize("epoch", ["0", "1", "plain"])
    def test_volumes_are_those_that_the_training_gets(
        self, model: TrainedModel, data: VolumeDelta, volumes: Volumes, epoch: str
    ) -> None:
        gallery = _gallery(_view(model), "seen")
        offered = {choice.name: [option.value for option in choice.options] for choice in gallery.choices()}
        assert offered == {"split": ["", "validation"], "epoch": ["0", "1", "plain"]}
        picked = gallery.pick(0, 100, 0, {"epoch": epoch})
        source = open_source("arrow", data, cores=1)
        held_back = {v for v in volumes if _fraction(v) < 0.3}
        labelled = {source.ids([row])[0] for row in source.rows_in()}
        assert {item.id for item in picked.items} == labelled - held_back
        item = picked.items[0]
        row = item.row % 30
        batch = next(
            b
            for b in source.loader(np.array([row]), _reading()).batches()
        )  # fmt: skip
        if epoch != "plain":
            channels = batch.volumes.shape[-1] if batch.volumes.ndim == 5 else 1
            mean, deviation = np.full(channels, _MEAN), np.full(channels, np.sqrt(_VARIANCE))
            augment(Augmentation(flips="X", noise=0.2), 7, mean, deviation, batch, int(epoch))
        seen = gallery.volume(item.row)
        assert np.allclose(seen.reshape(batch.volumes[0].shape), (batch.volumes[0] - _MEAN) / np.sqrt(_VARIANCE))

    def test_the_validation_is_shown_as_it_is_judged_without_augmentation(
        self, model: TrainedModel, data: VolumeDelta, volumes: Volumes
    ) -> None:
        gallery = _gallery(_view(model), "seen")
        picked = gallery.pick(0, 100, 0, {"split": "validation", "epoch": "1"})
        source = open_source("arrow", data, cores=1)
        labelled = {source.ids([row])[0] for row in source.rows_in()}
        assert {item.id for item in picked.items} == {v for v in labelled if _fraction(v) < 0.3}
        assert all(item.row < 30 for item in picked.items)

    def test_groups_that_were_held_back_whole_are_shown_so(self, model: TrainedModel) -> None:
        described = json.loads((path := Path(model.uri) / "model.json").read_text())
        described["training"]["validation_share"] = 0.7  # of the two labels it holds back one
        path.write_text(json.dumps(described | {"held_back_by": ["label"]}))
        gallery = _gallery(_view(model), "seen")
        shown = [
            {item.label for item in gallery.pick(0, 100, 0, {"epoch": "plain", "split": split}).items}
            for split in ("", "validation")
        ]
        assert all(shown)
        assert not shown[0] & shown[1]

    def test_roc_curves_of_the_validation_beside_chance(self, model: TrainedModel) -> None:
        rates = [0.0, 0.5, 1.0]
        stored = {"classes": ["a", "b"], "false_positive_rates": rates, "validation": [[0.2, 0.9, 1.0]]}
        (Path(model.uri) / "roc.json").write_text(json.dumps(stored))
        chart = _charts(_view(model), "roc")["Validation"]
        assert chart.x == tuple(rates)
        assert chart.series == {"b": (0.2, 0.9, 1.0), "chance": tuple(rates)}
        stored = {"classes": ["a", "chance"], "false_positive_rates": rates, "validation": [[0.2, 0.9, 1.0]]}
        (Path(model.uri) / "roc.json").write_text(json.dumps(stored))
        called_so = _charts(_view(model), "roc")["Validation"].series
        assert called_so == {"chance": (0.2, 0.9, 1.0), "no better than chance": tuple(rates)}
        (Path(model.uri) / "roc.json").unlink()
        with pytest.raises(DataError, match="trained before") as caught:
            _charts(_view(model), "roc")
        assert "EvaluateModel" in caught.value.hint

    def test_a_folder_that_is_gone_is_reported(self, model: TrainedModel) -> None:
        (Path(model.uri) / "model.json").unlink()
        with pytest.raises(DataError, match=r"model\.json is gone"):
            open_view(model, {})

    @given(st.dictionaries(st.sampled_from(["test_auc", "val_accuracy", "loss", "epochs"]), st.floats(0, 1)))
    def test_the_headline_is_what_says_most(self, metrics: dict[str, float]) -> None:
        spec = {"shape": (1,), "dtype": "int8"}
        found = TrainedModel.model_validate({"uri": "/m", "spec": spec, "metrics": metrics}).headline()
        best = next((name for name in ("test_auc", "val_accuracy", "loss") if name in metrics), None)
        assert found == (None if best is None else (best, metrics[best]))


def _fraction(volume: str) -> float:
    from engine.declare.datasets import id_fraction

    return id_fraction(volume, SPLIT_SALT)


def _reading() -> Any:
    from nodes.loaders.interface import Reading

    return Reading(1, training=False)


class TestPredictions:
    @pytest.fixture
    def ids(self, volumes: Volumes) -> list[str]:
        return sorted(volumes)[:6]

    @pytest.fixture
    def predictions(self, tmp_path: Path, ids: list[str]) -> Predictions:
        scores = [[0.9, 0.1], [0.2, 0.8], [0.55, 0.45], [0.05, 0.95], [0.6, 0.4], [float("nan"), float("nan")]]
        label = [0.0, 0.0, 1.0, 0.0, None, 1.0]
        root = tmp_path / "predictions"
        table = pa.table(
            {
                "id": ids,
                "scores": pa.array(scores, pa.list_(pa.float32())),
                "label": pa.array(label, pa.float32()),
                "predicted": pa.array([0, 1, 0, 1, 0, None], pa.int32()),
                "class": ["a", "b", "a", "b", "a", None],
                "model": ["m"] * 6,
            }
        )
        write_deltalake(str(root), table)
        return Predictions(
            uri=str(root), count=6, bytes=0, version=0, model="m", files=1, labelled=5, classes=("a", "b")
        )

    def _ids(self, view: DatasetView, ids: list[str], **chosen: str) -> list[int]:
        return [ids.index(item.id) for item in _gallery(view, "volumes").pick(0, 50, 0, chosen).items]

    def test_mistakes_come_surest_first_and_the_least_sure_first(
        self, predictions: Predictions, data: VolumeDelta, ids: list[str]
    ) -> None:
        view = _view(predictions, {"data": data})
        assert self._ids(view, ids, show="mistakes") == [3, 1, 2]
        assert self._ids(view, ids, show="unsure")[:2] == [2, 4]
        assert sorted(self._ids(view, ids, show="random")) == [0, 1, 2, 3, 4, 5]

    def test_by_class_and_score(self, predictions: Predictions, data: VolumeDelta, ids: list[str]) -> None:
        view = _view(predictions, {"data": data})
        assert self._ids(view, ids, show="mistakes", label="1") == [2]
        assert self._ids(view, ids, show="mistakes", predicted="1") == [3, 1]
        assert self._ids(view, ids, show="mistakes", score="0.9") == [3]
        assert {c.name for c in view.panels["volumes"].choices()} == {"show", "label", "predicted", "score"}

    def test_each_has_its_volume_and_says_what_the_model_says(
        self, predictions: Predictions, data: VolumeDelta, volumes: Volumes, ids: list[str]
    ) -> None:
        gallery = _gallery(_view(predictions, {"data": data}), "volumes")
        for item in gallery.pick(0, 9, 0, {"show": "random"}).items:
            assert (gallery.volume(item.row) == volumes[item.id]).all()
        worst = gallery.pick(0, 1, 0, {}).items[0]
        assert (worst.label, worst.note) == ("a", "says b (95%), is a")
        with pytest.raises(DataError, match="no prediction"):
            gallery.volume(6)

    def test_figures(self, predictions: Predictions) -> None:
        charts = _charts(_view(predictions), "figures")
        assert charts["Confusion"].series == {"a": (1, 2), "b": (1, 0)}
        assert list(charts["ROC"].series) == ["b, area 0.333", "chance"]
        assert sum(charts["Score of the predicted class"].series["volumes"]) == 5

    def test_without_the_data_there_are_rows_and_no_thumbnails(self, predictions: Predictions) -> None:
        view = _view(predictions)
        assert list(view.panels) == ["figures", "rows"]
        panel = view.panels["rows"]
        assert isinstance(panel, Table)
        page = panel.page(0, 2, {"show": "mistakes"})
        assert [row.cells[1:3] for row in page.rows] == [("a", "b"), ("a", "b")]
        assert page.total == 3
        assert page.rows[0].volume is None

    def test_when_the_data_is_gone_the_rest_is_shown_and_the_reason(
        self, predictions: Predictions, data: VolumeDelta
    ) -> None:
        shutil.rmtree(data.uri)
        view = _view(predictions, {"data": data})
        assert list(view.panels) == ["figures", "rows"]
        assert view.note == f"no pictures: there is no Delta table at {data.uri}"

    def test_pictures_have_the_scale_of_the_data(self, predictions: Predictions, data: VolumeDelta) -> None:
        shown, table = _view(predictions, {"data": data}), open_view(data, {})
        assert table is not None
        scales = [GalleryScales(_gallery(view, "volumes")).of(0) for view in (shown, table)]
        assert scales[0] == scales[1]

    def test_data_with_very_many_files_has_no_thumbnails_and_the_page_says_so(
        self, predictions: Predictions, data: VolumeDelta, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nodes.viewing.volumes._MOST_FILES", 1)
        monkeypatch.setattr("nodes.viewing.volumes._SAMPLED_FILES", 1)
        view = _view(predictions, {"data": data})
        assert list(view.panels) == ["figures", "rows"]
        assert "no pictures" in view.note

    def test_numbers_are_ordered_by_how_far_they_are_off(
        self, tmp_path: Path, data: VolumeDelta, ids: list[str]
    ) -> None:
        root = tmp_path / "numbers"
        table = pa.table(
            {
                "id": ids[:3],
                "scores": pa.array([[1.0], [5.0], [2.5]], pa.list_(pa.float32())),
                "label": pa.array([1.5, 2.0, None], pa.float32()),
            }
        )
        write_deltalake(str(root), table)
        predictions = Predictions(uri=str(root), count=3, bytes=0, version=0, model="m", labelled=2)
        view = _view(predictions, {"data": data})
        assert self._ids(view, ids) == [1, 0]
        assert _gallery(view, "volumes").pick(0, 1, 0, {}).items[0].note == "says 5, is 2"
        said = "Predicted and true, R2 -73, MAE 1.75, RMSE 2.151"
        assert _charts(view, "figures").keys() == {said, "Errors", "Predicted values"}


def test_a_report_is_shown_as_it_is(tmp_path: Path) -> None:
    view = _view(Report(uri=str(tmp_path / "page.html"), figures={"auc": 0.8, "volumes": 3}))
    panel = view.panels["document"]
    assert isinstance(panel, Document)
    assert panel.path == tmp_path / "page.html"
    assert Report(uri="/r", figures={"auc": 0.8}).headline() == ("auc", 0.8)


def test_a_matrix_has_its_right_answers_on_the_diagonal_in_a_browser_too() -> None:
    """JavaScript goes through the whole numbers among an object's keys first."""
    chart = matrix_chart("t", ("(none)", "10", "2", "01"), np.diag([1, 2, 3, 4]))
    assert chart.x == ("2", "10", "(none)", "01")
    assert list(chart.series.items()) == [
        ("2", (3, 0, 0, 0)), ("10", (0, 2, 0, 0)), ("(none)", (0, 0, 1, 0)), ("01", (0, 0, 0, 4)),
    ]  # fmt: skip
