"""Compacting a Delta table: many small files become few large ones, and no row changes.

New files are written aside while others may read and write the table. Then, under the table's
lock, one commit takes the small files out and the large ones in, provided that nobody committed
meanwhile; else the work is planned again from the newest version, and files that still fit are not
written twice. `DeltaTable.optimize.compact` is never used: two of them double the rows.

Memory, measured with 2,000 and 20,000 files (`tests/benchmarks/delta_nodes.py`): 30 MB, and 3.7 kB a
file for metadata, more than half of it delta-rs' own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from engine.context import TaskContext
from engine.datasets import VolumeDelta
from engine.errors import StaleInput, TableConflict
from engine.progress import Meter
from nodes.delta.compaction_plan import Bin, plan_bins
from nodes.delta.delta_commit import Change, table_writer
from nodes.delta.delta_log import data_version
from nodes.delta.delta_table import TableFile, TableVersion, open_table
from nodes.delta.parquet_rewrite import Recipe, RowSource, compression_of, layout_problem, read_metadata
from nodes.delta.shard_ledger import concatenate, cut, drop_old_ledgers, open_ledger, write_ledger
from nodes.delta.table_staging import Staging, open_staging

TRIES = 5


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


def rewrite_here(
    bins: Sequence[Bin], job: Job, staging: Staging, ctx: TaskContext, meter: Meter
) -> Generator[tuple[int, tuple[TableFile, ...]], None, None]:
    """One bin after another, in this process."""
    for number, item in enumerate(bins):
        yield number, staging.rewrite(*job(item), meter.add)


def compact(table: VolumeDelta, target: Target, ctx: TaskContext, rewrite: RewriteBins = rewrite_here) -> TableVersion:
    """Compact the newest version of the table; gives the version that stands then (the same when nothing was to do).

    Raises `StaleInput` when its rows are no longer those that `table` refers to, `TableConflict`
    when other programs kept committing.
    """
    current = fresh(table)
    with open_staging(current.root) as staging:
        for _ in range(TRIES):
            bins = _plan(current, target)
            if not bins:
                staging.clear()
                return current
            ctx.info(f"{sum(len(b.files) for b in bins)} files are written again as about {_expected(bins, target)}")
            changes = _write(current, bins, target, staging, ctx, rewrite)
            try:
                _commit(current, changes, staging, ctx)
            except TableConflict as exc:
                ctx.info(f"{exc.message}: planning again")
                current = fresh(table)
                continue
            staging.clear()
            return open_table(table.uri)
    raise TableConflict(
        f"other programs changed the table {table.uri} {TRIES} times while its files were written",
        hint="Run it again when they have finished.",
    )


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


def _write(
    current: TableVersion, bins: Sequence[Bin], target: Target, staging: Staging, ctx: TaskContext, rewrite: RewriteBins
) -> list[Change]:
    import pyarrow as pa

    columns = pa.schema(current.columns.to_arrow())
    meter = Meter(sum(b.rows for b in bins), "volumes", "writing large files")

    def job(item: Bin) -> tuple[list[RowSource], Recipe]:
        sources = [RowSource(current.root / f.path, f.bytes, ((0, f.rows),)) for f in item.files]
        if item.odd:
            # Written plain they may grow beyond the target: then they become several.
            return sources, Recipe.of(current.spec, columns, max_bytes=target.file_bytes)
        # Compressed files that somebody chose stay compressed.
        compression = compression_of(read_metadata(s.path, s.bytes) for s in sources)
        return sources, Recipe.of(current.spec, columns, compression)

    changes: dict[int, Change] = {}
    with contextlib.closing(rewrite(bins, job, staging, ctx, meter)) as written:
        for number, adds in written:
            changes[number] = Change(adds=adds, removes=bins[number].files)
            ctx.commit_point("optimize:file-written")
    staging.settle()
    meter.finish()
    return [change for _, change in sorted(changes.items())]


def _commit(planned: TableVersion, changes: list[Change], staging: Staging, ctx: TaskContext) -> None:
    with table_writer(planned.root, ctx) as writer:
        current = open_table(planned.root)
        if current.version != planned.version:
            raise TableConflict(f"the table is at version {current.version} now, not {planned.version}")
        ledger = open_ledger(current)
        for change in changes:
            before = concatenate(ledger.segments(f.path, f.rows) for f in change.removes)
            after = cut(before, (f.rows for f in change.adds))
            ledger.files |= {f.path: s for f, s in zip(change.adds, after, strict=True)}
        staging.join([f for c in changes for f in c.adds])
        write_ledger(current, ledger, writer.token)
        ctx.commit_point("optimize:before-commit")
        writer.commit(
            current,
            changes,
            data_change=False,
            transaction=ctx.transaction,
            after_each=lambda: ctx.commit_point("optimize:after-commit"),
        )
        drop_old_ledgers(current.root, writer.token)
