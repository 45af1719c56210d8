"""Which of several ways to take: rules that the advisor, ProfileTraining and the benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
WITHIN = 0.05
"""A smaller batch, or fewer workers, that lose no more than this share of the best rate are preferred."""


def near_best(items: Iterable[T], rate: Callable[[T], float], within: float = WITHIN) -> list[T]:
    """Those whose rate is within a share of the best one; empty where there are none."""
    known = list(items)
    best = max(map(rate, known), default=0.0)
    return [item for item in known if rate(item) >= (1 - within) * best]


def smallest_batch(
    items: Sequence[T], *, workers: Callable[[T], int], batch_size: Callable[[T], int], rate: Callable[[T], float]
) -> T | None:
    """The one to train with: the fewest workers whose best rate is near the best, with the smallest batch near theirs.

    It takes the least memory and gives the most steps for the same work. None where there are no items.
    """
    if not items:
        return None
    fewest = min(map(workers, near_best(items, rate)))
    return min(near_best([i for i in items if workers(i) == fewest], rate), key=batch_size)
