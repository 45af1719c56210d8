"""A loader whose batches are changed by several threads, while the batch before is being used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from nodes.loaders.interface import Batch, Loader

Transform = Callable[[Batch, int], None]
"""Changes volumes in place; gets a part of a batch, contiguous, and the epoch. Called by several threads at once."""

_AHEAD = 1
"""Batches in flight beyond those that the inner loader reads ahead; all threads work on the same batch."""


class TransformedLoader(Loader):
    """The batches of `inner`, in its order, each as `transform` makes it. Its states are those of `inner`."""

    def __init__(self, inner: Loader, transform: Transform, *, threads: int) -> None:
        super().__init__(inner.source, inner.chosen, inner.reading)
        self._inner, self._transform, self._threads = inner, transform, threads

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        waiting: deque[tuple[Batch, list[Future[None]]]] = deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="transform") as pool:
            try:
                for batch in self._inner._read(seed, epoch, first):
                    if not (batch.volumes.flags.writeable and batch.volumes.flags.c_contiguous):
                        batch = replace(batch, volumes=batch.volumes.copy())
                    waiting.append((batch, [pool.submit(self._transform, part, epoch) for part in self._parts(batch)]))
                    if len(waiting) > _AHEAD:
                        yield _done(*waiting.popleft())
                while waiting:
                    yield _done(*waiting.popleft())
            finally:
                for _, parts in waiting:
                    for part in parts:
                        part.cancel()

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch in nearly equal parts, one a thread."""
        count = len(batch.rows)
        parts = min(self._threads, count)
        for number in range(parts):
            part = slice(count * number // parts, count * (number + 1) // parts)
            yield Batch(batch.volumes[part], batch.labels[part], batch.rows[part])


def _done(batch: Batch, parts: list[Future[None]]) -> Batch:
    for part in parts:
        part.result()
    return batch
