"""Many reads by one call: the same bytes, counts and errors as one by one, and the way back where it cannot be had."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.loaders import scattered_reads
from nodes.loaders.scattered_reads import MOST, ScatteredReads

SIZE = 10_000
LINUX = scattered_reads._numbers() is not None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    folder = tmp_path_factory.mktemp("files")
    opened = []
    for name in range(3):
        path = folder / str(name)
        path.write_bytes(np.random.default_rng(name).bytes(SIZE))
        opened.append(os.open(path, os.O_RDONLY))
    yield opened
    for file in opened:
        os.close(file)


@pytest.fixture(scope="module", params=["at once", "one by one"])
def reads(request: pytest.FixtureRequest) -> Iterator[ScatteredReads]:
    made = ScatteredReads()
    if request.param == "one by one":
        made._numbers = None
    yield made
    assert (made._numbers is not None) == (LINUX and request.param == "at once")
    made.close()


def taken(reads: ScatteredReads, files: list[int], offsets: list[int], head: int, body: int):
    heads, bodies = np.zeros((len(files), head), np.uint8), np.zeros((len(files), body), np.uint8)
    counts = reads.read(files, np.array(offsets, np.int64), heads, bodies)
    return counts.tolist(), [h.tobytes() + b.tobytes() for h, b in zip(heads, bodies, strict=True)]


@pytest.mark.slow
@given(
    places=st.lists(st.tuples(st.integers(0, 2), st.integers(0, SIZE + 5)), max_size=MOST),
    head=st.integers(1, 9),
    body=st.integers(1, 3000),
)
def test_what_is_read_is_what_is_stored(
    reads: ScatteredReads, files: list[int], places: list[tuple[int, int]], head: int, body: int
) -> None:
    whole = [os.pread(file, SIZE, 0) for file in files]
    counts, found = taken(reads, [files[n] for n, _ in places], [at for _, at in places], head, body)
    for (number, at), count, bytes_ in zip(places, counts, found, strict=True):
        expected = whole[number][at : at + head + body]
        assert count == len(expected)
        assert bytes_ == expected.ljust(head + body, b"\0")


def test_each_read_that_fails_says_why(reads: ScatteredReads, files: list[int], tmp_path: Path) -> None:
    writing = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        counts, _ = taken(reads, [files[0], folder, files[1]], [0, 0, 0], 4, 8)
        assert counts[1] in (-errno.EISDIR, -errno.EINVAL)
        assert (counts[0], counts[2]) == (12, 12)
        counts, _ = taken(reads, [files[0], writing], [0, 0], 4, 8)
        assert counts == [12, -errno.EBADF]
    finally:
        os.close(writing)
        os.close(folder)


@pytest.mark.slow
def test_several_threads_read_at_the_same_time(reads: ScatteredReads, files: list[int]) -> None:
    whole = [os.pread(file, SIZE, 0) for file in files]
    together = threading.Barrier(4)

    def one(seed: int) -> None:
        rng = np.random.default_rng(seed)
        together.wait()
        for _ in range(50):
            numbers, offsets = rng.integers(0, 3, MOST).tolist(), rng.integers(0, SIZE - 500, MOST).tolist()
            counts, found = taken(reads, [files[n] for n in numbers], offsets, 4, 400)
            assert counts == [404] * MOST
            assert found == [whole[n][at : at + 404] for n, at in zip(numbers, offsets, strict=True)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))


@pytest.mark.skipif(not LINUX, reason="one system call for many reads is Linux'")
@pytest.mark.parametrize(("call", "times"), [("setup", 1), ("submit", 3)])
def test_what_the_system_refuses_is_read_one_by_one(
    files: list[int], monkeypatch: pytest.MonkeyPatch, call: str, times: int
) -> None:
    refused = getattr(scattered_reads._NUMBERS[os.uname().machine], call)
    real = scattered_reads._call
    asked = []

    def forbidding(number: int, *arguments: object) -> int:
        if number == refused:
            asked.append(number)
            return -1
        return real(number, *arguments)

    monkeypatch.setattr(scattered_reads, "_call", forbidding)
    reads = ScatteredReads()
    for _ in range(3):
        counts, found = taken(reads, files, [5, 6, 7], 4, 100)
        assert counts == [104] * 3
        assert found == [os.pread(file, 104, at) for file, at in zip(files, (5, 6, 7), strict=True)]
    reads.close()
    assert asked == [refused] * times


@pytest.mark.skipif(not LINUX, reason="one system call for many reads is Linux'")
def test_what_was_lent_is_given_back(files: list[int]) -> None:
    def contexts() -> int:
        return sum("[aio]" in line for line in Path("/proc/self/maps").read_text().splitlines())

    before = contexts()
    reads = ScatteredReads()
    taken(reads, files, [0, 0, 0], 4, 4)
    assert contexts() == before + 1
    reads.close()
    assert contexts() == before


def test_a_part_that_the_system_took_is_completed(files: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    real = scattered_reads._call

    def halving(number: int, *arguments: object) -> int:
        if LINUX and number == scattered_reads._NUMBERS[os.uname().machine].submit:
            context, count, pointers = arguments
            return real(number, context, (count + 1) // 2, pointers)  # type: ignore[operator]
        return real(number, *arguments)

    monkeypatch.setattr(scattered_reads, "_call", halving)
    reads = ScatteredReads()
    counts, found = taken(reads, files * 3, list(range(9)), 4, 100)
    assert counts == [104] * 9
    assert found == [os.pread(file, 104, at) for file, at in zip(files * 3, range(9), strict=True)]
    reads.close()
