"""The machine that the app runs on, as the page Compute shows it: samples while somebody looks, and none afterwards."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from waiting import wait_until

from engine.declare.events import SystemSample
from engine.run.system_metrics import SystemSampler
from ui.compute import machine, page
from ui.compute.machine import MachineHistory
from ui.runs.feed import Series
from ui.runs.system import system_charts

SHOWN = {
    "cpu_utilization_percentage",
    "system_memory_usage_megabytes",
    "disk_read_megabytes",
    "disk_write_megabytes",
    "network_receive_megabytes",
    "network_transmit_megabytes",
}


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineHistory:
    monkeypatch.setattr(machine, "EVERY_S", 0.01)
    return MachineHistory(tmp_path)


def end(thread: threading.Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the page had been closed long enough ago."""
    with monkeypatch.context() as soon:
        soon.setattr(machine, "_IDLE_S", -1.0)
        wait_until(lambda: not thread.is_alive(), "the end of the sampling")


def begun(history: MachineHistory) -> threading.Thread:
    """The thread that takes samples because somebody has asked now."""
    before = set(threading.enumerate())
    history.series()
    (thread,) = set(threading.enumerate()) - before
    return thread


def test_the_machine_is_measured_while_somebody_looks(history: MachineHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = begun(history)
    found = wait_until(lambda: s if len((s := history.series()).get("cpu_utilization_percentage", ())) > 3 else {})
    assert found.keys() >= SHOWN
    for series in found.values():
        assert all(before < after for before, after in pairwise(series.steps))
    start = found["cpu_utilization_percentage"].steps[-1]
    charts = {chart.title: chart for chart in system_charts(found, start, 60.0)}
    assert charts.keys() >= {"CPU", "Memory", "Disk", "Network"}
    assert all(len(line.series) > 1 for chart in charts.values() for line in chart.lines)
    # What was given is the asker's own: it does not grow under the hands of who draws it.
    count = len(found["cpu_utilization_percentage"])
    wait_until(lambda: len(history.series()["cpu_utilization_percentage"]) > count)
    assert len(found["cpu_utilization_percentage"]) == count

    # The page is closed: sampling ends. Opened again, it shows the old samples, then new ones.
    end(thread, monkeypatch)
    thread = begun(history)
    before = len(history.series()["cpu_utilization_percentage"])
    assert before > count
    wait_until(lambda: len(history.series()["cpu_utilization_percentage"]) > before)
    end(thread, monkeypatch)


def test_a_gpu_is_measured_too_and_what_is_old_is_forgotten(
    history: MachineHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def sample(self: SystemSampler, roots: object) -> SystemSample:
        nonlocal taken
        taken += 1
        gpu = {"gpu_0_utilization_percentage": 42.0, "gpu_0_memory_usage_megabytes": 512.0}
        return SystemSample(values={"cpu_utilization_percentage": float(taken), **gpu})

    monkeypatch.setattr(SystemSampler, "sample", sample)
    monkeypatch.setattr(SystemSampler, "gpu_problem", "it is away")
    monkeypatch.setattr(machine, "KEPT_S", 0.04)
    thread = begun(history)
    found = wait_until(lambda: s if (s := history.series()).get("cpu_utilization_percentage") and taken > 8 else {})
    end(thread, monkeypatch)
    assert found["gpu_0_utilization_percentage"].last == 42
    assert history.gpu_problem == "it is away"
    cpu = found["cpu_utilization_percentage"]
    assert cpu.values[0] > 1
    assert cpu.steps[-1] - cpu.steps[0] <= 0.04
    assert [chart.title for chart in system_charts(found, cpu.steps[-1], 60.0)] == ["CPU", "GPU", "GPU memory"]


def test_what_a_container_does_not_say_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def secret() -> float:
        raise RuntimeError("line 'btime' not found in /proc/stat")

    monkeypatch.setattr("psutil.boot_time", secret)
    free = Series([1.0], [5000.0])
    assert page._now({"disk_available_megabytes": free, "cpu_utilization_percentage": Series()}) == [
        ("disk free", "5.0 GB")
    ]
    cpu = {"cpu_utilization_percentage": Series([1.0], [40.0])}
    assert page._now(cpu) == [("CPU", "40%")]
    # The first sample says nothing of traffic.
    traffic = dict.fromkeys(("network_receive_megabytes", "network_transmit_megabytes"), Series([1.0], [3.0]))
    assert page._now(cpu | traffic) == [("CPU", "40%")]


def test_the_line_above_the_curves_has_gpus_and_traffic_as_they_are_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.boot_time", lambda: 1 / 0)
    moments = [0.0, 2.0, 4.0]
    series = {
        "cpu_utilization_percentage": Series(moments, [1.0, 2.0, 40.0]),
        "disk_read_megabytes": Series(moments, [0.0, 0.0, 25.0]),
        "disk_write_megabytes": Series(moments, [0.0, 7.0, 7.0]),
        "network_receive_megabytes": Series(moments, [0.0, 1.0, 2469.0]),
        "network_transmit_megabytes": Series(moments, [0.0, 1.0, 1.5]),
        "gpu_0_utilization_percentage": Series(moments, [0.0, 0.0, 97.0]),
        "gpu_0_memory_usage_megabytes": Series(moments, [0.0, 0.0, 512.0]),
    }
    assert page._now(series) == [
        ("CPU", "40%"),
        ("GPU", "97%, 512 MB used"),
        ("disk, MB/s", "12 read, 0 written"),
        ("network, MB/s", "1,200 received, 0.25 sent"),
    ]
    # Slices of a GPU have no utilisation.
    series["gpu_1_utilization_percentage"] = Series(moments, [0.0, 0.0, 3.0])
    assert page._now(series)[1:3] == [("GPU 0", "97%, 512 MB used"), ("GPU 1", "3%")]


@pytest.mark.parametrize(("first", "unit"), [(96.0, "seconds"), (-200.0, "minutes")])
def test_the_axis_of_time_has_seconds_until_there_are_minutes(first: float, unit: str) -> None:
    series = {"cpu_utilization_percentage": Series([first, 100.0], [1.0, 2.0]), "gpu_0_memory": Series()}
    assert page._unit_of_time(series, 100.0)[0] == unit
    assert page._unit_of_time({}, 100.0) == ("seconds", 1.0)
