"""Labels and channels that have the shape of a volume and lie elsewhere: cut, they would label the wrong voxels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import segyio
from cuts import cut, rows_of

from engine.declare.datasets import VolumeParquet
from engine.errors import DataError
from nodes.conversion.formats.interface import Axis, VolumeHeader
from nodes.cutting.same_place import refuse_elsewhere

SHAPE = (8, 8, 8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def affine(*diagonal: float, at: tuple[float, float, float] = (0, 0, 0)) -> Any:
    out = np.diag([*map(float, diagonal), 1.0])
    out[:3, 3] = at
    return out


def nifti(path: Path, values: Any, where: Any) -> None:
    nibabel.save(nibabel.Nifti1Image(values, where), path)


def labelled(root: Path, base: Path, where: Any) -> VolumeParquet:
    """A head whose right half is class 1, and its label map with the affine `where`."""
    right = np.zeros(SHAPE, np.uint8)
    right[4:] = 1
    nifti(root / "head.nii.gz", right.astype(np.float32), affine(1, 1, 2))
    nifti(root / "head_seg.nii.gz", right, where)
    return cut(root, base, size=(4, 4, 4), labels="volume", label_volume="{cube}_seg.nii.gz", label_rule="majority")


def test_labels_in_the_same_place_label_what_they_mean(root: Path, tmp_path: Path) -> None:
    # Programs round what they write.
    made = labelled(root, tmp_path, affine(1.0001, 1, 2, at=(0.003, 0, 0)))
    assert {(row["x"], row["label"], float(row["volume"].mean())) for row in rows_of(made).values()} == {
        (0, 0.0, 0.0),
        (4, 1.0, 1.0),
    }


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (affine(-1, 1, 2, at=(7, 0, 0)), r"up to 7 apart \(RAS, LAS\)"),
        (affine(1, 1, 2, at=(0, 0, 4)), r"up to 4 apart \(RAS, RAS\)"),
        (affine(1, 1, 1), r"up to 7 apart"),
    ],
    ids=["mirrored", "shifted", "other spacing"],
)
def test_labels_elsewhere_are_refused(root: Path, tmp_path: Path, where: Any, said: str) -> None:
    with pytest.raises(DataError, match=rf"head.nii.gz and head_seg.nii.gz do not lie in the same place: .*{said}"):
        labelled(root, tmp_path, where)


def test_channels_elsewhere_are_refused(root: Path, tmp_path: Path) -> None:
    nifti(root / "p1_t1.nii.gz", np.zeros(SHAPE, np.float32), affine(1, 1, 1))
    nifti(root / "p1_t2.nii.gz", np.zeros(SHAPE, np.float32), affine(-1, 1, 1))
    with pytest.raises(DataError, match=r"p1 and p1_t2.nii.gz do not lie in the same place"):
        cut(root, tmp_path, size=(4, 4, 4), channels_from="{cube}_{channel}.nii.gz")


def test_cubes_of_other_lines_are_refused(root: Path, tmp_path: Path) -> None:
    for name, first in (("north", 1), ("north_labels", 11)):
        segyio.tools.from_array3D(str(root / f"{name}.sgy"), np.zeros(SHAPE, np.float32))
        with segyio.open(root / f"{name}.sgy", "r+", strict=False) as file:
            for trace, header in enumerate(file.header):
                header[segyio.TraceField.INLINE_3D] = first + trace // SHAPE[1]
    with pytest.raises(DataError, match=r"has inline from 1 by 1, north_labels.sgy has inline from 11 by 1"):
        cut(root, tmp_path, size=(4, 4, 4), labels="volume", label_volume="{cube}_labels.sgy")


def test_files_that_do_not_say_are_taken_as_they_are() -> None:
    here = VolumeHeader(SHAPE, "float32", {"affine": "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1", "affine_space": "RAS mm"})
    refuse_elsewhere(here, VolumeHeader(SHAPE, "uint8"), "labels")
    other = VolumeHeader(SHAPE, "uint8", {"affine": "9 0 0 0 0 9 0 0 0 0 9 0 0 0 0 1", "affine_space": "mm"})
    refuse_elsewhere(here, other, "labels")
    counted = VolumeHeader(SHAPE, "float32", axes=(Axis("inline", 1, 1),))
    refuse_elsewhere(counted, here, "labels")
    refuse_elsewhere(counted, VolumeHeader(SHAPE, "float32", axes=(Axis("time", 5, 4),)), "labels")
