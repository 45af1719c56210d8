"""Volumes as PNG, read back by Pillow."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image

from engine.viewing.pictures import INFINITE, LAST, NAN, levels_of, palette, png, window_of

MIDDLE = 1 + (LAST - 1) // 2


def test_what_is_not_finite_has_levels_and_colours_of_its_own() -> None:
    values = np.array([math.nan, -math.inf, -1, 0, 1, 9, math.inf])
    assert levels_of(values, -1, 1).tolist() == [NAN, INFINITE, 1, MIDDLE, LAST, LAST, INFINITE]
    assert palette("seismic")[MIDDLE].tolist() == [255, 255, 255]
    assert palette("seismic")[LAST].tolist() == [128, 0, 0]
    assert palette("grey")[INFINITE].tolist() == [255, 64, 200]


def test_a_picture_is_transparent_where_nothing_is() -> None:
    picture = Image.open(io.BytesIO(png(np.array([[0, 1], [MIDDLE, LAST]], np.uint8), palette("grey")))).convert("RGBA")
    assert list(picture.get_flattened_data()) == [
        (0, 0, 0, 0), (0, 0, 0, 255), (127, 127, 127, 255), (255, 255, 255, 255),
    ]  # fmt: skip


def test_the_window_leaves_out_extremes_and_what_is_no_number() -> None:
    values = np.concatenate([np.linspace(0, 1, 1000), [1e9, math.nan, -math.inf]])
    low, high = window_of(values)
    assert (low, high) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))


_ENDS = np.finfo(np.float64)


@pytest.mark.parametrize(
    "value", [0.0, 0.3, 9.96921e36, 1e17, 1e20, -3.4e38, 2.0**60, 2.0**64, _ENDS.max, _ENDS.min, 5e-324]
)
def test_one_value_is_in_the_middle_of_what_is_shown(value: float) -> None:
    low, high = window_of(np.full(5, value))
    assert low <= value <= high
    assert math.isfinite(254 / (high - low))
    if abs(value) < _ENDS.max:
        assert levels_of(np.array([value]), low, high).tolist() in ([MIDDLE - 1], [MIDDLE])


def test_values_at_both_ends_of_their_type_have_a_window() -> None:
    low, high = window_of(values := np.array([_ENDS.min, 0, _ENDS.max]))
    assert levels_of(values, low, high).tolist() in ([1, MIDDLE - 1, LAST], [1, MIDDLE, LAST])
    low, high = window_of(values := np.array([0, 5e-324]))
    assert levels_of(values, low, high).tolist() == [MIDDLE, MIDDLE]
