"""Chunks converted by threads of this process: each reads and writes its own, so that one thread waits for
the disk while another copies. Memory for data is threads x `Layout.writer_bytes`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

from engine.context import TaskContext
from engine.progress import Meter
from nodes.conversion.chunks import Chunks
from nodes.conversion.part_writer import Outcome, PartWriter

_POLL_S = 0.5


def convert_in_threads(chunks: Chunks, ctx: TaskContext, meter: Meter) -> Generator[tuple[int, Outcome], None, None]:
    """See `ConvertChunks`."""
    threads = min(_threads(chunks, ctx), len(chunks))
    writers: queue.SimpleQueue[PartWriter] = queue.SimpleQueue()
    for _ in range(threads):
        writers.put(PartWriter(chunks.source, chunks.store, chunks.layout, ctx.commit_point))
    told: queue.SimpleQueue[int | tuple[int, Outcome | None] | BaseException] = queue.SimpleQueue()
    stop = threading.Event()

    def job(number: int) -> None:
        writer = writers.get()
        try:
            told.put((number, writer.convert(chunks.files(number), told.put, stop.is_set)))
        except BaseException as exc:
            told.put(exc)
        finally:
            writers.put(writer)

    left = len(chunks)
    with ThreadPoolExecutor(threads, thread_name_prefix="convert") as pool:
        try:
            for number in range(len(chunks)):
                pool.submit(job, number)
            while left:
                ctx.check_cancelled()
                try:
                    word = told.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if isinstance(word, BaseException):
                    raise word
                if isinstance(word, int):
                    meter.add(word)
                elif word[1] is not None:
                    left -= 1
                    yield word[0], word[1]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _threads(chunks: Chunks, ctx: TaskContext) -> int:
    resources = ctx.resources
    # One more than cores: while one thread waits for fsync the others keep the cores busy.
    wanted = chunks.threads or resources.cores + 1
    return max(1, min(wanted, resources.memory_bytes // chunks.layout.writer_bytes))
