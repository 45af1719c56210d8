from __future__ import annotations

import pytest

from nodes.training import epoch_times
from nodes.training.epoch_times import EpochTimes


def test_seconds_are_told_once_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(epoch_times.time, "perf_counter", lambda: clock[0])
    times = EpochTimes()

    def batches() -> object:
        for _ in range(3):
            clock[0] += 2
            yield 8

    for batch in times.waiting_for(batches()):  # type: ignore[arg-type]
        with times.spent_on("compute"):
            clock[0] += 1
        times.trained(batch)  # type: ignore[arg-type]
    with times.spent_on("evaluate"):
        clock[0] += 5
    assert times.told() == {
        "epoch_seconds_data": 6,
        "epoch_seconds_compute": 3,
        "epoch_seconds_checkpoint": 0,
        "epoch_seconds_evaluate": 5,
        "samples_per_second": 24 / 9,
    }
    assert set(times.told().values()) == {0}
