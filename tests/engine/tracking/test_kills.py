"""`kill -9` of the tracker at any moment: no second MLflow run, no point lost or doubled."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tracked_runs import QUICK, FakeRun, Found, Reader, TrackerProcess
from waiting import wait_until

from engine.declare.events import Facts, TaskStateChanged
from engine.tracking import run_link, track_run
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
Start = Callable[..., TrackerProcess]
POINTS = ["tracking:run-created", "tracking:run-created", "tracking:sent", "tracking:saved"]


def _written(workspace: Workspace) -> FakeRun:
    run = FakeRun(workspace).begin()
    run.upstream()
    run.emit(TaskStateChanged(node="train", state="running"), Facts(node="train", values={"device": "CPU"}))
    run.step(*range(50))
    run.finish()
    return run


def _same(left: Found, right: Found) -> None:
    """Equal but for what names the run itself."""
    own = {"voxelflow.run_id", "mlflow.runName", "mlflow.parentRunId", "mlflow.note.content"}

    def messages(found: Found) -> Any:
        tags = {k: v for k, v in found.tags.items() if k not in own}
        # A run's own start is the real time at which its test made it.
        return replace(found, id="", tags=tags, start_time=0, inputs=[str(i) for i in found.inputs])

    assert messages(left) == messages(right)


def test_killed_at_every_named_moment(local: Workspace, reader: Callable[[Workspace], Reader], tracker: Start) -> None:
    undisturbed, run = _written(local), _written(local)
    assert track_run(local, undisturbed.id, patience=QUICK)
    for point in POINTS:
        # Each tracker dies at its moment; a later one takes over from whatever is left.
        assert tracker(run, VOXELFLOW_KILL_AT=point).wait() == -9, point
    assert tracker(run).wait() == 0
    expected, found = reader(local).runs(undisturbed.id), reader(local).runs(run.id)
    assert set(expected) == set(found) == {"", "train"}
    for node in expected:
        _same(expected[node], found[node])
    assert run.store.tracking.find(run.id)[2]


def test_killed_at_random_moments_while_the_run_goes_on(
    local: Workspace, reader: Callable[[Workspace], Reader], tracker: Start, tmp_path: Path
) -> None:
    run = FakeRun(local).begin().training()
    stop, chance = threading.Event(), random.Random(7)
    steps = 0

    def write() -> None:
        nonlocal steps
        writer = FakeRun.opened(run)
        while not stop.wait(0.005):
            writer.step(steps)
            steps += 1
        writer.emit(TaskStateChanged(node="train", state="done"))
        writer.store.close()
        run.clock = writer.clock

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(3):
            victim = tracker(run)
            sent = run.store.tracking.find(run.id)[0]
            # Once the cursor has moved, a kill may hit anything.
            wait_until(lambda: run.store.tracking.find(run.id)[0] > sent, "sending", 120)  # noqa: B023
            stop.wait(chance.random() / 2)
            victim.kill()
    finally:
        stop.set()
        thread.join()
    run.end("done")
    assert tracker(run).wait() == 0
    found = reader(local).runs(run.id)
    assert found["train"].steps("loss") == found["train"].steps("accuracy") == list(range(steps))
    assert found["train"].steps("system/cpu_utilization_percentage") == list(range(steps))
    assert found[""].steps("system/cpu_utilization_percentage") == list(range(steps))
    assert found[""].status == found["train"].status == "FINISHED"
    assert run_link(local, run.id)["children"] == {"train": found["train"].id}
