"""Volumes that lie oblique or do not say where they lie."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
from npy_folders import take
from numpy.typing import NDArray
from volume_folders import looked_at, volumes

from nodes.conversion.formats.geometry import columns_of, oblique


def _turned(degrees: float) -> NDArray[np.float64]:
    """The affine of a scan that is turned around its Z axis."""
    affine, angle = np.diag([2.0, 2.0, 3.0, 1.0]), np.deg2rad(degrees)
    affine[:2, :2] = 2 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return affine


def test_odd_volumes_are_warned_of_before_the_run_and_in_it(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for number, (volume, degrees) in enumerate(zip(volumes(4), (0, 30, 44, 134), strict=True)):
        root.mkdir(exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(volume, _turned(degrees)), root / f"p{number}.nii")
    (tmp_path / "look").mkdir()
    seen, preview = looked_at(root, tmp_path / "look", format="auto", dataset="")
    (problem,) = seen.problems
    assert (preview.count, problem.code, problem.severity) == (4, "VF405", "warning")
    wanted = (
        "p2.nii lies oblique: X points between right and front (44 and 46 degrees from them), so its orientation RAS"
        " could as well be another; use its affine, or resample it to straight axes; p3.nii lies oblique: X points"
        " between front and left (44 and 46 degrees from them), so its orientation ALS could as well be another; use"
        " its affine, or resample it to straight axes"
    )
    assert problem.message == wanted
    messages: list[str] = []
    take(root, tmp_path / "work", messages=messages)
    assert messages == [wanted]
    bare = nibabel.Nifti1Image(volumes(1)[0], None)
    for name in ("p2.nii", "p3.nii"):
        nibabel.save(bare, root / name)
    messages.clear()
    take(root, tmp_path / "again", messages=messages)
    (message,) = messages
    assert message.startswith(
        "p2.nii does not say where it lies (no qform or sform code), so it has no orientation; p3"
    )


@pytest.mark.parametrize(
    ("degrees", "named"), [(0, False), (41, False), (43, True), (45, True), (47, True), (50, False), (135, True)]
)
@pytest.mark.parametrize("turned", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_an_axis_between_two_directions_is_named(degrees: float, named: bool, turned: tuple[int, ...]) -> None:
    affine = _turned(degrees)
    affine[:3, :3] = affine[:3, list(turned)]
    said = oblique(columns_of(affine))
    assert bool(said) == named
    assert not said or f"so its orientation {columns_of(affine)['orientation']} could as well be another" in said[0]


def test_what_has_no_directions_is_not_oblique() -> None:
    assert oblique(columns_of(np.diag([0.0, 1.0, 1.0, 1.0]))) == ()
    assert oblique({"spacing_x": 1.0}) == oblique({"affine": "1 1 0 0 -1 1 0 0 0 0 1 0"}) == (), "of a survey"
