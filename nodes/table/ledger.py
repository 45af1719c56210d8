"""Which source shard went into which rows of which table file.

A *shard* is a Parquet file of a source dataset. The ledger holds, for every file that is or was in
the table, the ordered list of its segments (a shard and its number of rows). A file in a table
never changes, so each entry is a fact about that file; which entries count is decided by the files
that are active in the table's newest version. So a ledger can be written before the commit that
adds its files, and a commit in several parts needs only one ledger.

It lies beside the log as `_voxelflow/ledger/TOKEN.arrow`: the one that counts carries the fencing
token of the last commit:

    commit 7 (token 4)      ledger/4.arrow       counts
    commit 8 (token 5)      ledger/5.arrow       counts from the moment commit 8 is there
    (killed before it)      ledger/6.arrow       never counts, and is deleted after the next commit

A local writer gets its token with the table's lock. In an object store there is no lock: there a writer claims a
token with `TOKEN.token`, which only one can put; of two that commit on top of one version the log refuses one. A ledger
may hold new facts alone and name those that it goes on from: a compaction in many commits writes no fact twice.

When someone else's program rewrote files, the shards that were in them are *absorbed*: their rows
are in the table, it is unknown where, or were deleted. They are not added again, and cannot be taken out
(`nodes.table.provenance` finds them by their ids where somebody asks for it).

Shards whose files another program took out, whether it wrote their rows again or not, are *taken out* until
we add them or leave them out ourselves. One of them that is neither placed nor absorbed was deleted. The ledger
keeps this: the log that shows it may be cleaned.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from engine.declare.datasets import VolumeParquet
from engine.errors import DataError
from engine.storage import arrow_file
from engine.storage.files import remove_partial
from engine.storage.place import Place
from engine.storage.table_lock import INTERNALS
from nodes.table.snapshot import TableVersion
from nodes.volume_file.parts import Part

FORMAT = "2"
_FIRST_FORMAT = "1"
"""It has no column `state`: what is in no file is absorbed."""
_ABSORBED, _TAKEN_OUT, _LEFT_OUT = "absorbed", "taken out", "left out"
_KEY, _AFTER = b"voxelflow.ledger", b"voxelflow.ledger.after"
_CONTENT_NAME = re.compile(r"(?<![0-9a-f])[0-9a-f]{16,}(?![0-9a-f])")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("shard", pa.string()),
        ("bytes", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("rows", pa.int64()),
        ("owner", pa.string()),
        ("state", pa.string()),
    ]
)
_BATCH = 50_000
_FOLDER = f"{INTERNALS}/ledger"


class Shard(NamedTuple):
    """A source file's identity. A name that identifies the content (it has a hash) needs no time and no folder."""

    name: str
    bytes: int
    mtime_ns: int


class Segment(NamedTuple):
    """Consecutive rows of one table file from one shard; `shard` None: unknown."""

    shard: Shard | None
    rows: int


Segments = tuple[Segment, ...]
_Row = tuple[str, str, int, int, int, str, str]


def shard_of(part: Part) -> Shard:
    """The identity of a dataset's Parquet file."""
    name = part.path.rsplit("/", 1)[-1]
    if is_content_named(name):
        return Shard(name, part.bytes, 0)
    return Shard(part.path, part.bytes, part.mtime_ns)


def is_content_named(name: str) -> bool:
    """Whether a file's name identifies its content: it has a hash of 16 digits or more."""
    return _CONTENT_NAME.search(name) is not None


def is_given_once(name: str) -> bool:
    """Whether no other content gets a file's name: it has a hash of its content, or a UUID, as Delta's writers give.

    Decimal digits alone may be a number with zeros before it.
    """
    return _UUID.search(name) is not None or not all(digits.isdecimal() for digits in _CONTENT_NAME.findall(name))


def names_in_table(part: Part) -> list[str]:
    """The names that the part can have in a table, the better one first: no two contents share one."""
    name = part.path.rsplit("/", 1)[-1]
    digest = hashlib.blake2b(repr(tuple(shard_of(part))).encode(), digest_size=16).hexdigest()
    made = f"{name.removesuffix('.parquet')}-{digest}.parquet"
    return [name, made] if is_content_named(name) else [made]


def source_of(folder: str, place: Place) -> str:
    """Who owns the shards of a dataset in `folder`: only its own vanished shards are taken out of the table at `place`.

    Locally it is the folder as seen from the table's: both may be moved or copied together. Elsewhere it is a
    digest: the path of somebody's folder is nothing that a shared table should contain.
    """
    at = place.local_folder
    if at is None:
        return hashlib.blake2b(folder.encode(), digest_size=16).hexdigest()
    return os.path.relpath(folder, at)


