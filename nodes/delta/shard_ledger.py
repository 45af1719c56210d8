"""Which source shard went into which rows of which table file.

A *shard* is a Parquet file of a source dataset. The ledger holds, for every file that is or was in
the table, the ordered list of its segments (a shard and its number of rows). A file in a table
never changes, so each entry is a fact about that file; which entries count is decided by the files
that are active in the table's newest version. So a ledger can be written before the commit that
adds its files, and a commit in several parts needs only one ledger.

It lies beside the log as `_voxelflow/ledger/TOKEN.arrow`: the one that counts carries the fencing
token of the last commit. One may hold new facts alone and name those that it goes on from: a compaction in many
commits writes no fact twice.

When someone else's program rewrote files, the shards that were in them are *absorbed*: their rows
are in the table, nobody knows where. They are not added again, and cannot be taken out.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from engine.datasets import VolumeParquet
from engine.errors import DataError
from engine.table_lock import INTERNALS
from nodes.delta.delta_log import last_writer
from nodes.delta.delta_table import TableVersion, active_paths, load_delta
from nodes.durable_files import flush
from nodes.volume_parts import Part

FORMAT = "1"
_KEY, _AFTER = b"voxelflow.ledger", b"voxelflow.ledger.after"
_CONTENT_NAME = re.compile(r"(?<![0-9a-f])[0-9a-f]{16,}(?![0-9a-f])")
_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("shard", pa.string()),
        ("bytes", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("rows", pa.int64()),
        ("owner", pa.string()),
    ]
)
_BATCH = 50_000


class Shard(NamedTuple):
    """A source file's identity. A name that tells the content (it holds a hash) needs no time and no folder."""

    name: str
    bytes: int
    mtime_ns: int


class Segment(NamedTuple):
    """Consecutive rows of one table file from one shard; `shard` None: nobody knows from where."""

    shard: Shard | None
    rows: int


Segments = tuple[Segment, ...]
_Row = tuple[str, str, int, int, int, str]


def shard_of(part: Part) -> Shard:
    name = part.path.rsplit("/", 1)[-1]
    if is_content_named(name):
        return Shard(name, part.bytes, 0)
    return Shard(part.path, part.bytes, part.mtime_ns)


def is_content_named(name: str) -> bool:
    return _CONTENT_NAME.search(name) is not None


def source_of(dataset: VolumeParquet) -> str:
    """Who owns the shards of this dataset: only its own vanished shards are taken out of a table."""
    return dataset.uri


@dataclass
class Ledger:
    """`files`: segments by table file; `owners`: the source of each shard; `absorbed`: see the module."""

    files: dict[str, Segments] = field(default_factory=dict)
    owners: dict[Shard, str] = field(default_factory=dict)
    absorbed: set[Shard] = field(default_factory=set)

    def segments(self, path: str, rows: int) -> Segments:
        """The file's segments; one of unknown origin when the ledger does not know the file."""
        return self.files.get(path) or (Segment(None, rows),)

    def placed(self, active: Iterable[str]) -> dict[Shard, int]:
        """The shards that are in these files, with the number of their rows there."""
        out: dict[Shard, int] = {}
        for path in active:
            for shard, rows in self.files.get(path, ()):
                if shard is not None:
                    out[shard] = out.get(shard, 0) + rows
        return out


def open_ledger(table: TableVersion) -> Ledger:
    """The ledger as of this version, with the shards absorbed by rewrites of others since the last commit of ours.

    Raises `DataError` when the ledger is damaged.
    """
    ledger = _read_newest(table.root, table.token)
    active = {f.path for f in table.files}
    strangers = active - ledger.files.keys()
    if strangers:
        before = _files_at_last_commit(table)
        # Rows can only have moved into files that are new since our last commit.
        if before is None or strangers - before:
            then = ledger.placed(before if before is not None else ledger.files)
            ledger.absorbed |= then.keys()
    if strangers or any(s.shard is None for path in active for s in ledger.files[path]):
        ledger.absorbed -= ledger.placed(active).keys()
    else:
        # All rows are accounted for: those rewritten by others are gone again (a restore).
        ledger.absorbed.clear()
    return ledger


def write_ledger(table: TableVersion, ledger: Ledger, token: int) -> None:
    """Keep the ledger under `token`, durable. It counts from the moment a commit carries that token."""
    active = {f.path for f in table.files}

    def rows() -> Iterator[_Row]:
        for path, segments in ledger.files.items():
            # What vacuum deleted is forgotten here.
            if path in active or os.path.exists(f"{table.root}/{path}"):
                yield from (_row(path, segment, ledger.owners) for segment in segments)
        yield from (_row("", Segment(shard, 0), ledger.owners) for shard in sorted(ledger.absorbed))

    _write(table.root, token, rows(), ())


def write_news(root: Path, ledger: Ledger, files: Iterable[str], token: int, after: Sequence[int]) -> None:
    """Keep what is known of `files` alone under `token`; the rest stands in the ledgers of the tokens `after`."""
    _write(root, token, (_row(path, s, ledger.owners) for path in files for s in ledger.files[path]), after)


