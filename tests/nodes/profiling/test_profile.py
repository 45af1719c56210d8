"""A profile by real workers, with the tiny network: alone and in pairs, one size of which is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training_scenarios import tiny_program, tiny_workers
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.context import Resources, TaskContext
from engine.declare.events import Event, Facts
from nodes.profile_training import profile_training

__all__ = ["tiny_workers"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_workers")]
VOLUMES = some_volumes(40, (6, 6, 5, 2))


def test_sizes_are_measured_until_one_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.profiling.measurements.PROGRAM", (*tiny_program(), "profile"))
    # The system ends a process that takes too much memory in this way.
    monkeypatch.setenv("VOXELFLOW_KILL_AT", "profile:batch-8")
    table = make_delta(tmp_path, VOLUMES, labels_for(VOLUMES))
    for name in ("out", "shared", "scratch"):
        (tmp_path / name).mkdir()
    events: list[Event] = []
    ctx = TaskContext(
        "run", "it", "0" * 64, tmp_path / "out", tmp_path / "shared", tmp_path / "scratch", Resources(cores=2),
        emit=events.append,
    )  # fmt: skip
    report = profile_training(table, batch_sizes=(2, 4, 8, 16), workers=(1, 2), steps=3, warmup=1, ctx=ctx)
    rows = json.loads((ctx.out / "profile.json").read_text())["rows"]
    expected = ["measured", "measured", "out of memory", "not tried"]
    assert [row["outcome"] for row in rows] == 2 * expected
    for row in rows:
        if row["outcome"] == "measured":
            assert row["steps"] == 3
            assert row["samples_per_s"] > 0
            assert row["waiting_share"] + row["computing_share"] + row["rest_share"] == pytest.approx(1, abs=1e-3)
            assert row["peak_memory_mb"] > 50
    assert report.figures["recommended_batch_size"] in (2, 4)
    assert report.figures["out_of_memory_at"] == 8
    # Nothing of the trainings themselves is reported, and nothing of them is left.
    assert [event.values for event in events if isinstance(event, Facts)] == [report.figures]
    assert not [event for event in events if event.event == "metrics"]
    assert [path.name for path in ctx.scratch.iterdir()] == ["rows.json"]
