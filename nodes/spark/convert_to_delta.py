"""A new table made by Delta itself: `CONVERT TO DELTA` out of sight, then published by one rename.

The parts are linked into `_voxelflow/convert-TOKEN/` in the table's folder. There Delta converts them; the table gets
our properties and our token, and is compared with what it should hold. Then its files are linked into the table's
folder, and its log, whose paths are relative, moves there: before that rename there is no table, after it all of it.

Measured with parts of 3 volumes, in a warm session on two busy cores, beside our own commit: 100 parts 10.4 + 3.4 s
(CONVERT + ALTER TABLE) against 0.35 s, 1,000 parts 10.1 + 2.2 s against 0.41 s; logs of 32 and 313 kB against 43 and
429 kB, besides a checkpoint of 27 and 87 kB. So it costs some 12 s a table, once, and next to nothing a file. By
default it also counts the nulls of the volumes, for which it reads every byte; statistics of id and label alone are
what our readers use, and cost only those columns. It declares every column nullable; the files say otherwise, and
readers go by them. Its bounds of long ids are cut short, which is allowed for wherever they are used.

In a session that has not yet run any of Delta's code, as most runs', the JVM loads and compiles it first: 16 + 3 s on
two idle cores. A small table is better made by our own commit, so `spark.voxelflow.convertToDelta` among the profile's
settings is "auto" by default: Delta converts from the size on at which that is a tenth of what the volumes took.
"always" and "never" say so.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.context import TaskContext
from engine.errors import TableConflict, UsageError, VoxelflowError
from engine.progress import Meter
from engine.spark.failures import is_sparks, told
from nodes.delta.delta_commit import TableWriter, table_properties
from nodes.delta.delta_table import TableFile, TableVersion, is_table, open_table
from nodes.delta.ingest_checks import Wanted, columns_of, refuse_other_columns, types_of
from nodes.delta.ingest_plan import table_file
from nodes.delta.shard_ledger import Ledger, Segment, shard_of, source_of, write_ledger
from nodes.delta.table_staging import open_conversion
from nodes.durable_files import CANNOT_LINK, flush_many, place
from nodes.spark.statements import settings, sql, table_name, text_literal

SETTING = "spark.voxelflow.convertToDelta"
_AUTO_BYTES_A_CORE = 10_000_000_000
"""A core makes a part's gigabyte in about 20 s, `CONVERT TO DELTA` takes about 20 s whatever the size."""

_STATISTICS = {"spark.databricks.delta.properties.defaults.dataSkippingStatsColumns": "id,label"}


def convert_to_delta(root: Path, wanted: Wanted, writer: TableWriter, ctx: TaskContext) -> bool:
    """Make the table at `root`, filled; False, with a word why, when that is left to our own commit.

    Raises `DataError` when the parts have different columns, `TableConflict` when somebody just made the table,
    `UsageError` for a `SETTING` that says something else than auto, always and never.
    """
    if why := _not_worth_it(wanted, ctx):
        return _left(ctx, why)
    refuse_other_columns(columns_of(wanted, wanted.parts[0]), root, wanted, wanted.parts)
    files = [table_file(root, part, wanted.mode) for part in wanted.parts]
    if len({f.path for f in files}) < len(files) or any("/" in f.path or f.path.startswith(("_", ".")) for f in files):
        return _left(ctx, "its files lie in folders, or are hidden")
    if (root / "_delta_log").exists():
        return _left(ctx, f"there is something in {root / '_delta_log'} already")
    aside = open_conversion(root, writer.token)
    try:
        if not _can_link(aside):
            return _left(ctx, f"the file system of {root} has no hard links")
        _fill(aside, files, wanted)
        try:
            _convert(aside, wanted, ctx)
        except Exception as exc:
            if not is_sparks(exc):
                raise
            return _left(ctx, told(exc).message)
        if problem := _problem(aside, files, wanted):
            return _left(ctx, problem)
        replace(writer, root=aside).sign(ctx.transaction)
        _keep_ledger(root, aside, files, wanted, writer, ctx)
        _publish(root, aside, files, wanted, ctx)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _not_worth_it(wanted: Wanted, ctx: TaskContext) -> str:
    choice = ctx.spark.conf.get(SETTING, "auto")
    if choice not in ("auto", "always", "never"):
        raise UsageError(
            f"the profile's Spark setting {SETTING} is {choice!r}", hint="Write auto, always or never, or leave it out."
        )
    if choice != "auto":
        return "" if choice == "always" else f"{SETTING} is never"
    small = sum(p.bytes for p in wanted.parts) < _AUTO_BYTES_A_CORE * ctx.spark.sparkContext.defaultParallelism
    return "that would take longer than it does for a table of this size" if small else ""


