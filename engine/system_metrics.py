"""The machine and the run's own processes at one moment, by MLflow's names for system metrics.

Megabytes are 10**6 bytes, as in MLflow. Nothing here ever fails for want of a device or a right: a
figure that cannot be had is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from engine.events import SystemSample

_MB = 1e6


class SystemSampler:
    """Takes samples; traffic and times count from its making. `disk` is a path on the disk to watch."""

    def __init__(self, disk: Path | None = None) -> None:
        self._disk = disk or Path(os.sep)
        self._gpus = _Gpus()
        self._network, self._disk_io = _network(), _disk_io()
        self._cpu_times: dict[tuple[int, float], float] = {}
        self._measured_at, self._measured_on = time.monotonic(), time.time()
        psutil.cpu_percent()  # the first call only marks the start of the interval

    def sample(self, pids: Iterable[int]) -> SystemSample:
        """The machine now, and the processes `pids` with all their children.

        `run_processes_cpu_percentage` is the share of one core since the last sample (200 is two cores); the
        machine's is that of all its cores. Shared pages count in every process that has them.
        """
        memory = psutil.virtual_memory()
        values = {
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_megabytes": memory.used / _MB,
            "system_memory_usage_percentage": memory.used / memory.total * 100,
        }
        values |= self._processes(pids) | self._disk_space() | self._traffic() | self._gpus.sample()
        return SystemSample(values={name: round(value, 1) for name, value in values.items()})

    def _processes(self, pids: Iterable[int]) -> dict[str, float]:
        resident, count, busy = 0, 0, 0.0
        cpu_times: dict[tuple[int, float], float] = {}
        for process in _trees(pids):
            # A process may end while it is looked at.
            with suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                key = (process.pid, process.create_time())
                cpu_times[key] = times.user + times.system
                # One that began since the last sample is all news; an older one only from now on.
                new = process.create_time() >= self._measured_on
                busy += cpu_times[key] - self._cpu_times.get(key, 0.0 if new else cpu_times[key])
                resident += process.memory_info().rss
                count += 1
        now = time.monotonic()
        elapsed, self._measured_at, self._cpu_times = now - self._measured_at, now, cpu_times
        self._measured_on = time.time()
        return {
            "run_processes_count": count,
            "run_processes_memory_usage_megabytes": resident / _MB,
            "run_processes_cpu_percentage": busy / elapsed * 100 if elapsed > 0 else 0.0,
        }

    def _disk_space(self) -> dict[str, float]:
        with suppress(OSError):
            usage = psutil.disk_usage(str(self._disk))
            return {
                "disk_usage_percentage": usage.percent,
                "disk_usage_megabytes": usage.used / _MB,
                "disk_available_megabytes": usage.free / _MB,
            }
        return {}

    def _traffic(self) -> dict[str, float]:
        received, sent = _network()
        read, written = _disk_io()
        return {
            "network_receive_megabytes": (received - self._network[0]) / _MB,
            "network_transmit_megabytes": (sent - self._network[1]) / _MB,
            "disk_read_megabytes": (read - self._disk_io[0]) / _MB,
            "disk_write_megabytes": (written - self._disk_io[1]) / _MB,
        }


def _trees(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes and their children, each once."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        with suppress(psutil.Error):
            root = psutil.Process(pid)
            found[pid] = root
            found.update((child.pid, child) for child in root.children(recursive=True))
    return list(found.values())


def _network() -> tuple[int, int]:
    """Bytes received and sent by the machine since it started."""
    with suppress(OSError):
        counters = psutil.net_io_counters()
        if counters is not None:
            return counters.bytes_recv, counters.bytes_sent
    return 0, 0


def _disk_io() -> tuple[int, int]:
    """Bytes read from and written to the machine's disks since it started."""
    with suppress(OSError, RuntimeError):
        counters = psutil.disk_io_counters()
        if counters is not None:
            return counters.read_bytes, counters.write_bytes
    return 0, 0


class _Gpus:
    """NVIDIA's devices, through nvidia-ml-py where it is installed and finds a driver."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        with suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            self._nvml = pynvml

    def sample(self) -> dict[str, float]:
        out: dict[str, float] = {}
        for index, handle in enumerate(self._handles):
            name = f"gpu_{index}"
            # Some devices do not tell some figures (MIG slices have no utilisation, for one).
            with suppress(Exception):
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
                out[f"{name}_memory_usage_megabytes"] = memory.used / _MB
                out[f"{name}_memory_usage_percentage"] = memory.used / memory.total * 100
            with suppress(Exception):
                out[f"{name}_utilization_percentage"] = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            with suppress(Exception):
                watts = self._nvml.nvmlDeviceGetPowerUsage(handle) / 1000
                out[f"{name}_power_usage_watts"] = watts
                limit = self._nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
                out[f"{name}_power_usage_percentage"] = watts / limit * 100
        return out
