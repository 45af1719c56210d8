"""Compacting a Delta table: many small files become few large ones, and no row changes.

It goes in increments. New files are written aside, several at once, while others may read and write the table; as soon
as some are ready, one commit under the table's lock takes the small files out and the large ones in, provided
that nobody committed meanwhile; else the work is planned again from the newest version, and files that still fit are
not written twice. So a task that is killed, or meets rows that are new, keeps the increments it had committed, and the
next one goes on from there. `DeltaTable.optimize.compact` is never used: two of them double the rows.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.context import TaskContext
from engine.datasets import VolumeDelta
from engine.errors import StaleInput, TableConflict
from engine.progress import Meter
from nodes.delta.compaction_plan import Bin, plan_bins
from nodes.delta.delta_commit import MAX_ACTIONS, Change, table_writer
from nodes.delta.delta_log import data_version, last_writer, newest_version
from nodes.delta.delta_table import TableFile, TableVersion, open_table
from nodes.delta.parquet_rewrite import Recipe, RowSource, compression_of, layout_problem, read_metadata
from nodes.delta.rewrite_threads import rewrite_in_threads
from nodes.delta.shard_ledger import (
    concatenate,
    cut,
    drop_old_ledgers,
    ledgers_up_to,
    open_ledger,
    write_ledger,
    write_news,
)
from nodes.delta.table_staging import Staging, open_staging

TRIES = 5
INCREMENT_BYTES = 4_000_000_000
INCREMENT_ACTIONS = MAX_ACTIONS
"""What one commit takes at least, in bytes written or files added and removed: more often would fill the log."""


@dataclass(frozen=True)
class Target:
    """What the files should be like afterwards."""

    file_bytes: int
    min_fill: float
    rewrite_layout: bool


Job = Callable[[Bin], tuple[list[RowSource], Recipe]]
"""What to write for a bin, and how."""
RewriteBins = Callable[
    [Sequence[Bin], Job, Staging, TaskContext, Meter], Generator[tuple[int, tuple[TableFile, ...]], None, None]
]
"""Who writes: gives (place, new files in the staging) of each bin as it is done, in any order. Closing it stops it."""


def compact(
    table: VolumeDelta, target: Target, ctx: TaskContext, rewrite: RewriteBins = rewrite_in_threads
) -> TableVersion:
    """Compact the newest version of the table; gives the version that stands then (the same when nothing was to do).

    Raises `StaleInput` when its rows are no longer those that `table` refers to, `TableConflict`
    when other programs kept committing. Increments that were committed before stay.
    """
    current = fresh(table)
    left, fewest = TRIES, sys.maxsize
    with open_staging(current.root) as staging:
        while bins := _plan(current, target):
            small = sum(len(b.files) for b in bins)
            ctx.info(f"{small} files are written again as about {_expected(bins, target)}")
            if small < fewest:
                # Whoever else commits, the work gets less: another compaction takes a share of it.
                left, fewest = TRIES, small
            work = _Round(current, bins, target, staging, ctx)
            # The round knows the files, and lets go of those that it has replaced.
            current = replace(current, files=())
            try:
                work.run(rewrite)
            except TableConflict as exc:
                left -= 1
                if not left:
                    raise TableConflict(
                        f"other programs changed the table {table.uri} {TRIES} times while its files were written",
                        hint="Run it again when they have finished.",
                    ) from exc
                ctx.info(f"{exc.message}: planning again")
                current = fresh(table)
            else:
                current = open_table(table.uri)
                break
        staging.clear()
        return current


def fresh(table: VolumeDelta) -> TableVersion:
    """The table's newest version, if it holds the rows that the reference means. Raises `StaleInput` else."""
    current = open_table(table.uri)
    changed = data_version(current.root, current.version, (table.version, table.data_version)) != table.data_version
    # The count tells of a table that was deleted and made anew: its versions begin again.
    if changed or sum(f.rows for f in current.files) != table.count:
        raise StaleInput(
            f"the table {table.uri} has other rows since version {table.version} (it is at version {current.version})",
            hint="Run the nodes before this one again, so that they refer to the newest version.",
        )
    return current


def _plan(current: TableVersion, target: Target) -> list[Bin]:
    odd: set[str] = set()
    if target.rewrite_layout:
        odd = {f.path for f in current.files if layout_problem(read_metadata(current.root / f.path, f.bytes))}
    return plan_bins(current.files, target.file_bytes, target.min_fill, odd)


