"""Summing up the log in a checkpoint, so that nobody need read every commit. Nothing is lost without it.

delta-rs writes it. When that pays, and that a local one is on the disk before readers trust it, is decided here.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Checkpoints, Last Checkpoint File).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.errors import DataError
from engine.storage.files import flush, write_whole
from engine.storage.find_place import place_at
from engine.storage.hard_link import CANNOT_LINK
from engine.storage.place import Place
from engine.storage.table_lock import INTERNALS
from nodes.table.log import LAST_CHECKPOINT, LOG, checkpoint_file, commit_name
from nodes.table.log_copy import log_copy

SPARK_CHECKSUM = "._last_checkpoint.crc"
"""Spark keeps it beside the name of the last checkpoint, and would not read what others wrote there since."""
MOST_COMMITS = 100
"""Behind a checkpoint there are never more, however few files they name.

Else one is made when the commits after the last one say as much as it does: so each is twice as long as the one
before, and all together grow as the log does, not as its square.
"""


def make_checkpoint(where: Path | Place, version: int, every: int) -> bool:
    """Sum up the log at `version` when it pays, at least `every` versions after the last time; gives whether it did.

    The caller of a local table holds its lock. A log that delta-rs cannot sum up stays as it is.
    """
    place = place_at(where)
    folder = place.local_folder
    last, size = _last(place)
    since = version - last
    if since < every:
        return False
    try:
        if folder is None:
            # Reading the commits to see whether it pays would take as long.
            _sum_up_elsewhere(place, version)
        elif since >= MOST_COMMITS or _say_more(place, range(last + 1, version + 1), than=size):
            _sum_up(folder, version, last)
        else:
            return False
    except DeltaError:
        return False
    except (OSError, DataError):
        # The commit is made, whatever becomes of this.
        if folder is not None:
            raise
        return False
    return True


def _last(place: Place) -> tuple[int, int]:
    """The last checkpoint's version, and how many actions it has; zeros when there is none."""
    try:
        found = json.loads(bytes(place.read(f"{LOG}/{LAST_CHECKPOINT}")))
        return int(found["version"]), int(found.get("size") or 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def _say_more(place: Place, versions: range, *, than: int) -> bool:
    """Whether these commits have as many lines."""
    try:
        for version in versions:
            than -= bytes(place.read(f"{LOG}/{commit_name(version)}")).count(b"\n")
    except OSError:
        return False
    return than <= 0


def _sum_up_elsewhere(place: Place, version: int) -> None:
    """Write the checkpoint of `version` of a table that lies in no local folder; raises `DeltaError`, `OSError`."""
    if (address := place.delta_rs_address) is not None:
        DeltaTable(address, version=version).create_checkpoint()
        return
    with log_copy(place) as copy:
        DeltaTable(str(copy), version=version).create_checkpoint()
        # `_last_checkpoint` is written last, so that readers of it find the checkpoint.
        for made in (checkpoint_file(copy, version), copy / LOG / LAST_CHECKPOINT):
            data = made.read_bytes()
            place.write(f"{LOG}/{made.name}", lambda sink, data=data: sink.write(data))  # type: ignore[misc]


def _sum_up(root: Path, version: int, last: int) -> None:
    """Write the checkpoint of `version` of a local table; raises `DeltaError` when delta-rs cannot.

    delta-rs does not flush, and readers take a checkpoint that is there for whole: so it writes into another folder,
    and the file gets its name in the log when it is on the disk.
    """
    log = root / LOG
    with _log_aside(root, version, last) as aside:
        DeltaTable(str(aside or root), version=version).create_checkpoint()
        if aside is not None:
            made = checkpoint_file(aside, version)
            flush([made])
            os.replace(made, checkpoint_file(root, version))
            flush([log])
            write_whole(log / LAST_CHECKPOINT, (aside / LOG / LAST_CHECKPOINT).read_bytes(), durable=True)
    (log / SPARK_CHECKSUM).unlink(missing_ok=True)
    flush(p for p in (checkpoint_file(root, version), log / LAST_CHECKPOINT, log) if p.exists())


@contextmanager
def _log_aside(root: Path, version: int, last: int) -> Iterator[Path | None]:
    """A folder with links to the log since version `last`; None where links are not possible, or would not do.

    Readers of the table do not look there. What a killed process left is cleared first.
    """
    aside = root / INTERNALS / "checkpoint"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        yield aside if _link_log(root / LOG, aside / LOG, version, last) else None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _link_log(log: Path, into: Path, version: int, last: int) -> bool:
    into.mkdir(parents=True)
    # What `_last_checkpoint` says may be wrong: it is not linked, and without the file that it names all commits are.
    since = last if last < version and (log / f"{last:020d}.checkpoint.parquet").exists() else 0
    # Where there is a checkpoint of this version, even a damaged one, delta-rs writes none.
    there = f"{version:020d}.checkpoint."
    for path in log.iterdir():
        if path.is_dir():
            # The log goes on in further files: delta-rs would not find them from another folder.
            return False
        number = path.name[:20]
        try:
            if number.isdigit() and int(number) >= since and not path.name.startswith(there):
                os.link(path, into / path.name)
        except OSError as exc:
            if exc.errno not in CANNOT_LINK:
                raise
            return False
    return True
