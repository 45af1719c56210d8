"""Makes one Parquet part from one chunk of rows; the inner loop of every node that makes volumes.

Where the rows come from, a `RowSource` says: files (`convert`), or whatever another node makes volumes of.

A part's name is a hash of the rows that went into it, the spec and the layout. So whichever process makes it
makes the same bytes: a resumed run finds finished parts, runs that contend do no harm, and a part
that is whole is never written again. Nothing appears under its name before it is whole and on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nodes.conversion.part_store import Outcome, PartStore, Rejected
from nodes.conversion.quarantine import Refused
from nodes.volume_file.new_files import FileLayout
from nodes.volume_file.parts import Part


@dataclass(frozen=True)
class Layout(FileLayout):
    """How parts look; `columns` are in the order of the values that `RowReader.fill` gives.

    `finite` says whether volumes with a NaN or an infinity are refused.
    """

    finite: bool = field(kw_only=True)


class Row(NamedTuple):
    """A row to be made. `key` says what it is made of, `stamp` in which state that is: both identify its volume.

    For a file they are its path, as the file system spells it, and its size and time. `key` is different for each row
    of a dataset. `id`, `label` and `columns` are what is known of the row before its volume is read. `at` says where
    that lies now, in the words of its source: it may change, as when a table is compacted, and the row is the same.
    """

    key: str
    id: str
    stamp: tuple[int | str, ...]
    label: float | None
    columns: tuple[Any, ...] = ()
    at: int = -1


class RowReader(Protocol):
    """Fills the volumes of rows, one after the other; each thread has its own."""

    def expect(self, rows: Sequence[Row]) -> None:
        """Announce the rows of a chunk; all of them are asked for next, in this order. The time to read ahead."""

    def fill(self, row: Row, volume: NDArray[np.uint8]) -> tuple[float | None, Sequence[Any]]:
        """Fill `volume` (1-D, `spec.volume_bytes`, C order, little-endian); give the row's label and `Layout.columns`.

        What it gives must follow from the row and `RowSource.key` alone. Raises `Refused`: then the row is left out,
        and listed with the reason.
        """


class RowSource(Protocol):
    """What rows are made of. It is pickled: other threads, processes and machines read with it."""

    @property
    def noun(self) -> str:
        """What its rows are, for people: files, patches."""

    def key(self) -> Sequence[str]:
        """What the volumes depend on besides the rows and the layout: it enters the names of parts."""

    def open(self, layout: Layout) -> RowReader:
        """A reader of rows for parts of that layout."""

    def reader_bytes(self, layout: Layout) -> int:
        """Memory for data that a `RowReader` takes."""


class PartWriter:
    """Makes chunks one after another; each thread has its own.

    Memory for data: `Layout.writer_bytes` and `RowSource.reader_bytes`.
    """

    def __init__(
        self, source: RowSource, store: PartStore, layout: Layout, commit_point: Callable[[str], None]
    ) -> None:
        self._store, self._layout, self._commit_point = store, layout, commit_point
        self._reader = source.open(layout)
        self._key = [layout.key(), *source.key()]
        self._open = layout.opener()

    def make(self, rows: Sequence[Row], progress: Callable[[int], None], stopped: Callable[[], bool]) -> Outcome | None:
        """Make the part of `rows`, or find it made. None: `stopped` said so on the way.

        `progress` gets how many more rows were dealt with, each time a row group is full.
        """
        # What counts as refused belongs to the chunk's key; a part's bytes depend on its rows alone.
        text = _text(rows)
        key = _digest([*self._key, str(self._layout.finite)], text)
        if outcome := self._store.recall(key):
            progress(len(rows))
            return outcome
        temporary = self._store.temporary(key)
        try:
            written = self._write(rows, temporary, progress, stopped)
            if written is None:
                return None
            rejected, labels = written
            if rejected:
                refused = {r.place for r in rejected}
                rows = [row for place, row in enumerate(rows) if place not in refused]
                text = _text(rows)
            part = self._publish(rows, text, labels, temporary) if rows else None
            outcome = Outcome(part=part, rejected=tuple(rejected))
            self._store.remember(key, outcome)
            return outcome
        finally:
            temporary.unlink(missing_ok=True)

    def _write(
        self, rows: Sequence[Row], temporary: Path, progress: Callable[[int], None], stopped: Callable[[], bool]
    ) -> tuple[list[Rejected], list[float]] | None:
        """The refused rows, and the labels of the others."""
        rejected: list[Rejected] = []
        labels: list[float] = []
        reported = 0
        group_rows = self._layout.group_rows
        self._reader.expect(rows)
        with contextlib.closing(self._open(temporary)) as out:
            for place, row in enumerate(rows):
                if out.is_between_groups:
                    coming = rows[place : place + group_rows]
                    out.expect([r.id for r in coming], [r.label for r in coming])
                try:
                    label, columns = self._reader.fill(row, out.buffer())
                except Refused as refused:
                    rejected.append(Rejected(place=place, reason=refused.reason, sentence=refused.message))
                    continue
                if label is not None:
                    labels.append(label)
                if out.keep(row.id, label, columns):
                    progress(place + 1 - reported)
                    reported = place + 1
                    if stopped():
                        return None
            out.finish()
        progress(len(rows) - reported)
        return rejected, labels

    def _publish(self, rows: Sequence[Row], text: bytes, labels: Sequence[float], temporary: Path) -> Part:
        name = f"{_digest(self._key, text)}.parquet"
        self._commit_point("parquet:part-written")
        found = self._store.publish(temporary, name)
        self._commit_point("parquet:part-renamed")
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


def _text(rows: Sequence[Row]) -> bytes:
    """All of the rows that identifies a part of them."""
    # No key holds a zero byte. One text for all: measured, a sixth of the time of one JSON list a row.
    form = "\0".join(["%s"] * (2 + len(rows[0].stamp))) if rows else ""
    text = "\0".join([form % (r.key, *r.stamp, r.label) for r in rows])
    if any(r.columns for r in rows):
        text += json.dumps([r.columns for r in rows], default=str)
    return text.encode()


def _digest(head: Sequence[str], text: bytes) -> str:
    out = hashlib.blake2b(json.dumps(head).encode(), digest_size=16)
    out.update(text)
    return out.hexdigest()
