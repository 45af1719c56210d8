"""Volumes turned so that their axes point the same way, against nibabel."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nibabel.orientations import axcodes2ornt, ornt_transform
from npy_folders import context, rows, take
from numpy.typing import NDArray

from engine.declare.datasets import VolumeFiles, VolumeParquet
from engine.declare.events import Event, Message
from engine.errors import UsageError
from nodes.conversion.formats.geometry import affine_in, columns_of
from nodes.conversion.whole_volumes import moved
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.transform_volumes import transform_volumes
from nodes.transforms.steps import Axes, CropPad, Orient, Resample, Unfit, apply_steps, form_after

WAYS = [
    "".join(letters)
    for order in itertools.permutations(("LR", "PA", "IS"))
    for letters in itertools.product(*order)
]  # fmt: skip


def affine_of(code: str, spacing: tuple[float, ...] = (1.0, 2.0, 3.0)) -> NDArray[np.float64]:
    out = np.eye(4)
    ornt = axcodes2ornt(tuple(code))
    out[:3, :3] = 0
    for axis, (way, sign) in enumerate(ornt):
        out[int(way), axis] = sign * spacing[axis]
    out[:3, 3] = (7.0, -3.0, 11.0)
    return out


@given(st.sampled_from(WAYS), st.sampled_from(WAYS), st.booleans())
def test_it_is_what_nibabel_does(start: str, to: str, channels: bool) -> None:
    shape = (3, 4, 5, 2) if channels else (3, 4, 5)
    volume = np.arange(np.prod(shape)).reshape(shape)
    image = nibabel.Nifti1Image(volume.astype(np.int32), affine_of(start))
    wanted = image.as_reoriented(ornt_transform(axcodes2ornt(tuple(start)), axcodes2ornt(tuple(to))))
    row: dict[str, Any] = columns_of(affine_of(start))
    found, matrix = apply_steps([Orient(to)], volume, row)
    assert np.array_equal(found, wanted.get_fdata())
    assert form_after([Orient(to)], shape, "int64", row) == (found.shape, "int64")
    after = moved(row, matrix)
    assert after["orientation"] == to
    assert np.allclose(affine_in(after["affine"]), wanted.affine)


def test_steps_before_it_are_known() -> None:
    """Also what a step before it did to the axes, and one behind it sees the new spacing."""
    row = columns_of(affine_of("LPS"))
    volume = np.random.default_rng(0).normal(size=(6, 6, 6))
    direct, _ = apply_steps([Orient("RAS")], volume, row)
    turned, _ = apply_steps([Axes("ZXY"), CropPad((0, 0, 4)), Orient("RAS")], volume, row)
    assert np.array_equal(turned, direct[:, 1:5, :])
    sized, _ = apply_steps([Orient("SRA"), Resample(spacing=(1.5, 1.0, 2.0))], volume, row)
    assert sized.shape == (12, 6, 6)
    assert apply_steps([Orient("RAS"), Orient("RAS")], volume, row)[0].tolist() == direct.tolist()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, "does not say where its axes point, so it cannot be turned to RAS"),
        ({"orientation": "R?S"}, "does not say where its axes point"),
        ({"orientation": "RRS"}, "does not say where its axes point"),
    ],
)
def test_volumes_that_do_not_say_are_refused(row: dict[str, Any], why: str) -> None:
    with pytest.raises(Unfit, match=why.replace("?", r"\?")):
        Orient("RAS").apply(np.zeros((2, 3, 4)), row)


def test_near_45_degrees_nothing_is_guessed() -> None:
    def row(degrees: float) -> dict[str, Any]:
        angle = np.deg2rad(degrees)
        affine = np.eye(4)
        affine[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return columns_of(affine)

    volume = np.zeros((2, 3, 4))
    assert Orient("RAS").apply(volume, row(30)).shape == (2, 3, 4)
    for degrees in (44, 46):
        with pytest.raises(Unfit, match="near 45 degrees between two directions"):
            Orient("RAS").apply(volume, row(degrees))


def test_files_that_point_several_ways_become_alike(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    head = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    image = nibabel.Nifti1Image(head, affine_of("RAS"))
    for code in ("RAS", "LAS", "PSR"):
        turned = image.as_reoriented(ornt_transform(axcodes2ornt(tuple("RAS")), axcodes2ornt(tuple(code))))
        nibabel.save(turned, root / f"{code}.nii.gz")
    files = transform_volumes(take(root, tmp_path), orientation="RAS", ctx=context(tmp_path, "turned"))
    assert files.spec is not None
    assert (files.spec.shape, files.details()["transforms"]) == ((3, 4, 5), "axes to RAS")
    said: list[str] = []
    made = _converted(files, tmp_path / "1", said)
    assert {data for _, data in rows(made).values()} == {head.tobytes()}
    assert said == []
    # Without it they differ in shape; cut to one, left and right would be mixed up.
    mixed = transform_volumes(take(root, tmp_path), size=(3, 3, 3), ctx=context(tmp_path, "cropped"))
    _converted(mixed, tmp_path / "2", said)
    assert said == [
        "the axes of the volumes point several ways (1 LAS, 1 PSR, 1 RAS), so one side of a body is another in some of"
        " them; orientation of TransformVolumes turns them alike, to RAS for example"
    ]


def _converted(files: VolumeFiles, base: Path, said: list[str]) -> VolumeParquet:
    """Warnings go to `said`."""

    def hear(event: Event) -> None:
        if isinstance(event, Message) and event.level == "warning":
            said.append(event.text)

    return numpy_to_parquet(files, ctx=context(base, "parquet", emit=hear))


def test_letters_that_contradict_each_other(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    np.save(root / "a.npy", np.zeros((2, 3, 4)))
    files = take(root, tmp_path)
    with pytest.raises(
        UsageError, match="orientation RLS does not name each of left-right, back-front and down-up once"
    ):
        transform_volumes(files, orientation="RLS", ctx=context(tmp_path, "turned"))
    with pytest.raises(Exception, match="does not say where its axes point"):
        transform_volumes(files, orientation="RAS", ctx=context(tmp_path, "turned"))
