"""What RegisterModel hands to the registry, and what it says of the answer. The registry has tests of its own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from delta_tables import context

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Report, TrainedModel, VolumeSpec
from engine.errors import DataError, UsageError
from engine.tracking import models as registry
from engine.tracking.models import Candidate, Registered
from nodes.register_model import register_model


class _Registry:
    """Stands for `registry.register`."""

    def __init__(self) -> None:
        self.given: list[Candidate] = []
        self.workspaces: list[Any] = []
        self.answer = Registered("2", True, "1", 0.5, "d1")

    def __call__(self, workspace: Any, candidate: Candidate, commit_point: Any) -> tuple[Registered, str]:
        self.given.append(candidate)
        self.workspaces.append(workspace)
        return self.answer, "sqlite:///here"


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> _Registry:
    found = _Registry()
    monkeypatch.setattr(registry, "register", found)
    return found


@pytest.fixture
def model(tmp_path: Path) -> TrainedModel:
    (tmp_path / "model.keras").write_bytes(b"a model")
    (tmp_path / "model.json").write_text(json.dumps({"class_names": ["a", "b"], "input": {"shape": [2, 2, 2]}}))
    metrics = {"accuracy": 0.9, "val_accuracy": 0.8, "loss": 0.1, "val_loss": float("nan")}
    return TrainedModel(uri=str(tmp_path), spec=VolumeSpec(shape=(2, 2, 2), dtype="float32"), metrics=metrics)


def run(tmp_path: Path, *inputs: Any, **params: Any) -> tuple[Report, list[str]]:
    said: list[str] = []
    ctx = dataclasses.replace(
        context(tmp_path), workspace=tmp_path, emit=lambda event: said.append(getattr(event, "text", ""))
    )
    return register_model(*inputs, **params, ctx=ctx), said


def test_an_exported_program_has_no_workspace(model: TrainedModel, mlflow: _Registry, tmp_path: Path) -> None:
    register_model(model, ctx=context(tmp_path))
    assert mlflow.workspaces == [None]


def test_figures_of_the_validation_decide_without_an_evaluation(
    model: TrainedModel, mlflow: _Registry, tmp_path: Path
) -> None:
    report, said = run(tmp_path, model, name="brains")
    (given,) = mlflow.given
    assert (given.metric, given.value, given.higher_is_better) == ("val_accuracy", 0.8, True)
    assert given.folder == tmp_path / "mlflow_model"
    assert "version 2 (val_accuracy 0.8) is registered and has the alias champion instead of version 1" in said
    assert json.loads(Path(report.uri).read_text()) == report.figures
    assert report.figures["previous_value"] == 0.5
    with pytest.raises(DataError, match="val_loss was not measured, or is not finite") as caught:
        run(tmp_path, model, metric="loss")
    assert caught.value.hint == "Choose one of: val_accuracy."
    alone = model.model_copy(update={"metrics": {"accuracy": 1.0, "test_accuracy": 0.7}})
    with pytest.raises(DataError, match="val_accuracy was not measured") as caught:
        run(tmp_path, alone)
    assert "Train with validation volumes" in caught.value.hint
    assert len(mlflow.given) == 1


def test_figures_of_the_evaluation_decide_where_there_is_one(
    model: TrainedModel, mlflow: _Registry, tmp_path: Path
) -> None:
    run(tmp_path, model)
    digest = mlflow.given[0].digest
    evaluation = Report(uri="/r", figures={"auc": 0.7, "log_loss": 0.4, "model": digest, "data": "d2"})
    mlflow.answer = Registered("3", False, "2", None, "d1")
    _, said = run(tmp_path, model, evaluation, metric="log_loss")
    assert (mlflow.given[1].value, mlflow.given[1].higher_is_better) == (0.4, False)
    assert mlflow.given[1].tags["voxelflow.data"] == "d2"
    assert any("no figure for log_loss" in text for text in said)
    assert any("measured on other volumes" in text for text in said)
    assert "version 3 (log_loss 0.4) is registered; champion stays with version 2" in said
    run(tmp_path, model, evaluation, metric="log_loss", better="higher")
    assert mlflow.given[2].higher_is_better
    other = evaluation.model_copy(update={"figures": evaluation.figures | {"model": "another"}})
    with pytest.raises(DataError, match="of another model"):
        run(tmp_path, model, other, metric="auc")
    folds = Report(uri="/f", figures={"folds": 5, "accuracy": 1.0, "val_accuracy": 0.6})
    with pytest.raises(DataError, match="no report of EvaluateModel"):
        run(tmp_path, model, folds)
    signed = evaluation.model_copy(update={"figures": evaluation.figures | {"mean_error": -100.0}})
    with pytest.raises(UsageError, match="mean_error has a sign"):
        run(tmp_path, model, signed, metric="mean_error")
    look = CheckContext({p.name: p.default for p in register_model.parameters} | {"metric": "mean_error"})
    assert register_model.preview_hook is not None
    register_model.preview_hook(look)
    assert [(d.code, d.parameter) for d in look.problems] == [("VF544", "metric")]
    assert len(mlflow.given) == 3


def test_that_the_first_version_was_compared_with_none_is_said(
    model: TrainedModel, mlflow: _Registry, tmp_path: Path
) -> None:
    mlflow.answer = Registered("1", True)
    _, said = run(tmp_path, model)
    assert said[-1] == (
        "version 1 (val_accuracy 0.8) is registered and has the alias champion; no version had it, so nothing was"
        " compared"
    )
    assert mlflow.given[-1].reaches
    mlflow.answer = Registered("1", False)
    report, said = run(tmp_path, model, threshold=0.9)
    assert said[-1] == "version 1 (val_accuracy 0.8) is registered; no version is champion yet: the threshold is 0.9"
    assert not mlflow.given[-1].reaches
    assert report.figures["is_best"] == 0
    mlflow.answer = Registered("2", False, "1", None)
    _, said = run(tmp_path, model, threshold=0.9)
    assert [text for text in said if text] == [
        "version 2 (val_accuracy 0.8) is registered; champion stays with version 1: the threshold is 0.9"
    ]


@pytest.mark.parametrize(
    ("metric", "value", "higher", "threshold", "reaches"),
    [("auc", 0.8, True, 0.8, True), ("auc", 0.79, True, 0.8, False), ("mae", 3.0, False, 2.5, False)],
)
def test_what_reaches_a_threshold(metric: str, value: float, higher: bool, threshold: float, reaches: bool) -> None:
    given = Candidate("n", "champion", Path(), "d", metric, value, higher, {}, threshold)
    assert given.reaches == reaches


@pytest.mark.parametrize(
    ("figures", "metric", "said"),
    [
        ({"accuracy": 0.9, "majority_share": 0.9}, "accuracy", "no more than that of always the largest class (0.9)"),
        ({"auc": 0.5}, "auc", "its auc of 0.5 is that of chance (0.5) or below"),
        ({"r2": -0.25}, "r2", "its r2 of -0.25 is no more than that of always the mean"),
        ({"accuracy": 0.91, "majority_share": 0.9}, "accuracy", ""),
        ({"auc": 0.6}, "auc", ""),
    ],
)
def test_a_champion_no_better_than_guessing_is_reported(
    model: TrainedModel, mlflow: _Registry, tmp_path: Path, figures: dict[str, float], metric: str, said: str
) -> None:
    run(tmp_path, model)
    evaluation = Report(uri="/r", figures=figures | {"model": mlflow.given[0].digest})
    warned = [text for text in run(tmp_path, model, evaluation, metric=metric)[1] if "may only guess" in text]
    assert len(warned) == bool(said)
    assert all(said in text for text in warned)
    mlflow.answer = Registered("2", False, "1", 0.99)
    assert not [text for text in run(tmp_path, model, evaluation, metric=metric)[1] if "may only guess" in text]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("name", ""),
        ("name", "a/b"),
        ("name", "a'b"),
        ("name", " a"),
        ("alias", "latest"),
        ("alias", "v2"),
        ("alias", "a b"),
    ],
)
def test_names_that_mlflow_does_not_take(
    model: TrainedModel, mlflow: _Registry, tmp_path: Path, parameter: str, value: str
) -> None:
    with pytest.raises(UsageError, match="MLflow takes no") as caught:
        run(tmp_path, model, **{parameter: value})
    assert caught.value.parameter == parameter
    given = {p.name: p.default for p in register_model.parameters} | {parameter: value}
    look = CheckContext(given)
    assert register_model.preview_hook is not None
    register_model.preview_hook(look)
    assert [(d.code, d.parameter) for d in look.problems] == [("VF541", parameter)]
    assert mlflow.given == []


def test_a_registration_elsewhere_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"out": Report(uri="/r", figures={"location": "http://one:5000"})}
    verify = register_model.verify_hook
    assert verify is not None
    assert verify(there, False) == ""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:word@one:5000/")
    assert verify(there, False) == ""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two:5000")
    assert verify(there, False) == "it is registered at http://one:5000, and MLflow is at http://two:5000 now"
