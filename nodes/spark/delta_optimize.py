"""Compaction on Spark: our rewriter as Spark tasks, and Delta's own OPTIMIZE for tables that are somebody else's.

What OPTIMIZE makes was measured (Spark 4.2, Delta 4.4, 200 volumes of 360 kB in 20 files). With `_LAYOUT` below:
row groups of 64 rows, PLAIN, uncompressed, no dictionary, no minimum and maximum of the volumes, as ours; without the
limit of rows the groups had 100. Otherwise than ours: the volume column is optional (loaders read that as fast), the
source files stand in a bin in the order of Spark's choosing instead of that of their ids, a target is
measured in bytes as they were compressed, and 72 MB took 6.7 s where our rewriter took 0.15 s (a busy machine).

So a table that has a ledger of ours is rewritten by us, which keeps its order, its ledger and its speed; and so is one
whose files are to be written in another layout or differ in compression. A table that never had a commit of ours has
no order and no ledger to keep: there Delta does it, with the compression that its files have. Either way the commit is
one of Delta's transactions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pyarrow as pa

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeDelta
from engine.declare.progress import Meter
from engine.errors import StaleInput, TableConflict
from engine.storage.files import flush_many
from engine.storage.find_place import place_at
from nodes.spark.delta_transactions import DeltaTransactions
from nodes.spark.session import delta_table, executor_point, results, rows, settings, since
from nodes.table.commit import table_writer
from nodes.table.compaction import TRIES, Bin, Job, Rewritten, Target, compact, fresh, plan_bins
from nodes.table.snapshot import TableVersion, open_table
from nodes.table.staging import Made, RemoteRewrite, Staging
from nodes.volume_file.rewrite import Recipe, compression_of, layout_problem, read_metadata

_CODECS = {"none": "uncompressed", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4_raw"}
"""Compressions that Spark has without further jars, from pyarrow's names to its."""
_ROW_BYTES = 1024
"""More than a row takes beside its volume."""


def compact_on_spark(table: VolumeDelta, target: Target, ctx: TaskContext) -> TableVersion:
    """As `nodes.table.compaction.compact`, with the same errors.

    A table outside of a local folder is compacted by this machine, and the commits are ours, as those of
    `table_writer` are.
    """
    if (place := place_at(table.uri)).local_folder is None:
        ctx.info(f"the table {place} does not lie in a local folder, so this machine writes its files, and not Spark")
        return compact(table, target, ctx)
    try:
        current = fresh(table)
        if codec := _codec(current, target):
            return _optimize(table, target, codec, ctx)
        return compact(table, target, ctx, rewrite_on_spark, DeltaTransactions(ctx))
    except StaleInput:
        for line in since(table.uri, table.version, ctx):
            ctx.warn(line)
        raise


def _codec(current: TableVersion, target: Target) -> str:
    """The compression, in Spark's words, with which Delta's OPTIMIZE does it; "" where we do it (see the module)."""
    if current.token or target.rewrite_layout:
        return ""
    small = [f for b in plan_bins(current.files, target.file_bytes, target.min_fill) for f in b.files]
    found = {compression_of([read_metadata(current.root / f.path, f.bytes)]) for f in small}
    return _CODECS.get(found.pop(), "") if len(found) == 1 else ""


def _optimize(table: VolumeDelta, target: Target, codec: str, ctx: TaskContext) -> TableVersion:
    root = open_table(table.uri).root
    for _ in range(TRIES):
        # Delta finds conflicts in its own way, but not with programs that write without Spark: hence our lock.
        with table_writer(root, ctx) as writer:
            before = fresh(table)
            ctx.commit_point("optimize:before-commit")
            try:
                with settings(ctx, _layout(before, target, codec)):
                    rows(ctx, lambda: delta_table(ctx, root).optimize().executeCompaction(), "Delta's OPTIMIZE")
            except TableConflict as exc:
                ctx.info(f"{exc.message}: once more")
                continue
            after = open_table(root)
            new = [f for f in after.files if f.path not in {b.path for b in before.files}]
            # Spark leaves its files to the system's cache: a power cut could lose what was reported.
            flush_many([*(root / f.path for f in new), root])
            writer.flush_log(after.version)
            ctx.commit_point("optimize:after-commit")
        for line in since(table.uri, before.version, ctx):
            ctx.info(line)
        for file in new:
            if problem := layout_problem(read_metadata(root / file.path, file.bytes)):
                ctx.warn(f"{file.path} {problem}: training reads it more slowly. Set rewrite_layout to correct it.")
                break
        return after
    raise TableConflict(
        f"other programs changed the table {table.uri} {TRIES} times while it was optimized",
        hint="Run it again when they have finished.",
    )


def _layout(current: TableVersion, target: Target, codec: str) -> dict[str, str]:
    group_rows = Recipe.of(current.spec, pa.schema(current.columns.to_arrow())).group_rows
    # One page per row group. No more than that: a compressor sets aside a page's bytes beforehand.
    page = group_rows * (current.spec.volume_bytes + _ROW_BYTES) + _ROW_BYTES
    return {
        "spark.sql.parquet.compression.codec": codec,
        # Also in a session of somebody else's: a damaged page would be copied, and get a checksum that matches it.
        "parquet.page.verify-checksum.enabled": "true",
        "parquet.enable.dictionary": "false",
        "parquet.block.row.count.limit": str(group_rows),
        "parquet.block.size": str(2 * page),
        "parquet.page.size": str(page),
        "parquet.page.row.count.limit": str(group_rows),
        "spark.databricks.delta.optimize.maxFileSize": str(target.file_bytes),
        "spark.databricks.delta.optimize.minFileSize": str(max(1, round(target.file_bytes * target.min_fill))),
    }


def rewrite_on_spark(bins: Sequence[Bin], job: Job, staging: Staging, ctx: TaskContext, meter: Meter) -> Rewritten:
    """See `nodes.table.compaction.RewriteBins`: a Spark task a bin, each with embedded's own rewriter.

    What a killed run had taken over is not written again.
    """
    work: list[RemoteRewrite] = []
    numbers: list[int] = []
    for number, item in enumerate(bins):
        sources, recipe = job(item)
        found = staging.find(sources, recipe)
        if found is not None:
            meter.add(item.rows)
            yield number, found
        else:
            work.append(staging.remote(sources, recipe))
            numbers.append(number)
    with contextlib.closing(results(ctx, work, _rewrite, meter=meter, amount=lambda rewrite: rewrite.rows)) as done:
        for number, made in done:
            yield numbers[number], staging.take(work[number], made)


def _rewrite(work: RemoteRewrite) -> Made:
    made = work()
    executor_point("optimize:file-written")
    return made
