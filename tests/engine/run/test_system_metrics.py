"""The sampler, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from waiting import WAIT_S, wait_for_line

from engine.cgroups import Memory, Processors
from engine.declare.events import SystemSample, event_from_json
from engine.run import system_metrics
from engine.run.system_metrics import TRAFFIC, SystemSampler, idle_share

MB = 1e6
_EAT = """
import subprocess, sys
held = bytearray(int(sys.argv[1]) * 1_000_000)
child = None
if int(sys.argv[2]):
    command = [sys.executable, "-c", sys.argv[3], sys.argv[1], "0", ""]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
if child:
    child.communicate()
"""


def test_all_figures_of_the_machine_are_there_and_plausible() -> None:
    sample = SystemSampler().sample([os.getpid()])
    values = sample.values
    assert {
        "cpu_utilization_percentage",
        "system_memory_usage_megabytes",
        "system_memory_usage_percentage",
        "disk_usage_percentage",
        "disk_usage_megabytes",
        "disk_available_megabytes",
        "disk_read_megabytes",
        "disk_write_megabytes",
        "network_receive_megabytes",
        "network_transmit_megabytes",
        "run_processes_count",
        "run_processes_memory_usage_megabytes",
        "run_processes_cpu_percentage",
    } <= set(values)
    assert all(value >= 0 for value in values.values())
    assert all(
        value <= 100 for name, value in values.items() if name.startswith("system_") and name.endswith("percentage")
    )
    assert 0 < values["run_processes_memory_usage_megabytes"] < values["system_memory_usage_megabytes"]
    assert event_from_json(sample.model_dump_json()) == sample


@pytest.mark.slow
def test_mlflows_own_names_are_used() -> None:
    """MLflow's monitors and ours must agree, or a run's charts would not line up with other people's."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
        from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
        from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor
    theirs: set[str] = set()
    for monitor in (CPUMonitor(), DiskMonitor(), NetworkMonitor()):
        monitor.collect_metrics()
        theirs |= set(monitor.aggregate_metrics())
    assert theirs <= set(SystemSampler().sample([]).values)


@pytest.mark.slow
def test_memory_and_count_are_those_of_the_whole_tree() -> None:
    sampler = SystemSampler()
    command = [sys.executable, "-c", _EAT, "50", "1", _EAT]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        wait_for_line(process, "^ready$")
        values = sampler.sample([process.pid]).values
        # The child is named twice, by itself and below its parent: it counts once.
        assert (
            values["run_processes_count"]
            == sampler.sample([process.pid, process.pid]).values["run_processes_count"]
            == 2
        )
        assert 100 < values["run_processes_memory_usage_megabytes"] < 400
    finally:
        process.communicate(timeout=WAIT_S)


@pytest.mark.slow
def test_busy_processes_use_processor_time() -> None:
    sampler = SystemSampler()
    sampler.sample([os.getpid()])
    before = os.times()
    while os.times().user - before.user < 0.1:
        sum(range(10_000))
    assert sampler.sample([os.getpid()]).values["run_processes_cpu_percentage"] > 0


def test_in_a_container_with_a_limit_the_machine_s_figures_are_the_container_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the host's an idle host would make a busy container idle, and its cost that of idle time."""
    used, clock = [90.0, 90.6], [100.0, 101.0]
    monkeypatch.setattr("engine.run.system_metrics.processors", lambda: Processors(1.5, used.pop(0)))
    monkeypatch.setattr("engine.run.system_metrics.memory", lambda: Memory(4 * 10**9, 3 * 10**9, 10**9))
    monkeypatch.setattr("engine.run.system_metrics.time", SimpleNamespace(monotonic=lambda: clock.pop(0)))
    values = SystemSampler().sample([]).values
    assert values["cpu_utilization_percentage"] == 40
    assert values["system_memory_usage_percentage"] == 25


def test_processor_time_from_before_the_first_sample_does_not_count() -> None:
    """It would show as thousands of percent."""
    while os.times().user < 0.3:
        sum(range(10_000))
    sampler = SystemSampler()
    assert sampler.sample([]).values["run_processes_cpu_percentage"] == 0
    assert sampler.sample([os.getpid()]).values["run_processes_cpu_percentage"] == 0


_WORK = """
import os, sys
while os.times().user < 0.3:
    sum(range(10_000))
print("ready", flush=True)
sys.stdin.read()
"""
_TICKS = pytest.mark.skipif(sys.platform != "linux", reason="only Linux makes the times of processes of two parts")


