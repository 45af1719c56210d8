"""The machine and the run's own processes at one moment, by MLflow's names for system metrics.

Megabytes are 10**6 bytes, as in MLflow. Nothing here fails without a device or a permission: a
figure that cannot be read is left out.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.cgroups import memory, processors
from engine.declare.events import SystemSample

_MB = 1e6
TRAFFIC = ("disk_read", "disk_write", "network_receive", "network_transmit")
"""Of these a sample has megabytes since the sampler's making."""
_TICK_S = 0.01
"""The time that a process began is known to this, on Linux."""
_UNREADABLE = (psutil.Error, OSError, RuntimeError, ValueError, LookupError)
"""What psutil raises of a process that has ended or is another's, and where /proc is not as it is on Linux."""


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
        # By the process itself, which is the same as long as it lives: a creation time moves when the clock is set.
        self._cpu_times: dict[psutil.Process, float] = {}
        self._io: dict[psutil.Process, tuple[int, int]] = {}
        self.processes: list[ProcessUse] = []
        """Those of the newest sample."""
        self._counted, self._traffic_bytes = _counters(), dict.fromkeys(TRAFFIC, 0)
        self._measured_at = time.monotonic()
        self.interval_s = 0.0
        """Between the beginnings of the newest sample and of the one before it, or the sampler's making."""
        self._group_s = 0.0
        """Processor seconds of the container at the newest sample."""
        self._cpu_use()  # the first call only marks the start of the interval

    @property
    def gpu_problem(self) -> str:
        """Why no GPU is measured; "" when one is."""
        return self._gpus.problem

    @property
    def unknown(self) -> tuple[str, ...]:
        """What of `TRAFFIC` the system does not count: its figures stay 0."""
        counted = _counters()
        return tuple(name for name in TRAFFIC if name not in counted)

    def sample(self, pids: Iterable[int], beside: Mapping[int, int] | None = None) -> SystemSample:
        """The machine now, and the processes `pids` with all their children.

        A value's name ends with its unit: `_megabytes` (10**6 bytes; traffic since the sampler's making) or
        `_percentage`, each to one decimal.
        Those of `beside`, with their children, count as descendants of the process that each belongs to.
        `run_processes_cpu_percentage` is the share of one core since the last sample (200 is two cores); the
        machine's is that of all its cores. In a container with limits these are the machine. Shared pages count in
        every process that has them.
        """
        before, self._measured_at = self._measured_at, time.monotonic()
        self.interval_s = self._measured_at - before
        values = self._cpu_use() | _memory_use() | self._processes(pids, beside or {}, before)
        values |= self._disk_space() | self._traffic() | self._gpus.sample()
        return SystemSample(values={name: round(value, 1) for name, value in values.items()})

    def _cpu_use(self) -> dict[str, float]:
        group = processors()
        if group is not None and group.used_s is not None:
            busy, self._group_s = group.used_s - self._group_s, group.used_s
            share = busy / max(self.interval_s, 1e-3) / group.limit
            return {"cpu_utilization_percentage": min(100.0, share * 100)}
        with suppress(Exception):
            return {"cpu_utilization_percentage": psutil.cpu_percent()}
        return {}

    def _processes(self, pids: Iterable[int], beside: Mapping[int, int], since: float) -> dict[str, float]:
        found: list[ProcessUse] = []
        cpu_times: dict[psutil.Process, float] = {}
        io: dict[psutil.Process, tuple[int, int]] = {}
        elapsed = max(self.interval_s, 1e-3)
        booted = _boot_time()
        for process, above in _trees([*pids, *beside]):
            root = beside.get(above, above)
            # A process may end while it is looked at.
            with suppress(*_UNREADABLE), process.oneshot():
                times = process.cpu_times()
                cpu_times[process] = times.user + times.system
                # One that began since the last sample is all news; an older one only from now on.
                new = 0 <= _age(process, booted) + _TICK_S <= time.monotonic() - since + 2 * _TICK_S
                busy = cpu_times[process] - self._cpu_times.get(process, 0.0 if new else cpu_times[process])
                traffic = _process_io(process)
                read = write = None
                if traffic is not None:
                    io[process] = traffic
                    before = self._io.get(process, (0, 0) if new else traffic)
                    read, write = ((now - was) / _MB / elapsed for now, was in zip(traffic, before, strict=True))
                memory = process.memory_info().rss / _MB
                found.append(ProcessUse(process.pid, root, process.name(), busy / elapsed * 100, memory, read, write))
        self._cpu_times, self._io, self.processes = cpu_times, io, found
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
        counted = _counters()
        for name, now in counted.items():
            # Less than before: a device is gone, such as the network of a container that has ended, with its count.
            self._traffic_bytes[name] += max(0, now - self._counted.get(name, now))
        self._counted |= counted
        return {f"{name}_megabytes": count / _MB for name, count in self._traffic_bytes.items()}


