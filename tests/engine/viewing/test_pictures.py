"""Volumes as PNG and NIfTI, read back by Pillow and nibabel."""

from __future__ import annotations

import io
import math

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.declare.datasets import DTYPES
from engine.viewing.pictures import COLOUR_MAPS, ColourMap, axes_of, four_axes, nifti, reduced, thumbnail, window_of


def _read_nifti(data: bytes) -> nibabel.Nifti1Image:
    return nibabel.Nifti1Image.from_bytes(data)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(5, 4, 3, 2), (5, 4, 3), (5, 4), (7,), (2, 3, 4, 2, 3)])
def test_nifti_holds_every_value_at_its_place(dtype: str, shape: tuple[int, ...]) -> None:
    volume = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    found = np.asarray(_read_nifti(nifti(four_axes(volume))).dataobj)
    assert (found.reshape(axes_of(shape)) == four_axes(volume)).all()


def test_nifti_takes_volumes_in_any_order_of_bytes() -> None:
    volume = np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4, 1))
    assert (np.asarray(_read_nifti(nifti(volume)).dataobj) == volume[..., 0]).all()


@given(st.tuples(*[st.integers(1, 30)] * 3, st.integers(1, 4)), st.integers(1, 20_000))
def test_a_reduced_volume_fits_and_keeps_true_values(shape: tuple[int, int, int, int], limit: int) -> None:
    volume = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    part, steps = reduced(volume, limit)
    assert part.nbytes <= limit or part.shape[:3] == (1, 1, 1)
    assert (part == volume[tuple(slice(None, None, step) for step in steps)]).all()


def test_positions_in_a_reduced_volume_are_those_of_the_whole() -> None:
    volume = np.zeros((40, 20, 10, 1), np.uint8)
    part, steps = reduced(volume, 1000)
    image = _read_nifti(nifti(part, steps))
    assert image.affine @ [1, 1, 1, 1] == pytest.approx([*steps, 1])


@pytest.mark.parametrize("colour_map", COLOUR_MAPS)
def test_a_thumbnail_shows_x_to_the_right_and_y_upwards(colour_map: ColourMap) -> None:
    volume = np.zeros((30, 20, 3, 2), np.float32)
    volume[-1, -1, 1, 1] = 1
    picture = Image.open(io.BytesIO(thumbnail(volume, 1, 160, colour_map)))
    assert picture.size == (30, 20)
    colours = picture.convert("RGB")
    assert colours.getpixel((29, 0)) != colours.getpixel((0, 0))
    assert colours.getpixel((0, 19)) == colours.getpixel((0, 0))


def test_a_thumbnail_is_no_larger_than_wanted() -> None:
    picture = Image.open(io.BytesIO(thumbnail(np.zeros((512, 512, 2, 1), np.uint16), 0, 100, "grey")))
    assert max(picture.size) <= 100


@pytest.mark.parametrize("value", [0.0, 5.0, math.nan, math.inf])
def test_a_volume_of_one_value_has_a_picture(value: float) -> None:
    assert thumbnail(np.full((4, 4, 4), value), 0, 10, "seismic").startswith(b"\x89PNG")


def test_the_window_leaves_out_extremes_and_what_is_no_number() -> None:
    values = np.concatenate([np.linspace(0, 1, 1000), [1e9, math.nan, -math.inf]])
    low, high = window_of(values)
    assert (low, high) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))
    assert window_of(values, "seismic")[0] == -window_of(values, "seismic")[1]
