"""The sampler, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import WAIT_S, wait_for_line

from engine.declare.events import SystemSample, event_from_json
from engine.run.system_metrics import SystemSampler, idle_share

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


def test_processor_time_from_before_the_first_sample_does_not_count() -> None:
    """It would show as thousands of percent."""
    while os.times().user < 0.3:
        sum(range(10_000))
    sampler = SystemSampler()
    assert sampler.sample([]).values["run_processes_cpu_percentage"] == 0
    assert sampler.sample([os.getpid()]).values["run_processes_cpu_percentage"] == 0


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


def test_a_machine_with_gpus_is_idle_as_far_as_these_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle_share(SystemSample(values={"cpu_utilization_percentage": 75.0})) == 0.25
    assert idle_share(SystemSample(values={"cpu_utilization_percentage": 100.4})) == 0
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
