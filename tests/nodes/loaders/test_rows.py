from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.datasets import Selection
from nodes.loaders.rows import Rows

intervals = st.tuples(st.sampled_from(["a", "b", ""]), st.floats(0, 1), st.floats(0, 1)).map(
    lambda found: Selection(salt=found[0], low=min(found[1:]), high=max(found[1:]))
)


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
