"""LoadModel: models of folders, runs and MLflow's registry, without TensorFlow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from npy_folders import context

from engine.declare.check_context import CheckContext
from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.errors import DataError, UsageError, VoxelflowError
from engine.observe.paths import find_path
from engine.store.results import Result
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.load_model import load_model
from nodes.prediction.inputs import read_card
from nodes.viewing.models import model_view

METADATA = {"task": "classification", "class_names": ["no", "yes"], "input": {"shape": [4, 3, 2], "stored_as": "int16"}}
SPEC = VolumeSpec(shape=(4, 3, 2), dtype="int16", classes=("no", "yes"))


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    folder = tmp_path / "trained"
    folder.mkdir()
    (folder / "model.keras").write_bytes(b"weights")
    (folder / "history.json").write_text('[{"loss": 0.5}]')
    (folder / "model.json").write_text(json.dumps(METADATA | {"parameters": {"total": 7}}))
    return folder


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """The same in MLflow's format alone."""
    from mlflow.models import Model

    folder = tmp_path / "packed"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "model.keras").write_bytes(b"weights")
    Model(metadata=METADATA | {"metrics": {"val_loss": 0.25}}).save(str(folder / "MLmodel"))
    return folder


def looked_at(tmp_path: Path, **params: Any) -> CheckContext:
    wanted = next(p.path_in for p in load_model.parameters if p.name == "folder")
    assert wanted is not None
    (tmp_path / "look").mkdir(exist_ok=True)
    folder = params.get("folder")
    look = CheckContext(params=params, paths={"folder": find_path(folder, wanted, tmp_path / "look")} if folder else {})
    assert load_model.scan_hook is not None
    assert load_model.preview_hook is not None
    look.facts = load_model.scan_hook(look)
    look.inputs = {"made": load_model.preview_hook(look)}
    return look


def test_a_folder_is_used_in_place(tmp_path: Path, trained: Path) -> None:
    model = load_model(folder=str(trained), ctx=context(tmp_path, "it"))
    assert model == TrainedModel(uri=str(trained), spec=SPEC, metrics={"loss": 0.5}, parameters=7, bytes=7)
    look = looked_at(tmp_path, folder=str(trained))
    assert look.problems == []
    assert look.inputs["made"].spec == SPEC
    # It can be looked at before any run.
    assert look.inputs["made"].dataset == model
    nothing = looked_at(tmp_path, registered="models:/brains/3").inputs["made"]
    assert nothing.dataset is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"metrics": {"loss": 0.4, "val_loss": None, "test_auc": 1}}, {"loss": 0.4, "test_auc": 1.0}),
        ({"epoch": 1}, {"loss": 0.5, "val_loss": 0.7}),
        ({"epoch": 2}, {"loss": 0.25}),
        ({}, {"loss": 0.25}),
        ({"epoch": 9}, {}),
    ],
)
def test_a_model_has_its_figures(tmp_path: Path, trained: Path, said: Any, expected: dict[str, float]) -> None:
    """As its folder says; those of earlier releases have them in the history."""
    (trained / "history.json").write_text('[{"loss": 0.5, "val_loss": 0.7}, {"loss": 0.25, "val_loss": null}]')
    (trained / "model.json").write_text(json.dumps(METADATA | said))
    assert load_model(folder=str(trained), ctx=context(tmp_path, "it")).metrics == expected
    (trained / "history.json").unlink()
    model = load_model(folder=str(trained), ctx=context(tmp_path, "it"))
    assert model.metrics == (expected if "metrics" in said else {})
    assert (load_model.version_with({"folder": "a"}), load_model.version_with({"registered": "models:/a@b"})) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("registered", [False, True])
