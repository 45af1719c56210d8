from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.loaders.order import shuffled


@given(count=st.integers(0, 500), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 10**6))
def test_it_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(count, seed, epoch).tolist()) == list(range(count))


def test_it_is_the_same_for_good() -> None:
    """A resumed training on another machine or NumPy must meet this very order."""
    assert shuffled(12, 7, 3).tolist() == [7, 1, 9, 6, 0, 11, 10, 4, 2, 8, 3, 5]


def test_seed_epoch_and_length_matter() -> None:
    orders = [shuffled(50, 1, 2), shuffled(50, 2, 1), shuffled(50, 1, 3), shuffled(50, 1)]
    assert len({order.tobytes() for order in orders}) == 4


def test_every_row_reaches_every_place() -> None:
    """No row prefers a part of the epoch: mean place over many epochs is the middle."""
    places = np.mean([np.argsort(shuffled(20, 0, epoch)) for epoch in range(2000)], axis=0)
    assert places == pytest.approx(np.full(20, 9.5), abs=0.6)
