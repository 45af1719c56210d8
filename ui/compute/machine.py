"""The machine that the app runs on, now and over the last minutes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from engine.run.system_metrics import SystemSampler
from ui.runs.feed import Series

EVERY_S = 2.0
KEPT_S = 600.0
_IDLE_S = 30.0


class MachineHistory:
    """Samples of the machine by their names, one every two seconds while somebody asks for them."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._series: dict[str, Series] = {}
        self._asked = 0.0
        self.gpu_problem = ""
        """Why no GPU is measured; "" where one is, and before the first sample."""
        self._thread: threading.Thread | None = None

    def series(self) -> dict[str, Series]:
        """The samples so far, oldest first; steps are seconds since the epoch. Starts taking them where nobody did."""
        with self._lock:
            self._asked = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="machine", daemon=True)
                self._thread.start()
            return {name: Series(list(s.steps), list(s.values)) for name, s in self._series.items()}

    def _run(self) -> None:
        sampler = SystemSampler(self._disk)
        while True:
            time.sleep(EVERY_S)
            values, now = sampler.sample(()).values, time.time()
            self.gpu_problem = sampler.gpu_problem
            with self._lock:
                if time.monotonic() - self._asked > _IDLE_S:
                    self._thread = None
                    return
                for name, value in values.items():
                    self._series.setdefault(name, Series()).add(now, value)
                self._forget(now - KEPT_S)

    def _forget(self, before: float) -> None:
        for name, series in list(self._series.items()):
            old = sum(step < before for step in series.steps)
            if old:
                self._series[name] = Series(series.steps[old:], series.values[old:])
