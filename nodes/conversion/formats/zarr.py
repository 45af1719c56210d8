"""Zarr arrays and OME-Zarr images: a folder that counts as one file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.conversion.formats import source
from nodes.conversion.formats.arrays import chosen
from nodes.conversion.formats.interface import Box, OpenVolume, VolumeHeader
from nodes.conversion.formats.streams import filler
from nodes.conversion.quarantine import Refused

_METADATA = (".zarray", "zarr.json", ".zgroup", ".zattrs")
_LONGEST_METADATA = 16 << 20
_CHUNK_SLACK = 64 << 20
_MOST_COUNTED = 1_000
"""Missing chunks that are counted for the message; metadata of a few bytes can promise any number."""
_TO_MM = {"millimeter": 1.0, "micrometer": 1e-3, "nanometer": 1e-6, "centimeter": 10.0, "meter": 1000.0}
_TO_MM |= {"mm": 1.0, "um": 1e-3, "\u00b5m": 1e-3, "\u03bcm": 1e-3, "micron": 1e-3, "nm": 1e-6, "cm": 10.0, "m": 1000.0}
"""Millimetres of a unit by its name, in small letters: OME's first, then what programs write instead."""


@contextmanager
def open_zarr(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a Zarr array, or the full-size image of an OME-Zarr group. Raises `Refused`."""
    import zarr

    if not path.is_dir():
        raise Refused("format", "is not a folder, as a Zarr array is")
    _refuse_special(path)
    _refuse_code(path)
    opened: Any = zarr.open(str(path), mode="r")
    image: Mapping[str, Any] = {}
    if isinstance(opened, zarr.Group):
        image = _image(opened)
        if not dataset and image:
            dataset = str(image["datasets"][0]["path"])
        array = _member(opened, dataset)
        if dataset:
            _refuse_code(path / dataset)
    else:
        array = opened
    axes = [str(axis.get("name", "")).lower() if isinstance(axis, dict) else "" for axis in image.get("axes", [])]
    order, shape = _axes(axes, tuple(int(n) for n in array.shape))
    dtype = np.dtype(array.dtype)
    kind = "object" if dtype.hasobject else dtype.newbyteorder("=").name
    if math.prod(array.chunks) * dtype.itemsize > math.prod(array.shape) * dtype.itemsize + _CHUNK_SLACK:
        raise Refused("format", "is stored in chunks that are larger than itself")
    _refuse_missing(path, array)

    def read() -> NDArray[Any]:
        return np.asarray(array[...]).transpose(order).reshape(shape)

    def read_box(box: Box, out: NDArray[Any]) -> None:
        inside: list[slice] = [slice(None)] * len(order)
        for axis, wanted in zip(order[:spatial], box.slices, strict=False):
            inside[axis] = wanted
        out[...] = np.asarray(array[tuple(inside)]).transpose(order).reshape(out.shape)

    # How many of the file's axes are X, Y and Z; a box has all of the others.
    spatial = sum(axis in ("x", "y", "z") for axis in axes) or min(3, len(order))
    lengths = [int(array.chunks[axis]) for axis in order[:spatial]]
    blocks = (*lengths, 1, 1)[:3]
    columns = _columns(image, axes, order)
    if kind != "object":
        columns |= source.stored(dtype, "zarr", "numcodecs")
    columns |= source.unit(array.attrs.get("units", array.attrs.get("unit")))
    if len(order) > spatial:
        columns |= source.channels(_channel_names(opened), shape[-1])
    yield OpenVolume(
        VolumeHeader(shape, kind, columns),
        filler(read),
        read_box if len(shape) in (3, 4) else None,
        (blocks[0], blocks[1], blocks[2]),
    )


def _member(group: Any, dataset: str) -> Any:
    import zarr

    if not dataset:
        dataset = chosen([name for name, _ in group.arrays()], "")
    found = group.get(dataset.strip("/")) if ".." not in dataset.split("/") else None
    if not isinstance(found, zarr.Array):
        chosen([name for name, _ in group.arrays()], dataset)
        raise Refused("format", f"has no array {dataset!r}")
    return found


def _refuse_missing(path: Path, array: Any) -> None:
    """Raise `Refused` when files of chunks, or of shards, are missing: Zarr gives the fill value for them, silently.

    Zarr does not write chunks that hold the fill value alone, and nothing in the metadata tells them from those that a
    copy lost. Only NaN says itself that it is no voxel. A chunk that a shard leaves out was left out on purpose.
    """
    lengths = array.shards or array.chunks
    grid = tuple(-(-int(n) // int(length)) for n, length in zip(array.shape, lengths, strict=True))
    count, missing, first, looked = math.prod(grid), 0, "", 0
    folder = str(path / array.path)
    while looked < count and missing < _MOST_COUNTED:
        key = array.metadata.encode_chunk_key(_place(looked, grid))
        looked += 1
        # A link of git-annex without its target is a missing chunk for Zarr, too.
        if not os.path.isfile(os.path.join(folder, key)):
            missing, first = missing + 1, first or key
    if not missing:
        return
    fill = array.fill_value
    if missing < count and np.dtype(array.dtype).kind == "f" and fill is not None and np.isnan(fill):
        return
    what = "shards" if array.shards else "chunks"
    if missing == looked:
        none = f"has none of {'' if looked == count else f'the first {looked} of '}its {count} {what}"
        raise Refused(
            "truncated",
            f"{none}, not even {first}: the copy is not whole, or .zarray lacks its dimension_separator",
        )
    said = f"{missing}{'' if looked == count else ' or more'} of {count} {what} are missing, the first is {first}"
    raise Refused(
        "truncated", f"{said}: the copy is not whole; if they are empty on purpose, write with write_empty_chunks=True"
    )


def _place(number: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    """Where the chunk with this number is in the grid, the last axis fastest; NumPy's way counts to 2**63 only."""
    out = []
    for length in reversed(grid):
        number, at = divmod(number, length)
        out.append(at)
    return tuple(reversed(out))


def _refuse_special(folder: Path) -> None:
    """Raise `Refused` when a pipe, a device or a socket lies in the folder: Zarr would wait for its writer."""
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif not entry.is_file() and not entry.is_dir() and os.path.exists(entry.path):
                    inside = os.path.relpath(entry.path, folder)
                    raise Refused("unreadable", f"has {inside}, which is not a regular file")


def _refuse_code(folder: Path) -> None:
    """Raise `Refused` when metadata names a codec that runs code of the file: pickle."""
    for name in _METADATA:
        file = folder / name
        if not file.is_file():
            continue
        if file.stat().st_size > _LONGEST_METADATA:
            raise Refused("format", f"has {name} of more than {_LONGEST_METADATA} bytes")
        if _names_pickle(json.loads(file.read_text())):
            raise Refused("pickle", "is stored by pickle, which is never unpickled")


def _names_pickle(value: Any) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if any("pickle" in str(each.get(key, "")).lower() for key in ("id", "name")):
                return True
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return False


def _image(group: Any) -> Mapping[str, Any]:
    """What OME-Zarr says of the image, empty for a group that is none."""
    attributes = dict(group.attrs)
    inner = attributes.get("ome")
    about = (inner if isinstance(inner, dict) else attributes).get("multiscales")
    if isinstance(about, list) and about and isinstance(about[0], dict) and about[0].get("datasets"):
        found: Mapping[str, Any] = about[0]
        return found
    return {}


def _channel_names(opened: Any) -> list[Any]:
    """The labels of channels that OME-Zarr keeps for viewers (`omero`)."""
    attributes = dict(opened.attrs)
    inner = attributes.get("ome")
    about = (inner if isinstance(inner, dict) else attributes).get("omero")
    found = about.get("channels") if isinstance(about, dict) else None
    return [each.get("label") if isinstance(each, dict) else None for each in found] if isinstance(found, list) else []


def _axes(names: list[str], stored: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
    """The order that brings named axes to X, Y, Z, then all others as one axis of channels; unnamed ones stay."""
    if len(names) != len(stored) or "x" not in names or "y" not in names:
        return list(range(len(stored))), stored
    inside = [names.index(axis) for axis in ("x", "y", "z") if axis in names]
    others = [axis for axis in range(len(names)) if axis not in inside]
    shape = [*(stored[axis] for axis in inside), *(1,) * (3 - len(inside))]
    if rest := math.prod(stored[axis] for axis in others) if others else 0:
        shape.append(rest)
    return [*inside, *others], tuple(shape)


def _columns(image: Mapping[str, Any], axes: list[str], order: list[int]) -> dict[str, float | int | str]:
    if not axes:
        return {}
    scale = np.ones(len(axes))
    for transform in (
        *image["datasets"][0].get("coordinateTransformations", ()),
        *image.get("coordinateTransformations", ()),
    ):
        if transform.get("type") == "scale" and len(transform.get("scale", ())) == len(axes):
            scale = scale * np.asarray(transform["scale"], np.float64)
    out: dict[str, float | int | str] = {}
    for axis, name in enumerate(axes):
        factor = _TO_MM.get(str(image["axes"][axis].get("unit", "")).lower())
        if name in ("x", "y", "z") and factor is not None and math.isfinite(scale[axis]) and scale[axis] > 0:
            out[f"spacing_{name}"] = float(scale[axis] * factor)
    return out
