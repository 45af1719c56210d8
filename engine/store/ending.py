"""How a run's end is recorded when the disk is full.

Two files lie in the run's folder while it runs, made before it starts. Removing `reserve` gives the run store space
for its last transaction. When even that does not help, since another program took the space, `ending.json` is written
over in place, which needs none; the next reader of the run finds it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.declare.events import RunState
from engine.storage.io_errors import naming

RESERVE_BYTES = 1 << 20
"""The last transaction of a run of some hundred tasks takes less than half of it."""
_ENDING_BYTES = 4096
_LONGEST_ERROR = 2000


class Ending(BaseModel):
    """The end of one attempt of a run, for which the run store had no space."""

    model_config = ConfigDict(frozen=True)

    attempt: int
    state: RunState
    error: str
    ended: float


def prepare(folder: Path) -> None:
    """Make both files in the run's folder. Raises `OSError` when there is no space for them."""
    with naming(folder / "ending.json"):
        _write(folder / "ending.json", b" " * _ENDING_BYTES)
    reserve = folder / "reserve"
    if reserve.exists() and reserve.stat().st_size == RESERVE_BYTES:
        return
    try:
        with naming(reserve), reserve.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            else:
                file.write(bytes(RESERVE_BYTES))
    except OSError:
        reserve.unlink(missing_ok=True)
        raise


def free_reserve(folder: Path) -> None:
    """Remove `reserve`, so that its space can be used."""
    with contextlib.suppress(OSError):
        (folder / "reserve").unlink(missing_ok=True)


def storable(error: str) -> str:
    """The error with bytes that are no UTF-8 spelled out, as of a file's name: neither JSON nor SQLite takes them."""
    return error.encode(errors="backslashreplace").decode()


def write_ending(folder: Path, ending: Ending) -> bool:
    """Record the ending in the space that is there for it; whether that worked."""
    kept = ending.model_copy(update={"error": storable(ending.error)[:_LONGEST_ERROR]})
    data = kept.model_dump_json().encode()
    while len(data) > _ENDING_BYTES:
        kept = kept.model_copy(update={"error": kept.error[: len(kept.error) // 2]})
        data = kept.model_dump_json().encode()
    try:
        with (folder / "ending.json").open("r+b") as file:
            file.write(data.ljust(_ENDING_BYTES))
    except OSError:
        return False
    return True


def read_ending(folder: Path) -> Ending | None:
    """The ending that is recorded there; None when there is none, as while the run is under way."""
    try:
        return Ending.model_validate_json((folder / "ending.json").read_bytes())
    except (OSError, ValidationError):
        return None


def clear(folder: Path) -> None:
    """Remove both files: the run store has it all."""
    free_reserve(folder)
    with contextlib.suppress(OSError):
        (folder / "ending.json").unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    # Written over in place where an earlier attempt left one: it has the space already.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(handle, data, 0)
        os.fsync(handle)  # has the blocks now, not when the disk may be full
    finally:
        os.close(handle)
