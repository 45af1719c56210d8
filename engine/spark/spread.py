"""A list of work, one Spark task an item, with progress and cancel on the driver.

Spark may run an item more than once (a lost executor, speculation): `work` must publish what it makes by one
atomic step under a name made from the content, and only what the driver commits afterwards counts.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any, TypeVar

from pyspark import RDD, AccumulatorParam, InheritableThread, SparkContext
from pyspark import TaskContext as SparkTask

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from engine.errors import ExecutionError, VoxelflowError
from engine.spark.failures import spark_error
from engine.spark.progress import job_group
from engine.text import plural

T = TypeVar("T")
R = TypeVar("R")

_POLL_S = 0.25
_NO_EXECUTOR_S = 30.0
_END_S = 10.0


def spread(
    ctx: TaskContext, items: Sequence[T], work: Callable[[T], R], *, meter: Meter, amount: Callable[[T], int]
) -> Iterator[tuple[int, R]]:
    """Give (place in `items`, result) as Spark finishes the items; each place once, in any order.

    `work` and the items travel to the executors by pickle, results come back the same way: keep both small. `meter`
    is moved on by `amount(item)`. Letting go of the iterator, an error or a cancel ends the Spark job.

    What `work` raises is raised here as it is: a `VoxelflowError` at once, since trying again would not help;
    another error after Spark tried the item as often as it does. Raises `ExecutionError` when Spark gives up for
    a reason of its own (lost processes, no executors left), or has lost a result.
    """
    if not items:
        return
    from engine.spark.session import task_failures  # not where the executors import this module

    context = ctx.spark.sparkContext
    done: Queue[tuple[int, Any] | BaseException | None] = Queue()
    nothing: list[Any] = []
    results = context.accumulator(nothing, _Results(done.put))
    attempt = _Attempt(work, task_failures(context), results)
    group = job_group(ctx)

    def run() -> None:
        # Spark's own messages about a task go by the thread: this one is the job's.
        context.setJobGroup(group, ctx.node_id)
        try:
            rdd: RDD[tuple[int, T]] = context.parallelize(list(enumerate(items)), len(items))
            rdd.foreach(attempt)
        except BaseException as exc:
            done.put(exc)
        else:
            done.put(None)

    runner = InheritableThread(target=run, daemon=True)
    runner.start()
    waiting = _Waiting(ctx, context, group)
    seen: set[int] = set()
    try:
        while True:
            ctx.check_cancelled()
            try:
                word = done.get(timeout=_POLL_S)
            except Empty:
                waiting.look()
                continue
            if word is None:
                if len(seen) < len(items):
                    # Spark calls a task done also where it could not hand its result over.
                    raise ExecutionError(
                        f"Spark has lost the results of {len(items) - len(seen):,} of {plural(len(items), 'tasks')}",
                        hint='Run it again; Java\'s output says why ("Failed to update accumulator").',
                    )
                return
            if isinstance(word, BaseException):
                ctx.check_cancelled()  # the cancel may have ended the job before we saw it
                print("".join(traceback.format_exception(word)), file=sys.stderr)
                raise spark_error(word) from word
            place, result = word
            waiting.over = True
            if isinstance(result, _Raised):
                raise result.again()
            if place not in seen:
                seen.add(place)
                meter.add(amount(items[place]))
                yield place, result
    finally:
        if runner.is_alive():
            with contextlib.suppress(Exception):
                context.cancelJobGroup(group)
            runner.join(_END_S)


class _Attempt:
    """What runs on an executor for one item. An error that is worth no further try travels as a result.

    Spark would report it as text within a Java stack, and drop what the failed task has put into the accumulator.
    """

    def __init__(self, work: Callable[[Any], Any], tries: int, results: Any) -> None:
        self._work, self._tries, self._results = work, tries, results

    def __call__(self, item: tuple[int, Any]) -> None:
        place, value = item
        task = SparkTask.get()
        last = task is None or task.attemptNumber() >= self._tries - 1
        try:
            result = self._work(value)
        except Exception as exc:
            if not last and not isinstance(exc, VoxelflowError):
                raise
            result = _Raised.of(exc)
        self._results.add([(place, result)])


@dataclass(frozen=True)
class _Raised:
    """An exception on its way to the driver: pickled if it can be, and its traceback as text."""

    data: bytes | None
    text: str
    trace: str

    @staticmethod
    def of(exc: Exception) -> _Raised:
        text = f"{type(exc).__name__}: {exc}"
        try:
            data = pickle.dumps(exc)
            pickle.loads(data)  # some take other arguments than they keep
        except Exception:
            data = None
        return _Raised(data, text, traceback.format_exc())

    def again(self) -> Exception:
        """The exception; its traceback goes to the task's log."""
        print(f"on an executor:\n{self.trace}", file=sys.stderr, flush=True)
        if self.data is not None:
            with contextlib.suppress(Exception):
                exc = pickle.loads(self.data)
                if isinstance(exc, Exception):
                    return exc
        return ExecutionError(self.text, hint="Look at the traceback in the node's log (`voxelflow runs logs`).")


class _Waiting:
    """Says once that no executor takes the work: Spark waits for one for ever."""

    def __init__(self, ctx: TaskContext, context: SparkContext, group: str) -> None:
        self._ctx, self._context, self._group = ctx, context, group
        self._until = time.monotonic() + _NO_EXECUTOR_S
        self.over = False

    def look(self) -> None:
        if self.over or time.monotonic() < self._until:
            return
        self.over = True
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(s) for s in tracker.getActiveStageIds()]
        if any(stage is not None and (stage.numActiveTasks or stage.numCompletedTasks) for stage in stages):
            return
        self._ctx.warn(
            f"Spark has found no executor for the work in {_NO_EXECUTOR_S:.0f} s: is the cluster full, or does the"
            " profile ask for more memory or cores than a worker has?"
        )


class _Results(AccumulatorParam[list[Any]]):
    """An accumulator that hands each finished task's results over to the driver at once."""

    def __init__(self, put: Callable[[Any], None]) -> None:
        self._put = put

    def __getstate__(self) -> dict[str, Any]:
        return {}  # on an executor nobody listens

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        put = getattr(self, "_put", None)
        if put is None:
            value1 += value2
            return value1
        for item in value2:
            put(item)
        return []
