"""The bins of a compaction written by threads of this process: one copies while another waits for the disk."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from engine.context import TaskContext
from engine.progress import Meter
from nodes.delta.compaction_plan import Bin
from nodes.delta.delta_table import TableFile
from nodes.delta.parquet_rewrite import GROUP_BYTES, Recipe, RowSource
from nodes.delta.table_staging import Staging

_POLL_S = 0.5
_GROUPS = 3
"""Row groups that are held while rows are decoded and written again."""
_AHEAD = 4
"""Bins a thread is given beforehand: what waits is held in memory."""


class _StoppedError(Exception):
    """Nobody wants the file any more."""


def rewrite_in_threads(
    bins: Sequence[Bin],
    job: Callable[[Bin], tuple[list[RowSource], Recipe]],
    staging: Staging,
    ctx: TaskContext,
    meter: Meter,
) -> Generator[tuple[int, tuple[TableFile, ...]], None, None]:
    """See `nodes.delta.compaction.RewriteBins`."""
    threads = max(1, min(ctx.resources.cores, len(bins), ctx.resources.memory_bytes // (_GROUPS * GROUP_BYTES)))
    told: queue.SimpleQueue[int | tuple[int, tuple[TableFile, ...]] | BaseException] = queue.SimpleQueue()
    stop = threading.Event()

    def on_rows(rows: int) -> None:
        if stop.is_set():
            raise _StoppedError
        told.put(rows)

    def work(number: int) -> None:
        try:
            told.put((number, staging.rewrite(*job(bins[number]), on_rows)))
        except BaseException as exc:
            told.put(exc)

    waiting = iter(range(len(bins)))
    left = len(bins)
    with ThreadPoolExecutor(threads, thread_name_prefix="rewrite") as pool:
        try:
            for number in islice(waiting, threads * _AHEAD):
                pool.submit(work, number)
            while left:
                try:
                    word = told.get(timeout=_POLL_S)
                except queue.Empty:
                    ctx.check_cancelled()
                    continue
                if isinstance(word, BaseException):
                    raise word
                if isinstance(word, int):
                    meter.add(word)
                    continue
                left -= 1
                for number in islice(waiting, 1):
                    pool.submit(work, number)
                yield word
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
