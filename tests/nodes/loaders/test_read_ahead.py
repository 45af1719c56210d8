"""Reading ahead: memory that is lent and used again, threads that give way, an iterator that stays a little ahead."""

from __future__ import annotations

import gc
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import WAIT_S

from nodes.loaders.read_ahead import BatchMemory, reading_threads
from nodes.loaders.windows import read_ahead


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


@pytest.mark.slow
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


@pytest.mark.skipif(sys.platform != "linux", reason="scheduling policies of threads are Linux'")
def test_they_give_way_and_nobody_else_does() -> None:
    with reading_threads(2) as pool:
        assert pool.submit(os.sched_getscheduler, 0).result() == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_they_read_where_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid, raising=False)
    with reading_threads(1) as pool:
        assert pool.submit(lambda: threading.current_thread().name).result().startswith("loader")


def test_items_come_in_order() -> None:
    assert list(read_ahead(iter(range(100)), 3)) == list(range(100))


def test_an_error_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise RuntimeError("broken")

    made = read_ahead(items(), 2)
    assert next(made) == 1
    with pytest.raises(RuntimeError, match="broken"):
        next(made)


def test_an_error_at_the_end_of_the_maker_is_reported_too() -> None:
    class Items:
        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            raise StopIteration

        def close(self) -> None:
            raise RuntimeError("cannot be closed")

    with pytest.raises(RuntimeError, match="cannot be closed"):
        list(read_ahead(Items(), 2))


def test_no_more_is_made_ahead_than_allowed_and_closing_ends_the_maker() -> None:
    made: list[int] = []
    ended = threading.Event()
    enough = threading.Event()

    def items() -> Iterator[int]:
        try:
            for number in range(1000):
                made.append(number)
                if number == 3:
                    enough.set()
                yield number
        finally:
            ended.set()

    reading = read_ahead(items(), 2)
    assert next(reading) == 0
    # One was taken, two lie ready, one is in the maker's hand.
    assert enough.wait(WAIT_S)
    assert len(made) == 4
    reading.close()  # type: ignore[attr-defined]
    assert ended.wait(WAIT_S)
    assert len(made) <= 6
    assert not [thread for thread in threading.enumerate() if thread.name == "loader"]
