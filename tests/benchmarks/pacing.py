"""A pretend accelerator in front of a reader."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks import readers
from tests.benchmarks.contender import Contender


class Accelerator(Contender):
    """Takes batches from `readers.READER(**arguments)` at `pace` samples a second for at least `seconds`."""

    def __init__(self, reader: str, arguments: dict[str, Any], pace: float, seconds: float) -> None:
        self._reader: readers.Reader = getattr(readers, reader)(**arguments)
        self._in_memory = reader == "Memcpy"
        self._pace, self._seconds = pace, seconds

    def digest(self) -> str:
        return self._reader.digest()

    def close(self) -> None:
        self._reader.close()

    def _batches(self) -> Iterator[Any]:
        """Epoch after epoch; what lies between two of them counts."""
        if self._in_memory:
            return itertools.cycle(list(itertools.islice(self._reader.batches(), 2)))
        return itertools.chain.from_iterable(self._reader.batches() for _ in itertools.count())

    def round(self, number: int) -> dict[str, Any]:
        busy, longest, samples = 0.0, 0.0, 0
        batches = self._batches()
        began = asked = time.perf_counter()
        while True:
            _, volumes = next(batches)
            taken = time.perf_counter()
            longest = max(longest, taken - asked)
            step = volumes.shape[0] / self._pace
            time.sleep(max(0.0, step - (time.perf_counter() - taken)))
            busy += step
            samples += volumes.shape[0]
            asked = time.perf_counter()
            if asked - began >= self._seconds:
                break
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        beside = {"longest wait ms": 1000 * longest, "samples/s": samples / (asked - began)}
        return {"rate": busy / (asked - began), "beside": beside}
