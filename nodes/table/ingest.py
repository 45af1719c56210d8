"""Bringing a Delta table up to a Parquet dataset: what is new goes in, what vanished comes out.

The ledger (`nodes.table.ledger`) decides what must change, so doing it again changes nothing and 20
new files cost 20 files. Whatever a kill leaves behind is either committed or invisible, and is found again. A local
table is changed under its lock. In an object store writers may meet: one commits, the others plan again.

Memory, measured with 2,000 and 20,000 files (`python -m benchmarks scale`): 30 MB, and 3 kB a
file for metadata, more than half of it delta-rs' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from engine.errors import StaleInput, TableConflict
from engine.storage.files import size_problem
from engine.storage.local_place import LocalPlace
from engine.storage.place import NewFile, Place
from nodes.table.commit import Committer, TableWriter, table_writer
from nodes.table.constraints import Count, count_here, refuse_removals, refuse_rewriting
from nodes.table.ingest_checks import (
    Located,
    PartColumns,
    Wanted,
    columns_of,
    compare_columns,
    compare_for_new_table,
    refuse_broken_constraints,
    refuse_changed_in_place,
    refuse_common_ids,
    refuse_other_folder,
    refuse_other_table,
)
from nodes.table.ingest_plan import Work, file_of, plan_work, rows_to_keep, table_file
from nodes.table.ledger import (
    Ledger,
    Segment,
    concatenate,
    cut,
    drop_old_ledgers,
    forget_ledgers,
    shard_of,
    source_of,
    write_ledger,
)
from nodes.table.log_writer import Change
from nodes.table.provenance import open_ledger
from nodes.table.snapshot import TableFile, TableVersion, is_table, open_table
from nodes.table.staging import Staging, clear_conversions, open_staging
from nodes.volume_file.parts import Part
from nodes.volume_file.rewrite import Recipe, compression_of, read_metadata

TRIES = 5
"""Plans of one fill, when other programs commit meanwhile."""

MakeTable = Callable[[Path, Wanted, TableWriter, TaskContext], bool]
"""Another way to make a local table that is not there yet, filled, in one step; False: it did not, nothing is seen."""


def ingest(
    place: Place,
    wanted: Wanted,
    ctx: TaskContext,
    *,
    make: MakeTable | None = None,
    count: Count = count_here,
    committer: Committer | None = None,
) -> TableVersion:
    """Make the table at `place` hold the dataset, and give the version that does (the newest one).

    A local table that is not there yet is first tried with `make`; all that follows is the same.
    `count` finds the new rows that break its constraints, `committer` makes the commits of a local table.

    Raises `SpecDiffers` or `DataError` when the rows do not fit into the table, `UsageError` when something else is
    there, `StaleInput` when rows that must come out were moved by another program, `TableConflict` when other programs
    kept committing.
    """
    refuse_other_folder(place, wanted)
    foreseen = compare_for_new_table(place, wanted)
    with table_writer(place, ctx, committer) as writer:
        left = TRIES
        while True:
            try:
                return _bring_up(place, wanted, writer, ctx, make, count, foreseen)
            except TableConflict as exc:
                # What another program did is looked at anew. Nothing was committed, or whole parts.
                left -= 1
                if not left:
                    raise
                ctx.info(f"{exc.message}: planning again")


def _bring_up(
    place: Place,
    wanted: Wanted,
    writer: TableWriter,
    ctx: TaskContext,
    make: MakeTable | None,
    count: Count,
    foreseen: PartColumns | None,
) -> TableVersion:
    """`foreseen` is how all parts' columns differ from those of the table that is made here."""
    folder = place.local_folder
    columns: PartColumns | None = None
    if not is_table(place):
        forget_ledgers(place)
        if folder is None or make is None or not make(folder, wanted, writer, ctx):
            writer.create(wanted.spec, columns_of(wanted, wanted.parts[0]), in_place=wanted.mode == "in_place")
            columns = foreseen
            ctx.commit_point("delta:created")
    if folder is not None:
        clear_conversions(folder)  # a killed driver leaves its own, before the table was there or after
    table = open_table(place)
    writer.check(table.rules)
    refuse_other_table(table, wanted)
    ledger = open_ledger(table)
    work = plan_work(table, ledger, wanted)
    if work.restores:
        _restore(table, work.restores, wanted, ctx)
    if columns is None or table.version:  # else it is as it was made, and a second look at all parts is spared
        columns = compare_columns(table.columns, table.place, wanted, work.adds)
    if columns.joining:
        names = writer.add_columns(table, list(columns.joining.values()))
        ctx.info(f"the table {place} has the new column {names}: it is null in the rows that are there")
        ctx.commit_point("delta:columns-added")
        table = open_table(place)
    for text in work.deleted.messages(restored=wanted.deleted_rows == "restore"):
        ctx.info(text)
    if not work:
        if work.adopted or ledger.learned:
            # A ledger states facts: under the token of the last commit it counts at once.
            write_ledger(table, ledger, table.token)
        return table
    with open_staging(place, ctx) as staging:
        _Filling(table, ledger, work, wanted, staging, ctx).run(writer, count, columns.optional)
        staging.clear()
    # What the change needed goes before the table comes: with one file per volume, each is hundreds of megabytes.
    del table, ledger, work
    return open_table(place)


