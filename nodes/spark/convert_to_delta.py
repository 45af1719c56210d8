"""A new table made by Delta itself: `CONVERT TO DELTA` out of sight, then published by one rename.

The parts are linked into `_voxelflow/convert-TOKEN/` in the table's folder. There Delta converts them, and a
transaction of Delta gives the table our properties and our token; the result is compared with what it should hold. Then
its files are linked into the table's folder, and its log, whose paths are relative, moves there: before that rename
there is no table, after it all of it.

By default Delta also counts the nulls of the volumes, for which it reads every byte; statistics of id and label alone
are what our readers use, and cost only those columns. It declares every column nullable; the files say otherwise, and
readers go by them. Its bounds of long ids are cut short, which is allowed for wherever they are used.

Where it cannot be done so (files in folders, a disk without hard links), Delta makes an empty table, and the files come
by a commit of its own, as they do to a table that is there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from engine.errors import TableConflict, VoxelflowError
from engine.spark.failures import is_spark_error, spark_error
from engine.spark.jars import INTERPRETED
from engine.storage.files import flush_many, size_problem
from engine.storage.hard_link import CANNOT_LINK, link_or_copy
from engine.storage.local_place import LocalPlace
from nodes.spark.delta_transactions import DeltaTransactions
from nodes.spark.load_delta import wait_for_delta
from nodes.spark.session import settings, sql, table_name
from nodes.table.commit import TableWriter, table_properties
from nodes.table.ingest_checks import Wanted, columns_of, compare_columns, types_of
from nodes.table.ingest_plan import table_file
from nodes.table.ledger import Ledger, Segment, shard_of, source_of, write_ledger
from nodes.table.snapshot import TableFile, is_table, open_table
from nodes.table.staging import open_conversion

_STATISTICS = {"spark.databricks.delta.properties.defaults.dataSkippingStatsColumns": "id,label"}


def convert_to_delta(root: Path, wanted: Wanted, writer: TableWriter, ctx: TaskContext) -> bool:
    """Make the table at `root`, filled; False, with a message why, when it must be made empty and filled afterwards.

    Raises `DataError` when a column has several types in the parts, `TableConflict` when somebody just made the table.
    """
    columns = compare_columns(columns_of(wanted, wanted.parts[0]), root, wanted, wanted.parts)
    if columns.joining or columns.lacking:
        return _left(ctx, "its files have different columns")
    sizes = LocalPlace(root).sizes()
    files = [table_file(sizes, part, wanted.mode) for part in wanted.parts]
    if len({f.path for f in files}) < len(files) or any("/" in f.path or f.path.startswith(("_", ".")) for f in files):
        return _left(ctx, "its files lie in folders, or are hidden")
    if (root / "_delta_log").exists():
        return _left(ctx, f"there is something in {root / '_delta_log'} already")
    aside = open_conversion(root, writer.token)
    try:
        if not _can_link(aside):
            return _left(ctx, f"the file system of {root} has no hard links")
        _fill(aside, files, wanted)
        wait_for_delta(ctx)
        try:
            _convert(aside, wanted, writer, ctx)
        except Exception as exc:
            if not is_spark_error(exc):
                raise
            return _left(ctx, spark_error(exc).message)
        if problem := _problem(aside, files, wanted):
            return _left(ctx, problem)
        _keep_ledger(root, aside, files, wanted, writer, ctx)
        _publish(root, aside, files, wanted, ctx)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _left(ctx: TaskContext, why: str) -> bool:
    ctx.info(f"CONVERT TO DELTA cannot make the table, so Delta makes it empty and adds the files: {why}")
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
        link_or_copy(wanted.folder / part.path, aside / file.path, "copy" if wanted.mode == "copy" else "link")
        meter.add(file.rows)
    meter.finish()


def _convert(aside: Path, wanted: Wanted, writer: TableWriter, ctx: TaskContext) -> None:
    with settings(ctx, _STATISTICS | INTERPRETED):
        sql(ctx, f"CONVERT TO DELTA {table_name(aside, 'parquet')}", "making the table")
    given = table_properties(wanted.spec, in_place=wanted.mode == "in_place")
    DeltaTransactions(ctx).set_properties(aside, given, writer.token, writer.notes(ctx.transaction))


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
        ledger.owners[shard] = source_of(wanted.dataset.uri, LocalPlace(root))
    ctx.commit_point("delta:before-ledger")
    write_ledger(replace(open_table(aside), place=LocalPlace(root)), ledger, writer.token)


def _publish(root: Path, aside: Path, files: Sequence[TableFile], wanted: Wanted, ctx: TaskContext) -> None:
    """Let the table appear. A kill before the rename leaves files that lie aside too, and so are known as nobody's."""
    log = aside / "_delta_log"
    # Hadoop's checksums are of files that others may write anew; Spark reads the log without them.
    for checksum in log.glob(".*.crc"):
        checksum.unlink()
    with contextlib.suppress(OSError):  # for commits that a catalog coordinates; Delta makes it where it needs it
        (log / "_staged_commits").rmdir()
    new: list[Path] = []
    try:
        for file in files:
            target = root / file.path
            if size_problem(target, file.bytes):
                new.append(target)
            link_or_copy(aside / file.path, target, "link")
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
