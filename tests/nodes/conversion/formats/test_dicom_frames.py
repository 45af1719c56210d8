"""DICOM files of several frames: enhanced ones, whose frames have a place and a scale each, and doses."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pydicom
import pytest
from dicom_series import DICOM, refusal, volume, write_slice
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from nodes.conversion.formats.reader import header_of, read_volume


def group(**fields: Any) -> Sequence:
    """A functional group: a sequence of one item."""
    item = Dataset()
    for name, value in fields.items():
        setattr(item, name, value)
    return Sequence([item])


def frame(z: float, slope: float, echo: float) -> Dataset:
    out = Dataset()
    out.PlanePositionSequence = group(ImagePositionPatient=[1.0, 2.0, z])
    out.PixelValueTransformationSequence = group(RescaleSlope=slope, RescaleIntercept=-10, RescaleType="US")
    out.MREchoSequence = group(EffectiveEchoTime=echo)
    return out


def write_enhanced(path: Path, echoes: list[NDArray[Any]], slopes: list[float], describes: int | None = None) -> None:
    """One file of all echoes, its frames in another order than their positions; their places are in groups alone."""
    depth = echoes[0].shape[2]
    order = [((number * 7 + 3) % depth, echo) for number in range(depth) for echo in reversed(range(len(echoes)))]
    every = Dataset()
    every.PlaneOrientationSequence = group(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])
    every.PixelMeasuresSequence = group(PixelSpacing=[3.0, 2.0], SliceThickness=1.0)
    frames = [frame(4.0 * z, slopes[z], 10.0 * echo) for z, echo in order]
    fields = {
        "NumberOfFrames": len(order),
        "PixelData": b"".join(np.ascontiguousarray(echoes[echo][:, :, z].T).tobytes() for z, echo in order),
        "SharedFunctionalGroupsSequence": Sequence([every]),
        "PerFrameFunctionalGroupsSequence": Sequence(frames[:describes]),
        **dict.fromkeys(("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "SliceThickness")),
    }
    write_slice(path, echoes[0][:, :, 0], 0.0, **fields)


def test_frames_of_an_enhanced_file_are_slices_with_place_and_scale_of_their_own(tmp_path: Path) -> None:
    """As Philips and Siemens XA write them: a place, a scale and an echo for each frame."""
    first, second = volume("uint16", 1), volume("uint16", 2)
    slopes = [1.0, 2.0, 3.0, 4.0]
    write_enhanced(tmp_path / "a.dcm", [first, second], slopes)
    read = read_volume(str(tmp_path), "a.dcm", DICOM)
    assert np.array_equal(read, np.stack([first, second], -1) * np.array(slopes)[:, np.newaxis] - 10)
    columns = header_of(str(tmp_path), "a.dcm", DICOM).columns
    assert (columns["spacing_x"], columns["spacing_y"], columns["spacing_z"]) == (2.0, 3.0, 4.0)
    assert columns["affine"] == "-2 0 0 -1 0 -3 0 -2 0 0 4 0 0 0 0 1"
    assert "source_slope" not in columns, "each frame has its own"
    write_enhanced(tmp_path / "a.dcm", [first], [0.5] * 4)
    assert np.array_equal(read_volume(str(tmp_path), "a.dcm", DICOM), first * 0.5 - 10)
    write_enhanced(tmp_path / "a.dcm", [first, second], slopes, describes=7)
    assert refusal(tmp_path, "a.dcm") == "format: has 8 frames, and describes 7 of them"


@pytest.mark.slow
def test_an_enhanced_file_of_a_scanner_lies_where_its_frames_say(tmp_path: Path) -> None:
    """Nibabel's phantom of a Philips scanner, whose voxels it has set to 0."""
    packed = Path(nibabel.__file__).parent / "nicom" / "tests" / "data" / "philips_mprage.dcm.gz"
    (tmp_path / "p.dcm").write_bytes(gzip.decompress(packed.read_bytes()))
    header = header_of(str(tmp_path), "p.dcm", DICOM)
    assert (header.shape, header.dtype) == ((256, 256, 176), "float32")
    assert header.columns["source_slope"] == pytest.approx(2.1079365)
    affine = np.array([float(value) for value in str(header.columns["affine"]).split()]).reshape(4, 4)
    groups = pydicom.dcmread(tmp_path / "p.dcm").PerFrameFunctionalGroupsSequence
    corners = np.array([each.PlanePositionSequence[0].ImagePositionPatient for each in groups], float)
    normal = affine[:3, 2] * [-1, -1, 1]
    corners = corners[np.argsort(corners @ normal)] * [-1, -1, 1]
    found = affine @ [np.zeros(176), np.zeros(176), np.arange(176), np.ones(176)]
    assert np.allclose(found[:3].T, corners, atol=1e-3)


@pytest.mark.parametrize(
    ("offsets", "directions", "spacing", "orientation"),
    [
        ([0, 5, 10, 15], [1, 0, 0, 0, 1, 0], 5.0, "LPS"),
        ([0, -5, -10, -15], [1, 0, 0, 0, 1, 0], 5.0, "LPI"),
        ([0, 5, 10, 15], [1, 0, 0, 0, -1, 0], 5.0, "LAI"),
        ([7, 12, 17, 22], [1, 0, 0, 0, 1, 0], 5.0, "LPS"),
        ([7, 12, 17, 22], [1, 0, 0, 0, -1, 0], 5.0, "LAS"),
        ([0, 5, 10, 17], [1, 0, 0, 0, 1, 0], None, None),
        ([0, 5], [1, 0, 0, 0, 1, 0], 1.0, "LPS"),
    ],
)
def test_frames_of_doses_are_as_far_apart_as_their_file_says(
    tmp_path: Path, offsets: list[float], directions: list[float], spacing: float | None, orientation: str | None
) -> None:
    frames = np.ascontiguousarray(volume("uint16").transpose())
    fields = {"GridFrameOffsetVector": offsets, "ImageOrientationPatient": directions, "Modality": "RTDOSE"}
    write_slice(
        tmp_path / "a.dcm", volume("uint16")[:, :, 0], 7.0, NumberOfFrames=4, PixelData=frames.tobytes(), **fields
    )
    columns = header_of(str(tmp_path), "a.dcm", DICOM).columns
    assert (columns.get("spacing_z"), columns.get("orientation")) == (spacing, orientation)


def test_offsets_of_frames_that_are_no_numbers_are_passed_over(tmp_path: Path) -> None:
    frames = np.ascontiguousarray(volume("uint16").transpose())
    fields = {"GridFrameOffsetVector": [0, 5, 10, 15], "NumberOfFrames": 4, "PixelData": frames.tobytes()}
    write_slice(tmp_path / "a.dcm", volume("uint16")[:, :, 0], 7.0, **fields)
    data = (tmp_path / "a.dcm").read_bytes()
    broken = re.sub(rb"(?<=\\)5(\.0)?(?=\\10)", lambda found: b"x" * len(found[0]), data)
    assert broken != data
    (tmp_path / "a.dcm").write_bytes(broken)
    assert header_of(str(tmp_path), "a.dcm", DICOM).columns["spacing_z"] == 1.0
    assert np.array_equal(read_volume(str(tmp_path), "a.dcm", DICOM), volume("uint16"))
