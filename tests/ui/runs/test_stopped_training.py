"""The curves of a real training that is cancelled, and gone on with by another run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import box, pipeline
from forked_programs import forking
from running import Runner, end_active
from volumes import write_volumes
from waiting import wait_until

import voxelflow
from engine.document.pipeline import Pipeline
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.training.loop import is_reported
from tests.torture.warm import PREPARED
from ui.runs.feed import Feed
from ui.runs.metrics import beginnings

pytestmark = pytest.mark.slow


@pytest.fixture
def runner(workspace: Workspace, store: RunStore) -> Iterator[Runner]:
    """Its processes are forked from one that trains with NumPy in the place of TensorFlow."""
    with tempfile.TemporaryDirectory() as folder, forking(Path(folder), PREPARED) as forks, forks.used():
        yield Runner(voxelflow.catalog(workspace), workspace, store)
        end_active(store)


def _training(folder: Path) -> Pipeline:
    return pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("train", "TrainResNet3D", epochs=5_000, batch_size=8, validation_share=0.25),
        wires="folder.out>convert.files convert.out>table.parquet table.out>train.data",
        name="training",
    )


def _trained(runner: Runner, document: Pipeline, epochs: int) -> Feed:
    """A run that is cancelled after so many epochs of its own."""
    feed = Feed(runner.start(document))

    def own() -> int:
        feed.read(runner.store)
        loss = feed.metrics.get(("train", "loss"))
        return 0 if loss is None else len(loss)

    wait_until(own, "the first epoch")
    begun = own()
    wait_until(lambda: own() >= begun + epochs, "more epochs")
    launch.cancel(runner.store, feed.run_id)
    assert runner.finish(feed.run_id).state == "cancelled"
    feed = Feed(feed.run_id)
    feed.read(runner.store)
    return feed


def test_a_cancelled_training_that_another_run_goes_on_with_has_one_curve(runner: Runner, tmp_path: Path) -> None:
    write_volumes(tmp_path / "volumes", 40, shape=(6, 6, 4, 2))
    document = _training(tmp_path / "volumes")
    first = _trained(runner, document, 3)
    second = _trained(runner, document, 3)
    before, whole = first.metrics["train", "loss"], second.metrics["train", "loss"]
    assert whole.steps == [*range(1, len(whole) + 1)]
    assert len(whole) >= len(before) + 3
    assert whole.values[: len(before)] == before.values
    (beginning,) = second.beginnings["train"]
    assert (beginning.run_id, beginning.steps["loss"]) == (first.run_id, len(before))
    steps = second.metrics["train", "step_loss"].steps
    assert steps == [step for step in range(1, int(steps[-1]) + 1) if is_reported(step)]
    ((words, run_id),) = beginnings(second, {"train": "Train"})
    assert run_id == first.run_id
    assert words.startswith(f"Train, up to epoch {len(before)}: of run ")
