"""What a run came to beside the one before, and what was different there."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from building import box, pipeline
from hypothesis import given
from hypothesis import strategies as st
from running import Runner

from engine.catalog import Catalog
from engine.declare.dataset_type import Dataset
from engine.declare.datasets import Report, TrainedModel, VolumeDelta, VolumeSpec
from engine.history.details import read_details
from engine.history.summary import MOST_TILES, changes, run_before, tiles
from engine.store.runs import RunStore, Task
from engine.wording import figure_name
from engine.workspace import Workspace

SPEC = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32", classes=("a", "b"))


def model(**metrics: float) -> TrainedModel:
    return TrainedModel(uri="/m", spec=SPEC, metrics=metrics)


def task(node: str, **outputs: Dataset) -> Task:
    return Task(
        run_id="r", node=node, position=0, node_type="Train", title="", state="done", reason="", fingerprint="",
        attempt=1, started=None, ended=None, pid=None, progress=None, outputs=outputs, failure=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("step_val_loss", "Validation loss of a step"),
        ("epoch_seconds_data", "Seconds of an epoch: data"),
        ("val_auc", "Validation AUC"),
        ("test_accuracy", "Test accuracy"),
        ("loss", "Loss"),
        ("f1", "F1"),
        ("samples_per_second", "Samples per second"),
    ],
)
def test_figures_are_called_as_people_do(name: str, words: str) -> None:
    assert figure_name(name) == words


def test_each_figure_stands_beside_that_of_the_same_node_before() -> None:
    now = [task("train", model=model(val_auc=0.9, val_loss=0.3, loss=0.1))]
    before = [task("train", model=model(val_auc=0.8, val_loss=0.2))]
    found = {t.name: (t.value, t.before, t.better) for t in tiles(now, before)}
    assert found == {"val_auc": (0.9, 0.8, True), "val_loss": (0.3, 0.2, False)}
    assert [t.before for t in tiles(now, [task("other", model=model(val_auc=0.8))])] == [None, None]
    assert [t.better for t in tiles(now, now)] == [None, None]


def test_the_last_nodes_come_first_and_each_says_what_matters_most_first() -> None:
    report = Report(uri="/r", figures={"auc": 0.7, "accuracy": 0.6, "model": "abc"})
    found = tiles([task("train", model=model(val_auc=0.9, val_accuracy=0.8)), task("judge", report=report)])
    assert [(t.node, t.name) for t in found] == [
        ("judge", "auc"), ("judge", "accuracy"), ("train", "val_auc"), ("train", "val_accuracy"),
    ]  # fmt: skip


names = st.sampled_from(["val_auc", "val_loss", "loss", "test_f1", "accuracy", "mae"])


@given(st.lists(st.dictionaries(names, st.floats(allow_nan=True), max_size=6), max_size=5))
def test_tiles_are_few_finite_and_of_different_figures(all_metrics: list[Mapping[str, float]]) -> None:
    found = tiles([task(f"n{at}", model=model(**metrics)) for at, metrics in enumerate(all_metrics)])
    assert len(found) <= MOST_TILES
    assert len({(t.node, t.name) for t in found}) == len(found)
    assert all(math.isfinite(t.value) for t in found)


def test_the_run_before_is_the_newest_that_ended_well(store: RunStore) -> None:
    first, failed, other, last = (store.create_run(p, "{}", {}, "local") for p in ("p", "p", "q", "p"))
    for run_id, state in ((first, "done"), (failed, "failed"), (other, "done"), (last, "done")):
        store.finish_run(run_id, state)  # type: ignore[arg-type]
    found = run_before(store, store.run(last))
    assert found is not None
    assert found.run_id == first
    assert run_before(store, store.run(first)) is None


def test_the_run_before_is_found_also_when_many_came_after(store: RunStore) -> None:
    for at in range(60):  # as a sweep leaves them
        store.put_run(f"r{at:02d}", "p", "{}", {}, "local", "done", "", created=at, ended=at + 1)
    found = run_before(store, store.run("r01"))
    assert found is not None
    assert found.run_id == "r00"


@pytest.fixture
def runner(probes: Catalog, workspace: Workspace, store: RunStore, forked_runs: None) -> Runner:
    return Runner(probes, workspace, store)


@pytest.mark.slow
def test_parameters_data_nodes_and_profile_that_differ_are_named(runner: Runner) -> None:
    one, _ = runner.run(pipeline(box("a", "Make", text="x"), box("j", "Join"), wires="a.out>j.first", name="p"))
    two, _ = runner.run(pipeline(box("a", "Make", text="y"), box("b", "Make"), name="p"))
    before, now = (read_details(runner.workspace, runner.store, run.run_id) for run in (one, two))
    found = [(c.kind, c.where, c.name, c.before, c.now) for c in changes(before, now)]
    assert ("Parameter", "Make (a)", "text", "x", "y") in found
    assert ("Node", "Make (b)", "Make", "-", "added") in found
    assert ("Node", "Join", "Join", "was there", "removed") in found
    assert ("Wire", "", "Make (a).out → Join.first", "was there", "removed") in found
    assert changes(now, now) == []


@pytest.mark.slow
def test_another_version_of_a_table_is_a_change_of_data(runner: Runner) -> None:
    run, _ = runner.run(pipeline(box("a", "Make"), name="p"))
    again, _ = runner.run(pipeline(box("a", "Make"), name="p"))
    for at, run_id in enumerate((run.run_id, again.run_id)):
        table = VolumeDelta(uri="/t", count=10 + at, bytes=1000, version=3 + at, data_version=3 + at)
        runner.store.update_task(run_id, "a", outputs={"out": table})
    (change,) = changes(
        read_details(runner.workspace, runner.store, run.run_id),
        read_details(runner.workspace, runner.store, again.run_id),
    )
    assert (change.kind, change.name) == ("Data", "out")
    assert "version 3" in change.before
    assert "version 4" in change.now
