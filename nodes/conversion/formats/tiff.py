"""TIFF stacks, OME-TIFF and ImageJ's: the one stack that a file holds, read by tifffile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
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

_UNSAID = "IQ"
"""Sequences of pages that nothing is said about."""
_DEPTH = f"Z{_UNSAID}"
"""Axes that can be Z."""
_OF_PLANE = "YXSC"
"""Axes of images that are slices when a file has several."""
_PICTURES = ("thumbnail", "label", "macro", "map", "probability")
"""What tifffile calls the pictures of a slide that lie beside its image."""
_TO_MM = {
    "mm": 1.0, "cm": 10.0, "m": 1000.0, "nm": 1e-6, "µm": 1e-3, "um": 1e-3, "micron": 1e-3, "microns": 1e-3,
    "inch": 25.4,
}  # fmt: skip
_MICRO = re.compile(r"\\u00b5|\\u03bc|\u03bc", re.IGNORECASE)
"""The sign for micro as ImageJ escapes it, and Unicode's other letter for it."""
_OME_SIZE = re.compile(r'PhysicalSize(?P<axis>[XYZ])="(?P<size>[^"]{1,40})"')
_OME_UNIT = re.compile(r'PhysicalSize(?P<axis>[XYZ])Unit="(?P<unit>[^"]{1,20})"')
_OME_PIXELS = re.compile(r"<(?:\w+:)?Pixels\s(?P<about>[^>]*)>")
_OME_LENGTH = re.compile(r"""\bSize(?P<axis>[XYZCT])\s*=\s*["'](?P<length>\d{1,12})["']""")
_OME_CHANNEL = re.compile(r"""<(?:\w+:)?Channel\s(?:[^>]*?\s)?Name\s*=\s*["'](?P<name>[^"'>]{1,200})["']""")
_RGB = 2
_SLACK = 4096


