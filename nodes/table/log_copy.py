"""A copy of a table's log in a local folder, for delta-rs, which opens no other place than those that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from weakref import finalize

from engine.errors import DataError
from engine.storage.place import Place
from nodes.table.log import LAST_CHECKPOINT, LOG

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TRIES = 5
"""Of a copy, while other programs write checkpoints and remove old commits."""


@contextmanager
def log_copy(place: Place) -> Iterator[Path]:
    """A temporary folder with a copy of the log of the table at `place`; one without a log where there is none.

    Raises `DataError` when the log changes again and again while it is copied.
    """
    with _folder() as folder:
        _fill(place, folder)
        yield Path(folder)


def load_copy(place: Place, version: int | None) -> DeltaTable:
    """delta-rs' table object of a copy of the log, which is there as long as the object.

    Raises as `log_copy`, and delta-rs' errors.
    """
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
    gone = ""
    for _ in range(_TRIES):
        try:
            return _copy(place, Path(folder))
        except FileNotFoundError as exc:
            gone = str(exc)
    raise DataError(
        f"the log of the table {place} changes while it is read: {gone}",
        hint="Run it again once other programs have written to the table.",
    )


def _copy(place: Place, folder: Path) -> None:
    """Raises `FileNotFoundError` when a file of the log goes, or gets another size, meanwhile."""
    name = f"{LOG}/{LAST_CHECKPOINT}"
    # Before the listing: the checkpoint that it names is there by then.
    if (last := place.stat(name)) is not None:
        place.fetch([(name, last.size)], folder)
    place.fetch([file for file in _files(place, LOG) if file[0] != name], folder)


def _files(place: Place, below: str) -> Iterator[tuple[str, int]]:
    """The files of the log with their bytes, those in its folders too."""
    for name in place.names(below):
        path = f"{below}/{name}"
        found = place.stat(path)
        if found is not None and found.size >= 0:
            yield path, found.size
        else:
            yield from _files(place, path)
