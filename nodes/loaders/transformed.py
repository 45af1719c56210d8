"""A loader whose batches are changed on their way, by a few threads, while the batch before is being used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from nodes.loaders.interface import Batch, Loader

Transform = Callable[[Batch, int], Batch]
"""What becomes of a batch in an epoch. It may write to the batch's arrays, if they can be written to."""

THREADS = 2
"""Also how many batches are under way beyond those that the inner loader reads ahead."""


class TransformedLoader(Loader):
    """The batches of `inner`, in its order, each as `transform` makes it. Its states are those of `inner`."""

    def __init__(self, inner: Loader, transform: Transform) -> None:
        super().__init__(inner.source, inner.chosen, inner.reading)
        self._inner, self._transform = inner, transform

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        waiting: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(THREADS, thread_name_prefix="transform") as pool:
            try:
                for batch in self._inner._read(seed, epoch, first):
                    waiting.append(pool.submit(self._transform, batch, epoch))
                    if len(waiting) > THREADS:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
