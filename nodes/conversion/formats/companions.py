"""Volumes whose data lies in a file beside their header: which files make a volume, and whether they have changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pyarrow as pa

from engine.errors import MissingPackage
from engine.storage import manifest
from engine.storage.files import check_regular
from engine.storage.io_errors import OUT_OF_RESOURCES
from engine.storage.manifest import FileEntry
from nodes.conversion.quarantine import Refused

DataFile = Callable[[Path], str | None]
"""The name of the file with the data of the header at a path, below its folder; None: it is in the same file."""


def checked_name(name: str) -> str:
    """The name of a data file as a header gives it. Raises `Refused` when it leads out of the header's folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not name or not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise Refused("format", f"has its data in {name!r}, which is not a file beside it")
    return str(path)


def collect(root: Path, listing: pa.Table, endings: tuple[str, ...], data_file: DataFile) -> pa.Table:
    """The headers among the listed files; size and time of one with a data file are those of both."""
    found = (
        FileEntry(row.path, *_both(root / row.path, (row.size, row.mtime_ns), data_file))
        for row in manifest.entries(listing)
        if row.path.lower().endswith(endings)
    )
    return manifest.table_of(found)


def stamp(path: Path, data_file: DataFile) -> tuple[int, int]:
    """Size and time of the volume with the header at `path`, as `collect` gives them. Raises `OSError`."""
    found = path.stat()
    return _both(path, (found.st_size, found.st_mtime_ns), data_file)


def _both(path: Path, header: tuple[int, int], data_file: DataFile) -> tuple[int, int]:
    try:
        check_regular(path, sys.maxsize)
        name = data_file(path)
        if name is None:
            return header
        data = (path.parent / name).stat()
    except MissingPackage:
        raise
    except Exception as exc:  # a hostile header can make a library raise nearly anything
        # A process without handles says nothing about the file.
        if isinstance(exc, OSError) and exc.errno in OUT_OF_RESOURCES:
            raise
        return header  # reading it says what is wrong
    return manifest.stamp_of([FileEntry(path.name, *header), FileEntry(name, data.st_size, data.st_mtime_ns)])
