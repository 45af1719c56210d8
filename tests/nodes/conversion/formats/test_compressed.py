"""DICOM and TIFF that are compressed: what their decoders give, which decoder it was, and the error without one."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import base_install
import numpy as np
import pydicom
import pytest
import tifffile
from building import box, pipeline
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.uid import JPEG2000, MPEG2MPML, JPEG2000Lossless

from engine.document.pipeline import write_pipeline
from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import header_of, read_volume
from nodes.conversion.quarantine import Refused

DICOM, TIFF = Reading("dicom"), Reading("tiff")
PYDICOM = f"pydicom {pydicom.__version__}"
GDCM = f"{PYDICOM}, python-gdcm {importlib.metadata.version('python-gdcm')}"


def own_file(name: str, folder: Path) -> None:
    """Copy one of pydicom's own test files."""
    source = get_testdata_file(name, download=False)
    assert isinstance(source, str)
    shutil.copy(source, folder / name)


def smooth(shape: tuple[int, int, int], dtype: str) -> NDArray[Any]:
    """Values as an image has them, all of them different from plane to plane."""
    x, y, z = np.ogrid[: shape[0], : shape[1], : shape[2]]
    return (100 + 40 * np.sin(x / 5) + 30 * np.cos(y / 7) + 9 * z).astype(dtype)


def write_series(folder: Path, volume: NDArray[Any], syntax: str, **how: Any) -> None:
    """A file a slice, compressed by OpenJPEG."""
    folder.mkdir(parents=True)
    own_file("MR_small.dcm", folder)
    for z in range(volume.shape[2]):
        data = pydicom.dcmread(folder / "MR_small.dcm")
        data.ImagePositionPatient = [0, 0, 2.0 * z]
        data.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        data.Columns, data.Rows = volume.shape[:2]
        data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 15, int(volume.dtype.kind == "i")
        data.compress(syntax, np.ascontiguousarray(volume[:, :, z].T), generate_instance_uid=False, **how)
        data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{z + 1}"
        data.save_as(folder / f"{z}.dcm")
    (folder / "MR_small.dcm").unlink()


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("MR_small_jp2klossless.dcm", GDCM),
        ("MR_small_jpeg_ls_lossless.dcm", GDCM),
        ("MR_small_RLE.dcm", PYDICOM),
    ],
)
def test_compressed_without_losses_is_the_file_that_is_not(tmp_path: Path, name: str, decoder: str) -> None:
    for each in ("MR_small.dcm", name):
        own_file(each, tmp_path)
    plain = read_volume(str(tmp_path), "MR_small.dcm", DICOM)
    assert len(np.unique(plain)) > 100
    assert np.array_equal(read_volume(str(tmp_path), name, DICOM), plain)
    assert header_of(str(tmp_path), name, DICOM).columns["source_decoder"] == decoder
    assert header_of(str(tmp_path), "MR_small.dcm", DICOM).columns["source_decoder"] == PYDICOM


