"""Curves over time as a picture."""

from __future__ import annotations

import re

import pytest

from engine.panels import Curve, Panel, draw_panels, round_end


@pytest.mark.parametrize(
    ("most", "end"), [(1.01, 1.5), (3.1, 4), (9.3, 10), (93, 100), (100, 100), (266, 300), (1000, 1000), (1563, 2000)]
)
def test_an_axis_ends_at_a_round_figure(most: float, end: float) -> None:
    assert round_end(most) == end
    drawn = draw_panels("", [Panel("MB/s", [Curve("read", [(0.0, 0.0), (1.0, most)])])], 1.0)
    assert re.search(f">{end:,g}<", drawn)
