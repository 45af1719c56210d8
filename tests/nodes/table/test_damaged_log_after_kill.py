"""A table's log is damaged between a kill and the resume: what the message says to do ends with every row once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest
from building import box, pipeline
from running import Runner
from volumes import write_volumes

import voxelflow
from engine.document.pipeline import Pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace

_COUNT = 40


@pytest.fixture
def runner(workspace: Workspace, store: RunStore) -> Runner:
    return Runner(voxelflow.catalog(workspace), workspace, store)


def filled(folder: Path) -> Pipeline:
    return pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("convert", "NumpyToParquet", target_file_mb=1),
        box("table", "ParquetToDelta"),
        box("optimize", "OptimizeDelta"),
        wires="folder.out>convert.files convert.out>table.parquet table.out>optimize.table",
    )


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(
    ("point", "damage", "which"),
    [("delta:after-commit", _cut, -1), ("optimize:after-commit", _empty, -1), ("optimize:after-commit", _cut, 0)],
)
def test_what_the_refusal_says_to_do_ends_with_every_row_once(
    point: str,
    damage: Callable[[Path], None],
    which: int,
    runner: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = filled(tmp_path / "volumes")
    write_volumes(tmp_path / "volumes", _COUNT, shape=(16, 16, 16, 4))
    monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "killed"))
    killed, _ = runner.run(document)
    assert killed.state == "failed"
    (log,) = runner.workspace.data.glob("ParquetToDelta/*/table/_delta_log")
    victim = sorted(log.glob("*.json"))[which]
    damage(victim)
    refused, tasks = runner.resume(killed.run_id)
    assert refused.state == "failed"
    assert str(victim) in refused.error
    (failure,) = (task.failure for task in tasks.values() if task.failure)
    advice = re.search(r"if pipelines alone fill the table, delete the folder (.+) and run them again", failure["hint"])
    assert advice is not None, failure
    shutil.rmtree(advice[1])
    run, tasks = runner.resume(killed.run_id)
    assert run.state == "done", run.error
    table = deltalake.DeltaTable(tasks["optimize"].outputs["out"].uri).to_pyarrow_table(columns=["id"])
    assert sorted(table["id"].to_pylist()) == [f"{n:05d}.npy" for n in range(_COUNT)]
