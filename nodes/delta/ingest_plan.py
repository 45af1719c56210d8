"""What must change in a table so that it holds a Parquet dataset: decided by the ledger, before anything is written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import DataError, StaleInput
from nodes.delta.delta_table import TableFile, TableVersion
from nodes.delta.ingest_checks import Mode, Wanted
from nodes.delta.shard_ledger import Ledger, Segment, Segments, Shard, is_content_named, shard_of, source_of
from nodes.volume_parts import Part


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

    def __bool__(self) -> bool:
        return bool(self.adds or self.drops or self.trims)

    def goes(self, segment: Segment) -> bool:
        return self.gone_unknown if segment.shard is None else segment.shard in self.gone


def plan_work(table: TableVersion, ledger: Ledger, wanted: Wanted) -> Work:
    """Compare the dataset with what the ledger says is in the table.

    With `existing` "keep" only shards of the same source are taken out when they vanished. Raises
    `StaleInput` when one of them was moved to unknown rows by another program.
    """
    shards = {shard_of(p): p for p in wanted.parts}
    if len(shards) < len(wanted.parts):
        raise DataError(f"{wanted.dataset.uri} lists two files of one name", hint="Give each a name of its own.")
    adopted = _adopt(table, ledger, wanted)
    placed = ledger.placed(f.path for f in table.files)
    work = Work(gone_unknown=wanted.existing == "replace", adopted=adopted)
    if wanted.existing == "replace":
        ledger.absorbed.clear()
        work.gone = placed.keys() - shards.keys()
    else:
        source = source_of(wanted.dataset)
        known = placed.keys() | ledger.absorbed
        work.gone = {s for s in known - shards.keys() if ledger.owners.get(s) == source}
        if lost := sorted(work.gone & ledger.absorbed):
            raise StaleInput(
                f"{lost[0].name} changed or vanished, but another program has rewritten the table {table.root},"
                " so that nobody knows which rows came from it",
                hint="Set existing to replace, which fills the table again, or choose a new table.",
                parameter="existing",
            )
    # A shard of which another program took out a part: what is left of it goes, all of it comes.
    work.gone |= {s for s, p in shards.items() if placed.get(s, p.rows) != p.rows}
    for file in table.files:
        going = [work.goes(s) for s in ledger.segments(file.path, file.rows)]
        if all(going):
            work.drops.append(file)
        elif any(going):
            work.trims.append(file)
    work.adds = [p for s, p in shards.items() if s in work.gone or not (s in placed or s in ledger.absorbed)]
    return work


def table_file(root: Path, part: Part, mode: Mode) -> TableFile:
    """The part as a file of the table at `root`."""
    return file_of(part, part.path if mode == "in_place" else _name_in_table(root, part))


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
        ours = table_file(table.root, part, wanted.mode)
        found = strangers.get(ours.path)
        if found is not None and (found.rows, found.bytes) == (ours.rows, ours.bytes):
            shard = shard_of(part)
            ledger.files[ours.path] = (Segment(shard, part.rows),)
            ledger.owners[shard] = source_of(wanted.dataset)
            ledger.absorbed.discard(shard)
            adopted = True
    return adopted


def _name_in_table(root: Path, part: Part) -> str:
    """The part's own name where it tells the content, else one made of it that does: no two contents share one."""
    name = part.path.rsplit("/", 1)[-1]
    taken = root / name
    if is_content_named(name) and (not taken.exists() or taken.stat().st_size == part.bytes):
        return name
    digest = hashlib.blake2b(repr(tuple(shard_of(part))).encode(), digest_size=16).hexdigest()
    return f"{name.removesuffix('.parquet')}-{digest}.parquet"