def _expected(bins: Sequence[Bin], target: Target) -> int:
    return sum(max(1, round(b.bytes / target.file_bytes)) for b in bins)


class _Round:
    """The bins of one plan, on their way into the table."""

    def __init__(
        self, planned: TableVersion, bins: list[Bin], target: Target, staging: Staging, ctx: TaskContext
    ) -> None:
        self._bins, self._target, self._staging, self._ctx = bins, target, staging, ctx
        self._columns = pa.schema(planned.columns.to_arrow())
        self._table = planned
        self._active = {f.path: f for f in planned.files}
        self._ledger = open_ledger(planned)
        self._recorded = False

    def run(self, rewrite: RewriteBins) -> None:
        ctx, meter = self._ctx, Meter(sum(b.rows for b in self._bins), "volumes", "writing large files")
        ready: list[tuple[int, Change]] = []
        with contextlib.closing(rewrite(self._bins, self._job, self._staging, ctx, meter)) as written:
            for number, adds in written:
                ready.append((number, Change(adds=adds, removes=self._bins[number].files)))
                ctx.commit_point("optimize:file-written")
                if _is_worth_a_commit(change for _, change in ready):
                    self._commit(ready)
                    ready = []
        meter.finish()
        if ready:
            self._commit(ready)

    def _job(self, item: Bin) -> tuple[list[RowSource], Recipe]:
        spec = self._table.spec
        sources = [RowSource(self._table.root / f.path, f.bytes, ((0, f.rows),)) for f in item.files]
        if item.odd:
            # Written plain they may grow beyond the target: then they become several.
            return sources, Recipe.of(spec, self._columns, max_bytes=self._target.file_bytes)
        # Compressed files that somebody chose stay compressed.
        compression = compression_of(read_metadata(s.path, s.bytes) for s in sources)
        return sources, Recipe.of(spec, self._columns, compression)

    def _commit(self, ready: list[tuple[int, Change]]) -> None:
        ctx, root = self._ctx, self._table.root
        changes = [change for _, change in sorted(ready, key=lambda item: item[0])]
        made = [f for c in changes for f in c.adds]
        # Before the lock: others need not wait for the disk.
        self._staging.settle(made)
        with table_writer(root, ctx) as writer:
            self._refuse_if_moved_on()
            self._follow(changes)
            self._staging.join(made)
            if self._recorded and not self._ledger.absorbed:
                write_news(
                    root, self._ledger, [f.path for f in made], writer.token, ledgers_up_to(root, self._table.token)
                )
            else:
                write_ledger(self._table, self._ledger, writer.token)
            ctx.commit_point("optimize:before-commit")
            version = writer.commit(
                self._table,
                changes,
                data_change=False,
                transaction=ctx.transaction,
                after_each=lambda: ctx.commit_point("optimize:after-commit"),
            )
            drop_old_ledgers(root, writer.token)
        self._recorded = True
        self._enter(changes, version, writer.token)
        for number, _ in ready:
            self._bins[number] = Bin(())

    def _refuse_if_moved_on(self) -> None:
        root, version = self._table.root, self._table.version
        newest = newest_version(root)
        if newest != version:
            raise TableConflict(f"the table is at version {newest} now, not {version}")
        # A table that was deleted and made anew counts from the beginning; the last token tells it.
        writer = last_writer(root, version)
        if writer is not None and writer[1] != self._table.token:
            raise TableConflict("the table was made anew")

    def _follow(self, changes: Sequence[Change]) -> None:
        """Let the ledger know which rows went where."""
        for change in changes:
            before = concatenate(self._ledger.segments(f.path, f.rows) for f in change.removes)
            after = cut(before, (f.rows for f in change.adds))
            self._ledger.files |= {f.path: s for f, s in zip(change.adds, after, strict=True)}

    def _enter(self, changes: Sequence[Change], version: int, token: int) -> None:
        """Know the table as it is after our own commit, without reading its log again."""
        for change in changes:
            for file in change.removes:
                del self._active[file.path]
                if not self._ledger.absorbed:
                    # Where its rows were stands in the ledgers that are written.
                    self._ledger.files.pop(file.path, None)
            self._active |= {f.path: f for f in change.adds}
        self._table = replace(self._table, version=version, token=token, files=tuple(self._active.values()))


def _is_worth_a_commit(changes: Iterable[Change]) -> bool:
    actions = size = 0
    for change in changes:
        actions += change.actions
        size += sum(f.bytes for f in change.adds)
    return actions >= INCREMENT_ACTIONS or size >= INCREMENT_BYTES