def ledgers_up_to(root: Path, token: int) -> tuple[int, ...]:
    """The tokens of the ledgers that together are the one of `token`, the oldest first."""
    newest = _newest(root, token)
    return () if newest is None else (*_after(_path(root, newest)), newest)


def drop_old_ledgers(root: Path, committed: int) -> None:
    """Delete the ledgers that a committed one replaces."""
    needed = set(ledgers_up_to(root, committed))
    for token in _tokens(root):
        if token < committed and token not in needed:
            _path(root, token).unlink(missing_ok=True)


def _write(root: Path, token: int, rows: Iterator[_Row], after: Sequence[int]) -> None:
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    target = _path(root, token)
    temporary = target.with_suffix(".tmp")
    schema = _SCHEMA.with_metadata({_KEY: FORMAT.encode(), _AFTER: json.dumps(list(after)).encode()})
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            arrays = [pa.array(c, t) for c, t in zip(zip(*batch, strict=True), schema.types, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    flush([temporary])
    temporary.replace(target)
    flush([folder])


def concatenate(parts: Iterable[Segments]) -> Segments:
    """Segments of files written one behind the other; neighbours of one shard become one."""
    out: list[Segment] = []
    for segment in (s for part in parts for s in part):
        if out and out[-1].shard == segment.shard:
            out[-1] = Segment(segment.shard, out[-1].rows + segment.rows)
        elif segment.rows:
            out.append(segment)
    return tuple(out)


def cut(segments: Segments, lengths: Iterable[int]) -> list[Segments]:
    """The segments of consecutive files with `lengths` rows that together hold `segments`."""
    out: list[Segments] = []
    left = list(reversed(segments))
    for length in lengths:
        file: list[Segment] = []
        while length:
            segment = left.pop()
            taken = min(length, segment.rows)
            file.append(Segment(segment.shard, taken))
            if segment.rows > taken:
                left.append(Segment(segment.shard, segment.rows - taken))
            length -= taken
        out.append(tuple(file))
    return out


def _row(path: str, segment: Segment, owners: Mapping[Shard, str]) -> _Row:
    shard = segment.shard or Shard("", 0, 0)
    return path, *shard, segment.rows, owners.get(shard, "")


def _folder(root: Path) -> Path:
    return root / INTERNALS / "ledger"


def _path(root: Path, token: int) -> Path:
    return _folder(root) / f"{token:020d}.arrow"


def _tokens(root: Path) -> list[int]:
    return sorted(int(p.stem) for p in _folder(root).glob("*.arrow") if p.stem.isdigit())


def _newest(root: Path, token: int) -> int | None:
    # A writer that keeps no ledger may have taken a token: then the last one before it counts.
    return max((found for found in _tokens(root) if found <= token), default=None)


def _read_newest(root: Path, token: int) -> Ledger:
    ledger = Ledger()
    for found in ledgers_up_to(root, token):
        _read_into(ledger, _path(root, found))
    return ledger


def _after(path: Path) -> tuple[int, ...]:
    with _told(path), pa.memory_map(str(path)) as source:
        metadata = pa.ipc.open_file(source).schema.metadata or {}
        if metadata.get(_KEY) != FORMAT.encode():
            raise DataError(f"{path} was written by a newer Voxelflow", hint="Update Voxelflow.")
        return tuple(int(token) for token in json.loads(metadata.get(_AFTER, b"[]")))


def _read_into(ledger: Ledger, path: Path) -> None:
    # One text for a name, wherever it stands: with a file a volume, names are most of what is held.
    texts: dict[str, str] = {}
    last: tuple[str, list[Segment]] = "", []

    def end_of_file() -> None:
        if last[0]:
            ledger.files[last[0]] = tuple(last[1])

    with _told(path), pa.memory_map(str(path)) as source:
        batches = pa.ipc.open_file(source)
        for number in range(batches.num_record_batches):
            batch = batches.get_batch(number)
            columns = [batch.column(name).to_pylist() for name in _SCHEMA.names]
            for file, name, size, mtime_ns, rows, owner in zip(*columns, strict=True):
                shard = None
                if name:
                    shard = Shard(texts.setdefault(name, name), size, mtime_ns)
                    ledger.owners[shard] = sys.intern(owner)
                if not file:
                    if shard is not None:
                        ledger.absorbed.add(shard)
                elif file == last[0]:
                    last[1].append(Segment(shard, rows))
                else:
                    end_of_file()
                    last = texts.setdefault(file, file), [Segment(shard, rows)]
    end_of_file()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, ValueError, pa.ArrowException) as exc:
        raise DataError(
            f"{path} is damaged: {exc}",
            hint="Choose a new folder for the table, or make it again with existing=replace after deleting that file.",
        ) from exc


def _files_at_last_commit(table: TableVersion) -> set[str] | None:
    found = last_writer(table.root, table.version)
    if found is None:
        return None
    if found[0] == table.version:
        return {f.path for f in table.files}
    return active_paths(load_delta(table.root, found[0]))
