"""DICOM files, written by pydicom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import read_volume
from nodes.conversion.quarantine import Refused

DICOM = Reading("dicom")


def write_slice(path: Path, plane: NDArray[Any], z: float, uid: str = "1.2.3", **fields: object) -> None:
    """One slice, `plane` with axes X, Y, at `z` millimetres."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = pydicom.uid.UID(f"{uid}.{int(z * 1000) + 10**6}.{abs(hash(str(path))) % 10**6}")
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.SeriesInstanceUID, data.StudyInstanceUID, data.Modality, data.PatientID = uid, "9.9", "CT", "p7"
    data.Rows, data.Columns = plane.shape[1], plane.shape[0]
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8 * plane.dtype.itemsize
    data.HighBit, data.PixelRepresentation = data.BitsStored - 1, int(plane.dtype.kind == "i")
    data.ImagePositionPatient, data.ImageOrientationPatient = [1.0, 2.0, z], [1, 0, 0, 0, 1, 0]
    data.PixelSpacing, data.SliceThickness = [3.0, 2.0], 1.0
    data.PixelData = np.ascontiguousarray(plane.transpose()).tobytes() + b"\0" * (plane.nbytes % 2)
    data["PixelData"].VR = "OW"
    for name, value in fields.items():
        setattr(data, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path)


def write_series(folder: Path, volume: NDArray[Any], uid: str = "1.2.3", **fields: object) -> None:
    """A file a slice, their names in another order than their positions."""
    depth = volume.shape[2]
    for z in range(depth):
        write_slice(folder / f"s{(z * 7 + 3) % depth:03d}.dcm", volume[:, :, z], 4.0 * z, uid, **fields)


def volume(dtype: str = "int16", seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(0, 200, (6, 5, 4)).astype(dtype)


def refusal(root: Path, name: str) -> str:
    with pytest.raises(Refused) as refused:
        read_volume(str(root), name, DICOM)
    return f"{refused.value.reason}: {refused.value.message}"
