"""NumPy's archive of arrays, compressed or not: one array of it. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nodes.conversion import npy_files
from nodes.conversion.formats import source
from nodes.conversion.formats.arrays import chosen
from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
from nodes.conversion.formats.streams import filler, read_exactly, refuse_impossible, refuse_more
from nodes.conversion.quarantine import Refused

_HEAD = npy_files.MAX_HEADER_BYTES + 12


@contextmanager
def open_npz(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open the array `dataset` of an archive. Raises `Refused`."""
    if path.stat().st_size == 0:
        raise Refused("empty", "is empty")
    with path.open("rb") as file, open_archive(file, dataset) as volume:
        yield volume


@contextmanager
def open_archive(file: Any, dataset: str) -> Iterator[OpenVolume]:
    """The same for a file object that can be sought in; the caller closes it. Raises as `zipfile` does, too."""
    with zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        info = members[chosen(members, dataset)]
        with archive.open(info) as member:
            start = member.read(_HEAD)
        header = npy_files.parse_header(lambda length, offset: start[offset : offset + length], info.file_size)
        npy_files.refuse_unusable(header, info.file_size)
        promised = header.file_bytes - header.offset
        refuse_impossible(promised, info.compress_size, compressed=info.compress_type != zipfile.ZIP_STORED)

        def read() -> NDArray[Any]:
            with archive.open(info) as member:
                stream: Any = member
                read_exactly(stream, header.offset)
                data = read_exactly(stream, promised)
                refuse_more(stream)
            order: Any = "F" if header.fortran_order else "C"
            return data.view(header.dtype).reshape(header.shape, order=order)

        facts = source.stored(header.dtype, "numpy")
        yield OpenVolume(VolumeHeader(header.shape, header.dtype.newbyteorder("=").name, facts), filler(read))
