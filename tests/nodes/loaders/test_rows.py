from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.declare.datasets import Selection
from nodes.loaders.rows import Rows, shuffled

intervals = st.tuples(st.sampled_from(["a", "b", ""]), st.floats(0, 1), st.floats(0, 1)).map(
    lambda found: Selection(salt=found[0], low=min(found[1:]), high=max(found[1:]))
)


@pytest.mark.slow
@settings(deadline=None)
@given(ids=st.sets(st.text(st.characters(codec="utf-8"), max_size=12), max_size=60), selections=st.lists(intervals))
def test_the_rows_chosen_are_those_that_every_selection_holds(ids: set[str], selections: list[Selection]) -> None:
    labels = np.array([np.nan if i % 5 == 4 else i % 2 for i in range(len(ids))], np.float32)
    rows = Rows.by_id(pa.array(list(ids), pa.string()), labels, "here")
    for _ in range(2):
        chosen = rows.chosen(selections)
        expected = [
            n
            for n, volume_id in enumerate(rows.ids.to_pylist())
            if not np.isnan(rows.labels[n]) and all(selection.holds(volume_id) for selection in selections)
        ]
        assert chosen.tolist() == expected


def test_an_edge_between_two_selections_belongs_to_one_of_them() -> None:
    rows = Rows.by_id(pa.array([f"v{i}" for i in range(1000)]), np.zeros(1000, np.float32), "here")
    parts = [rows.chosen([Selection(salt="s", low=low, high=high)]) for low, high in ((0, 0.25), (0.25, 1))]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


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