def owner_folder(owner: str, place: Place) -> str:
    """The folder of an owner, or a word for it; ledgers of earlier versions name it by its absolute path."""
    at = place.local_folder
    return "another dataset" if at is None else os.path.normpath(os.path.join(at, owner))


def recognise_source(
    ledger: Ledger, dataset: VolumeParquet, shards: Iterable[Shard], place: Place, earlier: Sequence[str] = ()
) -> None:
    """Enter the dataset as the owner of its shards where the ledger knows it by another path.

    That is where the dataset lay before: one of `earlier`. Locally also the absolute one of an earlier version, and one
    that is gone and owns shards that are now the dataset's.
    """
    source, folder = source_of(dataset.uri, place), os.path.abspath(dataset.uri)
    own = {ledger.owners[shard] for shard in shards if shard in ledger.owners}
    before = {source_of(path, place) for path in earlier}

    def is_this(owner: str) -> bool:
        if place.local_folder is None:
            return owner in before
        there = owner_folder(owner, place)
        return there in (folder, *earlier) or (owner in own and not os.path.exists(there))

    same = {owner for owner in set(ledger.owners.values()) - {source} if is_this(owner)}
    if same:
        ledger.owners.update({shard: source for shard, owner in ledger.owners.items() if owner in same})
        ledger.learned = True


@dataclass
class Ledger:
    """`files`: segments by table file; `owners`: the source of each shard; `absorbed`, `taken_out`: see the module.

    `left_out` are shards that we took out ourselves; `learned`: opening it found what it did not say yet.
    """

    files: dict[str, Segments] = field(default_factory=dict)
    owners: dict[Shard, str] = field(default_factory=dict)
    absorbed: set[Shard] = field(default_factory=set)
    taken_out: set[Shard] = field(default_factory=set)
    left_out: set[Shard] = field(default_factory=set)
    learned: bool = False

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

    def rename(self, names: Mapping[Shard, Shard]) -> None:
        """Know shards by other identities from now on."""
        for path, segments in self.files.items():
            if any(s.shard in names for s in segments):
                renamed = (s._replace(shard=names.get(s.shard, s.shard)) if s.shard else s for s in segments)
                self.files[path] = tuple(renamed)
        for some in (self.absorbed, self.taken_out, self.left_out):
            for old in some & names.keys():
                some.discard(old)
                some.add(names[old])
        self.owners = {names.get(shard, shard): owner for shard, owner in self.owners.items()}

    def shards_in(self, files: Iterable[str]) -> set[Shard]:
        return {s.shard for path in files for s in self.files.get(path, ()) if s.shard is not None}


def read_ledger(place: Place, token: int) -> Ledger:
    """The ledger as it was kept for the commit with this token. Raises `DataError` when it is damaged."""
    ledger = Ledger()
    for found in ledgers_up_to(place, token):
        _read_into(ledger, place, found)
    ledger.taken_out |= ledger.absorbed
    return ledger


def write_ledger(table: TableVersion, ledger: Ledger, token: int) -> None:
    """Keep the ledger under `token`, durable. It counts from the moment a commit carries that token."""
    active = {f.path for f in table.files}
    sizes = table.place.sizes()

    def rows() -> Iterator[_Row]:
        for path, segments in ledger.files.items():
            # What vacuum deleted is forgotten here.
            if path in active or sizes(path) is not None:
                yield from (_row(path, segment, ledger.owners) for segment in segments)
        states = {_ABSORBED: ledger.absorbed, _TAKEN_OUT: ledger.taken_out, _LEFT_OUT: ledger.left_out}
        for state, shards in states.items():
            yield from (_row("", Segment(shard, 0), ledger.owners, state) for shard in sorted(shards))

    _write(table.place, token, rows(), ())


def write_news(place: Place, ledger: Ledger, files: Iterable[str], token: int, after: Sequence[int]) -> None:
    """Keep what is known of `files` alone under `token`; the rest is in the ledgers of the tokens `after`."""
    _write(place, token, (_row(path, s, ledger.owners) for path in files for s in ledger.files[path]), after)


def ledgers_up_to(place: Place, token: int) -> tuple[int, ...]:
    """The tokens of the ledgers that together are the one of `token`, the oldest first."""
    # A writer that keeps no ledger may have taken a token: then the last one before it counts.
    newest = max((found for found in _tokens(place) if found <= token), default=None)
    return () if newest is None else (*_after(place, newest), newest)


def forget_ledgers(place: Place) -> None:
    """Delete the ledgers of a local table that is gone: the next one at this place begins anew.

    Elsewhere another writer may be making the table: there each commit has a token of its own, and no ledger
    of a table before it.
    """
    for token in _tokens(place) if place.local_folder is not None else ():
        place.delete(_name(token))


