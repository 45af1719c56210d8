"""What must change in a table so that it holds a Parquet dataset: decided by the ledger, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from engine.errors import DataError, StaleInput
from engine.storage.local_place import LocalPlace
from nodes.table import Mode
from nodes.table.check import damaged_files
from nodes.table.ingest_checks import Wanted
from nodes.table.ledger import (
    Ledger,
    Segment,
    Segments,
    Shard,
    names_in_table,
    owner_folder,
    recognise_source,
    shard_of,
    source_of,
)
from nodes.table.provenance import (
    OLDER_SOURCE,
    Deleted,
    count_deleted,
    deleted_shards,
    know_uploaded_parts,
    learn_origins,
)
from nodes.table.snapshot import TableFile, TableVersion
from nodes.volume_file.parts import Part


@dataclass
class Work:
    """Parts to add, table files to take out, and files to write again without the rows of `gone`."""

    adds: list[Part] = field(default_factory=list)
    drops: list[TableFile] = field(default_factory=list)
    trims: list[TableFile] = field(default_factory=list)
    gone: set[Shard] = field(default_factory=set)
    gone_unknown: bool = False
    """Whether rows of unknown origin go too."""
    adopted: bool = False
    """Whether the ledger learned of files that it had lost."""
    restores: list[tuple[Part, TableFile]] = field(default_factory=list)
    """Damaged files of the table that get the bytes of their part again; no commit says so, since nothing changes."""
    deleted: Deleted = field(default_factory=Deleted)
    whole: set[Shard] = field(default_factory=set)
    """Shards that other programs once took out, and that are there in full."""

    def __bool__(self) -> bool:
        return bool(self.adds or self.drops or self.trims)

    def goes(self, segment: Segment) -> bool:
        return self.gone_unknown if segment.shard is None else segment.shard in self.gone


def plan_work(table: TableVersion, ledger: Ledger, wanted: Wanted) -> Work:
    """Compare the dataset with what the ledger says is in the table.

    With `existing` "keep" only shards of the same source are taken out when they vanished. What other programs
    deleted stays out unless `deleted_rows` is "restore" (`nodes.table.provenance`). Raises `StaleInput` when a
    shard that must go was moved to unknown rows by another program, `DataError` when a file is damaged whose rows
    the dataset does not have.
    """
    shards = {shard_of(p): p for p in wanted.parts}
    if len(shards) < len(wanted.parts):
        raise DataError(f"{wanted.dataset.uri} lists two files of one name", hint="Give each a name of its own.")
    if OLDER_SOURCE in table.properties:
        know_uploaded_parts(ledger, wanted.parts)
    recognise_source(ledger, wanted.dataset, shards, table.place, wanted.earlier_folders)
    adopted = _adopt(table, ledger, wanted)
    restore = wanted.deleted_rows == "restore"
    if restore != (wanted.existing == "replace"):
        # What comes back must not be there already; what replaces all other rows must know the dataset's own.
        learn_origins(table, ledger, LocalPlace(wanted.folder), wanted.parts)
    placed = ledger.placed(f.path for f in table.files)
    deleted = deleted_shards(ledger, shards, placed)
    work = Work(gone_unknown=wanted.existing == "replace", adopted=adopted)
    work.deleted = count_deleted(table, ledger, shards, placed, deleted)
    if wanted.existing == "replace":
        ledger.absorbed.clear()
        work.gone = placed.keys() - shards.keys()
    else:
        source = source_of(wanted.dataset.uri, table.place)
        known = placed.keys() | ledger.absorbed
        work.gone = {s for s in known - shards.keys() if ledger.owners.get(s) == source}
        if lost := sorted(work.gone & ledger.absorbed):
            raise StaleInput(
                f"{lost[0].name} changed or vanished, but another program has rewritten the table {table.place},"
                " so that it is unknown which rows came from it",
                hint="Set existing to replace, which takes those rows out, or choose a new table. With deleted_rows"
                " restore as well the table is filled again.",
                parameter="existing",
            )
    # A shard of which rows lack, or are there twice: what there is of it goes, all of it comes.
    wrong = {s for s, p in shards.items() if placed.get(s, p.rows) != p.rows}
    work.gone |= wrong if restore else wrong - deleted
    work.whole = {s for s in ledger.taken_out if s in shards and placed.get(s) == shards[s].rows}
    _repair(table, ledger, wanted, shards, work, cut=set() if restore else deleted)
    for file in table.files:
        going = [work.goes(s) for s in ledger.segments(file.path, file.rows)]
        if all(going):
            work.drops.append(file)
        elif any(going):
            work.trims.append(file)
    there = placed.keys() | ledger.absorbed | (set() if restore else deleted)
    work.adds = [p for s, p in shards.items() if s in work.gone or s not in there]
    return work


def _repair(
    table: TableVersion, ledger: Ledger, wanted: Wanted, shards: Mapping[Shard, Part], work: Work, *, cut: Set[Shard]
) -> None:
    """Enter into `work` what makes the table's damaged files right. Of the shards in `cut` others deleted rows.

    A file that is one part gets the part's bytes again. Of one that was made of several, what is in the dataset
    comes again as parts of its own.
    """
    for file, problem in damaged_files(table.place, table.files):
        segments = ledger.segments(file.path, file.rows)
        if all(work.goes(s) for s in segments):
            continue
        if shortened := sorted({s.shard for s in segments if s.shard in cut and s.shard is not None}):
            raise DataError(
                f"{file.path} of the table {table.place} {problem}. Other programs deleted some of the rows that came"
                f" from {shortened[0].name}, so which of them were in this file is not known",
                hint="Bring the file back from a backup, or set deleted_rows to restore: then all rows come again.",
                parameter="deleted_rows",
            )
        known = {s.shard for s in segments if s.shard is not None and s.shard in shards}
        strange = [s for s in segments if not work.goes(s) and s.shard not in known]
        if strange:
            owners = sorted({owner_folder(ledger.owners[s.shard], table.place) for s in strange if s.shard is not None})
            raise DataError(
                f"{file.path} of the table {table.place} {problem}, and rows in it did not come from"
                f" {wanted.dataset.uri} but from {', '.join(owners) or 'another program'}",
                hint="Bring the file back from a backup, or run again what filled it in. Or give those rows up: set"
                " existing to replace (the table is filled again from this dataset), or delete the table's folder.",
                parameter="existing",
            )
        part = next(shards[shard] for shard in known) if len(segments) == 1 else None
        if part is None or (part.rows, part.bytes) != (file.rows, file.bytes) or _is_folder(table, file):
            work.gone |= known
        elif wanted.mode == "in_place":
            raise DataError(
                f"{file.path} of the table {table.place} {problem}, and the table's files are the Parquet files"
                " themselves",
                hint="Run again from the node that makes the Parquet files (--from).",
            )
        else:
            work.restores.append((part, file))


def _is_folder(table: TableVersion, file: TableFile) -> bool:
    """Whether a folder has the file's name, which no file can replace."""
    folder = table.place.local_folder
    return folder is not None and (folder / file.path).is_dir()


