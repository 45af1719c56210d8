"""NIfTI-1 and NIfTI-2 in one file, plain or gzipped. NiBabel reads the header; the data is read here, bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.conversion.formats import source
from nodes.conversion.formats.geometry import columns_of
from nodes.conversion.formats.interface import Box, OpenVolume, VolumeHeader
from nodes.conversion.formats.stored_array import stored_array
from nodes.conversion.formats.streams import (
    filler,
    gzip_stream,
    read_exactly,
    refuse_impossible,
    refuse_more,
    skip,
)
from nodes.conversion.quarantine import Refused

_GZIP = b"\x1f\x8b"
_SIZES = {348: "Nifti1Header", 540: "Nifti2Header"}
_MOST_BEFORE_DATA = 64 << 20
"""Extensions lie between header and data; scanners write some kilobytes."""
_COLOURS = {"r": "red", "g": "green", "b": "blue", "a": "alpha"}
_TO_MM = {1: 1000.0, 2: 1.0, 3: 0.001}
"""Millimetres of a unit by its code, the last three bits of `xyzt_units`; other codes say nothing."""


@contextmanager
def open_nifti(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a `.nii` or `.nii.gz` file. Raises `Refused`."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size == 0:
            raise Refused("empty", "is empty")
        compressed = file.read(2) == _GZIP
        file.seek(0)
        stream: Any = gzip_stream(file) if compressed else file
        header, length = _header(stream)
        shape, stored = header.get_data_shape(), header.get_data_dtype()
        if not shape or any(n <= 0 for n in shape):
            raise Refused("shape", f"has no voxels: its shape is {tuple(map(int, shape))}")
        fields = stored.names
        if fields:  # RGB and RGBA: the colours are channels
            if len({stored[name] for name in fields}) != 1:
                raise Refused("dtype", f"has voxels of {stored}, which no volume can be")
            stored = stored[fields[0]]
        offset = int(header.get_data_offset())
        if not length <= offset <= _MOST_BEFORE_DATA:
            raise Refused("format", f"says that its data begins at byte {offset}")
        promised = math.prod(map(int, shape)) * stored.itemsize * max(1, len(fields or ()))
        refuse_impossible(promised, size, compressed=compressed)
        axes = _our_axes(tuple(map(int, shape)), len(fields or ()))
        slope, intercept = header.get_slope_inter()
        scaled = slope is not None and (float(slope), float(intercept or 0)) != (1.0, 0.0) and not fields

        facts = source.stored(stored, "nibabel") | source.scaled(*((slope, intercept or 0) if scaled else (1, 0)))
        if fields:
            facts |= source.channels([_COLOURS.get(name.lower(), name) for name in fields], axes[-1])

        def read() -> NDArray[Any]:
            skip(stream, offset - length)
            data: NDArray[Any] = read_exactly(stream, promised).view(stored)
            if compressed:
                refuse_more(stream)
            if fields:
                data = np.moveaxis(data.reshape(len(fields), *shape, order="F"), 0, -1)
                return data.reshape(axes)
            return data.reshape(axes, order="F")

        kind = stored.newbyteorder("=")
        if scaled:
            kind = np.dtype(np.float64 if kind == np.float64 else np.float32)
        fill = filler(read, float(slope), float(intercept or 0)) if scaled else filler(read)

        def read_box(box: Box, out: NDArray[Any]) -> None:
            with stored_array(path, stored, offset, axes, fortran=True) as array:
                filler(lambda: array.read(box.slices), *((float(slope), float(intercept or 0)) if scaled else ()))(out)

        yield OpenVolume(
            VolumeHeader(axes, kind.name, {**_columns(header), **facts}, remarks=_remarks(header)),
            fill,
            None if compressed or fields else read_box,
            last_is_slow=True,
        )


def _header(stream: Any) -> tuple[Any, int]:
    """The header and how long it is."""
    import nibabel

    start = read_exactly(stream, 4).tobytes()
    length = next((n for n in _SIZES if int.from_bytes(start, "little") == n), 0) or next(
        (n for n in _SIZES if int.from_bytes(start, "big") == n), 0
    )
    if not length:
        raise Refused("format", "does not start like a NIfTI file")
    block = start + read_exactly(stream, length - 4).tobytes()
    header = getattr(nibabel, _SIZES[length])(block, check=False)
    magic = bytes(header["magic"].tobytes())[:3]
    if magic not in (b"n+1", b"n+2"):
        raise Refused("format", "is the header of a pair of NIfTI files (.hdr and .img); convert it to one .nii file")
    return header, length


def _our_axes(shape: tuple[int, ...], colours: int) -> tuple[int, ...]:
    """X, Y, Z, then one axis of channels: time, the components of a vector, colours."""
    out = shape + (1,) * (3 - len(shape))
    rest = math.prod(out[3:]) * max(1, colours)
    return (*out[:3], rest) if len(out) > 3 or colours else out


def _is_placed(header: Any) -> bool:
    """Whether the header says where the volume lies."""
    return bool(int(header["qform_code"]) or int(header["sform_code"]))


def _remarks(header: Any) -> tuple[str, ...]:
    if _is_placed(header):
        return ()
    return ("does not say where it lies (no qform or sform code), so it has no orientation",)


def _columns(header: Any) -> dict[str, float | int | str]:
    factor = _TO_MM.get(int(header["xyzt_units"]) & 7, 1.0)
    # As NiBabel corrects them when it loads a file: lengths with a sign, and no sign of the third axis (qfac).
    header["pixdim"][1:4] = np.abs(header["pixdim"][1:4])
    if header["pixdim"][0] not in (-1, 1):
        header["pixdim"][0] = 1
    if not _is_placed(header):
        # Nothing says where the volume lies. NiBabel would invent an affine, whose first axis even points to the left.
        pixdim = header["pixdim"]
        sizes = {f"spacing_{axis}": float(pixdim[at]) * factor for at, axis in enumerate("xyz", 1)}
        return {name: size for name, size in sizes.items() if math.isfinite(size) and size > 0}
    affine = np.array(header.get_best_affine(), np.float64)
    affine[:3] *= factor
    return columns_of(affine)
