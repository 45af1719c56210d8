"""A copy of a table's log in a local folder, for delta-rs, which opens no other place than those that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from weakref import finalize

from engine.storage.place import Place
from nodes.table.log import LOG

if TYPE_CHECKING:
    from deltalake import DeltaTable


@contextmanager
def log_copy(place: Place) -> Iterator[Path]:
    """A temporary folder with a copy of the log of the table at `place`; one without a log where there is none.

    Raises `FileNotFoundError` when a file of the log goes meanwhile.
    """
    with _folder() as folder:
        _fill(place, folder)
        yield Path(folder)


def load_copy(place: Place, version: int | None) -> DeltaTable:
    """delta-rs' table object of a copy of the log, which is there as long as the object. Raises delta-rs' errors."""
    from deltalake import DeltaTable

    folder = _folder()
    try:
        _fill(place, folder.name)
        delta = DeltaTable(folder.name, version=version)
    except BaseException:
        folder.cleanup()
        raise
    finalize(delta, folder.cleanup)
    return delta


def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="voxelflow-")


def _fill(place: Place, folder: str) -> None:
    place.fetch(list(_files(place, LOG)), Path(folder))


def _files(place: Place, below: str) -> Iterator[tuple[str, int]]:
    """The files of the log with their bytes, those in its folders too."""
    for name in place.names(below):
        path = f"{below}/{name}"
        found = place.stat(path)
        if found is not None and found.size >= 0:
            yield path, found.size
        else:
            yield from _files(place, path)
