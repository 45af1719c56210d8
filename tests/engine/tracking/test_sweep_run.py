"""A sweep in MLflow: one parent, a child for each trial, and the best trial's values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tracked_runs import DOCUMENT, QUICK, FakeRun, Reader

from engine.store.runs import RunStore
from engine.tracking import send_pending, track_run
from engine.tracking.sweep_run import close_sweep
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
OPTIONS = {
    "space": {"fixed": {"data": "/d"}, "lists": {"train.epochs": [2, 3]}, "ranges": {"rate": "1e-05..0.01:log"}},
    "objective": {"figure": "val_auc", "maximise": True},
}


def _trial(workspace: Workspace, sweep_id: str, number: int) -> FakeRun:
    run = FakeRun(workspace, options={"sweep": sweep_id, "trial": number}).begin()
    run.upstream()
    run.training(1, 2)
    run.finish()
    return run


def test_trials_are_children_of_their_sweep(local: Workspace, reader: Callable[[Workspace], Reader]) -> None:
    store = RunStore(local)
    values = [{"train.epochs": 2, "rate": 0.001}, {"train.epochs": 3, "rate": 0.002}]
    sweep_id = store.sweeps.create(DOCUMENT["name"], "{}", OPTIONS, "local", values)  # type: ignore[arg-type]
    trials = [_trial(local, sweep_id, number) for number in (0, 1)]
    for run in trials:
        assert track_run(local, run.id, patience=QUICK)
    found = reader(local).runs(sweep_id)
    assert (list(found), found[""].status) == ([""], "RUNNING")
    parent = found[""].id
    for number, run in enumerate(trials):
        sent = reader(local).runs(run.id)
        assert sent[""].tags["mlflow.parentRunId"] == parent
        assert sent[""].tags["voxelflow.trial"] == str(number)
        assert sent["train"].tags["mlflow.parentRunId"] == sent[""].id
    for number, score in enumerate((0.8, 0.9)):
        store.sweeps.set_trial(sweep_id, number, "done", score=score)
    store.sweeps.end(sweep_id, "done")
    # What a sweep's process could not send goes with a later run.
    send_pending(local)
    assert store.sweeps.untracked() == []
    # Sent again, as after a kill before it was noted, it is the same.
    assert close_sweep(local, sweep_id)
    ended = reader(local).runs(sweep_id)[""]
    assert (ended.id, ended.status) == (parent, "FINISHED")
    assert [(step, value) for step, _, value in ended.points["trials.val_auc"]] == [(0, 0.8), (1, 0.9)]
    assert ended.params == {"data": "/d", "sweep.train.epochs": "[2, 3]", "sweep.rate": "1e-05..0.01:log"}
    assert ended.tags["voxelflow.sweep.best_trial"] == "1"
    assert ended.tags["voxelflow.sweep.best.train.epochs"] == "3"
    assert ended.tags["voxelflow.sweep.done"] == "2"


def test_a_sweep_that_went_on_has_only_what_became_of_it_in_the_end(
    local: Workspace, reader: Callable[[Workspace], Reader]
) -> None:
    store = RunStore(local)
    values = [{"train.epochs": 2}, {"train.epochs": 3}, {"train.epochs": 4}]
    sweep_id = store.sweeps.create(DOCUMENT["name"], "{}", OPTIONS, "local", values)  # type: ignore[arg-type]
    store.sweeps.set_trial(sweep_id, 0, "done", score=0.8)
    store.sweeps.set_trial(sweep_id, 1, "failed")
    store.sweeps.end(sweep_id, "failed", "trial 1 failed")
    assert close_sweep(local, sweep_id)
    tags = reader(local).runs(sweep_id)[""].tags
    assert (tags["voxelflow.sweep.waiting"], tags["voxelflow.error"]) == ("1", "trial 1 failed")
    store.sweeps.begin(sweep_id)
    for number in (1, 2):
        store.sweeps.set_trial(sweep_id, number, "done", score=0.7)
    store.sweeps.end(sweep_id, "done")
    assert close_sweep(local, sweep_id)
    tags = reader(local).runs(sweep_id)[""].tags
    assert (tags["voxelflow.state"], tags["voxelflow.sweep.done"]) == ("done", "3")
    left = ("voxelflow.sweep.waiting", "voxelflow.sweep.failed", "voxelflow.error")
    assert not [name for name in left if name in tags]


def test_a_run_whose_sweep_is_not_known_any_more_is_sent_alone(
    local: Workspace, reader: Callable[[Workspace], Reader]
) -> None:
    run = _trial(local, "gone", 0)
    assert track_run(local, run.id, patience=QUICK)
    assert "mlflow.parentRunId" not in reader(local).runs(run.id)[""].tags
