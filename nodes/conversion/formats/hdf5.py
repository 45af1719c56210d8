"""HDF5: one dataset of a file, as it is stored. Nothing outside the file is followed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES
from nodes.conversion.formats import source
from nodes.conversion.formats.arrays import chosen
from nodes.conversion.formats.interface import Box, OpenVolume, VolumeHeader
from nodes.conversion.quarantine import Refused

_MOST_OBJECTS = 10_000
_LEAST_AXES = 2
_MOST_LINKS = 32
_CHUNK_SLACK = 16 << 20


@contextmanager
def open_hdf5(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open the dataset `dataset` of an HDF5 file, or its only array of two axes or more. Raises `Refused`."""
    with open_file(path) as file:
        found = find(file, dataset)

        def read_box(box: Box, out: NDArray[Any]) -> None:
            _refuse_large_chunks(found, found.nbytes)
            out[...] = found[box.slices]

        header = VolumeHeader(tuple(found.shape), dtype_of(found), facts_of(found))
        boxes = read_box if len(header.shape) in (3, 4) else None
        blocks = found.chunks[:3] if boxes and found.chunks else (1, 1, 1)
        yield OpenVolume(header, lambda out: read_into(found, out), boxes, blocks)


@contextmanager
def open_file(path: Path) -> Iterator[Any]:
    """The file as h5py's. Raises `Refused` for an empty one."""
    import h5py

    if path.stat().st_size == 0:
        raise Refused("empty", "is empty")
    # Locks cannot be had on many shared disks, and nothing is written.
    with h5py.File(path, "r", locking=False) as file:
        yield file


def find(file: Any, dataset: str, may_be: Callable[[Any], bool] = lambda _: True) -> Any:
    """The dataset of an open file: without a name the only one, or the only one that `may_be` a volume.

    Raises `Refused`.
    """
    if dataset and _at(file, dataset.strip("/")) is not None:
        names = [dataset.strip("/")]
    else:
        found = list(_arrays(file))
        names = [name for name in found if may_be(file[name])] or found
    array = _at(file, chosen(names, dataset))
    if array.external or array.is_virtual:
        raise Refused("format", f"has the data of {array.name} in other files, which are not opened")
    _refuse_missing(array)
    return array


def _refuse_missing(found: Any) -> None:
    """Raise `Refused` when parts of the dataset were never written: HDF5 gives the fill value for them, silently.

    A program that was stopped leaves such a file, and nothing tells it from one that is empty there on purpose. Only
    NaN says itself that it is no voxel.
    """
    import h5py

    if found.size in (0, None):
        return
    fill, advice = found.fillvalue, "it was not written to its end; if it is empty on purpose, write the values"
    if found.chunks:
        count = math.prod(-(-n // length) for n, length in zip(found.shape, found.chunks, strict=True))
        there = found.id.get_num_chunks()
        if there < count and not (there and found.dtype.kind == "f" and np.isnan(fill)):
            raise Refused("truncated", f"lacks {count - there} of {count} chunks, which would be {fill}: {advice}")
    # A compact dataset lies in its header, which is always there.
    elif found.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS and not found.id.get_storage_size():
        raise Refused("truncated", f"has no data, all would be {fill}: {advice}")


def _arrays(file: Any) -> Iterator[str]:
    """Paths of the arrays that could be a volume, in the order of their names. Only links inside the file count."""
    import h5py

    waiting, seen = [("", file)], 0
    while waiting:
        prefix, group = waiting.pop()
        for name in group:
            seen += 1
            if seen > _MOST_OBJECTS:
                raise Refused("format", f"has more than {_MOST_OBJECTS} objects; name one with the parameter dataset")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            each = group[name]
            if isinstance(each, h5py.Dataset):
                if len(each.shape or ()) >= _LEAST_AXES and each.dtype.newbyteorder("=").name in DTYPES:
                    yield f"{prefix}{name}"
            elif isinstance(each, h5py.Group) and prefix.count("/") < 32:  # a group may hold itself
                waiting.append((f"{prefix}{name}/", each))


def _at(file: Any, path: str) -> Any:
    """The dataset at a path, None when there is none. Raises `Refused` for one that lies in another file."""
    import h5py

    found = _object(file, path, [_MOST_LINKS])
    return found if isinstance(found, h5py.Dataset) else None


def _object(file: Any, path: str, left: list[int]) -> Any:
    """What lies at a path, None for nothing. Soft links are followed one by one, as one may lead to another file.

    `left` counts them down: they may lead round in a circle.
    """
    import h5py

    found = file
    for name in path.split("/"):
        if name in ("", "."):
            continue
        key = name.encode("utf-8", "surrogateescape")
        if not isinstance(found, h5py.Group) or not found.id.links.exists(key):
            return None
        kind = found.id.links.get_info(key).type
        if kind == h5py.h5l.TYPE_EXTERNAL:
            raise Refused("format", f"has {path} in another file, which is not opened")
        if kind != h5py.h5l.TYPE_SOFT:
            found = found[name]
            continue
        if left[0] == 0:
            return None
        left[0] -= 1
        target = found.id.links.get_val(key).decode("utf-8", "surrogateescape")
        found = _object(file, target if target.startswith("/") else f"{found.name}/{target}", left)
    return found


def facts_of(found: Any) -> dict[str, float | int | str]:
    """The columns of the dataset's source; the unit is that of the attribute `units`, as CF and NetCDF write it."""
    if found.dtype.hasobject:
        return {}
    given = next((found.attrs[name] for name in ("units", "unit") if name in found.attrs), None)
    return source.stored(found.dtype, "h5py") | source.unit(given)


def dtype_of(found: Any) -> str:
    """NumPy's name of the dataset's type."""
    return "object" if found.dtype.hasobject else str(found.dtype.newbyteorder("=").name)


def read_into(found: Any, out: NDArray[Any]) -> None:
    """Read the dataset. Raises `Refused` for chunks that are much larger than it."""
    _refuse_large_chunks(found, out.nbytes)
    if out.flags.c_contiguous:
        found.read_direct(out)
    else:
        out[...] = np.asarray(found)


def _refuse_large_chunks(found: Any, most: int) -> None:
    if found.chunks and math.prod(found.chunks) * found.dtype.itemsize > most + _CHUNK_SLACK:
        raise Refused("format", "is stored in chunks that are larger than itself")
