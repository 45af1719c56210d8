"""Thumbnails, read back by Pillow: where voxels lie in them, and what their colours stand for."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from engine.declare.view import Gallery, GalleryItem, Picked
from engine.errors import DataError
from engine.viewing.pictures import BETWEEN, COLOUR_MAPS, INFINITE, LAST, NAN, ColourMap
from engine.viewing.scales import GalleryScales, Scale, scale_of, some_values
from engine.viewing.thumbnails import thumbnail

_ZERO_TO_ONE = Scale(0, 1, "grey")


def _levels(volume: NDArray[Any], size: int, scale: Scale = _ZERO_TO_ONE, channel: int = 0) -> NDArray[np.uint8]:
    """Numbers of the colours, the first row on top."""
    return np.asarray(Image.open(io.BytesIO(thumbnail(volume, channel, size, scale))))


def _bright(shape: tuple[int, ...], *voxels: tuple[int, ...], size: int) -> list[tuple[int, int]]:
    """Columns and rows, from the bottom left, of what is bright when these voxels are."""
    volume = np.zeros(shape, np.float32)
    for voxel in voxels:
        volume[voxel] = 1
    rows, columns = np.nonzero(_levels(volume, size) == LAST)
    return sorted(zip(columns.tolist(), (size - 1 - rows).tolist(), strict=True))


class TestPlaces:
    def test_a_cube_has_its_planes_as_the_viewer_has_them(self) -> None:
        """With one pixel a voxel and a gap of one: X to the right and Y upwards, Z above Y, and Y beside it."""
        shape = (8, 8, 8)
        assert _bright(shape, (5, 1, 4), size=17) == [(5, 1)]
        assert _bright(shape, (5, 4, 1), size=17) == [(5, 8 + 1 + 1)]
        assert _bright(shape, (4, 5, 1), size=17) == [(8 + 1 + 5, 8 + 1 + 1)]

    def test_flat_volumes_have_strips_that_meet_the_plane(self) -> None:
        shape = (12, 12, 4)
        assert _bright(shape, (5, 1, 2), size=17) == [(5, 1)]
        assert _bright(shape, (5, 6, 1), size=17) == [(5, 12 + 1 + 1)]
        assert _bright(shape, (6, 5, 1), size=17) == [(12 + 1 + 1, 5)]

    def test_the_largest_plane_of_flat_volumes_is_the_main_one(self) -> None:
        assert _bright((4, 12, 12), (2, 5, 1), size=17) == [(5, 1)]

    def test_where_the_viewers_places_are_no_larger_planes_are_drawn_there(self) -> None:
        assert _bright((12, 4, 12), (5, 2, 1), size=17) == [(5, 4 + 1 + 1)]

    def test_what_is_no_deeper_than_a_line_has_one_plane(self) -> None:
        for shape in ((24, 24, 1), (24, 24)):
            assert _bright(shape, (5, 1), size=24) == [(5, 1)]
        assert _bright((26, 26, 2), (5, 1, 1), size=26) == [(5, 1)]

    def test_a_voxel_has_as_many_pixels_as_fit(self) -> None:
        assert len(_bright((8, 8, 1), (5, 1, 0), size=40)) == 25

    def test_channels_are_apart(self) -> None:
        volume = np.zeros((8, 8, 1, 3), np.float32)
        volume[..., 1] = 1
        assert [int(_levels(volume, 8, channel=each).max()) for each in (0, 1, 2, 9)] == [1, LAST, 1, 1]

    @given(st.tuples(*[st.integers(1, 60)] * 3), st.integers(1, 64))
    def test_a_picture_of_any_shape_is_square_and_fits(self, shape: tuple[int, int, int], size: int) -> None:
        levels = _levels(np.ones(shape), size)
        assert levels.shape[0] == levels.shape[1]
        assert set(np.unique(levels)) <= {0, LAST}
        assert (levels == LAST).any()
        # Three planes of a voxel each and two gaps are the least.
        assert len(levels) <= max(size, 3)

    def test_corners_are_transparent(self) -> None:
        alpha = np.asarray(Image.open(io.BytesIO(thumbnail(np.ones((8, 8, 8)), 0, 17, _ZERO_TO_ONE))).convert("RGBA"))
        assert alpha[-1, -1, 3] == 0
        assert alpha[0, 0, 3] == alpha[-1, 0, 3] == 255

    def test_nan_is_hatched_and_infinity_has_its_own_colour(self) -> None:
        """As in the viewer: neither may look like a value, or like the edge of the picture."""
        volume = np.ones((8, 8, 1))
        volume[:4] = math.nan
        volume[4, 0], volume[4, 1] = math.inf, -math.inf
        levels = _levels(volume, 8)
        assert set(np.unique(levels[:, :4])) == {NAN, BETWEEN}
        assert len({tuple(row) for row in levels[:, :4].tolist()}) > 1, "stripes go across, not along the columns"
        assert levels[::-1][:, 4].tolist() == [INFINITE, INFINITE, *[LAST] * 6]

    @pytest.mark.parametrize("value", [0.0, 5.0, math.nan, math.inf])
    @pytest.mark.parametrize("colours", COLOUR_MAPS)
    def test_a_volume_of_one_value_has_a_picture(self, value: float, colours: ColourMap) -> None:
        volume = np.full((4, 4, 4), value)
        assert thumbnail(volume, 0, 10, scale_of(volume).in_colours(colours)).startswith(b"\x89PNG")


class TestScale:
    def test_one_sided_values_are_grey_from_the_first_to_the_last_percentile(self) -> None:
        scale = scale_of(np.concatenate([np.linspace(0, 1, 1001), [1e9, math.nan, -math.inf]]))
        assert scale == Scale(pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02), "grey")

    @pytest.mark.parametrize(
        ("low", "high", "colours"),
        [(-1, 3, "seismic"), (-3, 1, "seismic"), (-1, 5, "grey"), (-5, 1, "grey"), (0, 1, "grey"), (2, 3, "grey")],
    )
    def test_values_on_both_sides_of_zero_are_shown_about_it(self, low: float, high: float, colours: str) -> None:
        scale = scale_of(np.linspace(low, high, 1001))
        assert scale.colours == colours
        assert (scale.low == -scale.high) is (colours == "seismic")
        assert scale.high == pytest.approx(3 if colours == "seismic" else high, rel=0.06)

    @pytest.mark.parametrize("value", [0.0, 0.1, -0.3, 0.5, 7.0, 1e17])
    def test_one_value_lies_on_one_side_of_zero(self, value: float) -> None:
        """The window around it reaches to the other one: volumes of zeros were white, those of 0.1 pink."""
        scale = scale_of(np.full(100, value))
        assert scale.colours == "grey"
        assert scale.low < value < scale.high

    def test_chosen_colours_with_a_middle_are_about_zero(self) -> None:
        assert Scale(1, 4, "grey").in_colours("seismic") == Scale(-4, 4, "seismic")
        assert Scale(1, 4, "grey").in_colours("viridis") == Scale(1, 4, "viridis")

    @given(st.tuples(*[st.integers(1, 64)] * 3), st.integers(1, 3))
    def test_some_values_are_of_every_part(self, shape: tuple[int, int, int], channels: int) -> None:
        x, y, z = shape
        volume = np.arange(x * y * z * channels).reshape(*shape, channels)
        found = some_values(volume)
        assert (found % channels == np.arange(channels)).all()
        assert 0 < len(found) <= 2500
        places = np.unravel_index(found[:, 0] // channels, shape)
        for place, length in zip(places, shape, strict=True):
            # As many different ones as there can be.
            assert len(np.unique(place)) >= min(length, len(found)) * 0.5

    def test_of_a_large_volume_some_planes_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.viewing.scales._LARGE_BYTES", 1000)
        for order in ("C", "F"):
            volume = np.asarray(np.arange(20 * 20 * 20).reshape(20, 20, 20), order=order)  # type: ignore[call-overload]
            places = np.unravel_index(some_values(volume)[:, 0], volume.shape)
            assert sorted(len(np.unique(place)) for place in places) == [8, 20, 20]


class _Cubes(Gallery):
    title, shape, dtype = "Cubes", (3, 3, 3, 2), "float32"

    def __init__(self, damaged: int | None = None) -> None:
        self.read: list[int] = []
        self.damaged = damaged

    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        return Picked(items=tuple(GalleryItem(row=row, id=str(row)) for row in range(offset, offset + count)))

    def volume(self, row: int) -> NDArray[Any]:
        self.read.append(row)
        if row == self.damaged or self.damaged == -1:
            raise DataError("it is damaged")
        return np.stack([np.full((3, 3, 3), row), np.full((3, 3, 3), row - 8)], axis=3).astype(np.float32)


class TestGalleries:
    def test_all_pictures_of_a_channel_have_one_scale_that_is_found_once(self) -> None:
        gallery = _Cubes()
        scales = GalleryScales(gallery)
        assert scales.of(0) == Scale(0, 15, "grey")
        assert scales.of(1) == scales.of(7) == Scale(-8, 8, "seismic")
        assert gallery.read == list(range(16))

    def test_large_volumes_are_fewer(self) -> None:
        gallery = _Cubes()
        gallery.shape = (512, 512, 200)
        GalleryScales(gallery).of(0)
        assert gallery.read == [0, 1]

    def test_what_cannot_be_read_is_left_out(self) -> None:
        assert GalleryScales(_Cubes(damaged=15)).of(0).high == 14

    def test_where_nothing_can_be_read_it_is_tried_again(self) -> None:
        gallery = _Cubes(damaged=-1)
        scales = GalleryScales(gallery)
        assert scales.of(0).colours == "grey"
        gallery.damaged = None
        assert scales.of(0) == Scale(0, 15, "grey")