def _left(ctx: TaskContext, why: str) -> bool:
    ctx.info(f"the table is made by Voxelflow's own commit, not by CONVERT TO DELTA: {why}")
    return False


def _can_link(aside: Path) -> bool:
    probe = aside / ".probe"
    probe.touch()
    try:
        os.link(probe, aside / ".link")
    except OSError as exc:
        if exc.errno in CANNOT_LINK:
            return False
        raise
    finally:
        probe.unlink()
    (aside / ".link").unlink()
    return True


def _fill(aside: Path, files: Sequence[TableFile], wanted: Wanted) -> None:
    meter = Meter(sum(f.rows for f in files), "volumes", "filling the table")
    for part, file in zip(wanted.parts, files, strict=True):
        place(wanted.folder / part.path, aside / file.path, "copy" if wanted.mode == "copy" else "link")
        meter.add(file.rows)
    meter.finish()


def _convert(aside: Path, wanted: Wanted, ctx: TaskContext) -> None:
    given = table_properties(wanted.spec, in_place=wanted.mode == "in_place").items()
    properties = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in given)
    with settings(ctx, _STATISTICS):
        sql(ctx, f"CONVERT TO DELTA {table_name(aside, 'parquet')}", "making the table")
    sql(ctx, f"ALTER TABLE {table_name(aside)} SET TBLPROPERTIES ({properties})", "making the table")


def _problem(aside: Path, files: Sequence[TableFile], wanted: Wanted) -> str:
    """How the converted table differs from the one that our own commit would make, or ""."""
    try:
        made = open_table(aside)
    except VoxelflowError as exc:
        return exc.message
    if made.spec != wanted.spec:
        return f"its properties came out as {made.spec.describe()}"
    if types_of(made.columns) != types_of(columns_of(wanted, wanted.parts[0])):
        return f"its columns came out as {types_of(made.columns)}"
    found = {f.path: f for f in made.files}
    if found.keys() != {f.path for f in files}:
        return f"it took {len(found)} of {len(files)} files"
    wrong = (f.path for f in files if not _agrees(found[f.path], f))
    return next((f"its statistics of {path} are wrong" for path in wrong), "")


def _agrees(found: TableFile, wanted: TableFile) -> bool:
    same = (found.bytes, found.rows, found.labelled) == (wanted.bytes, wanted.rows, wanted.labelled)
    return same and found.id_min <= wanted.id_min and found.id_max >= wanted.id_max


def _keep_ledger(
    root: Path, aside: Path, files: Sequence[TableFile], wanted: Wanted, writer: TableWriter, ctx: TaskContext
) -> None:
    ledger = Ledger()
    for part, file in zip(wanted.parts, files, strict=True):
        shard = shard_of(part)
        ledger.files[file.path] = (Segment(shard, part.rows),)
        ledger.owners[shard] = source_of(wanted.dataset)
    ctx.commit_point("delta:before-ledger")
    made: TableVersion = replace(open_table(aside), root=root)
    write_ledger(made, ledger, writer.token)


def _publish(root: Path, aside: Path, files: Sequence[TableFile], wanted: Wanted, ctx: TaskContext) -> None:
    """Let the table appear. A kill before the rename leaves files that lie aside too, and so are known as nobody's."""
    log = aside / "_delta_log"
    # Hadoop's checksums tell of files that others may write anew; Spark reads the log without them.
    for checksum in log.glob(".*.crc"):
        checksum.unlink()
    new: list[Path] = []
    try:
        for file in files:
            target = root / file.path
            if not target.exists():
                new.append(target)
                place(aside / file.path, target, "link")
            ctx.commit_point("delta:file-linked")
        flush_many([*(root / f.path for f in files), root])
        flush_many([*(p for p in log.rglob("*") if p.is_file()), log])
        ctx.commit_point("delta:before-commit")
        log.rename(root / "_delta_log")
    except BaseException as exc:
        for path in new if not is_table(root) else ():
            path.unlink(missing_ok=True)
        if isinstance(exc, OSError) and exc.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise TableConflict(f"another program is making the table {root}", hint="Run it again.") from exc
        raise
    flush_many([root])
    ctx.commit_point("delta:after-commit")