def _restore(table: TableVersion, damaged: list[tuple[Part, TableFile]], wanted: Wanted, ctx: TaskContext) -> None:
    """Put damaged files of the table back from their parts, under their names: every version reads them again."""
    for part, file in damaged:
        source = wanted.folder / part.path
        if problem := size_problem(source, part.bytes):
            raise StaleInput(
                f"{file.path} of the table {table.place} is damaged, and so is the Parquet file that it came from:"
                f" {source} {problem}",
                hint="Run again from the node that makes the Parquet files (--from).",
            )
    for _ in _put(table, damaged, wanted, ctx):
        ctx.commit_point("delta:file-linked")
    table.place.flush(file.path for _, file in damaged)
    more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    ctx.warn(f"{damaged[0][1].path}{more} of the table {table.place} was damaged: put back from the Parquet files")


def _put(
    table: TableVersion, files: Sequence[tuple[Part, TableFile]], wanted: Wanted, ctx: TaskContext
) -> Iterator[int]:
    """Put parts into the table's place under their names there; see `Place.put_all`. In place they are there."""
    if wanted.mode == "in_place":
        return iter(range(len(files)))
    folder = wanted.folder
    new = (NewFile(folder / part.path, file.path, part.bytes) for part, file in files)
    return table.place.put_all(new, wanted.mode, ctx.check_cancelled)


class _Filling:
    """One change of a table on its way to the commit."""

    def __init__(
        self, table: TableVersion, ledger: Ledger, work: Work, wanted: Wanted, staging: Staging, ctx: TaskContext
    ) -> None:
        self._table, self._ledger, self._work = table, ledger, work
        self._wanted, self._staging, self._ctx = wanted, staging, ctx
        kept = sum(s.rows for f in work.trims for s in ledger.segments(f.path, f.rows) if not work.goes(s))
        rows = sum(p.rows for p in work.adds) + kept
        self._meter = Meter(rows, "volumes", "filling the table")

    def run(self, writer: TableWriter, count: Count, optional: frozenset[str]) -> None:
        """`optional` are the columns that may have nulls in some part."""
        table, work, ctx = self._table, self._work, self._ctx
        refuse_removals(table.place, table.properties, len(work.drops) + len(work.trims))
        if work.trims:
            refuse_rewriting(table.place, table.properties)
        if work.adds:
            refuse_broken_constraints(table, self._wanted, work.adds, optional, count, ctx)
        sizes = table.place.sizes()
        added = [table_file(sizes, part, self._wanted.mode) for part in work.adds]
        refuse_changed_in_place(table, added)
        # Removals come first: between the parts of a large change rows may lack, but are never there twice.
        changes = [Change(removes=(f,)) for f in work.drops] + [self._trim(f) for f in work.trims]
        trimmed = [f for c in changes for f in c.adds]
        self._refuse_common_ids(added, trimmed)
        self._add(list(zip(work.adds, added, strict=True)))
        changes += [Change(adds=(file,)) for file in added]
        self._staging.join(trimmed)
        table.place.flush(f.path for f in added)
        self._settle_accounts()
        ctx.commit_point("delta:before-ledger")
        write_ledger(table, self._ledger, writer.claim(table))
        ctx.commit_point("delta:before-commit")
        writer.commit(
            table,
            changes,
            data_change=True,
            transaction=ctx.transaction,
            after_each=lambda: ctx.commit_point("delta:after-commit"),
        )
        drop_old_ledgers(table.place, writer.token)
        self._meter.finish()

    def _settle_accounts(self) -> None:
        """Let the ledger know which shards it was we who put in or left out."""
        ledger, work = self._ledger, self._work
        added = {shard_of(part) for part in work.adds}
        ledger.left_out = (ledger.left_out | work.gone) - added
        ledger.taken_out -= work.gone | work.whole | added

    def _add(self, files: list[tuple[Part, TableFile]]) -> None:
        source = source_of(self._wanted.dataset.uri, self._table.place)
        for number in _put(self._table, files, self._wanted, self._ctx):
            part, file = files[number]
            shard = shard_of(part)
            self._ledger.files[file.path] = (Segment(shard, part.rows),)
            self._ledger.owners[shard] = source
            self._ctx.commit_point("delta:file-linked")
            self._meter.add(part.rows)

    def _trim(self, file: TableFile) -> Change:
        """The file again without the rows that must go."""
        table = self._table
        ranges, staying = rows_to_keep(self._ledger.segments(file.path, file.rows), self._work)
        (source,) = self._staging.sources([(file, ranges)])
        compression = compression_of([read_metadata(source.path, source.bytes)])
        recipe = Recipe.of(table.spec, pa.schema(table.columns.to_arrow()), compression)
        kept = self._staging.rewrite([source], recipe, self._meter.add)
        segments = cut(concatenate([staying]), (f.rows for f in kept))
        self._ledger.files |= {f.path: s for f, s in zip(kept, segments, strict=True)}
        return Change(adds=kept, removes=(file,))

    def _refuse_common_ids(self, added: list[TableFile], trimmed: list[TableFile]) -> None:
        table, work = self._table, self._work
        source = source_of(self._wanted.dataset.uri, table.place)

        def from_elsewhere(file: TableFile) -> bool:
            # The ids of one source are unique: its own files need no look.
            segments = self._ledger.segments(file.path, file.rows)
            return any(s.shard is None or self._ledger.owners.get(s.shard) != source for s in segments)

        leaving = {f.path for f in (*work.drops, *work.trims)}
        staying = (f for f in table.files if f.path not in leaving)
        present: list[Located] = [(table.place, f) for f in staying if from_elsewhere(f)]
        present += [(self._staging.where(f.path), f) for f in trimmed if from_elsewhere(f)]
        if present and added:
            folder = LocalPlace(self._wanted.folder)
            new: list[Located] = [(folder, file_of(part, part.path)) for part in work.adds]
            refuse_common_ids(table, new, present)
