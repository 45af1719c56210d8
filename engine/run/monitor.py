"""The monitor of a run: once a second, what each task and the machine use, kept in a file of the run's folder.

It works in the supervisor's own loop, never in a task's process. Under a Spark profile with a cluster it sees the
driver's machine alone, and says so.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from engine.cgroups import memory, usable_cores
from engine.declare.events import Progress, SystemSample
from engine.profiles import Profile
from engine.run.system_metrics import SystemSampler, Traffic
from engine.store.monitor import PROCESSES, Attempt, Moment, MonitorLog
from engine.text import safe

INTERVAL_S = 1.0
_MB = 1e6
_MACHINE = {"cpu_utilization_percentage": "cpu", "system_memory_usage_megabytes": "memory"}
_GPU = {"utilization_percentage": "", "memory_usage_megabytes": "_memory"}


class Monitor:
    """Measures while `tick` is called. Nothing else may use `sampler`."""

    def __init__(self, path: Path, sampler: SystemSampler, profile: Profile) -> None:
        self._sampler, self._log = sampler, MonitorLog(path)
        self._traffic, self._unknown = Traffic(), frozenset(sampler.unknown)
        self._work: dict[str, _Work] = {}
        self._log.begin(Attempt(time.time(), self._about(profile)))

    def note(self, event: Progress) -> None:
        """A task has reported how far it is."""
        if event.node is not None:
            self._work.setdefault(event.node, _Work()).note(event)

    def sample(
        self, supervisor: int, tasks: Mapping[str, int], beside: Mapping[int, int] | None = None
    ) -> SystemSample:
        """Measure now and keep it. `tasks` are the processes of the running tasks by node; for `beside` see
        `SystemSampler.sample`."""
        found = self._sampler.sample([supervisor, *tasks.values()], beside)
        values = {short: found.values[name] for name, short in _MACHINE.items() if name in found.values}
        for name, rate in self._traffic.rates(found, self._sampler.interval_s).items():
            if name not in self._unknown:
                values[name] = rate
        for name, value in found.values.items():
            device, _, figure = name.removeprefix("gpu_").partition("_")
            if name.startswith("gpu_") and figure in _GPU:
                values[f"gpu_{device}{_GPU[figure]}"] = value
        for node, pid in tasks.items():
            values |= {f"{node}.{name}": value for name, value in self._of_task(node, pid).items()}
        rounded = {name: round(value, 2) for name, value in values.items()}
        self._log.add(Moment(time.time(), self._sampler.interval_s, rounded))
        return found

    def flush(self) -> None:
        """The run ends: keep what was measured last."""
        self._log.flush()

    def _of_task(self, node: str, pid: int) -> dict[str, float]:
        found = sorted((p for p in self._sampler.processes if p.root == pid), key=lambda p: -p.cpu)
        values = self._work[node].take() if node in self._work else {}
        if not found:
            return values
        values |= {"cpu": sum(p.cpu for p in found), "memory": sum(p.memory for p in found)}
        reads = [p.read for p in found if p.read is not None]
        writes = [p.write for p in found if p.write is not None]
        if reads and writes:
            values |= {"read": sum(reads), "write": sum(writes)}
        # The task's own process first, and always: then curves do not change places.
        found.sort(key=lambda p: p.pid != pid)
        for process in found[:PROCESSES]:
            # Any bytes can be a name; and Linux cuts one after 15, also within a letter.
            name = "worker" if process.pid == pid else f"{safe(process.name)} {process.pid}"
            values[f"cpu:{name}"] = process.cpu
        if len(found) > PROCESSES:
            values["cpu:others"] = sum(p.cpu for p in found[PROCESSES:])
        return values

    def _about(self, profile: Profile) -> dict[str, object]:
        about: dict[str, object] = {
            "host": socket.gethostname(),
            "cores": usable_cores(),
            "gpu": self._sampler.gpu_problem,
            "unknown": sorted(self._unknown),
            "elsewhere": "" if profile.is_here else profile.where,
        }
        with suppress(Exception):  # as in `system_metrics`: whatever psutil raises where it cannot be read
            about["memory"] = round(memory().total / _MB)
        return about


class _Work:
    """How fast a task is, from its reports: between two looks, each at the newest of them."""

    def __init__(self) -> None:
        self._newest: Progress | None = None
        self._looked: Progress | None = None
        self._unit = ""

    def note(self, event: Progress) -> None:
        self._newest = event
        self._unit = event.unit or self._unit

    def take(self) -> dict[str, float]:
        """What was done a second, and the share of the time spent waiting for data, in percent. Without a report since
        the last look nothing is known: the next one counts for all of the time."""
        before, now = self._looked, self._newest
        self._looked = now
        if before is None or now is None or now.time <= before.time:
            return {}
        seconds, out = now.time - before.time, dict[str, float]()
        grown: float | None = None
        if now.samples is not None and before.samples is not None:
            grown = now.samples - before.samples
        elif (now.phase, now.unit) == ("", before.unit) and before.phase == "" and now.counts:
            # What is counted in a phase without a plan, as while the input is measured, is not the task's pace.
            grown = now.done - before.done
        if grown is not None and grown < 0:
            return {}  # another attempt, or another step of the task, which begins anew
        if grown is not None and self._unit and math.isfinite(grown):
            out[f"rate:{self._unit}"] = grown / seconds
        if now.waited_s is not None and before.waited_s is not None:
            out["waiting"] = min(100.0, max(0.0, (now.waited_s - before.waited_s) / seconds * 100))
        return out
