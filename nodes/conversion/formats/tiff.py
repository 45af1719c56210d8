"""TIFF stacks, OME-TIFF and ImageJ's: the first series of a file, read by tifffile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.extras import missing, require
from nodes.conversion.formats import source
from nodes.conversion.formats.interface import Box, OpenVolume, VolumeHeader
from nodes.conversion.formats.stored_array import stored_array
from nodes.conversion.formats.streams import filler
from nodes.conversion.quarantine import Refused

_DEPTH = "ZIQ"
"""Axes that are Z: depth, and the sequences of pages that nothing is said about."""
_TO_MM = {
    "mm": 1.0, "cm": 10.0, "m": 1000.0, "nm": 1e-6, "µm": 1e-3, "um": 1e-3, "micron": 1e-3, "microns": 1e-3,
    "\\u00b5m": 1e-3, "inch": 25.4,
}  # fmt: skip
_OME_SIZE = re.compile(r'PhysicalSize(?P<axis>[XYZ])="(?P<size>[^"]{1,40})"')
_OME_UNIT = re.compile(r'PhysicalSize(?P<axis>[XYZ])Unit="(?P<unit>[^"]{1,20})"')
_OME_PIXELS = re.compile(r"<(?:\w+:)?Pixels\s(?P<about>[^>]*)>")
_OME_LENGTH = re.compile(r"""\bSize(?P<axis>[XYZCT])\s*=\s*["'](?P<length>\d{1,12})["']""")
_OME_CHANNEL = re.compile(r"""<(?:\w+:)?Channel\s(?:[^>]*?\s)?Name\s*=\s*["'](?P<name>[^"'>]{1,200})["']""")
_RGB = 2
_SLACK = 4096


@contextmanager
def open_tiff(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open the first series of a TIFF file. Raises `Refused`."""
    import tifffile

    if path.stat().st_size == 0:
        raise Refused("empty", "is empty")
    # Other files that an OME-TIFF names are not opened: they can be anything.
    with tifffile.TiffFile(path, _multifile=False) as file:
        series = file.series[0]
        axes, stored = series.axes, tuple(int(n) for n in series.shape)
        if len(axes) != len(stored) or "X" not in axes or "Y" not in axes:
            raise Refused("shape", f"has the axes {axes}, without X and Y")
        if file.is_ome:
            _refuse_missing(file, series)
        depth = next((axis for axis in _DEPTH if axis in axes), "")
        rest = [axis for axis in axes if axis not in ("X", "Y", depth)]
        order = [axes.index(axis) for axis in ("X", "Y", *depth, *rest)]
        shape: tuple[int, ...] = (stored[order[0]], stored[order[1]], stored[order[2]] if depth else 1)
        if rest:
            shape = (*shape, math.prod(stored[axes.index(axis)] for axis in rest))
        if any(n <= 0 for n in stored):
            raise Refused("shape", f"has no voxels: its shape is {shape}")

        def read() -> NDArray[Any]:
            if any(page is None for page in series.pages):
                raise Refused("format", "has pages in other files, which are not read")
            _refuse_bombs(series)
            found: NDArray[Any] = series.asarray(maxworkers=1).reshape(stored)
            return found.transpose(order).reshape(shape)

        _check_codec(path, series.keyframe)
        offset = series.dataoffset

        def read_box(box: Box, out: NDArray[Any]) -> None:
            dtype = np.dtype(series.dtype).newbyteorder(file.byteorder)
            inside = [slice(None)] * len(stored)
            for axis, wanted in zip(order[: 3 if depth else 2], box.slices, strict=False):
                inside[axis] = wanted
            with stored_array(path, dtype, int(offset or 0), stored) as array:
                out[...] = array.read(inside).transpose(order).reshape(out.shape)

        mapped = read_box if offset is not None else None
        keyframe = series.keyframe
        packages = ("tifffile",) if keyframe.compression == 1 else ("tifffile", "imagecodecs")
        columns = _columns(file) | source.stored(np.dtype(series.dtype).newbyteorder(file.byteorder), *packages)
        if rest:
            columns |= source.channels(_channel_names(file, keyframe), shape[3])
        header = VolumeHeader(shape, np.dtype(series.dtype).name, columns)
        yield OpenVolume(header, filler(read), mapped, last_is_slow=True)


def _check_codec(path: Path, page: Any) -> None:
    """Raise `MissingPackage` when the page's compression takes imagecodecs, `Refused` when nothing reads it."""
    import tifffile

    try:
        tifffile.TIFF.DECOMPRESSORS[page.compression]
        tifffile.TIFF.UNPREDICTORS[page.predictor]
    except KeyError:
        kind = getattr(page.compression, "name", str(page.compression))
        if missing(["imagecodecs"]):
            require(f"{path.name} is compressed as {kind}: reading it", "imagecodecs")
        raise Refused("format", f"is compressed as {kind}, which is not read") from None


def _refuse_missing(file: Any, series: Any) -> None:
    """Raise `Refused` when planes of an OME-TIFF are in other files, or nowhere: what is here is no whole volume.

    Other files are not opened, and tifffile then gives the pages of this one, a stack of depth 1 for instance.
    """
    if missing := sum(page is None for page in series.pages):
        raise Refused("truncated", f"lacks {missing} of {len(series.pages)} planes: they are in other files, or lost")
    about = _OME_PIXELS.search(str(file.ome_metadata))
    if about is None:
        raise Refused("format", "is a part of an OME-TIFF that another file describes; convert it to one file")
    sizes = {found["axis"]: int(found["length"]) for found in _OME_LENGTH.finditer(about["about"])}
    planes, promised = (math.prod(sizes.get(axis, 1) for axis in axes) for axes in ("ZCT", "XYZCT"))
    if math.prod(series.shape) < promised:
        raise Refused(
            "truncated",
            f"has {len(series.pages)} of the {planes} planes that its OME metadata says: the others are in other files,"
            " or lost",
        )
    if series.kind != "ome" and planes > sizes.get("Z", 1):
        raise Refused("format", "has channels or times in an order that its OME metadata does not say")


def _refuse_bombs(series: Any) -> None:
    """Raise `Refused` when a strip or tile has more compressed bytes than it can need: it could unpack to anything."""
    page = series.keyframe
    if page.compression == 1:
        return
    needed = math.prod(page.chunks) * np.dtype(page.dtype).itemsize
    for each in series.pages:
        if max(each.databytecounts, default=0) > 1.1 * needed + _SLACK:
            raise Refused("format", f"has a compressed block of more bytes than the {needed} that it holds")


def _columns(file: Any) -> dict[str, float | int | str]:
    sizes: dict[str, float] = {}
    if file.is_ome:
        text = str(file.ome_metadata)
        units = {found["axis"]: found["unit"] for found in _OME_UNIT.finditer(text)}
        for found in _OME_SIZE.finditer(text):
            if (factor := _TO_MM.get(units.get(found["axis"], "µm"))) is not None:
                sizes.setdefault(found["axis"].lower(), _number(found["size"]) * factor)
    elif file.is_imagej:
        about = file.imagej_metadata or {}
        if (factor := _TO_MM.get(str(about.get("unit", "")))) is not None:
            for axis, tag in (("x", "XResolution"), ("y", "YResolution")):
                above, below = file.pages[0].tags[tag].value if tag in file.pages[0].tags else (0, 1)
                if above:
                    sizes[axis] = below / above * factor
            if "spacing" in about:
                sizes["z"] = _number(about["spacing"]) * factor
    return {f"spacing_{axis}": size for axis, size in sizes.items() if math.isfinite(size) and size > 0}


def _channel_names(file: Any, keyframe: Any) -> list[str]:
    """Of channels that have a name each, as OME and colours have."""
    if file.is_ome:
        return [unescape(found["name"]) for found in _OME_CHANNEL.finditer(str(file.ome_metadata))]
    if keyframe.photometric == _RGB:
        return ["red", "green", "blue", "alpha"][: keyframe.samplesperpixel]
    return []


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan
