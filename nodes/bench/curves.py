"""What the machine does while something else is measured, sampled by a thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from engine.bench.result import Curves
from engine.run.system_metrics import TRAFFIC, SystemSampler, Traffic

EVERY_S = 0.5
_MB = 1e6
_LEFT_OUT = (
    "disk_usage_percentage", "disk_usage_megabytes", "disk_available_megabytes", "run_processes_count",
    *(f"{name}_megabytes" for name in TRAFFIC),
)  # fmt: skip


class Recorder:
    """Curves of the machine, and of this process with all that it started. `disk` is a path on the disk to watch."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._seconds: list[float] = []
        self._values: dict[str, list[float | None]] = {}
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
        thread = threading.Thread(target=self._sample, name="bench-curves", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def curves(self, last_s: float) -> Curves:
        """The samples so far; the measured steps were the last seconds of them."""
        values = {name: tuple(self._values[name]) for name in sorted(self._values)}
        end = self._seconds[-1] if self._seconds else 0.0
        return Curves(seconds=tuple(self._seconds), values=values, measured_from_s=round(max(0.0, end - last_s), 2))

    def _sample(self) -> None:
        sampler, began, traffic = SystemSampler(self._disk), time.monotonic(), Traffic()
        psutil.cpu_percent(percpu=True)  # these, too, count from their last call
        psutil.cpu_times_percent()
        swapped = _swapped()
        while not self._ended.wait(EVERY_S):
            sample = sampler.sample((os.getpid(),))
            values = {k: v for k, v in sample.values.items() if k not in _LEFT_OUT}
            interval = max(sampler.interval_s, 1e-3)
            for name, rate in traffic.rates(sample, interval).items():
                values[f"{name}_megabytes_per_second"] = rate
            now = _swapped()
            values["swap_usage_megabytes"] = now[0]
            for place, name in ((1, "in"), (2, "out")):
                values[f"swap_{name}_megabytes_per_second"] = max(0.0, now[place] - swapped[place]) / interval
            swapped = now
            values["busiest_core_percentage"] = max(psutil.cpu_percent(percpu=True), default=0.0)
            wait = getattr(psutil.cpu_times_percent(), "iowait", None)  # Linux alone has it
            if wait is not None:
                values["io_wait_percentage"] = wait
            self._add(time.monotonic() - began, values)

    def _add(self, second: float, values: dict[str, float]) -> None:
        count = len(self._seconds)
        self._seconds.append(round(second, 2))
        for name in values.keys() | self._values.keys():
            line = self._values.setdefault(name, [None] * count)
            line.append(round(values[name], 2) if name in values else None)


def _swapped() -> tuple[float, float, float]:
    """Megabytes of swap that are used, and that came in and went out since the machine started; 0 where not known."""
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError, psutil.Error):
        return 0.0, 0.0, 0.0
    return swap.used / _MB, swap.sin / _MB, swap.sout / _MB
