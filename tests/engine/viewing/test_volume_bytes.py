"""Volumes as bytes in parts: as they are stored, and as NIfTI, read back by nibabel."""

from __future__ import annotations

import math

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.datasets import DTYPES
from engine.errors import DataError
from engine.viewing.kept_volumes import OpenVolume
from engine.viewing.pictures import axes_of, four_axes
from engine.viewing.volume_bytes import NiftiFile, Streamed, Voxels, reduced

_SHAPES = [(5, 4, 3, 2), (5, 4, 3), (5, 4), (7,), (2, 3, 4, 2, 3)]


def _all(streamed: Streamed, step: int = 1 << 20) -> bytes:
    parts = [streamed.part(at, min(at + step, streamed.size)) for at in range(0, streamed.size, step)]
    assert [len(part) for part in parts[:-1]] == [step] * (len(parts) - 1)
    return b"".join(parts)


def _read_nifti(file: NiftiFile) -> nibabel.Nifti1Image:
    return nibabel.Nifti1Image.from_bytes(_all(file))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", _SHAPES)
def test_nifti_holds_every_value_at_its_place(dtype: str, shape: tuple[int, ...]) -> None:
    volume = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    found = np.asarray(_read_nifti(NiftiFile(four_axes(volume))).dataobj)
    assert (found.reshape(axes_of(shape)) == four_axes(volume)).all()


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("order", ["C", "F"])
def test_voxels_are_the_numbers_as_they_lie(dtype: str, order: str) -> None:
    volume = np.arange(120).reshape(5, 4, 3, 2).astype(dtype, order=order)  # type: ignore[call-overload]
    voxels = Voxels(volume)
    assert voxels.order == order
    found = np.frombuffer(_all(voxels, 7), voxels.dtype).reshape(volume.shape, order=voxels.order)
    assert (found == volume).all()


def test_numbers_in_another_order_of_bytes_are_turned_round() -> None:
    volume = np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4, 1))
    assert (np.asarray(_read_nifti(NiftiFile(volume)).dataobj) == volume[..., 0]).all()
    assert np.frombuffer(_all(Voxels(volume)), "<i4").tolist() == volume.reshape(-1, order="F").tolist()


@given(st.tuples(*[st.integers(1, 9)] * 3, st.integers(1, 3)), st.sampled_from("CF"), st.integers(1, 3), st.data())
def test_any_part_of_a_volume_is_that_part_of_its_bytes(
    shape: tuple[int, int, int, int], order: str, step: int, data: st.DataObject
) -> None:
    volume = np.arange(math.prod(shape), dtype=np.uint16).reshape(shape, order=order)[::step]  # type: ignore[call-overload]
    for streamed in (NiftiFile(volume), Voxels(volume)):
        whole = _all(streamed)
        assert len(whole) == streamed.size
        start = data.draw(st.integers(0, streamed.size))
        stop = data.draw(st.integers(start, streamed.size))
        assert streamed.part(start, stop) == whole[start:stop]


@given(st.tuples(*[st.integers(1, 30)] * 3, st.integers(1, 4)), st.integers(1, 20_000), st.sampled_from(["f2", "f4"]))
def test_a_reduced_volume_fits_as_it_is_sent_and_keeps_true_values(
    shape: tuple[int, int, int, int], limit: int, dtype: str
) -> None:
    volume = (np.arange(math.prod(shape)) % 2_048).astype(dtype).reshape(shape)  # whole numbers that float16 has
    part, steps = reduced(volume, limit)
    assert Voxels(part).size <= limit or part.shape[:3] == (1, 1, 1)
    assert (part == volume[tuple(slice(None, None, step) for step in steps)]).all()


def test_positions_in_a_reduced_volume_are_those_of_the_whole() -> None:
    volume = np.zeros((40, 20, 10, 1), np.uint8)
    part, steps = reduced(volume, 1000)
    assert _read_nifti(NiftiFile(part, steps)).affine @ [1, 1, 1, 1] == pytest.approx([*steps, 1])
    spaced = _read_nifti(NiftiFile(part, steps, (0.5, 1.0, 3.0)))
    assert spaced.affine @ [1, 1, 1, 1] == pytest.approx([0.5 * steps[0], steps[1], 3 * steps[2], 1])
    assert spaced.header.get_xyzt_units()[0] == "mm"


def test_what_nifti_cannot_say_is_thinned_and_voxels_are_not() -> None:
    volume = OpenVolume(np.arange(40_000, dtype=np.int32).reshape(40_000, 1, 1), None)
    file, headers = volume.form("volume", 1 << 30)
    assert headers["X-Voxelflow-Steps"] == "2,1,1"
    assert isinstance(file, NiftiFile)
    assert np.asarray(_read_nifti(file).dataobj).reshape(-1).tolist() == list(range(0, 40_000, 2))
    voxels, headers = volume.form("voxels", 1 << 30)
    assert (voxels.size, headers["X-Voxelflow-Steps"]) == (160_000, "1,1,1")


@pytest.mark.parametrize("value", [1e300, -float(np.finfo(np.float32).max)])
def test_what_float32_does_not_have_is_no_window_of_a_file(value: float) -> None:
    image = _read_nifti(NiftiFile(np.full((2, 2, 2, 1), value)))
    assert (np.asarray(image.dataobj) == value).all()
    assert (float(image.header["cal_min"]), float(image.header["cal_max"])) == (0, 0)


def test_more_channels_than_nifti_can_say_are_refused() -> None:
    volume = OpenVolume(np.zeros((1, 1, 1, 40_000), np.uint8), None)
    with pytest.raises(DataError, match="at most 32,767 channels, and this volume has 40,000"):
        volume.form("volume", 1 << 30)
    assert volume.form("voxels", 1 << 30)[0].size == 40_000
