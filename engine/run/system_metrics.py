"""The machine and the run's own processes at one moment, by MLflow's names for system metrics.

Megabytes are 10**6 bytes, as in MLflow. Nothing here fails without a device or a permission: a
figure that cannot be read is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.declare.events import SystemSample

_MB = 1e6
TRAFFIC = ("disk_read", "disk_write", "network_receive", "network_transmit")
"""Of these a sample has megabytes since the sampler's making."""


@dataclass(frozen=True)
class ProcessUse:
    """What a process used since the sample before: percent of one core, resident megabytes, megabytes a second.

    `root` is the id of the process that was asked for, which it is itself or descends from. What it reads and writes is
    what came from and goes to the disk; None where the system does not say.
    """

    pid: int
    root: int
    name: str
    cpu: float
    memory: float
    read: float | None = None
    write: float | None = None


class SystemSampler:
    """Takes samples; traffic and times count from its making. `disk` is a path on the disk to watch."""

    def __init__(self, disk: Path | None = None) -> None:
        self._disk = disk or Path(os.sep)
        self._gpus = _Gpus()
        self._io: dict[tuple[int, float], tuple[int, int]] = {}
        self.processes: list[ProcessUse] = []
        """Those of the newest sample."""
        self._network, self._disk_io = _network() or (0, 0), _disk_io() or (0, 0)
        self._cpu_times: dict[tuple[int, float], float] = {}
        self._measured_at, self._measured_on = time.monotonic(), time.time()
        self.interval_s = 0.0
        """Between the newest sample and the one before it, or the sampler's making."""
        psutil.cpu_percent()  # the first call only marks the start of the interval

    @property
    def gpu_problem(self) -> str:
        """Why no GPU is measured; "" when one is."""
        return self._gpus.problem

    @property
    def unknown(self) -> tuple[str, ...]:
        """What of `TRAFFIC` the system does not count: its figures stay 0."""
        disk, network = _disk_io() is None, _network() is None
        return tuple(name for name in TRAFFIC if (disk if name.startswith("disk") else network))

    def sample(self, pids: Iterable[int], beside: Mapping[int, int] | None = None) -> SystemSample:
        """The machine now, and the processes `pids` with all their children.

        Those of `beside`, with their children, count as descendants of the process that each belongs to.
        `run_processes_cpu_percentage` is the share of one core since the last sample (200 is two cores); the
        machine's is that of all its cores. Shared pages count in every process that has them.
        """
        memory = psutil.virtual_memory()
        self.interval_s = time.monotonic() - self._measured_at
        values = {
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_megabytes": memory.used / _MB,
            "system_memory_usage_percentage": memory.used / memory.total * 100,
        }
        values |= self._processes(pids, beside or {}) | self._disk_space() | self._traffic() | self._gpus.sample()
        return SystemSample(values={name: round(value, 1) for name, value in values.items()})

    def _processes(self, pids: Iterable[int], beside: Mapping[int, int]) -> dict[str, float]:
        found: list[ProcessUse] = []
        cpu_times: dict[tuple[int, float], float] = {}
        io: dict[tuple[int, float], tuple[int, int]] = {}
        elapsed = max(time.monotonic() - self._measured_at, 1e-3)
        for process, above in _trees([*pids, *beside]):
            root = beside.get(above, above)
            # A process may end while it is looked at.
            with suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                key = (process.pid, process.create_time())
                cpu_times[key] = times.user + times.system
                # One that began since the last sample is all news; an older one only from now on.
                new = process.create_time() >= self._measured_on
                busy = cpu_times[key] - self._cpu_times.get(key, 0.0 if new else cpu_times[key])
                traffic = _process_io(process)
                read = write = None
                if traffic is not None:
                    io[key] = traffic
                    before = self._io.get(key, (0, 0) if new else traffic)
                    read, write = ((now - was) / _MB / elapsed for now, was in zip(traffic, before, strict=True))
                memory = process.memory_info().rss / _MB
                found.append(ProcessUse(process.pid, root, process.name(), busy / elapsed * 100, memory, read, write))
        self._cpu_times, self._io, self.processes = cpu_times, io, found
        self._measured_at, self._measured_on = time.monotonic(), time.time()
        return {
            "run_processes_count": len(found),
            "run_processes_memory_usage_megabytes": sum(process.memory for process in found),
            "run_processes_cpu_percentage": sum(process.cpu for process in found),
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
        received, sent = _network() or self._network
        read, written = _disk_io() or self._disk_io
        return {
            "network_receive_megabytes": (received - self._network[0]) / _MB,
            "network_transmit_megabytes": (sent - self._network[1]) / _MB,
            "disk_read_megabytes": (read - self._disk_io[0]) / _MB,
            "disk_write_megabytes": (written - self._disk_io[1]) / _MB,
        }


def idle_share(sample: SystemSample) -> float:
    """The share of the machine that did nothing, from 0 to 1: of its GPUs where it has some, else of its cores.

    Who pays for a machine with GPUs pays for these above all.
    """
    values = sample.values
    gpus = [v for name, v in values.items() if name.startswith("gpu_") and name.endswith("_utilization_percentage")]
    used = sum(gpus) / len(gpus) if gpus else values["cpu_utilization_percentage"]
    return min(1.0, max(0.0, 1 - used / 100))


def mean_of(samples: Sequence[SystemSample]) -> SystemSample:
    """Several samples in a row as one: totals and what is left of the disk as they are in the end, means else."""
    newest = samples[-1]
    values: dict[str, float] = {}
    for name, value in newest.values.items():
        if name.startswith(("disk_", "network_")):
            values[name] = value
            continue
        known = [sample.values[name] for sample in samples if name in sample.values]
        values[name] = round(sum(known) / len(known), 1)
    return newest.model_copy(update={"values": values})


class Traffic:
    """Makes the totals of samples in a row into megabytes a second."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def rates(self, sample: SystemSample, interval_s: float) -> dict[str, float]:
        """By the names of `TRAFFIC`: since the sample before, which was `interval_s` ago."""
        out: dict[str, float] = {}
        for name in TRAFFIC:
            if (total := sample.values.get(f"{name}_megabytes")) is not None:
                out[name] = max(0.0, total - self._before.get(name, 0.0)) / max(interval_s, 1e-3)
                self._before[name] = total
        return out


def _trees(pids: Iterable[int]) -> list[tuple[psutil.Process, int]]:
    """The processes and their descendants, each once, with the nearest of `pids` that it is or descends from.

    Looking for children looks at all processes of the machine: so only of those that no other one before has above it.
    """
    wanted = dict.fromkeys(pids)
    found: dict[int, psutil.Process] = {}
    for pid in wanted:
        if pid not in found:
            with suppress(psutil.Error):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    found.setdefault(process.pid, process)
    parents: dict[int, int | None] = {}
    for pid, process in found.items():
        with suppress(psutil.Error):
            parents[pid] = process.ppid()
    out = []
    for pid, process in found.items():
        above: int | None = pid
        while above is not None and above not in wanted:
            above = parents.get(above)
        if above is not None:
            out.append((process, above))
    return out


def _process_io(process: psutil.Process) -> tuple[int, int] | None:
    """Bytes that it has read from and written to disks so far."""
    with suppress(psutil.Error, OSError, AttributeError, NotImplementedError):  # macOS has none; another's are secret
        counters = process.io_counters()
        return counters.read_bytes, counters.write_bytes
    return None


def _network() -> tuple[int, int] | None:
    """Bytes received and sent by the machine since it started."""
    with suppress(OSError):
        counters = psutil.net_io_counters()
        if counters is not None:
            return counters.bytes_recv, counters.bytes_sent
    return None


def _disk_io() -> tuple[int, int] | None:
    """Bytes read from and written to the machine's disks since it started."""
    with suppress(OSError, RuntimeError):
        counters = psutil.disk_io_counters()
        if counters is not None:
            return counters.read_bytes, counters.write_bytes
    return None


class _Gpus:
    """NVIDIA's devices, through nvidia-ml-py where it is installed and finds a driver."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        self.problem = "nvidia-ml-py is not installed"
        with suppress(Exception):
            import pynvml

            self.problem = "no NVIDIA driver was found"
            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            self._nvml = pynvml
            self.problem = "" if self._handles else "this machine has no NVIDIA GPU"

    def sample(self) -> dict[str, float]:
        out: dict[str, float] = {}
        for index, handle in enumerate(self._handles):
            name = f"gpu_{index}"
            # Some devices do not report some figures (MIG slices have no utilisation, for one).
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