def newest_token(place: Place) -> int:
    """The highest token that a ledger or a claim carries, committed or not; 0 without one."""
    return max(_tokens(place, (".arrow", ".token")), default=0)


def claim_token(place: Place, floor: int) -> int:
    """A token above `floor` that no other writer has or gets, where there is no lock that gives one."""
    token = max(floor, newest_token(place)) + 1
    while not place.put_if_absent(_name(token, ".token"), b"claimed"):
        token += 1
    return token


def drop_old_ledgers(place: Place, committed: int) -> None:
    """Delete the ledgers and claims that a committed one replaces, and what killed writers left.

    A writer that still needs one of them planned on an older version, and will be refused.
    """
    if (folder := place.local_folder) is not None:
        remove_partial(folder / _FOLDER)
    needed = set(ledgers_up_to(place, committed))
    for token in _tokens(place):
        if token < committed and token not in needed:
            place.delete(_name(token))
    for token in _tokens(place, (".token",)):
        if token <= committed:
            place.delete(_name(token, ".token"))


def _write(place: Place, token: int, rows: Iterator[_Row], after: Sequence[int]) -> None:
    schema = _SCHEMA.with_metadata({_KEY: FORMAT.encode(), _AFTER: json.dumps(list(after)).encode()})

    def fill(sink: pa.NativeFile) -> None:
        with arrow_file.new_file(sink, schema) as writer:
            while batch := list(islice(rows, _BATCH)):
                arrays = [pa.array(c, t) for c, t in zip(zip(*batch, strict=True), schema.types, strict=True)]
                writer.write_batch(pa.record_batch(arrays, schema=schema))

    place.write(_name(token), fill)


def concatenate(parts: Iterable[Segments]) -> Segments:
    """Segments of files written one after the other; neighbours of one shard become one."""
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


def _row(path: str, segment: Segment, owners: Mapping[Shard, str], state: str = "") -> _Row:
    shard = segment.shard or Shard("", 0, 0)
    return path, *shard, segment.rows, owners.get(shard, ""), state


def _name(token: int, ending: str = ".arrow") -> str:
    return f"{_FOLDER}/{token:020d}{ending}"


def _tokens(place: Place, endings: tuple[str, ...] = (".arrow",)) -> list[int]:
    names = (name.rpartition(".") for name in place.names(_FOLDER) if name.endswith(endings))
    return sorted(int(stem) for stem, _, _ in names if stem.isdigit())


@contextmanager
def _opened(place: Place, token: int) -> Iterator[pa.RecordBatchFileReader]:
    name = _name(token)
    try:
        yield arrow_file.open_file(pa.py_buffer(place.read(name)))
    except (OSError, KeyError, ValueError, pa.ArrowException) as exc:
        raise DataError(
            f"{place.path(name)} is damaged: {exc}",
            hint="Choose a new folder for the table, or make it again with existing=replace after deleting that file.",
        ) from exc


def _after(place: Place, token: int) -> tuple[int, ...]:
    with _opened(place, token) as source:
        metadata = source.schema.metadata or {}
        if metadata.get(_KEY) not in (FORMAT.encode(), _FIRST_FORMAT.encode()):
            raise DataError(f"{place.path(_name(token))} was written by a newer Voxelflow", hint="Update Voxelflow.")
        return tuple(int(token) for token in json.loads(metadata.get(_AFTER, b"[]")))


def _read_into(ledger: Ledger, place: Place, token: int) -> None:
    # One text for a name, wherever it is: with one file per volume, names are most of the memory.
    texts: dict[str, str] = {}
    states = {_ABSORBED: ledger.absorbed, _TAKEN_OUT: ledger.taken_out, _LEFT_OUT: ledger.left_out}
    last: tuple[str, list[Segment]] = "", []

    def end_of_file() -> None:
        if last[0]:
            ledger.files[last[0]] = tuple(last[1])

    with _opened(place, token) as batches:
        for number in range(batches.num_record_batches):
            batch = batches.get_batch(number)
            columns = [batch.column(name).to_pylist() for name in _SCHEMA.names if name in batch.schema.names]
            if len(columns) < len(_SCHEMA.names):
                columns.append([_ABSORBED] * batch.num_rows)
            for file, name, size, mtime_ns, rows, owner, state in zip(*columns, strict=True):
                shard = None
                if name:
                    shard = Shard(texts.setdefault(name, name), size, mtime_ns)
                    ledger.owners[shard] = sys.intern(owner)
                if not file:
                    if shard is not None:
                        states[state].add(shard)
                elif file == last[0]:
                    last[1].append(Segment(shard, rows))
                else:
                    end_of_file()
                    last = texts.setdefault(file, file), [Segment(shard, rows)]
    end_of_file()
