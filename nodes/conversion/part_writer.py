"""Makes one Parquet part from one chunk of source files; the inner loop of every conversion.

A part's name is a hash of the files that went into it, the spec and the layout. So whoever makes it
makes the same bytes: a resumed run finds finished parts, runs that contend do no harm, and a part
that stands is never written again. Nothing appears under its name before it is whole and on disk.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil
from pydantic import BaseModel, ConfigDict

from engine.datasets import FORMAT_VERSION, VolumeSpec
from engine.errors import DataError
from nodes.conversion.compressed_file import CompressedFile
from nodes.conversion.plain_file import PlainFile, buffer_rows
from nodes.conversion.quarantine import PASSING, Refused
from nodes.conversion.volume_sources import open_reader
from nodes.delta.parquet_concat import template
from nodes.durable_files import flush
from nodes.volume_layout import schema, writer_options
from nodes.volume_parts import Part

MAX_CELL_BYTES = 2**31 - 1 - 4
"""What a page can hold: a value behind the four bytes of its length."""
MAX_GROUP_BYTES = 256 << 20
"""Row groups of larger volumes get fewer rows: a reader holds a row group in memory."""
MAX_PART_ROWS = 65_536
"""Parts of tiny volumes stay below their target size: what is held per row counts then."""
_ROW_OVERHEAD = 64
"""About what a row's id, label and length prefix take, in bytes."""
_ABANDONED_S = 24 * 3600.0
_WRITER = 2
"""Raise it when the same rows would give other bytes: it enters the parts' names."""
_BUFFERS = 3
"""Row groups that a writer of compressed parts holds at most: its buffer and what pyarrow encodes."""


@dataclass(frozen=True)
class Layout:
    """How parts look. `finite` says whether volumes with a NaN or an infinity are refused."""

    spec: VolumeSpec
    target_bytes: int
    row_group_rows: int
    compression: str
    finite: bool

    def __post_init__(self) -> None:
        if self.spec.volume_bytes > MAX_CELL_BYTES:
            raise DataError(
                f"one volume of {self.spec.describe()} has {self.spec.volume_bytes} bytes,"
                f" a table's cell holds {MAX_CELL_BYTES}",
                hint="Cut the volumes into smaller ones.",
            )

    @property
    def part_rows(self) -> int:
        """Rows of a full part: 217 volumes of 360 kB make 78 MB."""
        rows = round(self.target_bytes / (self.spec.volume_bytes + _ROW_OVERHEAD))
        return max(1, min(rows, MAX_PART_ROWS))

    @property
    def group_rows(self) -> int:
        by_size = MAX_GROUP_BYTES // self.spec.volume_bytes
        return max(1, min(self.row_group_rows, self.part_rows, by_size))

    @property
    def writer_bytes(self) -> int:
        """Memory for data that one who writes parts takes."""
        if self.compression == "none":
            return buffer_rows(self.spec.volume_bytes, self.group_rows) * self.spec.volume_bytes
        return _BUFFERS * self.group_rows * self.spec.volume_bytes

    def key(self) -> str:
        """All that shapes a part's bytes, besides its sources."""
        parts = [FORMAT_VERSION, _WRITER, self.spec.model_dump_json(), self.group_rows, self.compression]
        return json.dumps(parts)


class SourceFile(NamedTuple):
    """One file of a chunk: `path` as the file system spells it, `id` its NFC form."""

    path: str
    id: str
    size: int
    mtime_ns: int
    label: float | None


class Rejected(BaseModel):
    """A file of a chunk that was refused; `place` counts from the chunk's first file."""

    model_config = ConfigDict(frozen=True)

    place: int
    reason: str
    sentence: str


