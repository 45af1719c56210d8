"""Bringing a Delta table up to a Parquet dataset: what is new goes in, what vanished comes out.

The ledger (`nodes.delta.shard_ledger`) decides what must change, so doing it again changes nothing and 20
new files cost 20 files. Everything happens under the table's lock; whatever a kill leaves behind is
either committed or invisible, and is found again.

Memory, measured with 2,000 and 20,000 files (`python -m tests.benchmarks scale`): 30 MB, and 3 kB a
file for metadata, more than half of it delta-rs' own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow as pa

from engine.context import TaskContext
from engine.errors import TableConflict
from engine.progress import Meter
from nodes.delta.delta_commit import Change, TableWriter, table_writer
from nodes.delta.delta_table import TableFile, TableVersion, is_table, open_table
from nodes.delta.id_overlap import Located
from nodes.delta.ingest_checks import (
    Wanted,
    columns_of,
    refuse_changed_in_place,
    refuse_common_ids,
    refuse_other_columns,
    refuse_other_folder,
    refuse_other_table,
)
from nodes.delta.ingest_plan import Work, plan_work, rows_to_keep, table_file
from nodes.delta.parquet_rewrite import Recipe, RowSource, compression_of, read_metadata
from nodes.delta.shard_ledger import (
    Ledger,
    Segment,
    concatenate,
    cut,
    drop_old_ledgers,
    open_ledger,
    shard_of,
    source_of,
    write_ledger,
)
from nodes.delta.table_staging import Staging, clear_conversions, open_staging
from nodes.durable_files import flush_many, place
from nodes.volume_parts import Part

TRIES = 3


MakeTable = Callable[[Path, Wanted, TableWriter, TaskContext], bool]
"""Another way to make a table that is not there yet, filled, in one step; False: it cannot, and nothing is visible."""


def _leave_it(root: Path, wanted: Wanted, writer: TableWriter, ctx: TaskContext) -> bool:
    return False


def ingest(root: Path, wanted: Wanted, ctx: TaskContext, make: MakeTable = _leave_it) -> TableVersion:
    """Make the table at `root` hold the dataset, and give the version that does (the newest one).

    A table that is not there yet is first tried with `make`; all that follows is the same whoever made it.

    Raises `SpecDiffers` or `DataError` when the rows do not fit into the table, `StaleInput` when
    rows that must come out were moved by another program, `TableConflict` when other programs kept
    committing.
    """
    refuse_other_folder(root, wanted)
    with table_writer(root, ctx) as writer:
        left = TRIES
        while True:
            try:
                return _bring_up(root, wanted, writer, ctx, make)
            except TableConflict as exc:
                # A program that knows no lock: what it did is looked at anew. Nothing was committed, or whole parts.
                left -= 1
                if not left:
                    raise
                ctx.info(f"{exc.message}: planning again")


def _bring_up(root: Path, wanted: Wanted, writer: TableWriter, ctx: TaskContext, make: MakeTable) -> TableVersion:
    if not is_table(root) and not make(root, wanted, writer, ctx):
        writer.create(wanted.spec, columns_of(wanted, wanted.parts[0]), in_place=wanted.mode == "in_place")
    clear_conversions(root)  # a killed driver leaves its own, before the table was there or after
    table = open_table(root)
    refuse_other_table(table, wanted)
    ledger = open_ledger(table)
    work = plan_work(table, ledger, wanted)
    if not work:
        if work.adopted:
            # A ledger tells facts: under the token of the last commit it counts at once.
            write_ledger(table, ledger, table.token)
        return table
    with open_staging(root) as staging:
        _Filling(table, ledger, work, wanted, staging, ctx).run(writer)
        staging.clear()
    # What the change needed goes before the table comes: with a file a volume, each is hundreds of megabytes.
    del table, ledger, work
    return open_table(root)


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

    def run(self, writer: TableWriter) -> None:
        table, work, ctx = self._table, self._work, self._ctx
        refuse_other_columns(table.columns, table.root, self._wanted, work.adds)
        added = [table_file(table.root, part, self._wanted.mode) for part in work.adds]
        refuse_changed_in_place(table, added)
        # Removals come first: between the parts of a large change rows may lack, but are never there twice.
        changes = [Change(removes=(f,)) for f in work.drops] + [self._trim(f) for f in work.trims]
        trimmed = [f for c in changes for f in c.adds]
        self._refuse_common_ids(added, trimmed)
        changes += [self._add(file) for file in zip(work.adds, added, strict=True)]
        self._staging.join(trimmed)
        flush_many(chain((table.root / f.path for f in added), [table.root]))
        ctx.commit_point("delta:before-ledger")
        write_ledger(table, self._ledger, writer.token)
        ctx.commit_point("delta:before-commit")
        writer.commit(
            table,
            changes,
            data_change=True,
            transaction=ctx.transaction,
            after_each=lambda: ctx.commit_point("delta:after-commit"),
        )
        drop_old_ledgers(table.root, writer.token)
        self._meter.finish()

    def _add(self, item: tuple[Part, TableFile]) -> Change:
        part, file = item
        if self._wanted.mode != "in_place":
            place(self._wanted.folder / part.path, self._table.root / file.path, self._wanted.mode)
        shard = shard_of(part)
        self._ledger.files[file.path] = (Segment(shard, part.rows),)
        self._ledger.owners[shard] = source_of(self._wanted.dataset)
        self._ctx.commit_point("delta:file-linked")
        self._meter.add(part.rows)
        return Change(adds=(file,))

    def _trim(self, file: TableFile) -> Change:
        """The file again without the rows that must go."""
        table = self._table
        ranges, staying = rows_to_keep(self._ledger.segments(file.path, file.rows), self._work)
        source = table.root / file.path
        recipe = Recipe.of(
            table.spec, pa.schema(table.columns.to_arrow()), compression_of([read_metadata(source, file.bytes)])
        )
        kept = self._staging.rewrite([RowSource(source, file.bytes, ranges)], recipe, self._meter.add)
        segments = cut(concatenate([staying]), (f.rows for f in kept))
        self._ledger.files |= {f.path: s for f, s in zip(kept, segments, strict=True)}
        return Change(adds=kept, removes=(file,))

    def _refuse_common_ids(self, added: list[TableFile], trimmed: list[TableFile]) -> None:
        table, work = self._table, self._work
        source = source_of(self._wanted.dataset)

        def from_elsewhere(file: TableFile) -> bool:
            # The ids of one source are unique: its own files need no look.
            segments = self._ledger.segments(file.path, file.rows)
            return any(s.shard is None or self._ledger.owners.get(s.shard) != source for s in segments)

        leaving = {f.path for f in (*work.drops, *work.trims)}
        staying = (f for f in table.files if f.path not in leaving)
        present: list[Located] = [(table.root / f.path, f) for f in staying if from_elsewhere(f)]
        present += [(self._staging.where(f.path), f) for f in trimmed if from_elsewhere(f)]
        if present:
            new = [(self._wanted.folder / p.path, f) for p, f in zip(work.adds, added, strict=True)]
            refuse_common_ids(table, new, present)
