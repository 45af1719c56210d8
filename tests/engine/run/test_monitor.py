"""The monitor of a run, with real processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from waiting import wait_for_line

from engine.declare.events import Progress, SystemSample
from engine.profiles import Profile
from engine.run.monitor import Monitor
from engine.run.system_metrics import SystemSampler, Traffic, mean_of
from engine.store.monitor import FILE, PROCESSES, MonitorRecord

HERE = Profile(name="local", cores=2, memory_bytes=1 << 30)
AWAY = HERE.model_copy(update={"name": "c", "backend": "spark", "master": "yarn"})
_BUSY = "import sys; print('ready', flush=True)\nwhile True: sum(range(10_000))"


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    return Monitor(tmp_path / FILE, SystemSampler(tmp_path), HERE)


def read(tmp_path: Path) -> MonitorRecord:
    record = MonitorRecord(tmp_path / FILE)
    record.read()
    return record


@pytest.mark.slow
def test_a_task_has_its_processes_memory_and_pace(tmp_path: Path, monitor: Monitor) -> None:
    process = subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE)
    try:
        wait_for_line(process, "")
        monitor.note(Progress(node="a", time=10.0, done=0, samples=0.0, waited_s=0.0))
        monitor.sample(os.getpid(), {"a": process.pid})
        monitor.note(Progress(node="a", time=12.0, done=64, unit="volumes", samples=64.0, waited_s=0.5))
        time.sleep(0.3)
        sample = monitor.sample(os.getpid(), {"a": process.pid})
    finally:
        process.kill()
        process.communicate()
    monitor.flush()
    found = read(tmp_path)
    values = {name: value for moment in found.moments for name, value in moment.values.items()}
    assert values["a.cpu:worker"] > 1
    assert values["a.cpu"] == pytest.approx(values["a.cpu:worker"], abs=0.1)
    assert values["a.memory"] > 1
    assert (values["a.rate:volumes"], values["a.waiting"]) == (32.0, 25.0)
    assert {"cpu", "memory"} <= values.keys()
    # The supervisor's own time is no task's.
    assert "cpu_utilization_percentage" in sample.values
    assert found.attempts[0].about["cores"] >= 1
    assert found.attempts[0].about["elsewhere"] == ""


def test_a_missing_gpu_is_reported_and_not_drawn_as_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monitor = Monitor(tmp_path / FILE, SystemSampler(tmp_path), AWAY)
    monitor.sample(os.getpid(), {})
    monitor.flush()
    (attempt,), moments = read(tmp_path).attempts, read(tmp_path).moments
    assert attempt.about["gpu"] == "nvidia-ml-py is not installed"
    assert attempt.about["elsewhere"] == "yarn"
    assert not [name for moment in moments for name in moment.values if name.startswith("gpu")]


def test_many_processes_are_summed_up(tmp_path: Path, monitor: Monitor) -> None:
    found = [SimpleNamespace(pid=i, root=7, name="py", cpu=10.0, memory=1.0, read=None, write=None) for i in range(9)]
    monitor._sampler.processes = cast(Any, found)
    values = monitor._of_task("a", 7)
    assert values["cpu"] == 90
    assert values["cpu:worker"] == 10
    assert values["cpu:others"] == 10.0 * (9 - PROCESSES)
    assert len([name for name in values if name.startswith("cpu:")]) == PROCESSES + 1
    assert "read" not in values  # the system does not say


def test_a_process_has_a_name_that_can_be_shown(monitor: Monitor) -> None:
    """A name of letters of two bytes, which Linux has cut in the middle of the eighth, and one with a line's end."""
    names = ["py", "подгото\udcd0", "a\nb\x1b[31m"]
    found = [
        SimpleNamespace(pid=i, root=0, name=name, cpu=1.0, memory=1.0, read=None, write=None)
        for i, name in enumerate(names)
    ]
    monitor._sampler.processes = cast(Any, found)
    shown = [name for name in monitor._of_task("a", 0) if name.startswith("cpu:")]
    assert shown == ["cpu:worker", r"cpu:подгото\udcd0 1", r"cpu:a b\x1b[31m 2"]


def test_a_machine_that_does_not_say_how_much_memory_it_has_has_a_monitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/meminfo")

    monkeypatch.setattr("psutil.virtual_memory", raises)
    monitor = Monitor(tmp_path / FILE, SystemSampler(tmp_path), HERE)
    monitor.sample(os.getpid(), {})
    monitor.flush()
    found = read(tmp_path)
    assert "memory" not in found.attempts[0].about
    assert "memory" not in found.moments[0].values


REPORTS = [
    # another attempt, which begins anew
    ([Progress(node="a", time=1, done=90, unit="files"), Progress(node="a", time=2, done=3, unit="files")], {}),
    ([Progress(node="a", time=1, done=10, unit="files"), Progress(node="a", time=3, done=30, unit="files")],
     {"rate:files": 10.0}),
    ([Progress(node="a", time=1, done=10, unit="files"), Progress(node="a", time=1, done=30, unit="files")], {}),
    ([Progress(node="a", time=1, done=10, unit="files"), Progress(node="a", time=2, done=1, phase="Saving")], {}),
    # what is no number has no pace
    ([Progress(node="a", time=1, done=10, unit="files"), Progress(node="a", time=2, done=math.inf, unit="files")], {}),
    ([Progress(node="a", time=1, done=math.nan, unit="files"), Progress(node="a", time=2, done=9, unit="files")], {}),
    # more was waited for than there was time, by clocks that differ
    ([Progress(node="a", time=1, done=0, unit="v", samples=0, waited_s=0),
      Progress(node="a", time=2, done=1, unit="v", samples=1, waited_s=9)], {"rate:v": 1.0, "waiting": 100.0}),
    # an evaluation, which goes at another pace, is not the training's
    ([Progress(node="a", time=1, done=8, unit="v", phase="Epoch 1", samples=8, waited_s=0),
      Progress(node="a", time=2, done=90, unit="v", phase="Epoch 1, validation", waited_s=0.5)], {"waiting": 50.0}),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "wanted"), REPORTS)
def test_what_is_done_a_second_comes_from_the_reports(
    monitor: Monitor, reports: list[Progress], wanted: dict[str, float]
) -> None:
    seen = []
    for event in reports:
        monitor.note(event)
        seen.append(monitor._of_task("a", 0))
    assert seen == [{}, wanted]
    assert monitor._of_task("a", 0) == {}


def test_samples_in_a_row_are_one_by_their_means() -> None:
    first = SystemSample(values={"cpu": 10.0, "gpu_0_x": 1.0, "disk_read_megabytes": 5.0})
    second = SystemSample(values={"cpu": 30.0, "disk_read_megabytes": 9.0})
    assert mean_of([first, second]).values == {"cpu": 20.0, "disk_read_megabytes": 9.0}
    assert mean_of([first, second]).time == second.time


def test_totals_become_megabytes_a_second() -> None:
    traffic = Traffic()
    assert traffic.rates(SystemSample(values={"disk_read_megabytes": 4.0}), 2.0) == {"disk_read": 2.0}
    assert traffic.rates(SystemSample(values={"disk_read_megabytes": 9.0}), 1.0) == {"disk_read": 5.0}
    assert traffic.rates(SystemSample(values={"disk_read_megabytes": 0.0}), 1.0) == {"disk_read": 0.0}
