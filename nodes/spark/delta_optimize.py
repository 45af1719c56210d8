"""Compaction on Spark: our rewriter as Spark tasks, and Delta's own OPTIMIZE for tables that are somebody else's.

What OPTIMIZE makes was measured (Spark 4.2, Delta 4.4, 200 volumes of 360 kB in 20 files). With `_LAYOUT` below:
row groups of 64 rows, PLAIN, uncompressed, no dictionary, no minimum and maximum of the volumes, as ours; without the
limit of rows the groups had 100. Otherwise than ours: the volume column is optional (loaders read that as fast), the
source files stand in a bin in the order of Spark's choosing instead of that of their ids, a target is
measured in bytes as they were compressed, and 72 MB took 6.7 s where our rewriter took 0.15 s (a busy machine).

So a table that has a ledger of ours is rewritten by us, which keeps its order, its ledger and its speed; and so is one
whose files are to be written in another layout or differ in compression. A table that never had a commit of ours has
no order and no ledger to keep: there Delta does it, with the compression that its files have.
"""

from __future__ import annotations

from engine.context import TaskContext
from engine.datasets import VolumeDelta
from engine.errors import StaleInput, TableConflict
from nodes.delta.compaction import TRIES, Target, compact, fresh
from nodes.delta.compaction_plan import plan_bins
from nodes.delta.delta_commit import table_writer
from nodes.delta.delta_table import TableVersion, open_table
from nodes.delta.parquet_rewrite import Recipe, compression_of, layout_problem, read_metadata
from nodes.durable_files import flush_many
from nodes.spark.history import since
from nodes.spark.rewrite_bins import rewrite_on_spark
from nodes.spark.statements import delta_table, rows, settings

_CODECS = {"none": "uncompressed", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4_raw"}
"""Compressions that Spark has without further jars, from pyarrow's names to its."""
_ROW_BYTES = 1024
"""More than a row takes beside its volume."""


def compact_on_spark(table: VolumeDelta, target: Target, ctx: TaskContext) -> TableVersion:
    """As `nodes.delta.compaction.compact`, with the same errors."""
    try:
        current = fresh(table)
        if codec := _codec(current, target):
            return _optimize(table, target, codec, ctx)
        return compact(table, target, ctx, rewrite_on_spark)
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
        # Delta has its own way to tell conflicts, but not with programs that write without Spark: hence our lock.
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
                ctx.warn(f"{file.path} {problem}: training reads it more slowly. Set rewrite_layout to mend it.")
                break
        return after
    raise TableConflict(
        f"other programs changed the table {table.uri} {TRIES} times while it was optimized",
        hint="Run it again when they have finished.",
    )


def _layout(current: TableVersion, target: Target, codec: str) -> dict[str, str]:
    import pyarrow as pa

    group_rows = Recipe.of(current.spec, pa.schema(current.columns.to_arrow())).group_rows
    # One page a row group. No more than that: a compressor sets aside a page's bytes beforehand.
    page = group_rows * (current.spec.volume_bytes + _ROW_BYTES) + _ROW_BYTES
    return {
        "spark.sql.parquet.compression.codec": codec,
        "parquet.enable.dictionary": "false",
        "parquet.block.row.count.limit": str(group_rows),
        "parquet.block.size": str(2 * page),
        "parquet.page.size": str(page),
        "parquet.page.row.count.limit": str(group_rows),
        "spark.databricks.delta.optimize.maxFileSize": str(target.file_bytes),
        "spark.databricks.delta.optimize.minFileSize": str(max(1, round(target.file_bytes * target.min_fill))),
    }
