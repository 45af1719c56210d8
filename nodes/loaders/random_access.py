"""The loader of sources that can read any row at once: a global shuffle, read by a few threads."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nodes.loaders.interface import Batch, Loader, Reading, Source
from nodes.loaders.read_ahead import BatchMemory, reading_threads
from nodes.loaders.rows import RowNumbers, shuffled

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeSpec
    from nodes.loaders.rows import Rows

LEAST_THREADS, MOST_THREADS = 2, 4
"""That read, one a core between these. Two reach the speed of memory; more only help where files are slow to come."""
AHEAD_BATCHES = 4
AHEAD_BYTES = 256 << 20
"""Batches read before they are asked for: at most this many, and one at least, within this memory."""


class RandomAccessSource(Source):
    """A source that fills a buffer with any rows, from several threads at once."""

    order_survives_rewrite = True

    def __init__(self, where: str, spec: VolumeSpec, rows: Rows, *, cores: int) -> None:
        super().__init__(where, spec, rows)
        self.pool = reading_threads(min(MOST_THREADS, max(LEAST_THREADS, cores)))

    @property
    def order_identity(self) -> str:
        return f"by-id {self.rows.identity()}"

    def loader(self, chosen: RowNumbers, reading: Reading) -> Loader:
        return RandomAccessLoader(self, chosen, reading)

    @abstractmethod
    def fill(self, rows: RowNumbers, out: NDArray[np.float32]) -> None:
        """Put the volumes of `rows` into `out`, float32 (len(rows), *shape)."""

    def close(self) -> None:
        """End the reading threads."""
        self.pool.shutdown(cancel_futures=True)


class RandomAccessLoader(Loader):
    """Batches in a global order, filled ahead by the source's threads."""

    source: RandomAccessSource

    def __init__(self, source: Source, chosen: RowNumbers, reading: Reading) -> None:
        super().__init__(source, chosen, reading)
        # A batch may be asked for that is larger than all there is.
        largest = min(reading.batch_size, len(self.chosen))
        values = -(-largest // reading.ranks) * int(np.prod(source.spec.shape))
        self._depth = max(1, min(AHEAD_BATCHES, AHEAD_BYTES // (4 * values)))
        # Those being read ahead, and a few that TensorFlow lets go of late and then all at once.
        self._memory = BatchMemory(values, spare=self._depth + 4)

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        order = self.chosen[shuffled(len(self.chosen), seed, epoch)] if self.reading.training else self.chosen
        size = self.reading.batch_size
        waiting: deque[Future[Batch]] = deque()
        try:
            for step in range(first, self.steps):
                rows = self.slice(order[step * size : (step + 1) * size])
                waiting.append(self.source.pool.submit(self._batch, rows))
                if len(waiting) > self._depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _batch(self, rows: RowNumbers) -> Batch:
        volumes = self._memory.take((len(rows), *self.source.spec.shape))
        self.source.fill(rows, volumes)
        return Batch(volumes, self.source.rows.labels[rows], rows)
