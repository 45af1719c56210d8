"""A copy of a table's log in a local folder, for delta-rs, which opens no other place than those that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

from engine.errors import DataError
from engine.storage.place import Place
from nodes.table.log import LAST_CHECKPOINT, LOG
from nodes.table.temporary_folder import make_folder, temporary_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TRIES = 5
"""Of a copy, while other programs write checkpoints and remove old commits."""


@contextmanager
def log_copy(place: Place) -> Iterator[Path]:
    """A temporary folder with a copy of the log of the table at `place`; one without a log where there is none.

    Raises `DataError` when the log changes again and again while it is copied.
    """
    with temporary_folder() as folder:
        _fill(place, folder)
        yield folder


def load_copy(place: Place, version: int | None) -> DeltaTable:
    """delta-rs' table object of a copy of the log, which is there as long as the object.

    Raises as `log_copy`, and delta-rs' errors.
    """
    from deltalake import DeltaTable

    folder, remove = make_folder()
    try:
        _fill(place, folder)
        delta = DeltaTable(str(folder), version=version)
    except BaseException:
        remove()
        raise
    finalize(delta, remove)
    return delta


def _fill(place: Place, folder: Path) -> None:
    gone = ""
    for _ in range(_TRIES):
        try:
            return _copy(place, folder)
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
    place.fetch([file for file in place.files(LOG) if file[0] != name], folder)