@contextmanager
def open_tiff(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open the stack of a TIFF file, which may be written slice by slice. Raises `Refused`."""
    import tifffile

    if path.stat().st_size == 0:
        raise Refused("empty", "is empty")
    # Other files that an OME-TIFF names are not opened: they can be anything.
    with tifffile.TiffFile(path, _multifile=False) as file:
        images = _images(file.series)
        if file.is_ome and len(images) > 1:
            raise Refused(
                "format",
                f"holds {len(images)} images, of which only the first would be read; write each into a file of its own",
            )
        series, stacked = images[0], len(images) > 1
        axes, stored = series.axes, tuple(int(n) for n in series.shape)
        if len(axes) != len(stored) or axes.count("X") != 1 or axes.count("Y") != 1 or axes.count("Z") > 1:
            raise Refused("shape", f"has the axes {axes}, of which X, Y and Z cannot be told")
        if file.is_ome:
            _refuse_missing(file, series)
        if stacked:
            axes, stored = _stacked(images)
        order = _order(axes, stored)
        depth = len(order) > 2 and axes[order[2]] in _DEPTH
        rest = order[3 if depth else 2 :]
        shape: tuple[int, ...] = (stored[order[0]], stored[order[1]], stored[order[2]] if depth else 1)
        if rest:
            shape = (*shape, math.prod(stored[place] for place in rest))
        if any(n <= 0 for n in stored):
            raise Refused("shape", f"has no voxels: its shape is {shape}")

        def read() -> NDArray[Any]:
            if any(page is None for each in images for page in each.pages):
                raise Refused("format", "has pages in other files, which are not read")
            for each in images:
                _refuse_bombs(each)
            if not stacked:
                found: NDArray[Any] = series.asarray(maxworkers=1).reshape(stored)
            else:
                found = np.empty(stored, series.dtype)  # not a list of slices first, which would take as much again
                for each, plane in zip(images, found, strict=True):
                    plane[...] = each.asarray(maxworkers=1).reshape(plane.shape)
            return found.transpose(order).reshape(shape)

        for each in images:
            _check_codec(path, each.keyframe)
        offsets = [int(each.dataoffset) for each in images if each.dataoffset is not None]
        dtype = np.dtype(series.dtype).newbyteorder(file.byteorder)

        def read_part(offset: int, lengths: Sequence[int], inside: Sequence[slice]) -> NDArray[Any]:
            with stored_array(path, dtype, offset, lengths) as array:
                return array.read(inside)

        def read_box(box: Box, out: NDArray[Any]) -> None:
            inside = [slice(None)] * len(stored)
            for axis, wanted in zip(order[: 3 if depth else 2], box.slices, strict=False):
                inside[axis] = wanted
            if stacked:  # its first axis is Z
                found = np.stack([read_part(offset, stored[1:], inside[1:]) for offset in offsets[inside[0]]])
            else:
                found = read_part(offsets[0], stored, inside)
            out[...] = found.transpose(order).reshape(out.shape)

        mapped = read_box if len(offsets) == len(images) else None
        keyframe = series.keyframe
        plain = all(each.keyframe.compression == 1 for each in images)
        packages = ("tifffile",) if plain else ("tifffile", "imagecodecs")
        columns = _columns(file) | source.stored(dtype, *packages)
        if rest:
            columns |= source.channels(_channel_names(file, keyframe), shape[3])
        header = VolumeHeader(shape, np.dtype(series.dtype).name, columns)
        yield OpenVolume(header, filler(read), mapped, last_is_slow=True)


def _order(axes: str, stored: Sequence[int]) -> list[int]:
    """The places of X, Y, what is Z if there is one, and of all others: letters come several times, as in QQYX."""
    unsaid = [place for place, axis in enumerate(axes) if axis in _UNSAID]
    long = [place for place in unsaid if stored[place] > 1]
    # Of axes that nothing is said about, the last one is along the pages that follow each other.
    depth = [axes.index("Z")] if "Z" in axes else (long or unsaid)[-1:]
    first = [axes.index("X"), axes.index("Y"), *depth]
    return [*first, *(place for place in range(len(axes)) if place not in first)]


def _images(found: Sequence[Any]) -> list[Any]:
    """The series that are the volume: one, or slices that were written one by one.

    Raises `Refused` when there are others, of which only the first would be read.
    """
    main = next((each for each in found if not _is_picture(each)), found[0])
    images = [each for each in found if each is main or not _is_beside(each, main)]
    if len(images) == 1:
        return images
    if len({_form(each) for each in images}) > 1:
        raise Refused(
            "format",
            f"holds {len(images)} images of different shapes or types, of which only the first would be read; write"
            " them as one stack",
        )
    if any(each.keyframe.is_subifd for each in images) or any(
        n > 1 and axis not in _OF_PLANE for axis, n in zip(main.axes, main.shape, strict=False)
    ):
        raise Refused(
            "format",
            f"holds {len(images)} stacks of the shape {tuple(main.shape)}, of which only the first would be read; write"
            " them as one, and name its axes",
        )
    return images


def _is_picture(series: Any) -> bool:
    """Whether the file says that it is a smaller picture of another image, or one of the glass it lies on."""
    named = series.kind != "shaped" and str(series.name).lower() in _PICTURES
    return bool(named or series.keyframe.is_reduced or series.keyframe.is_mask)


def _is_beside(series: Any, main: Any) -> bool:
    """Whether it is no part of the volume: a mask, or a picture of another form than the slices.

    A file need not say so of one page that is at most half as wide and high as those of a whole stack.
    """
    if series.keyframe.is_mask and not main.keyframe.is_mask:
        return True
    if _is_picture(series):  # of slices that small, an ordinary thumbnail is larger
        return _form(series) != _form(main)
    half = all(2 * part <= whole for part, whole in zip(_plane(series), _plane(main), strict=True))
    return half and (series.keyframe.is_subifd or (len(series.pages) == 1 and len(main.pages) > 1))


def _plane(series: Any) -> tuple[int, int]:
    shape = series.keyframe.shaped  # pages, depth, height, width, samples
    return int(shape[2]), int(shape[3])


def _form(series: Any) -> tuple[Any, ...]:
    """What slices of one volume have in common."""
    return tuple(series.shape), series.axes, np.dtype(series.dtype), series.keyframe.photometric


def _stacked(images: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    """Axes and lengths of slices that are stacked along Z, in the order of the file."""
    one = images[0]
    kept = [(axis, int(n)) for axis, n in zip(one.axes, one.shape, strict=True) if axis in _OF_PLANE]
    return "Z" + "".join(axis for axis, _ in kept), (len(images), *(n for _, n in kept))


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
            if (factor := _factor(units.get(found["axis"], "µm"))) is not None:
                sizes.setdefault(found["axis"].lower(), _number(found["size"]) * factor)
    elif file.is_imagej:
        about = file.imagej_metadata or {}
        if (factor := _factor(str(about.get("unit", "")))) is not None:
            for axis, tag in (("x", "XResolution"), ("y", "YResolution")):
                above, below = file.pages[0].tags[tag].value if tag in file.pages[0].tags else (0, 1)
                if above:
                    sizes[axis] = below / above * factor
            if "spacing" in about:
                sizes["z"] = _number(about["spacing"]) * factor
    return {f"spacing_{axis}": size for axis, size in sizes.items() if math.isfinite(size) and size > 0}


def _factor(unit: str) -> float | None:
    """Millimetres of a unit as OME writes it in XML, or ImageJ; None for one that is not known."""
    return _TO_MM.get(_MICRO.sub("µ", unescape(unit)).strip())


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
