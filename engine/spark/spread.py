"""A list of work, one Spark task an item, with progress and cancel on the driver.

Spark may run an item more than once (a lost executor, speculation): `work` must publish what it makes by one
atomic step under a name that tells the content, and only what the driver commits afterwards counts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from pyspark import RDD, AccumulatorParam, InheritableThread

from engine.context import TaskContext
from engine.progress import Meter

T = TypeVar("T")
R = TypeVar("R")

_POLL_S = 0.25


def spread(
    ctx: TaskContext, items: Sequence[T], work: Callable[[T], R], *, meter: Meter, amount: Callable[[T], int]
) -> Iterator[tuple[int, R]]:
    """Give (place in `items`, result) as Spark finishes the items; each place once, in any order.

    `work` and the items travel to the executors by pickle, results come back the same way: keep both small. `meter`
    is moved on by `amount(item)`. Letting go of the iterator, an error or a cancel ends the Spark job.
    """
    session = ctx.spark
    context = session.sparkContext
    done: SimpleQueue[tuple[int, R] | BaseException | None] = SimpleQueue()
    nothing: list[Any] = []
    told = context.accumulator(nothing, _Telling(done.put))
    group = f"voxelflow-{ctx.run_id}-{ctx.node_id}-{threading.get_ident()}"

    def job() -> None:
        context.setJobGroup(group, ctx.node_id, interruptOnCancel=False)
        rdd: RDD[tuple[int, T]] = context.parallelize(list(enumerate(items)), len(items))
        rdd.foreach(lambda item: told.add([(item[0], work(item[1]))]))

    def run() -> None:
        try:
            job()
        except BaseException as exc:
            done.put(exc)
        else:
            done.put(None)

    runner = InheritableThread(target=run, daemon=True)
    runner.start()
    seen: set[int] = set()
    try:
        while True:
            ctx.check_cancelled()
            try:
                word = done.get(timeout=_POLL_S)
            except Empty:
                continue
            if word is None:
                return
            if isinstance(word, BaseException):
                raise word
            if word[0] not in seen:
                seen.add(word[0])
                meter.add(amount(items[word[0]]))
                yield word
    finally:
        if runner.is_alive():
            with contextlib.suppress(Exception):
                context.cancelJobGroup(group)
            runner.join(10)


class _Telling(AccumulatorParam[list[Any]]):
    """An accumulator that hands each finished task's results over to the driver at once."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell

    def __getstate__(self) -> dict[str, Any]:
        return {}  # on an executor nobody listens

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        tell = getattr(self, "_tell", None)
        if tell is None:
            value1 += value2
            return value1
        for item in value2:
            tell(item)
        return []