def idle_share(sample: SystemSample) -> float | None:
    """The share of the machine that did nothing, from 0 to 1: of its GPUs where it has some, else of its cores.

    Who pays for a machine with GPUs pays for these above all. None where nothing is known of either.
    """
    values = sample.values
    gpus = [v for name, v in values.items() if name.startswith("gpu_") and name.endswith("_utilization_percentage")]
    used = sum(gpus) / len(gpus) if gpus else values.get("cpu_utilization_percentage")
    return None if used is None else min(1.0, max(0.0, 1 - used / 100))


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
            with suppress(*_UNREADABLE):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    found.setdefault(process.pid, process)
    parents: dict[int, int | None] = {}
    for pid, process in found.items():
        with suppress(*_UNREADABLE):
            parents[pid] = process.ppid()
    out = []
    for pid, process in found.items():
        above: int | None = pid
        while above is not None and above not in wanted:
            above = parents.get(above)
        if above is not None:
            out.append((process, above))
    return out


# What follows reads through psutil what the kernel, or a container in its place, writes into /proc. Of a file that is
# not there, is secret or looks otherwise psutil raises whatever comes of that: `ValueError`, `AssertionError`, others.


def _boot_time() -> float | None:
    """When the machine began, as the creation times of processes have it; None where the system does not say."""
    with suppress(Exception):
        return psutil.boot_time()
    return None


def _age(process: psutil.Process, booted: float | None) -> float:
    """Seconds since the process began."""
    if sys.platform != "linux" or booted is None:
        return time.time() - process.create_time()
    # Its creation time is `booted` and what came after. Of `booted` the fraction of a second is cut off, and it moves
    # when the clock is set: by the time of day a new process would be an old one, or an old one new.
    return time.clock_gettime(time.CLOCK_BOOTTIME) - (process.create_time() - booted)


def _memory_use() -> dict[str, float]:
    with suppress(Exception):
        found = memory()
        return {
            "system_memory_usage_megabytes": found.used / _MB,
            "system_memory_usage_percentage": found.used / found.total * 100,
        }
    return {}


def _process_io(process: psutil.Process) -> tuple[int, int] | None:
    """Bytes that it has read from and written to disks so far."""
    with suppress(Exception):  # macOS has none; another's are secret
        counters = process.io_counters()
        return counters.read_bytes, counters.write_bytes
    return None


def _counters() -> dict[str, int]:
    """By the names of `TRAFFIC`: bytes since the machine started, as far as the system counts them."""
    out: dict[str, int] = {}
    with suppress(Exception):
        if (disk := psutil.disk_io_counters()) is not None:
            out |= {"disk_read": disk.read_bytes, "disk_write": disk.write_bytes}
    with suppress(Exception):
        if (network := psutil.net_io_counters()) is not None:
            out |= {"network_receive": network.bytes_recv, "network_transmit": network.bytes_sent}
    return out


class _Gpus:
    """NVIDIA's devices, through nvidia-ml-py where it is installed and finds a driver."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}
        self.problem = "nvidia-ml-py is not installed"
        with suppress(Exception):
            import pynvml

            self.problem = "no NVIDIA driver was found"
            pynvml.nvmlInit()
            self._nvml, count = pynvml, pynvml.nvmlDeviceGetCount()
            for index in range(count):
                with suppress(Exception):  # one that has failed: the others go on
                    self._handles[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
            none = "no NVIDIA GPU of this machine answers" if count else "this machine has no NVIDIA GPU"
            self.problem = "" if self._handles else none

    def sample(self) -> dict[str, float]:
        out: dict[str, float] = {}
        for index, handle in self._handles.items():
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
