"""A sweep of trainings that is killed whole: the tables are made once, and no training begins anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import box, pipeline
from forked_programs import Forks, forking
from volumes import write_volumes
from waiting import wait_until

import voxelflow
from engine.document.pipeline import Pipeline
from engine.profiles import Profile
from engine.store.runs import RunStore
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective
from engine.sweep.space import read_space
from engine.sweep.start import resume_sweep, start_sweep
from engine.sweep.trials import SweepInputs
from engine.workspace import Workspace
from tests.torture.warm import PREPARED

pytestmark = pytest.mark.slow


@pytest.fixture
def forks() -> Iterator[Forks]:
    """Processes forked from one that trains with NumPy in the place of TensorFlow."""
    with tempfile.TemporaryDirectory() as folder, forking(Path(folder), PREPARED) as made, made.used():
        yield made


def _training(folder: Path) -> Pipeline:
    return pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("train", "TrainResNet3D", epochs=2, batch_size=8, validation_share=0.25),
        wires="folder.out>convert.files convert.out>table.parquet table.out>train.data",
        name="trainings",
    )


def test_trainings_share_their_tables_and_survive_a_kill_of_all(
    workspace: Workspace, store: RunStore, forks: Forks, tmp_path: Path
) -> None:
    folder = tmp_path / "volumes"
    write_volumes(folder, 40, shape=(6, 6, 4, 2))
    catalog, document = voxelflow.catalog(workspace), _training(folder)
    space = read_space(["train.learning_rate=1e-3,1e-2", "train.seed=1,2"], document, catalog, searched=False)
    options = SweepOptions(space, Objective("val_loss", False), jobs=2, base=tmp_path)
    profile = Profile(name="local", cores=2, memory_bytes=1 << 30)
    sweep = start_sweep(SweepInputs(document, catalog, workspace, store, options, profile))
    wait_until(lambda: any(t.state == "done" for t in store.sweeps.trials(sweep.sweep_id)), "a trial's end")
    forks.kill_all()
    assert store.sweeps.find(sweep.sweep_id).state == "lost"
    finished = {t.number for t in store.sweeps.trials(sweep.sweep_id) if t.state == "done"}
    resume_sweep(workspace, store, sweep.sweep_id)
    wait_until(lambda: not store.sweeps.find(sweep.sweep_id).active, "the sweep's end")
    assert store.sweeps.find(sweep.sweep_id).state == "done"
    trials = store.sweeps.trials(sweep.sweep_id)
    assert [t.state for t in trials] == ["done"] * 4, [t.error for t in trials]
    assert len({t.score for t in trials}) == 4
    runs = store.sweeps.runs_of_trials(sweep.sweep_id)
    assert len(store.runs(-1)) == 4
    assert all(store.run(runs[number]).attempt == 1 for number in finished), "what was done was not touched"
    made = [task.node for run in runs.values() for task in store.tasks(run) if task.state == "done"]
    assert sorted(made) == ["convert", "folder", "table", "train", "train", "train", "train"]
