"""MetaImage of ITK: `.mha`, and `.mhd` with its data beside it. A header is lines of `Name = value`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.text import plural
from nodes.conversion.formats import companions, source
from nodes.conversion.formats.geometry import LPS, affine_of, columns_of
from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
from nodes.conversion.formats.streams import (
    filler,
    read_exactly,
    refuse_impossible,
    refuse_more,
    skip,
    zlib_stream,
)
from nodes.conversion.quarantine import Refused

_ENDINGS = (".mha", ".mhd")
_MOST_LINES, _LONGEST_LINE = 1_000, 65_536
_LAST = "elementdatafile"
_TO_MM = {"": 1.0, "?": 1.0, "nm": 1e-6, "um": 1e-3, "mm": 1.0, "cm": 10.0, "m": 1000.0}
"""Millimetres of MetaIO's `DistanceUnits`; files of most programs name none, or "?", and have millimetres."""
_TYPES = {
    "MET_CHAR": "i1", "MET_UCHAR": "u1", "MET_SHORT": "i2", "MET_USHORT": "u2", "MET_INT": "i4", "MET_UINT": "u4",
    "MET_LONG": "i4", "MET_ULONG": "u4", "MET_LONG_LONG": "i8", "MET_ULONG_LONG": "u8", "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}  # fmt: skip


def collect_metaimages(root: Path, listing: pa.Table) -> pa.Table:
    """See `interface.CollectVolumes`."""
    return companions.collect(root, listing, _ENDINGS, _data_file)


def stamp_metaimage(path: Path) -> tuple[int, int]:
    """See `interface.StampVolume`."""
    return companions.stamp(path, _data_file)


@contextmanager
def open_metaimage(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a `.mha` or `.mhd` file. Raises `Refused`."""
    fields, length = _header(path)
    sizes = _numbers(fields, "dimsize", int)
    if not sizes or any(n <= 0 for n in sizes):
        raise Refused("shape", f"has no voxels: its shape is {tuple(sizes)}")
    kind = _TYPES.get(fields.get("elementtype", "").upper())
    if kind is None:
        raise Refused("dtype", f"is {fields.get('elementtype', 'of no type')}, which no volume can be")
    if _flag(fields, "binarydata", "True") is False:
        raise Refused("format", "has its data as text; save it as binary data")
    is_big = _flag(fields, "binarydatabyteordermsb", fields.get("elementbyteordermsb", "False"))
    dtype = np.dtype(kind).newbyteorder(">" if is_big else "<")
    channels = (_numbers(fields, "elementnumberofchannels", int) or [1])[0]
    if channels <= 0:
        raise Refused("shape", f"has {plural(channels, 'channels')}")
    promised = math.prod(sizes) * channels * dtype.itemsize
    name = _data_name(fields)
    data_path = path if name is None else path.parent / name
    try:
        held = data_path.stat().st_size
    except FileNotFoundError as exc:
        raise Refused("unreadable", f"has its data in {name}, which is missing") from exc
    if name is not None and not data_path.is_file():
        raise Refused("unreadable", f"has its data in {name}, which is not a regular file")
    offset = length if name is None else (_numbers(fields, "headersize", int) or [0])[0]
    compressed = _flag(fields, "compresseddata", "False")
    if offset == -1 and not compressed:
        offset = held - promised
    refuse_impossible(promised, held - max(0, offset), compressed=compressed)
    if offset < 0:
        raise Refused("format", f"says that its data begins at byte {offset}")
    spatial = (*sizes, *(1,) * (3 - len(sizes)))
    rest = math.prod(spatial[3:]) * channels
    shape = (*spatial[:3], rest) if len(spatial) > 3 or channels > 1 else spatial

    def read() -> NDArray[Any]:
        with data_path.open("rb") as file:
            skip(file, offset)
            stream: Any = zlib_stream(file) if compressed else file
            data = read_exactly(stream, promised).view(dtype)
            if compressed:
                refuse_more(stream)
        # The first axis changes fastest, and channels before it.
        volume = np.moveaxis(data.reshape((channels, *spatial), order="F"), 0, -1)
        return volume.reshape(shape)

    columns = _columns(fields, len(sizes)) | source.stored(dtype, "voxelflow")
    files = (path,) if name is None else (path, data_path)
    yield OpenVolume(VolumeHeader(shape, dtype.newbyteorder("=").name, columns), filler(read), files=files)


def _header(path: Path) -> tuple[Mapping[str, str], int]:
    """The fields, their names in small letters, and where the header ends."""
    fields: dict[str, str] = {}
    with path.open("rb") as file:
        for number in range(_MOST_LINES):
            line = file.readline(_LONGEST_LINE)
            if not line:
                raise Refused("empty", "is empty") if number == 0 else Refused("truncated", "ends within its header")
            name, sign, value = line.decode("utf-8", "replace").partition("=")
            if not sign:
                if name.strip():
                    raise Refused("format", "does not start like a MetaImage file")
                continue
            fields[name.strip().lower()] = value.strip()
            if name.strip().lower() == _LAST:
                return fields, file.tell()
    raise Refused("format", f"has a header of more than {_MOST_LINES} lines")


def _data_name(fields: Mapping[str, str]) -> str | None:
    """The data file's name, None when the data follows the header."""
    name = fields[_LAST]
    if name.upper() == "LOCAL":
        return None
    if name.upper().startswith("LIST") or "%" in name:
        raise Refused("format", "has its data in several files; save it as one")
    return companions.checked_name(name)


def _data_file(path: Path) -> str | None:
    return _data_name(_header(path)[0])


def _numbers(fields: Mapping[str, str], name: str, kind: Any) -> list[Any]:
    try:
        return [kind(value) for value in fields.get(name, "").split()]
    except ValueError as exc:
        raise Refused("format", f"has {fields[name][:40]!r} for its field {name}") from exc


def _flag(fields: Mapping[str, str], name: str, default: str) -> bool:
    return fields.get(name, default).strip().lower() in ("true", "1", "t", "yes")


def _columns(fields: Mapping[str, str], axes: int) -> dict[str, float | int | str]:
    spacing = _numbers(fields, "elementspacing", float) or _numbers(fields, "elementsize", float) or [1.0] * axes
    matrix = next(
        (found for name in ("transformmatrix", "rotation", "orientation") if (found := _numbers(fields, name, float))),
        [],
    )
    origin = next((found for name in ("offset", "position", "origin") if (found := _numbers(fields, name, float))), [])
    factor = _TO_MM.get(fields.get("distanceunits", "").lower())
    if axes < 3 or len(spacing) != axes:
        return {}
    # Axes after the third are channels: time, for example. One that is turned into space says nothing of the others.
    whole = np.array(matrix).reshape(axes, axes) if len(matrix) == axes**2 else np.eye(axes)
    if axes > 3 and ((matrix and len(matrix) != axes**2) or whole[:3, 3:].any() or whole[3:, :3].any()):
        return {}
    directions = whole[:3, :3]
    affine = affine_of(directions.tolist(), spacing[:3], origin[:3] if len(origin) == axes else [0.0] * 3)
    columns = columns_of(LPS @ np.diag([*[factor or 1.0] * 3, 1.0]) @ affine)
    # Where the axes point to follows without units.
    return columns if factor is not None else {k: v for k, v in columns.items() if k == "orientation"}
