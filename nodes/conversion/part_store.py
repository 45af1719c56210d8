"""The folder of Parquet parts that a node makes and resumes: whole parts, and what became of each chunk."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from engine.storage.files import flush, write_whole
from nodes.conversion.quarantine import PASSING
from nodes.volume_file.parts import Part

_ABANDONED_S = 24 * 3600.0


class Rejected(BaseModel):
    """A row of a chunk that was refused; `place` counts from the chunk's first row."""

    model_config = ConfigDict(frozen=True)

    place: int
    reason: str
    sentence: str


class Outcome(BaseModel):
    """What became of a chunk. `part` is None when every row was refused."""

    model_config = ConfigDict(frozen=True)

    part: Part | None
    rejected: tuple[Rejected, ...] = ()
    reused: bool = False


class PartStore:
    """The folder of a lineage: `parts/` with the Parquet files, `.finished/` with what became of each chunk.

    Half-made parts lie in a hidden folder of their own process, on the same file system.
    """

    def __init__(self, root: Path) -> None:
        self.parts = root / "parts"
        self._finished = root / ".finished"
        self._root = root
        self._making = root / f".making-{_host()}-{os.getpid()}"

    def open(self) -> None:
        """Make the folders and remove what killed processes left half-made."""
        for folder in (self.parts, self._finished, self._making):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in self._root.glob(".making-*"):
            if folder != self._making and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove what this process has left half-made, and make the finished parts' names durable."""
        shutil.rmtree(self._making, ignore_errors=True)
        flush([self.parts])

    @contextlib.contextmanager
    def attempt(self) -> Iterator[PartStore]:
        """The store for one try of a chunk on another process or machine, with a folder of its own for half-made parts.

        That folder lies in this store's: it goes with it, also when the one who tries is killed. Raises
        `FileNotFoundError` when this store was closed: the try comes too late for anybody.
        """
        own = copy.copy(self)
        own._making = self._making / secrets.token_hex(8)
        own._making.mkdir()
        try:
            yield own
        finally:
            shutil.rmtree(own._making, ignore_errors=True)

    def temporary(self, key: str) -> Path:
        """Where the part of the chunk `key` is made."""
        return self._making / f"{key}.parquet"

    def holds(self, part: Part) -> int | None:
        """The part's modification time in ns, None when it is missing or not whole."""
        try:
            found = (self.parts / part.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns if found.st_size == part.bytes else None

    def recall(self, key: str) -> Outcome | None:
        """What became of the chunk `key` at an earlier time, if its part is still whole."""
        try:
            outcome = Outcome.model_validate_json((self._finished / f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        if any(r.reason in PASSING for r in outcome.rejected):
            return None
        if outcome.part is not None:
            time_now = self.holds(outcome.part)
            if time_now is None:
                return None
            outcome = outcome.model_copy(update={"part": replace(outcome.part, mtime_ns=time_now)})
        return outcome.model_copy(update={"reused": True})

    def publish(self, temporary: Path, name: str) -> os.stat_result:
        """Let the finished part appear under `name`; one that is there already stays as it is."""
        # On disk before it has its name: a manifest may never list a file that a power cut can empty.
        flush([temporary])
        final = self.parts / name
        size = temporary.stat().st_size
        try:
            # A link never replaces: of two runs that make the same part the first one's file stays,
            # with its modification time, by which later nodes know the shard.
            os.link(temporary, final)
        except FileExistsError:
            if final.stat().st_size != size:
                temporary.replace(final)
        except OSError:
            # A file system without hard links; anything worse fails here again.
            temporary.replace(final)
        temporary.unlink(missing_ok=True)
        return final.stat()

    def remember(self, key: str, outcome: Outcome) -> None:
        """Record what became of the chunk `key`, for `recall`."""
        # Not flushed, one a chunk: one that a power cut has cut short counts for nothing, and its chunk is made again.
        write_whole(self._finished / f"{key}.json", outcome.model_dump_json(), durable=False)


def _host() -> str:
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def _is_abandoned(folder: Path) -> bool:
    """Whether the process that made the folder is gone: known on this machine, guessed by age elsewhere."""
    _, host, pid = folder.name.split("-")
    if host == _host():
        return not psutil.pid_exists(int(pid))
    with contextlib.suppress(OSError):
        return time.time() - folder.stat().st_mtime > _ABANDONED_S
    return False
