"""NRRD: `.nrrd`, and `.nhdr` with its data beside it. pynrrd parses the header; the data is read here, bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nodes.conversion.formats import companions, source
from nodes.conversion.formats.geometry import LPS, UNNAMED, columns_of
from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
from nodes.conversion.formats.streams import (
    bzip2_stream,
    filler,
    gzip_stream,
    read_exactly,
    refuse_impossible,
    refuse_more,
    skip,
)
from nodes.conversion.quarantine import Refused

_ENDINGS = (".nrrd", ".nhdr")
_LONGEST_HEADER = 1 << 20
_TYPES = {
    "i1": "signed char|int8|int8_t",
    "u1": "uchar|unsigned char|uint8|uint8_t",
    "i2": "short|short int|signed short|signed short int|int16|int16_t",
    "u2": "ushort|unsigned short|unsigned short int|uint16|uint16_t",
    "i4": "int|signed int|int32|int32_t",
    "u4": "uint|unsigned int|uint32|uint32_t",
    "i8": "longlong|long long|long long int|signed long long|signed long long int|int64|int64_t",
    "u8": "ulonglong|unsigned long long|unsigned long long int|uint64|uint64_t",
    "f4": "float",
    "f8": "double",
}
_DTYPES = {name: kind for kind, names in _TYPES.items() for name in names.split("|")}
_TIME = "time"
_SPATIAL = ("domain", "space", _TIME)
_UNKNOWN = ("???", "none")
"""The kind of an axis of which nothing is known, as teem writes it for one that it has joined images along."""
_TO_MM = {
    name: factor
    for names, factor in (
        ("mm|millimeter|millimeters|millimetre|millimetres", 1.0),
        ("cm|centimeter|centimeters|centimetre|centimetres", 10.0),
        ("m|meter|meters|metre|metres", 1000.0),
        ("um|\u03bcm|micron|microns|micrometer|micrometers|micrometre|micrometres", 1e-3),
        ("nm|nanometer|nanometers|nanometre|nanometres", 1e-6),
        ("", 1.0),
    )
    for name in names.split("|")
}
"""Millimetres of a unit, by its name after `str.casefold` (which makes one of Unicode's two letters for micro). Files
that name no unit have millimetres, as all programs that write NRRD for medicine take them."""
_TO_RAS = {
    "right-anterior-superior": np.eye(4), "ras": np.eye(4),
    "left-posterior-superior": LPS, "lps": LPS,
    "left-anterior-superior": np.diag([-1.0, 1.0, 1.0, 1.0]), "las": np.diag([-1.0, 1.0, 1.0, 1.0]),
}  # fmt: skip


def collect_nrrds(root: Path, listing: pa.Table) -> pa.Table:
    """See `interface.CollectVolumes`."""
    return companions.collect(root, listing, _ENDINGS, _data_file)


def stamp_nrrd(path: Path) -> tuple[int, int]:
    """See `interface.StampVolume`."""
    return companions.stamp(path, _data_file)


@contextmanager
def open_nrrd(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a `.nrrd` or `.nhdr` file. Raises `Refused`."""
    fields, length = _header(path)
    sizes = [int(n) for n in np.atleast_1d(fields.get("sizes", []))]
    if not sizes or any(n <= 0 for n in sizes):
        raise Refused("shape", f"has no voxels: its shape is {tuple(sizes)}")
    kind = _DTYPES.get(str(fields.get("type")).strip().lower())
    if kind is None:
        raise Refused("dtype", f"is {fields.get('type', 'of no type')}, which no volume can be")
    dtype = np.dtype(kind).newbyteorder(">" if str(fields.get("endian", "little")).lower() == "big" else "<")
    encoding = str(fields.get("encoding", "")).lower()
    if encoding not in ("raw", "gzip", "gz", "bzip2", "bz2"):
        raise Refused("format", f"has the encoding {encoding!r}; raw, gzip and bzip2 are read")
    if int(_either(fields, "line skip", 0)):
        raise Refused("format", "has lines to be skipped before its data")
    promised = math.prod(sizes) * dtype.itemsize
    name = _data_name(fields)
    data_path, start = (path, length) if name is None else (path.parent / name, 0)
    if name is not None and not data_path.is_file():
        raise Refused("unreadable", f"has its data in {name}, which is missing")
    held = data_path.stat().st_size - start
    if encoding not in ("bzip2", "bz2"):  # whose ratio has no useful bound; no more than promised is unpacked
        refuse_impossible(promised, held, compressed=encoding != "raw")
    before = int(_either(fields, "byte skip", 0))
    if before == -1 and encoding == "raw":
        before = held - promised
    if before < 0:
        raise Refused("format", f"has the byte skip {before}")
    order, shape = _axes(fields, sizes)

    def read() -> NDArray[Any]:
        with data_path.open("rb") as file:
            file.seek(start)
            stream: Any = file
            if encoding != "raw":
                stream = gzip_stream(file) if encoding.startswith("g") else bzip2_stream(file)
            skip(stream, before)
            data = read_exactly(stream, promised).view(dtype)
            if encoding != "raw":
                refuse_more(stream)
        return data.reshape(sizes, order="F").transpose(order).reshape(shape)

    columns = _columns(fields, order) | source.stored(dtype, "pynrrd")
    columns |= source.unit(_either(fields, "sample units", None))
    files = (path,) if name is None else (path, data_path)
    yield OpenVolume(VolumeHeader(shape, dtype.newbyteorder("=").name, columns), filler(read), files=files)


def _header(path: Path) -> tuple[Mapping[str, Any], int]:
    import nrrd

    with path.open("rb") as file:
        lines, length = [], 0
        while length < _LONGEST_HEADER:
            line = file.readline(_LONGEST_HEADER - length)
            length += len(line)
            if not line.strip():
                break
            lines.append(line.decode("utf-8", "replace"))
    if not lines:
        raise Refused("empty", "is empty") if not length else Refused("format", "does not start like a NRRD file")
    if length >= _LONGEST_HEADER:
        raise Refused("format", f"has a header of more than {_LONGEST_HEADER} bytes")
    return nrrd.read_header(lines), length


def _either(fields: Mapping[str, Any], name: str, default: Any) -> Any:
    """A field whose name may be written with a space or without."""
    return fields.get(name, fields.get(name.replace(" ", ""), default))


def _data_name(fields: Mapping[str, Any]) -> str | None:
    name = _either(fields, "data file", None)
    if name is None:
        return None
    name = str(name)
    if name.upper().startswith("LIST") or "%" in name:
        raise Refused("format", "has its data in several files; save it as one")
    return companions.checked_name(name)


def _data_file(path: Path) -> str | None:
    return _data_name(_header(path)[0]) if path.suffix.lower() == ".nhdr" else None


def _directions(fields: Mapping[str, Any]) -> list[NDArray[np.float64] | None]:
    """A vector for each axis, None for one that is not in space."""
    found = _either(fields, "space directions", None)
    if found is None:
        return []
    rows = [None if row is None else np.asarray(row, np.float64) for row in found]
    return [None if row is None or not np.isfinite(row).all() else row for row in rows]


def _kinds(fields: Mapping[str, Any]) -> list[str]:
    """What each axis is, in small letters; [] where the file does not say it."""
    return [str(kind).lower() for kind in fields.get("kinds", [])]


def _spacings(fields: Mapping[str, Any], axes: int) -> list[float]:
    """The spacing of each axis, NaN where it has none; [] where the file does not say them for all `axes`."""
    found = [float(value) for value in np.atleast_1d(fields.get("spacings", []))]
    return found if len(found) == axes else []


def _axes(fields: Mapping[str, Any], sizes: list[int]) -> tuple[list[int], tuple[int, ...]]:
    """The order that puts axes in space first, and the shape with all others as one axis of channels.

    Axes that may be in space, those with a NaN for their spacing, then those of time and of no known kind, are so where
    fewer than three others are.
    """
    kinds = _kinds(fields)
    directions, spacings = _directions(fields), _spacings(fields, len(sizes))

    def doubt(axis: int) -> tuple[bool, bool, bool]:
        kind = kinds[axis] if kinds else ""
        return kind in _UNKNOWN, kind == _TIME, bool(spacings) and math.isnan(spacings[axis])

    inside = [
        axis
        for axis in range(len(sizes))
        if (not kinds or kinds[axis] in (*_SPATIAL, *_UNKNOWN)) and (not directions or directions[axis] is not None)
    ]
    space = sorted(sorted(inside, key=doubt)[:3])
    others = [axis for axis in range(len(sizes)) if axis not in space]
    shape = [*(sizes[axis] for axis in space), *(1,) * (3 - len(space))]
    if others:
        shape.append(math.prod(sizes[axis] for axis in others))
    return [*space, *others], tuple(shape)


def _units(fields: Mapping[str, Any], order: list[int]) -> list[str]:
    """The unit of each axis in `order`, "" where the file says none."""
    found = fields.get("units", [])
    return [str(found[axis]) if axis < len(found) else "" for axis in order]


def _factor(unit: str) -> float | None:
    """Millimetres of a unit; None for one that is not known."""
    return _TO_MM.get(unit.strip().casefold())


def _space_factors(fields: Mapping[str, Any], order: list[int]) -> list[float] | None:
    """Millimetres of the units along the three directions of space; None when one is not known."""
    units = _either(fields, "space units", None)
    if units is None:  # not as the format wants it, but clear where all axes have the same
        units = _units(fields, order[:3])
        units = units if len(set(units)) == 1 else ["?"]
    found = [factor for unit in units if (factor := _factor(str(unit))) is not None]
    return found if len(found) == len(units) == 3 else None


def _columns(fields: Mapping[str, Any], order: list[int]) -> dict[str, float | int | str]:
    directions = _directions(fields)
    if len(directions) < 3:
        return _spacing_columns(fields, order)
    rows = [directions[axis] for axis in order[:3]]
    affine = np.eye(4)
    for axis, row in enumerate(rows):
        if row is None or len(row) != 3:
            return {}
        affine[:3, axis] = row
    origin = np.asarray(_either(fields, "space origin", [0.0] * 3), np.float64)
    affine[:3, 3] = origin if origin.shape == (3,) else 0.0
    factors = _space_factors(fields, order)
    affine = np.diag([*(factors or [1.0] * 3), 1.0]) @ affine
    columns = columns_of(_TO_RAS.get(str(fields.get("space", "")).lower(), np.eye(4)) @ affine)
    if str(fields.get("space", "")).lower() not in _TO_RAS:
        columns.pop("orientation", None)
        columns["affine_space"] = UNNAMED
    # Where the axes point to follows without units.
    return columns if factors is not None else {k: v for k, v in columns.items() if k == "orientation"}


def _spacing_columns(fields: Mapping[str, Any], order: list[int]) -> dict[str, float | int | str]:
    """The columns of a file that has no directions: spacings in millimetres, of axes that are not of time."""
    kinds, spacings = _kinds(fields), _spacings(fields, len(order))
    if not spacings or len(order) < 3:
        return {}
    out: dict[str, float | int | str] = {}
    for name, axis, unit in zip("xyz", order, _units(fields, order), strict=False):
        factor = _factor(unit)
        if factor is not None and math.isfinite(spacings[axis]) and not (kinds and kinds[axis] == _TIME):
            out[f"spacing_{name}"] = spacings[axis] * factor
    return out
