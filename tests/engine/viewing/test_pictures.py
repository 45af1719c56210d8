"""Volumes as PNG, read back by Pillow."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image

from engine.viewing.pictures import levels_of, palette, png, window_of


def test_levels_keep_the_first_colour_for_what_is_no_number() -> None:
    values = np.array([math.nan, -math.inf, -1, 0, 1, 9, math.inf])
    assert levels_of(values, -1, 1).tolist() == [0, 1, 1, 128, 255, 255, 255]
    assert palette("seismic")[128].tolist() == [255, 255, 255]


def test_a_picture_is_transparent_where_nothing_is() -> None:
    picture = Image.open(io.BytesIO(png(np.array([[0, 1], [128, 255]], np.uint8), palette("grey")))).convert("RGBA")
    assert list(picture.get_flattened_data()) == [
        (0, 0, 0, 0), (0, 0, 0, 255), (127, 127, 127, 255), (255, 255, 255, 255),
    ]  # fmt: skip


def test_the_window_leaves_out_extremes_and_what_is_no_number() -> None:
    values = np.concatenate([np.linspace(0, 1, 1000), [1e9, math.nan, -math.inf]])
    low, high = window_of(values)
    assert (low, high) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))
