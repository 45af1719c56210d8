"""From which shards a table's rows come now: its ledger, and what other programs did since our last commit.

Others delete rows, or write them again in files of their own. One rule holds for what they delete: it stays deleted,
be it some rows of a file, a whole file or all of them, by a DELETE, by an overwrite or by going back to an older
version. A file that is new, or changed since, comes. `deleted_rows="restore"` brings back what was deleted. A
compaction deletes nothing.

Deleted are the rows of shards that the ledger calls taken out (`nodes.table.ledger`) and that are in no file it knows.
Of absorbed shards it is unknown row by row until their ids are read: they count as present, and the number of rows that
the table lacks at least is reported.

Tables that an earlier version filled in an object store have another scheme (see `_learn_older`). It is read, and from
the first change on the ledger takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import DataError, StaleInput, TableConflict, first_line
from engine.storage.place import Place
from engine.storage.table_lock import INTERNALS
from engine.text import plural
from nodes.table.ledger import (
    Ledger,
    Segment,
    Segments,
    Shard,
    concatenate,
    is_content_named,
    names_in_table,
    read_ledger,
    shard_of,
)
from nodes.table.log import actions, doubled_rows, has_commit, last_writer, removed_alone
from nodes.table.snapshot import TableFile, TableVersion, active_paths, load_delta, open_table
from nodes.volume_file.parts import Part
from nodes.volume_file.rewrite import PREFIX

OLDER_SOURCE = "voxelflow.source"
"""Property of a table that an earlier version filled in an object store: the digest of the one dataset in it."""
HOW_TO_RESTORE = "Set deleted_rows to restore to bring them back."


def open_ledger(table: TableVersion) -> Ledger:
    """The ledger as of this version, the newest, with what other programs did to the shards since our last commit.

    Raises `DataError` when the ledger is damaged, `TableConflict` when the table has a newer version: then ledgers
    that this one needs may be gone.
    """
    try:
        ledger = _open(table)
    except (DataError, StaleInput):
        _refuse_newer(table)
        raise
    _refuse_newer(table)
    return ledger


def _refuse_newer(table: TableVersion) -> None:
    if has_commit(table.place, table.version + 1):
        raise TableConflict(f"the table {table.place} changed while it was read", hint="Run it again.")


def _open(table: TableVersion) -> Ledger:
    place = table.place
    ledger = read_ledger(place, table.token)
    known = len(ledger.taken_out), len(ledger.absorbed)
    commit, before = _older_commit(ledger, table) if _is_older(table) else _last_commit(table)
    active = {f.path for f in table.files}
    if before != active and (doubled := doubled_rows(place, max(commit, 0), table.version, active)):
        raise doubled.error(place)
    placed = ledger.placed(active).keys()
    strangers = active - ledger.files.keys()
    if before is None:
        # The log was cleaned: what we did not take out ourselves, others did.
        gone = ledger.shards_in(ledger.files) - placed - ledger.left_out - ledger.taken_out
        ledger.taken_out |= gone
        # Rows can only have moved into files that are new since our last commit.
        ledger.absorbed |= gone if strangers else set()
    elif before != active:
        ledger.taken_out |= ledger.shards_in(before - active)
        if strangers - before:
            alone = removed_alone(place, commit, table.version)
            ledger.absorbed |= ledger.shards_in(before - active - alone)
    ledger.learned |= known != (len(ledger.taken_out), len(ledger.absorbed))
    if strangers or any(s.shard is None for path in active for s in ledger.files[path]):
        ledger.absorbed -= placed
    else:
        # All rows are accounted for: those rewritten by others were put back (a restore), or deleted.
        ledger.absorbed.clear()
    return ledger


def _last_commit(table: TableVersion) -> tuple[int, set[str] | None]:
    """Our last commit and the files active then; None when the log no longer has it."""
    found = last_writer(table.place, table.version)
    if found is None:
        return -1, None
    if found[0] == table.version:
        return table.version, {f.path for f in table.files}
    try:
        return found[0], active_paths(load_delta(table.place, found[0]))
    except (DataError, StaleInput):
        return found[0], None


# --- rows of unknown origin, and deleted ones ---------------------------------------------------


def learn_origins(table: TableVersion, ledger: Ledger, folder: Place, parts: Iterable[Part]) -> None:
    """Let the ledger know of the rows of unknown origin which of them come from these parts, which lie in `folder`.

    The ids of a dataset are unique. So a row whose id a shard has is that shard's, provided that the shard was in the
    table before; what no shard has came from elsewhere. Reads the id columns of the files that are in doubt, on both
    sides. Afterwards none of these shards is absorbed: what is not placed was deleted. Raises `DataError` for a file
    that cannot be read.
    """
    placed = ledger.placed(f.path for f in table.files)
    doubtful = {
        shard: part
        for part in parts
        if (shard := shard_of(part)) in ledger.absorbed
        or (shard in ledger.taken_out and 0 < placed.get(shard, 0) < part.rows)
    }
    unknown = [f for f in table.files if any(s.shard is None for s in ledger.segments(f.path, f.rows))]
    if doubtful and unknown:
        theirs = [ids_in(folder, part.path, part.bytes) for part in doubtful.values()]
        value_set = pa.concat_arrays(theirs)
        origins = [shard for shard, ids in zip(doubtful, theirs, strict=True) for _ in range(len(ids))]
        for file in unknown:
            found = pc.index_in(ids_in(table.place, file.path, file.bytes), value_set=value_set).to_pylist()
            by_row = [None if number is None else origins[number] for number in found]
            ledger.files[file.path] = concatenate([tuple(_filled(ledger.segments(file.path, file.rows), by_row))])
        ledger.learned = True
    ledger.absorbed -= doubtful.keys()


def _filled(segments: Segments, by_row: list[Shard | None]) -> Iterator[Segment]:
    first = 0
    for segment in segments:
        last = first + segment.rows
        if segment.shard is not None:
            yield segment
        else:
            for shard, rows in groupby(by_row[first:last]):
                yield Segment(shard, len(list(rows)))
        first = last


def ids_in(place: Place, path: str, size: int) -> pa.Array:
    """The ids in a Parquet file of `size` bytes, in their order. Raises `DataError` when it cannot be read."""
    try:
        with pq.ParquetFile(place.open(path, size), page_checksum_verification=True) as file:
            found = file.read(columns=["id"], use_threads=False)["id"]
    except (OSError, KeyError, pa.ArrowException) as exc:
        hint = "Run the node that made it again."
        raise DataError(f"the ids in {place.path(path)} cannot be read: {first_line(exc)}", hint=hint) from exc
    # Other writers have them as string views, which Arrow does not compare.
    return found.cast(pa.string()).combine_chunks()


@dataclass(frozen=True)
class Deleted:
    """The dataset's rows that others deleted, at least so many, and of how many of its files.

    `moved` counts the files whose rows another program wrote again: it is unknown where, and whether all of them.
    """

    rows: int = 0
    files: int = 0
    moved: int = 0

    def messages(self, *, restored: bool) -> list[str]:
        """What a person should know; empty when nothing was deleted."""
        rows, files = plural(self.rows, "rows"), plural(self.files, "files")
        if not self.rows:
            return []
        if restored:
            return [f"what other programs deleted from the table comes back: {rows} of {files}"]
        if self.moved:
            return [
                f"what other programs deleted stays out of the table: at least {rows}, deleted or left out when rows"
                f" of {files} were written again. {HOW_TO_RESTORE}"
            ]
        return [f"what other programs deleted stays out of the table: {rows} of {files}. {HOW_TO_RESTORE}"]


def deleted_shards(ledger: Ledger, shards: Mapping[Shard, Part], placed: Mapping[Shard, int]) -> set[Shard]:
    """The shards of which others took out all rows, or some, and did not write them again as far as is known."""
    known = ledger.taken_out - ledger.absorbed
    return {s for s in known if s in shards and placed.get(s, 0) < shards[s].rows}


def count_deleted(
    table: TableVersion,
    ledger: Ledger,
    shards: Mapping[Shard, Part],
    placed: Mapping[Shard, int],
    deleted: set[Shard],
) -> Deleted:
    """How much of the dataset others deleted. Rows of unknown origin in the table may be what seems to lack."""
    unknown = sum(s.rows for f in table.files for s in ledger.segments(f.path, f.rows) if s.shard is None)
    doubtful: set[Shard] = set()
    if unknown:
        doubtful = {s for s in deleted if s in placed} | (ledger.absorbed & shards.keys())

    def lacking(some: set[Shard]) -> int:
        return sum(shards[s].rows - placed.get(s, 0) for s in some)

    rows = lacking(deleted - doubtful) + max(0, lacking(doubtful) - unknown)
    return Deleted(rows, len(deleted | doubtful), len(doubtful))


# --- tables that an earlier version filled in an object store ------------------------------------


def _is_older(table: TableVersion) -> bool:
    return OLDER_SOURCE in table.properties and not table.token


def _older_commit(ledger: Ledger, table: TableVersion) -> tuple[int, set[str] | None]:
    """As `_last_commit`; and the ledger learns what the older scheme says of the files active then."""
    for version in range(table.version, -1, -1):
        try:
            is_ours = any("voxelflow.node" in action for action in actions(table.place, version, "commitInfo"))
        except FileNotFoundError:
            break
        if is_ours:
            files = table.files if version == table.version else open_table(table.place, version).files
            _learn_older(ledger, table, files)
            return version, {f.path for f in files}
    _learn_older(ledger, table, table.files)
    return -1, None


def _learn_older(ledger: Ledger, table: TableVersion, files: Iterable[TableFile]) -> None:
    """Enter what is known of `files` and of deleted ones. Here a shard has the name that its part was uploaded under.

    The name of an uploaded file identifies its content, and so its shard. Of a compacted one
    `_voxelflow/origins/NAME.json` lists the files that it was made of; the log says how many rows each had. Each commit
    of others that removed files has a note `_voxelflow/taken_out/VERSION.json`, and one by which we brought some back.
    """
    place, source = table.place, table.properties[OLDER_SOURCE] or ""

    @cache
    def uploaded() -> dict[str, tuple[int, int]]:
        return dict(_added(place, table.version))

    def enter(path: str, segments: Segments) -> None:
        ledger.files[path] = segments
        ledger.owners.update({s.shard: source for s in segments if s.shard is not None})
        ledger.learned = True

    for file in files:
        if file.path in ledger.files or not is_content_named(file.path):
            continue
        # Where rows cannot be assigned the file as a whole is a shard that the dataset lacks: it goes at the next
        # fill, and its parts come again.
        whole = (Segment(Shard(file.path, file.bytes, 0), file.rows),)
        if not file.path.startswith(PREFIX):
            enter(file.path, whole)
        elif (origins := _json(place, f"origins/{file.path}.json")) is not None:
            known = [(name, *uploaded().get(name, (0, 0))) for name in origins]
            counted = all(rows for _, _, rows in known) and sum(rows for _, _, rows in known) == file.rows
            enter(file.path, tuple(Segment(Shard(n, size, 0), rows) for n, size, rows in known) if counted else whole)
    for name in sorted(place.names(f"{INTERNALS}/taken_out")):
        fact = _json(place, f"taken_out/{name}") or {"what": "", "files": []}
        shards = {Shard(path, uploaded().get(path, (0, 0))[0], 0) for path in fact["files"]}
        for some in (ledger.taken_out, ledger.absorbed):
            some -= shards
        ledger.taken_out |= shards if fact["what"] in ("deleted", "moved") else set()
        ledger.absorbed |= shards if fact["what"] == "moved" else set()
        ledger.owners.update(dict.fromkeys(shards, source))


def know_uploaded_parts(ledger: Ledger, parts: Iterable[Part]) -> None:
    """Know the shards of an older table, which have the names of uploaded files, by the parts that they came from."""
    by_name = {name: shard_of(part) for part in parts for name in (*names_in_table(part), _older_name(part))}
    renamed = {s: by_name[s.name] for s in ledger.owners if by_name.get(s.name, s) != s}
    if renamed:
        ledger.rename(renamed)
        ledger.learned = True


def _older_name(part: Part) -> str:
    return names_in_table(part)[-1].removeprefix(PREFIX)


def _added(place: Place, version: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Bytes and rows of all files that commits up to `version` added, as far as the log still has them."""
    for current in range(version + 1):
        try:
            for action in actions(place, current, "add"):
                rows = json.loads(action.get("stats") or "{}").get("numRecords", 0)
                yield unquote(str(action["path"])), (int(action["size"]), int(rows))
        except FileNotFoundError:
            continue


def _json(place: Place, name: str) -> Any:
    try:
        return json.loads(bytes(place.read(f"{INTERNALS}/{name}")))
    except (FileNotFoundError, ValueError):
        return None