def test_one_in_mlflows_format_gets_the_files_of_a_training(
    tmp_path: Path, packed: Path, registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    @contextmanager
    def fetched(workspace: object, uri: str) -> Iterator[Path]:
        asked.append(uri)
        yield packed

    monkeypatch.setattr("engine.tracking.models.fetched", fetched)
    params: dict[str, Any] = {"registered": "models:/brains/3"} if registered else {"folder": str(packed)}
    ctx = context(tmp_path, "it", workspace=tmp_path)
    for _ in range(2):  # again, as after a kill
        model = load_model(**params, ctx=ctx)
    assert asked == ["models:/brains/3"] * 2 * registered
    assert (Path(model.uri), model.spec, model.metrics) == (ctx.out, SPEC, {"val_loss": 0.25})
    assert read_card(ctx.out).digest() == read_card(packed).digest()
    assert (ctx.out / "mlflow_model" / "MLmodel").is_file()
    assert set(model_view(model, {}).panels) >= {"curves"}


def test_a_folder_without_a_model_is_reported_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.json").write_text("{}")
    look = looked_at(tmp_path, folder=str(tmp_path / "a"))
    assert [problem.code for problem in look.problems] == ["VF551"]
    with pytest.raises(DataError):
        load_model(folder=str(tmp_path / "a"), ctx=context(tmp_path, "it"))


@pytest.mark.parametrize("history", ["[{", '{"a": 1}', "[3]", "7"])
def test_figures_that_cannot_be_read_are_reported_before_the_run(tmp_path: Path, trained: Path, history: str) -> None:
    (trained / "history.json").write_text(history)
    (found,) = looked_at(tmp_path, folder=str(trained)).problems
    assert found.code == "VF551"
    assert found.message.startswith(f"the figures of the model in {trained} cannot be read: ")


def test_one_model_is_named(tmp_path: Path, trained: Path) -> None:
    for params in ({}, {"folder": str(trained), "run": "20260101-000000-abcdef"}):
        assert [problem.code for problem in looked_at(tmp_path, **params).problems] == ["VF550"]
        with pytest.raises(UsageError):
            load_model(**params, ctx=context(tmp_path, "it"))
    look = looked_at(tmp_path, registered="models:/brains@champion")
    assert [(problem.code, problem.severity) for problem in look.problems] == [("VF552", "info")]
    assert looked_at(tmp_path, registered="models:/brains/3").problems == []
    with pytest.raises(UsageError, match="no workspace"):
        load_model(run="20260101-000000-abcdef", ctx=context(tmp_path, "it"))


def record(store: RunStore, folder: Path, models: dict[str, Path]) -> str:
    """A finished run whose nodes made these models; its id."""
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [(node, "TrainResNet3D", node) for node in models])
    for number, (node, place) in enumerate(models.items()):
        fingerprint = f"{number}".ljust(32, "a")
        store.results.put(
            Result(
                fingerprint=fingerprint, lineage="b" * 32, base="c" * 32, node_type="TrainResNet3D", identity={},
                outputs={"out": TrainedModel(uri=str(place), spec=SPEC, parameters=7, bytes=7)}, out=str(folder),
                shared="shared", pipeline="p", node=node, run_id=run_id,
            )
        )  # fmt: skip
        store.update_task(
            run_id, node, fingerprint=fingerprint, state="done",
            outputs={"out": TrainedModel(uri=str(place), spec=SPEC, parameters=7, bytes=7)},
        )  # fmt: skip
    store.finish_run(run_id, "done")
    return run_id


def test_the_model_of_a_run_stays_when_the_run_is_deleted(
    tmp_path: Path, workspace: Workspace, store: RunStore, trained: Path
) -> None:
    run = record(store, tmp_path, {"train": trained, "again": trained})
    ctx = context(tmp_path, "it", workspace=workspace.root)
    with pytest.raises(UsageError, match="made several models") as several:
        load_model(run=run, ctx=ctx)
    assert (several.value.hint, several.value.parameter) == ("Choose one of train, again.", "run_node")
    for _ in range(2):  # again, as after a kill
        model = load_model(run=run, run_node="train", ctx=ctx)
    digest = read_card(trained).digest()
    shutil.rmtree(trained)
    assert model == TrainedModel(uri=str(ctx.out), spec=SPEC, parameters=7, bytes=7)
    assert read_card(ctx.out).digest() == digest
    assert (ctx.out / "history.json").is_file()
    with pytest.raises(UsageError, match="made no model in the node other"):
        load_model(run=run, run_node="other", ctx=context(tmp_path, "other", workspace=workspace.root))


def test_a_run_without_a_model_or_that_is_not_there_is_reported(
    tmp_path: Path, workspace: Workspace, store: RunStore
) -> None:
    ctx = context(tmp_path, "it", workspace=workspace.root)
    with pytest.raises(UsageError, match="made no model"):
        load_model(run=record(store, tmp_path, {}), ctx=ctx)
    with pytest.raises(VoxelflowError, match="20260101-000000-abcdef"):
        load_model(run="20260101-000000-abcdef", ctx=ctx)
