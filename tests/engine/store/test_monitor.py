"""The file of a run's monitor: bounded, whole at any kill, and no peak is lost when it is thinned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples

from engine.store.monitor import PROCESSES, Attempt, Moment, MonitorLog, MonitorRecord, joined

VALUES = st.dictionaries(st.sampled_from(["cpu", "a.cpu", "a.read"]), st.floats(0, 1e6).map(lambda v: round(v, 2)))
MOMENTS = st.lists(VALUES, max_size=60).map(
    lambda found: [Moment(1000.0 + i, 1.0, values) for i, values in enumerate(found)]
)


def read(path: Path) -> MonitorRecord:
    record = MonitorRecord(path)
    record.read()
    return record


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MOMENTS, st.integers(2, 9))
def test_however_long_a_run_is_the_file_is_bounded_and_keeps_means_and_peaks(
    tmp_path: Path, moments: list[Moment], most: int
) -> None:
    path = tmp_path / "monitor.jsonl"
    path.unlink(missing_ok=True)
    log = MonitorLog(path, most)
    log.begin(Attempt(999.5, {"cores": 2}))
    for moment in moments:
        log.add(moment)
        assert len(path.read_text().splitlines()) <= most + 2
    log.flush()
    found = read(path)
    assert [attempt.about for attempt in found.attempts] == [{"cores": 2}]
    assert sum(moment.seconds for moment in found.moments) == len(moments)
    for name in ("cpu", "a.cpu", "a.read"):
        before = [moment.values[name] for moment in moments if name in moment.values]
        after = [peak for moment in found.moments if (peak := moment.peak(name)) is not None]
        assert max(after, default=None) == max(before, default=None)
        assert all(min(before) - 0.1 <= moment.values[name] <= max(before) + 0.1
                   for moment in found.moments if name in moment.values)  # fmt: skip


def test_a_moment_counts_for_as_long_as_it_was() -> None:
    whole = joined([Moment(1, 1, {"a": 0.0, "b": 5.0}), Moment(4, 3, {"a": 4.0}, {"a": 9.0})])
    assert (whole.time, whole.seconds) == (4, 4)
    assert whole.values == {"a": 3.0, "b": 5.0}
    assert whole.peaks == {"a": 9.0}
    assert (whole.peak("a"), whole.peak("b"), whole.peak("c")) == (9.0, 5.0, None)


def test_what_a_process_used_counts_for_as_long_as_its_task_was_there() -> None:
    """Else those of many short ones would be far more together than all that the task used."""
    whole = joined([
        Moment(1, 1, {"a.cpu": 110.0, "a.cpu:worker": 10.0, "a.cpu:tool 1": 100.0}),
        Moment(2, 1, {"a.cpu": 50.0, "a.cpu:worker": 10.0, "a.cpu:tool 2": 40.0}),
        Moment(4, 2, {"b.cpu": 8.0, "b.cpu:worker": 8.0}),
    ])  # fmt: skip
    assert whole.values == {
        "a.cpu": 80.0, "a.cpu:worker": 10.0, "a.cpu:tool 1": 50.0, "a.cpu:tool 2": 20.0,
        "b.cpu": 8.0, "b.cpu:worker": 8.0,
    }  # fmt: skip


def test_a_task_that_starts_programs_all_the_time_has_a_few_processes_in_each_moment(tmp_path: Path) -> None:
    log = MonitorLog(tmp_path / "monitor.jsonl", most=8)
    log.begin(Attempt(0.0, {}))
    for i in range(100):
        tools = {f"a.cpu:tool {100 * i + k}": 10.0 + k for k in range(PROCESSES - 1)}
        in_all = 1.0 + sum(tools.values())
        log.add(Moment(i + 1.0, 1.0, {"a.cpu": in_all, "a.cpu:worker": 1.0, **tools}))
    found = read(tmp_path / "monitor.jsonl")
    assert found.every_s > 1
    for moment in found.moments:
        processes = {name: value for name, value in moment.values.items() if name.startswith("a.cpu:")}
        assert len(processes) == PROCESSES + 1
        assert {"a.cpu:worker", "a.cpu:others"} <= set(processes)
        assert sum(processes.values()) == pytest.approx(moment.values["a.cpu"], abs=0.1)
        assert set(moment.peaks) <= set(moment.values)


@pytest.mark.parametrize("cut", [1, 8, 20])
def test_a_kill_amid_a_line_costs_that_line_alone(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "monitor.jsonl"
    log = MonitorLog(path)
    log.begin(Attempt(1.0, {"host": "one"}))
    log.add(Moment(2.0, 1.0, {"cpu": 1.0}))
    log.add(Moment(3.0, 1.0, {"cpu": 2.0}))
    path.write_bytes(path.read_bytes()[:-cut])
    assert [moment.time for moment in read(path).moments] == [2.0]
    again = MonitorLog(path)
    again.begin(Attempt(9.0, {"host": "two"}))
    again.add(Moment(10.0, 1.0, {"cpu": 3.0}))
    found = read(path)
    # A line that lacks its end alone is whole once more is written.
    assert [moment.time for moment in found.moments] == ([2.0, 3.0, 10.0] if cut == 1 else [2.0, 10.0])
    assert [attempt.about["host"] for attempt in found.attempts] == ["one", "two"]


def test_a_resumed_run_goes_on_as_sparsely(tmp_path: Path) -> None:
    path = tmp_path / "monitor.jsonl"
    log = MonitorLog(path, most=4)
    log.begin(Attempt(0.0, {}))
    for i in range(4):
        log.add(Moment(i + 1.0, 1.0, {"cpu": 1.0}))
    again = MonitorLog(path, most=4)
    again.add(Moment(5.0, 1.0, {"cpu": 1.0}))
    assert (read(path).every_s, len(read(path).moments)) == (2, 2)
    again.add(Moment(6.0, 1.0, {"cpu": 1.0}))
    assert len(read(path).moments) == 3


def test_a_reader_takes_what_is_new_and_all_of_a_file_that_was_thinned(tmp_path: Path) -> None:
    path = tmp_path / "monitor.jsonl"
    record = MonitorRecord(path)
    assert not record.read()
    log = MonitorLog(path, most=4)
    for i in range(3):
        log.add(Moment(i + 1.0, 1.0, {"cpu": 1.0}))
        assert record.read()
        assert len(record.moments) == i + 1
    assert not record.read()
    log.add(Moment(4.0, 1.0, {"cpu": 1.0}))
    record.read()
    assert [(moment.time, moment.seconds) for moment in record.moments] == [(2.0, 2.0), (4.0, 2.0)]
    assert record.every_s == 2


def test_a_file_that_was_thinned_twice_since_is_another_one_also_in_the_same_place_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ext4 does it: what is written takes the number of the file that the time before has freed."""
    path = tmp_path / "monitor.jsonl"
    log, record = MonitorLog(path, most=8), MonitorRecord(path)
    log.begin(Attempt(0.0, {}))
    found = os.fstat

    def at_one_place(handle: int) -> os.stat_result:
        values = list(found(handle))
        values[1] = 4711  # the inode
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", at_one_place)
    for i in range(5):
        log.add(Moment(i + 1.0, 1.0, {"cpu": 1.0}))
    assert record.read()
    for i in range(5, 30):
        log.add(Moment(i + 1.0, 1.0, {"cpu": 1.0}))
    assert record.read()
    assert (record.every_s, record.moments) == (4, read(path).moments)
    assert sum(moment.seconds for moment in record.moments) == 28
    assert not record.read()


def test_a_full_disk_costs_moments_and_nothing_else(tmp_path: Path) -> None:
    log = MonitorLog(tmp_path / "gone" / "monitor.jsonl")
    log.begin(Attempt(1.0, {}))
    log.add(Moment(2.0, 1.0, {"cpu": 1.0}))
    log.flush()
    assert read(tmp_path / "gone" / "monitor.jsonl").moments == []
