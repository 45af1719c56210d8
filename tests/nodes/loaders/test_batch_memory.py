from __future__ import annotations

import gc
import mmap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.loaders.batch_memory import BatchMemory


def address(array: Any) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def test_what_nobody_holds_any_more_is_lent_again() -> None:
    memory = BatchMemory(1000, spare=2)
    first = memory.take((10, 100))
    place = address(first)
    del first
    assert address(memory.take((5, 7))) == place


VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda batch: batch[3, 10:20],
    "dlpack": lambda batch: np.from_dlpack(batch)[1],
    "bytes": lambda batch: np.frombuffer(memoryview(batch.view(np.uint8)).cast("B"), np.float32),
    "reshaped": lambda batch: batch.reshape(-1)[::2],
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_keeps_the_memory(view: str) -> None:
    memory = BatchMemory(1000, spare=4)
    batch = memory.take((10, 100))
    batch[:] = 7
    kept = VIEWS[view](batch)
    del batch
    gc.collect()
    others = [memory.take((10, 100)) for _ in range(5)]
    for other in others:
        other[:] = 1
    assert (kept == 7).all()


def test_no_more_is_kept_than_wanted() -> None:
    memory = BatchMemory(1 << 20, spare=2)
    several = [memory.take((1 << 20,)) for _ in range(6)]
    before = resident()
    for batch in several:
        batch[:] = 1
    full = resident()
    assert full - before >= 5 * (4 << 20)
    del several, batch
    assert full - resident() >= 3 * (4 << 20)


def resident() -> int:
    """Bytes of memory in use by this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_arrays_are_aligned_as_tensorflow_wants_them_and_can_be_written() -> None:
    for values in (1, 15, 3_000_000):
        batch = BatchMemory(values, spare=1).take((values,))
        assert address(batch) % 64 == 0
        assert batch.flags.c_contiguous
        batch[:] = 1


def test_several_threads_never_share_a_buffer() -> None:
    memory = BatchMemory(64, spare=3)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(500):
            batch = memory.take((8, 8))
            batch[:] = number
            held = batch[2:4]
            del batch
            if not (held == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