class Outcome(BaseModel):
    """What became of a chunk. `part` is None when every file was refused."""

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
        return self._making / f"{key}.parquet"

    def holds(self, part: Part) -> int | None:
        """The part's modification time if it stands, whole."""
        try:
            found = (self.parts / part.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns if found.st_size == part.bytes else None

    def recall(self, key: str) -> Outcome | None:
        """What became of the chunk `key` at an earlier time, if that still stands."""
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
        """Let the finished part appear under `name`; one that stands there already stays as it is."""
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
        temporary = self._making / f"{key}.json"
        temporary.write_text(outcome.model_dump_json())
        temporary.replace(self._finished / f"{key}.json")


class PartWriter:
    """Converts chunks one after another; each thread has its own. Memory for data: `layout.writer_bytes`."""

    def __init__(self, source: str, store: PartStore, layout: Layout, commit_point: Callable[[str], None]) -> None:
        self._store, self._layout, self._commit_point = store, layout, commit_point
        self._reader = open_reader(source, layout.spec, finite=layout.finite)
        self._empty = template(schema(layout.spec), writer_options(layout.compression))

    def convert(
        self, files: Sequence[SourceFile], progress: Callable[[int], None], stopped: Callable[[], bool]
    ) -> Outcome | None:
        """Make the part of `files`, or find it made. None: `stopped` said so on the way.

        `progress` is told how many files were dealt with, each time a row group is full.
        """
        # What counts as refused belongs to the chunk's key; a part's bytes depend on its rows alone.
        key = _digest([self._layout.key(), str(self._layout.finite)], files)
        if outcome := self._store.recall(key):
            progress(len(files))
            return outcome
        temporary = self._store.temporary(key)
        try:
            rejected = self._write(files, temporary, progress, stopped)
            if rejected is None:
                return None
            refused = {r.place for r in rejected}
            rows = [f for place, f in enumerate(files) if place not in refused]
            part = self._publish(rows, temporary) if rows else None
            outcome = Outcome(part=part, rejected=tuple(rejected))
            self._store.remember(key, outcome)
            return outcome
        finally:
            temporary.unlink(missing_ok=True)

    def _write(
        self,
        files: Sequence[SourceFile],
        temporary: Path,
        progress: Callable[[int], None],
        stopped: Callable[[], bool],
    ) -> list[Rejected] | None:
        rejected: list[Rejected] = []
        told = 0
        group_rows = self._layout.group_rows
        self._reader.expect(files)
        with contextlib.closing(self._open(temporary)) as out:
            for place, file in enumerate(files):
                if out.is_between_groups:
                    coming = files[place : place + group_rows]
                    out.expect([f.id for f in coming], [f.label for f in coming])
                try:
                    self._reader.read(file.path, file.size, file.mtime_ns, out.room())
                except Refused as refused:
                    rejected.append(Rejected(place=place, reason=refused.reason, sentence=refused.message))
                    continue
                if out.keep(file.id, file.label):
                    progress(place + 1 - told)
                    told = place + 1
                    if stopped():
                        return None
            out.finish()
        progress(len(files) - told)
        return rejected

    def _open(self, path: Path) -> PlainFile | CompressedFile:
        layout = self._layout
        if layout.compression == "none":
            return PlainFile(path, self._empty, layout.spec.volume_bytes, layout.group_rows)
        return CompressedFile(
            path, schema(layout.spec), layout.compression, layout.spec.volume_bytes, layout.group_rows
        )

    def _publish(self, rows: Sequence[SourceFile], temporary: Path) -> Part:
        name = f"{_digest([self._layout.key()], rows)}.parquet"
        self._commit_point("parquet:part-written")
        found = self._store.publish(temporary, name)
        self._commit_point("parquet:part-renamed")
        labels = [r.label for r in rows if r.label is not None]
        return Part(
            path=name,
            rows=len(rows),
            bytes=found.st_size,
            mtime_ns=found.st_mtime_ns,
            labelled=len(labels),
            id_min=min(r.id for r in rows),
            id_max=max(r.id for r in rows),
            label_min=min(labels, default=None),
            label_max=max(labels, default=None),
        )


def _digest(head: Sequence[str], files: Sequence[SourceFile]) -> str:
    out = hashlib.blake2b(json.dumps(head).encode(), digest_size=16)
    # No path holds a zero byte. One text for all: measured, a sixth of the time of one JSON list a file.
    out.update("\0".join([f"{f.path}\0{f.size}\0{f.mtime_ns}\0{f.label}" for f in files]).encode())
    return out.hexdigest()


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
