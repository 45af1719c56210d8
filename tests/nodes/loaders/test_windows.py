from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nodes.loaders.windows import read_ahead


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
    assert enough.wait(10)
    assert len(made) == 4
    reading.close()  # type: ignore[attr-defined]
    assert ended.wait(10)
    assert len(made) <= 6
    assert not [thread for thread in threading.enumerate() if thread.name == "loader"]
