"""A training with the whole model, done over by `voxelflow runs reproduce`: every loss and weight is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import NO_WORK
from running import Runner
from volumes import write_volumes

import voxelflow
from engine.cli import main
from engine.declare.datasets import TrainedModel
from engine.profiles import local_profile
from engine.store.runs import RunStore
from engine.workspace import Workspace


@pytest.mark.slow
@pytest.mark.usefixtures("forked_trainings")
def test_a_training_is_reproduced_bit_for_bit(
    tmp_path: Path, workspace: Workspace, store: RunStore, capsys: pytest.CaptureFixture[str]
) -> None:
    write_volumes(tmp_path / "volumes", 40, shape=(8, 8, 8, 1))
    document = pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("train", "TrainResNet3D", batch_size=8, epochs=2, seed=5, optimizer="sgd"),
        wires="folder.out>convert.files convert.out>table.parquet table.out>train.data",
    )
    runner = Runner(voxelflow.catalog(workspace), workspace, store, local_profile())
    run, tasks = runner.run(document)
    assert run.state == "done", run.error
    model = tasks["train"].outputs["out"]
    assert isinstance(model, TrainedModel)
    assert (Path(model.uri) / "model.keras").stat().st_size > 100_000_000
    capsys.readouterr()

    def no_studio(workspace: Workspace, **_: object) -> int:
        raise AssertionError("the app was started")

    status = main(
        voxelflow.catalog,
        no_studio,
        NO_WORK,
        ["runs", "reproduce", run.run_id, "--json", "--workspace", str(workspace.root)],
    )
    output = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (status, output["equal"], output["environment"]) == (0, True, [])
    points = {curve["name"]: curve["points"] for curve in output["curves"]}
    assert points["step_loss"] > 2
    assert (points["loss"], points["val_loss"]) == (2, 2)
    figures = {figure["name"]: figure for figure in output["figures"]}
    assert figures["weights"]["equal"]
    # The table was not made again: the training was given the version of then.
    states = {task.node: task.state for task in store.tasks(output["by"])}
    assert states == {"table": "cached", "train": "done"}