def table_file(sizes: Callable[[str], int | None], part: Part, mode: Mode) -> TableFile:
    """The part as a file of a table, in which files have these `sizes` (see `Place.sizes`)."""
    if mode == "in_place":
        return file_of(part, part.path)
    first, *rest = names_in_table(part)
    # Files of another size may be somebody else's: they stay, and so does what an older version reads.
    return file_of(part, first if not rest or sizes(first) in (None, part.bytes) else rest[0])


def file_of(part: Part, path: str) -> TableFile:
    """The part as a table's file that lies at `path`."""
    return TableFile(
        path=path,
        bytes=part.bytes,
        rows=part.rows,
        labelled=part.labelled,
        mtime_ms=part.mtime_ns // 1_000_000,
        id_min=part.id_min,
        id_max=part.id_max,
        label_min=part.label_min,
        label_max=part.label_max,
    )


def rows_to_keep(segments: Segments, work: Work) -> tuple[tuple[tuple[int, int], ...], Segments]:
    """The row ranges of a file that stay, joined where they touch, and the segments in them."""
    ranges: list[tuple[int, int]] = []
    staying: list[Segment] = []
    first = 0
    for segment in segments:
        last = first + segment.rows
        if not work.goes(segment):
            staying.append(segment)
            if ranges and ranges[-1][1] == first:
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((first, last))
        first = last
    return tuple(ranges), tuple(staying)


def _adopt(table: TableVersion, ledger: Ledger, wanted: Wanted) -> bool:
    """Know the parts that are in the table under their own names although the ledger was lost."""
    strangers = {f.path: f for f in table.files if f.path not in ledger.files}
    adopted = False
    for part in wanted.parts if strangers else ():
        # Not by `table_file`: the file of that name may be damaged.
        names = [part.path] if wanted.mode == "in_place" else names_in_table(part)
        found = next((strangers[name] for name in names if name in strangers), None)
        if found is not None and (found.rows, found.bytes) == (part.rows, part.bytes):
            shard = shard_of(part)
            ledger.files[found.path] = (Segment(shard, part.rows),)
            ledger.owners[shard] = source_of(wanted.dataset.uri, table.place)
            ledger.absorbed.discard(shard)
            adopted = True
    return adopted
