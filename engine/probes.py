"""Probes of storage: what was measured of a place and what that means, kept in the workspace as JSON.

`probes/20261122-201500-data.json` of the workspace is one probe, its fields those of `StorageProbe`; the page of the
same name beside it (`.html`) is for people. Fields may be added: a reader ignores those that it does not know.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.environment import DISTURBED, Machine
from engine.storage.files import read_document, write_whole
from engine.text import duration, number, plural, size
from engine.workspace import Workspace

FOLDER = "probes"
COLUMNS = ("", "operations", "at a time", "a second", "MB/s", "median", "95%", "99%")
"""Of the lines of `StorageProbe.rows`."""
_LISTED_AT_A_TIME = 1000
RANDOM_BYTES = 4096
"""Bytes of a random read."""


class Timed(BaseModel):
    """Operations of one kind: how many, their bytes, and the seconds from the first to the end of the last.

    `streams` were under way at a time. The milliseconds are percentiles of a single operation.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    operations: int
    bytes: int
    seconds: float
    streams: int = 1
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds if self.seconds > 0 else 0.0

    @property
    def mb_s(self) -> float:
        """MB (10**6 bytes) a second."""
        return self.bytes / 1e6 / self.seconds if self.seconds > 0 else 0.0


class StorageProbe(BaseModel):
    """What was measured of one place from one machine.

    `small_reads` are whole `.npy` files of `file_bytes`, one by one; `table_reads` counts volumes of the same size, as
    the loader of TrainResNet3D hands them out from a table, shuffled. `random_reads` are of 4,096 bytes from
    large files, `sequential_reads` pieces of 8 MB one after another. `..._at_once` is the same with several reads in
    flight. `listing` is of a folder with `listed_files` files, `short_listing` of one with next to none.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[1] = 1
    place: str
    storage: str
    """"local", or the scheme of an object store: "az", "s3", "gs"."""
    measured_at: float
    """Seconds since the epoch."""
    seconds: float
    """How long the probe took, cleaning up included."""
    machine: Machine
    others_share: float | None = None
    """The part of the machine's cores, from 0 to 1, that other programs had meanwhile; None where it is not known."""
    cache: Literal["cold", "warm", "unknown", "none"]
    """Whether the system's own cache was empty of what was read: "none" for an object store, which has none here."""
    file_bytes: Annotated[int, Field(ge=1)]
    bytes_written: int
    small_reads: Timed
    small_reads_at_once: Timed
    random_reads: Timed
    random_reads_at_once: Timed
    sequential_reads: Timed
    table_reads: Timed
    listing: Timed
    listed_files: int
    short_listing: Timed
    small_writes: Timed
    large_writes: Timed
    deletes: Timed
    epoch_files: int
    """Files in the epoch that is predicted, each of `epoch_file_bytes`."""
    epoch_file_bytes: int
    epoch_is: Literal["found", "like those found", "given", "an example"]
    """Where these numbers are from: the place itself; of it the size alone, since there were too many to count; the
    person or the node's input; neither."""

    @property
    def epoch_one_by_one_s(self) -> float:
        """Seconds to read all files once, one by one."""
        return self._epoch(self.small_reads)

    @property
    def epoch_at_once_s(self) -> float:
        """The same with several reads in flight."""
        return self._epoch(self.small_reads_at_once)

    @property
    def epoch_table_s(self) -> float:
        """Seconds to read the same volumes from a table."""
        return self._epoch(self.table_reads)

    @property
    def listing_s(self) -> float:
        """Seconds to list the files: a request for each thousand, as stores answer, and the time of each file."""
        request_s = self.short_listing.p50_ms / 1000
        # The requests of the listing that was measured are in its time.
        files_s = max(0.0, self.listing.p50_ms / 1000 - self._listing_requests(self.listed_files) * request_s)
        file_s = files_s / max(1, self.listed_files)
        return self._listing_requests(self.epoch_files) * request_s + self.epoch_files * file_s

    def _listing_requests(self, files: int) -> int:
        return 1 if self.storage == "local" else max(1, math.ceil(files / _LISTED_AT_A_TIME))

    def _epoch(self, reads: Timed) -> float:
        # Volumes larger than the files that were measured take as much longer: true where bytes are what takes time.
        return self.epoch_files / reads.per_s * self.epoch_file_bytes / self.file_bytes if reads.per_s else 0.0

    def meaning(self) -> list[str]:
        """What the figures mean, in sentences."""
        files, each = plural(self.epoch_files, "files"), size(self.epoch_file_bytes)
        epoch = {
            "an example": f", say, {files} of {each}",
            "like those found": f", say, {files} like yours, of {each},",
        }.get(self.epoch_is, f" your {files} of {each}")
        small, at_once, random = self.small_reads, self.small_reads_at_once, self.random_reads_at_once
        out = [
            f"From here an epoch of{epoch} takes {duration(self.epoch_one_by_one_s)} one by one,"
            f" {duration(self.epoch_at_once_s)} with {at_once.streams} reads at a time,"
            f" from a table {duration(self.epoch_table_s)}.",
            f"Listing them takes {duration(self.listing_s)}.",
            f"Half of the small files were there within {number(_rounded(small.p50_ms, 3))} ms, all but 1% within"
            f" {number(_rounded(small.p99_ms, 3))} ms.",
            f"Random reads of 4 kB: {number(round(random.per_s))} a second with {random.streams} at a time,"
            f" {number(round(self.random_reads.per_s))} one by one.",
        ]
        if self.others_share is not None and self.others_share >= DISTURBED:
            out.append(
                f"Other programs had {self.others_share:.0%} of the cores meanwhile, which slows the table above all:"
                " measure again when the machine is idle."
            )
        out.append(
            {
                "cold": "The system's cache held nothing of what was read; a cache in the disk or its host may have.",
                "warm": "The system kept what was read in its cache: the disk itself is slower than these figures.",
                "unknown": "The system was asked to empty its cache of what was read, and does not say whether it did.",
                "none": "Each read went to the store.",
            }[self.cache]
        )
        return out

    def rows(self) -> list[tuple[str, ...]]:
        """A line of text for each kind of operation, with the columns `COLUMNS`."""
        named = [
            (f"files of {size(self.file_bytes)}", self.small_reads),
            ("the same at once", self.small_reads_at_once),
            ("4 kB at random", self.random_reads),
            ("the same at once", self.random_reads_at_once),
            ("8 MB in order", self.sequential_reads),
            ("volumes of a table", self.table_reads),
            (f"list {plural(self.listed_files, 'files')}", self.listing),
            ("list a folder", self.short_listing),
            ("write files", self.small_writes),
            ("write large files", self.large_writes),
            ("remove files", self.deletes),
        ]
        return [
            (
                name,
                f"{timed.operations:,}",
                str(timed.streams),
                number(round(timed.per_s, 1)),
                number(round(timed.mb_s, 1)) if timed.bytes else "",
                # Volumes of a table come by the batch, read ahead: how long one takes would say nothing.
                *(
                    "" if timed is self.table_reads else f"{number(_rounded(ms, 3))} ms"
                    for ms in (timed.p50_ms, timed.p95_ms, timed.p99_ms)
                ),
            )
            for name, timed in named
        ]

    def figures(self) -> dict[str, float | int | str]:
        """The key figures by name; times in milliseconds (`_ms`) or seconds (`_s`), rates in MB a second (`_mb_s`)."""
        return {
            "small_file_p50_ms": _rounded(self.small_reads.p50_ms),
            "small_file_p95_ms": _rounded(self.small_reads.p95_ms),
            "small_file_p99_ms": _rounded(self.small_reads.p99_ms),
            "small_files_per_s": _rounded(self.small_reads.per_s),
            "small_files_at_once_per_s": _rounded(self.small_reads_at_once.per_s),
            "random_reads_per_s": _rounded(self.random_reads.per_s),
            "random_reads_at_once_per_s": _rounded(self.random_reads_at_once.per_s),
            "random_read_p99_ms": _rounded(self.random_reads.p99_ms),
            "sequential_mb_s": _rounded(self.sequential_reads.mb_s),
            "table_volumes_per_s": _rounded(self.table_reads.per_s),
            "table_mb_s": _rounded(self.table_reads.mb_s),
            "listing_s": _rounded(self.listing_s),
            "small_writes_per_s": _rounded(self.small_writes.per_s),
            "large_writes_mb_s": _rounded(self.large_writes.mb_s),
            "epoch_one_by_one_s": _rounded(self.epoch_one_by_one_s),
            "epoch_table_s": _rounded(self.epoch_table_s),
            "cache": self.cache,
        }


def probe_path(workspace: Workspace, probe: StorageProbe) -> Path:
    """Where a probe is kept: named after its time and place."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(probe.measured_at))
    name = re.sub(r"[^A-Za-z0-9]+", "-", probe.place.rstrip("/").rpartition("/")[2]).strip("-")[:40] or "root"
    return workspace.root / FOLDER / f"{stamp}-{name}.json"


def keep_probe(workspace: Workspace, probe: StorageProbe) -> Path:
    """Keep the probe in the workspace; gives its file. Raises `OSError`."""
    path = probe_path(workspace, probe)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, probe.model_dump_json(indent=2) + "\n", durable=True)
    return path


def probes(workspace: Workspace) -> list[StorageProbe]:
    """The probes that are kept, the newest first. Files that are none, or of a newer format, are left out."""
    return sorted(_read_all(workspace.root / FOLDER), key=lambda probe: probe.measured_at, reverse=True)


def _read_all(folder: Path) -> Iterator[StorageProbe]:
    for path in folder.glob("*.json"):
        with suppress(OSError, ValidationError):
            yield StorageProbe.model_validate_json(read_document(path))


def _rounded(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")