@contextmanager
def _has_worked() -> Iterator[int]:
    """A process that has used 0.3 s of a core and does nothing more."""
    process = subprocess.Popen([sys.executable, "-c", _WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        wait_for_line(process, "^ready$")
        yield process.pid
    finally:
        process.communicate(timeout=WAIT_S)


def _shift(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The machine's start, and so each process's, is that much later by the time of day."""
    booted, created = psutil.boot_time, psutil.Process.create_time
    monkeypatch.setattr(psutil, "boot_time", lambda: booted() + seconds)
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: created(process) + seconds)


@_TICKS
def test_the_work_of_a_process_that_is_new_counts_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil says that processes began too early, by the fraction of a second of the machine's start, here by more."""
    _shift(monkeypatch, -60)
    sampler = SystemSampler()
    with _has_worked() as pid:
        sampler.sample([pid])
    (process,) = sampler.processes
    assert process.cpu * sampler.interval_s > 29  # of 0.3 s, as float


@_TICKS
def test_when_the_clock_is_set_old_work_does_not_become_new(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = SystemSampler()
    with _has_worked() as pid:
        sampler.sample([pid])
        _shift(monkeypatch, 3600)
        sampler.sample([pid])
        (process,) = sampler.processes
        assert process.cpu * sampler.interval_s < 30
        assert process.cpu < 1000


def test_the_time_that_looking_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with thousands of processes it is a good part of a second."""
    look = system_metrics._trees

    def slowly(pids: list[int]) -> object:
        time.sleep(0.2)
        return look(pids)

    monkeypatch.setattr(system_metrics, "_trees", slowly)
    sampler, began = SystemSampler(), time.monotonic()
    for _ in range(3):
        sampler.sample([os.getpid()])
    assert 0.2 <= sampler.interval_s <= time.monotonic() - began - 0.4


def _raises(error: Exception) -> Callable[..., None]:
    def raises(*_: object, **__: object) -> None:
        raise error

    return raises


@pytest.mark.parametrize(
    ("what", "error", "missing"),
    [
        ("cpu_percent", PermissionError(13, "Permission denied", "/proc/stat"), "cpu_utilization_percentage"),
        ("virtual_memory", FileNotFoundError(2, "No such file", "/proc/meminfo"), "system_memory_usage_megabytes"),
        ("disk_io_counters", ValueError("not sure how to interpret line '8 0 sda'"), ""),
        ("net_io_counters", AssertionError("'eth0'"), ""),
        ("boot_time", RuntimeError("line 'btime' not found in /proc/stat"), ""),
        ("Process.io_counters", RuntimeError("/proc/4711/io file was empty"), ""),
        ("Process.create_time", FileNotFoundError(2, "No such file", "/proc/stat"), ""),
        ("Process.name", IndexError("list index out of range"), ""),
    ],
)
def test_a_figure_that_the_system_does_not_give_is_left_out(
    monkeypatch: pytest.MonkeyPatch, what: str, error: Exception, missing: str
) -> None:
    """As in containers, whose /proc may lack files and lines, or have others."""
    monkeypatch.setattr("engine.run.system_metrics.processors", lambda: None)
    monkeypatch.setattr(f"psutil.{what}", _raises(error), raising=False)
    sampler = SystemSampler()
    values = sampler.sample([os.getpid()]).values
    assert missing not in values
    assert {f"{name}_megabytes" for name in TRAFFIC} <= set(values)
    idle = idle_share(SystemSample(values=values))
    assert idle is None or 0 <= idle <= 1
    unknown = {"disk_io_counters": TRAFFIC[:2], "net_io_counters": TRAFFIC[2:]}
    assert what not in unknown or sampler.unknown == unknown[what]


def test_traffic_does_not_fall_when_a_device_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of psutil do: of networks, as when a container ends, and of disks."""
    sums = iter([None, 900, 950, 20, 30])
    found: list[float] = []

    def counters() -> SimpleNamespace | None:
        now = next(sums)
        return None if now is None else SimpleNamespace(bytes_recv=now * MB, bytes_sent=now * MB)

    monkeypatch.setattr(psutil, "net_io_counters", counters)
    sampler = SystemSampler()
    for _ in range(4):
        found.append(sampler.sample([]).values["network_receive_megabytes"])
    assert found == [0, 50, 50, 60]


class _Device:
    """nvidia-ml-py with one device that does not report its power."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"device {index}"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=25_000_000, total=100_000_000)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=80)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        raise self.NVMLError("not supported")


def test_a_device_is_described_as_far_as_it_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _Device())
    values = SystemSampler().sample([]).values
    assert {name: value for name, value in values.items() if name.startswith("gpu")} == {
        "gpu_0_memory_usage_megabytes": 25,
        "gpu_0_memory_usage_percentage": 25,
        "gpu_0_utilization_percentage": 80,
    }


def test_a_device_that_has_failed_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneIsLost(_Device):
        lost = (0,)

        def nvmlDeviceGetCount(self) -> int:  # noqa: N802
            return 2

        def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
            if index in self.lost:
                raise self.NVMLError("GPU is lost")
            return super().nvmlDeviceGetHandleByIndex(index)

    monkeypatch.setitem(sys.modules, "pynvml", OneIsLost())
    sampler = SystemSampler()
    assert sampler.gpu_problem == ""
    values = sampler.sample([]).values
    assert {name[:6] for name in values if name.startswith("gpu_")} == {"gpu_1_"}
    monkeypatch.setattr(OneIsLost, "lost", (0, 1))
    assert SystemSampler().gpu_problem == "no NVIDIA GPU of this machine answers"


def test_a_machine_with_gpus_is_idle_as_far_as_these_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle_share(SystemSample(values={"cpu_utilization_percentage": 75.0})) == 0.25
    assert idle_share(SystemSample(values={"cpu_utilization_percentage": 100.4})) == 0
    assert idle_share(SystemSample(values={})) is None
    monkeypatch.setitem(sys.modules, "pynvml", _Device())
    assert idle_share(SystemSampler().sample([])) == pytest.approx(0.2)


def test_without_a_driver_there_are_no_device_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace())
    assert not [name for name in SystemSampler().sample([]).values if name.startswith("gpu")]


def test_processes_that_are_gone_and_folders_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    values = SystemSampler(tmp_path / "nowhere").sample([gone.pid]).values
    assert values["run_processes_count"] == values["run_processes_memory_usage_megabytes"] == 0
    assert "disk_usage_percentage" not in values


def test_writing_shows_in_the_disks_traffic_or_not_at_all(tmp_path: Path) -> None:
    """Counters start at zero and never fall; whether a container sees its disk is the host's matter."""
    sampler = SystemSampler()
    first = sampler.sample([]).values["disk_write_megabytes"]
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(8_000_000))
        file.flush()
        os.fsync(file.fileno())
    assert sampler.sample([]).values["disk_write_megabytes"] >= first >= 0