@pytest.mark.parametrize("name", ["SC_rgb_jpeg_gdcm.dcm", "JPEGLSNearLossless_16.dcm", "SC_rgb_jpeg_dcmtk.dcm"])
def test_jpegs_are_what_pydicom_makes_of_them(tmp_path: Path, name: str) -> None:
    own_file(name, tmp_path)
    wanted = pydicom.dcmread(tmp_path / name).pixel_array
    assert np.ptp(wanted) > 0
    read = read_volume(str(tmp_path), name, DICOM)
    assert np.array_equal(read[:, :, 0].reshape(wanted.swapaxes(0, 1).shape), wanted.swapaxes(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_a_compressed_series(tmp_path: Path, dtype: str) -> None:
    volume = smooth((48, 40, 3), dtype)
    write_series(tmp_path / "a", volume, JPEG2000Lossless)
    assert np.array_equal(read_volume(str(tmp_path), "a", DICOM), volume)
    assert header_of(str(tmp_path), "a", DICOM).columns["source_decoder"] == GDCM
    write_series(tmp_path / "lossy", volume, JPEG2000, j2k_cr=[4])
    read = read_volume(str(tmp_path), "lossy", DICOM)
    assert not np.array_equal(read, volume)
    assert np.abs(read.astype(float) - volume).max() <= 3


def test_what_no_decoder_reads_is_refused_by_its_header(tmp_path: Path) -> None:
    own_file("JPEG-lossy.dcm", tmp_path)
    with pytest.raises(Refused, match="is compressed as JPEG of 12 bits with losses"):
        header_of(str(tmp_path), "JPEG-lossy.dcm", DICOM)
    own_file("MR_small_jp2klossless.dcm", tmp_path)
    data = pydicom.dcmread(tmp_path / "MR_small_jp2klossless.dcm")
    data.file_meta.TransferSyntaxUID = MPEG2MPML
    data.save_as(tmp_path / "film.dcm")
    with pytest.raises(Refused, match=r"is compressed as MPEG2 .*, which is not read"):
        header_of(str(tmp_path), "film.dcm", DICOM)


@pytest.mark.parametrize(
    ("compression", "how"),
    [("lzw", {"predictor": True}), ("zstd", {}), ("lzma", {}), ("packbits", {}), ("png", {}), ("jpeg2000", {})],
)
def test_a_compressed_tiff(tmp_path: Path, compression: str, how: dict[str, Any]) -> None:
    volume = smooth((40, 36, 3), "uint16" if compression != "packbits" else "uint8")
    options: dict[str, Any] = {"photometric": "minisblack", "metadata": {"axes": "ZYX"}, **how}
    tifffile.imwrite(tmp_path / "a.tif", volume.transpose(), compression=compression, tile=(16, 16), **options)
    assert np.array_equal(read_volume(str(tmp_path), "a.tif", TIFF), volume)


def test_an_unknown_compression_of_a_tiff(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", smooth((8, 8, 1), "uint8")[:, :, 0], compression="lzw")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        file.pages[0].tags["Compression"].overwrite(34676)  # type: ignore[union-attr]
    with pytest.raises(Refused, match="is compressed as SGILOG, which is not read"):
        header_of(str(tmp_path), "a.tif", TIFF)


@pytest.mark.slow
def test_without_the_decoders_the_plan_names_file_and_command(tmp_path: Path) -> None:
    (tmp_path / "scans").mkdir()
    own_file("MR_small_jpeg_ls_lossless.dcm", tmp_path / "scans")
    (tmp_path / "stacks").mkdir()
    volume = smooth((8, 8, 3), "uint8").transpose()
    tifffile.imwrite(tmp_path / "stacks" / "a.tif", volume, compression="lzw", photometric="minisblack")
    document = pipeline(
        box("scans", "VolumeFolder", folder="scans"), box("stacks", "VolumeFolder", folder="stacks"), name="compressed"
    )  # fmt: skip
    write_pipeline(document, tmp_path / "compressed.json")
    hidden = "gdcm pylibjpeg openjpeg imagecodecs"
    planned = subprocess.run(
        [sys.executable, "-m", "voxelflow", "plan", "compressed.json", "--json"],
        cwd=tmp_path, env=base_install.environment() | {"VOXELFLOW_HIDDEN": hidden},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = {
        (each["code"], each["message"].split(" (found")[0], each["hint"])
        for each in json.loads(planned.stdout)["diagnostics"]
    }
    assert {
        (
            "VF311",
            "MR_small_jpeg_ls_lossless.dcm is compressed as JPEG-LS Lossless Image Compression: reading it needs GDCM,"
            " which is not installed",
            "Install it: pip install 'voxelflow[dicom]'",
        ),
        (
            "VF311",
            "a.tif is compressed as LZW: reading it needs imagecodecs, which is not installed",
            "Install it: pip install 'voxelflow[tiff]'",
        ),
    } <= found, os.linesep.join([planned.stdout, planned.stderr])
