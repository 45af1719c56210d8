"""The first tab of a run's page."""

from __future__ import annotations

import pytest

from engine.history.summary import Tile
from ui.runs.overview import tile_block


@pytest.mark.parametrize(
    ("name", "value", "before", "shown"),
    [
        ("val_rmse", 122.6, 123.4, ("122.6", "↓ better, was 123.4")),
        ("val_auc", 0.93124, 0.93121, ("0.93124", "↑ better, was 0.93121")),
        ("val_auc", 0.93124, 0.93124004, ("0.9312", "as before")),
        ("val_auc", 0.93124, None, ("0.9312",)),
    ],
)
def test_a_tile_shows_what_it_calls_better(
    name: str, value: float, before: float | None, shown: tuple[str, ...]
) -> None:
    drawn = tile_block(Tile("a", "A", name, value, before), several=False)
    assert [f">{text}<" in drawn for text in shown] == [True] * len(shown)
