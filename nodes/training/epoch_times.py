"""Where the time of an epoch goes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

T = TypeVar("T")
Work = Literal["data", "compute", "checkpoint", "evaluate"]


class EpochTimes:
    """Seconds by kind of work, and the rows trained on, since they were last told.

    They are measurements: no checkpoint holds them, and after a resume they are those of the rest of an epoch.
    """

    def __init__(self) -> None:
        self._begin()

    @contextmanager
    def spent_on(self, work: Work) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[work] += time.perf_counter() - began

    def waiting_for(self, items: Iterable[T]) -> Iterator[T]:
        """The items; the time until each comes is spent on data."""
        source = iter(items)
        while True:
            with self.spent_on("data"):
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item

    def trained(self, rows: int) -> None:
        self._rows += rows

    def told(self) -> dict[str, float]:
        """The figures, which then begin anew: `epoch_seconds_...` and, over data and compute, `samples_per_second`."""
        figures = {f"epoch_seconds_{work}": seconds for work, seconds in self._seconds.items()}
        training = self._seconds["data"] + self._seconds["compute"]
        if self._rows and training:
            figures["samples_per_second"] = self._rows / training
        self._begin()
        return figures

    def _begin(self) -> None:
        self._seconds: dict[Work, float] = {"data": 0.0, "compute": 0.0, "checkpoint": 0.0, "evaluate": 0.0}
        self._rows = 0
