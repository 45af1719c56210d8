"""Compacting a Delta table in object storage: small files are fetched, joined on the local disk, and sent back as one.

In increments: some bins, then a commit that changes no row. A task that is killed keeps what it had committed, and
finds what it had uploaded. A commit is made against exactly the version that was planned for (`remote_commit`): when
anything else was committed meanwhile it is refused, and the work is planned again.

On disk: `BINS` bins at a time, each once as it was and once as it becomes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pyarrow as pa

from engine.context import TaskContext
from engine.datasets import VolumeDelta
from engine.errors import DataError, StaleInput, TableConflict, UsageError
from engine.progress import Meter
from engine.storage.objects import RemotePath
from nodes.delta.compaction import TRIES, Target
from nodes.delta.compaction_plan import Bin, plan_bins
from nodes.delta.delta_table import TableFile, describe_file
from nodes.delta.parquet_rewrite import (
    PREFIX,
    Recipe,
    RowSource,
    compression_of,
    read_metadata,
    rewrite,
    rewritten_name,
)
from nodes.delta.remote_commit import commit_remote
from nodes.delta.remote_origins import origins_of, write_origins
from nodes.delta.remote_table import RemoteTable, data_version, open_remote

BINS = 2
FETCHES = 16
BINS_A_COMMIT = 20


def compact_remote(table: VolumeDelta, target: Target, ctx: TaskContext) -> RemoteTable:
    """Compact the newest version of the table; gives the version that stands then.

    Raises `StaleInput` when its rows are no longer those that `table` refers to, `TableConflict` when other programs
    kept committing, `UsageError` when the layout should be looked into.
    """
    if target.rewrite_layout:
        raise UsageError(
            "the layout of files in object storage is not looked into",
            hint="Set rewrite_layout to false, or optimise the table before it goes there.",
            parameter="rewrite_layout",
        )
    for left in reversed(range(TRIES)):
        current = _fresh(table)
        bins = plan_bins(current.files, target.file_bytes, target.min_fill)
        if not bins:
            return current
        ctx.info(f"{sum(len(b.files) for b in bins)} files are written again as {len(bins)}")
        try:
            _compact(current, bins, ctx)
        except TableConflict as exc:
            if not left:
                raise
            ctx.info(f"{exc.message}: planning again")
    return _fresh(table)


def _fresh(table: VolumeDelta) -> RemoteTable:
    current = open_remote(RemotePath.at(table.uri))
    known = (table.version, table.data_version)
    changed = data_version(current.root, current.version, known) != table.data_version
    if changed or sum(f.rows for f in current.files) != table.count:
        raise StaleInput(
            f"the table {table.uri} has other rows since version {table.version} (it is at version {current.version})",
            hint="Run the nodes before this one again, so that they refer to the newest version.",
        )
    return current


def _compact(current: RemoteTable, bins: Sequence[Bin], ctx: TaskContext) -> None:
    meter = Meter(sum(b.rows for b in bins), "volumes", "writing large files")
    for start in range(0, len(bins), BINS_A_COMMIT):
        some = bins[start : start + BINS_A_COMMIT]
        made: list[TableFile] = []
        with contextlib.closing(_rewritten(current, some, ctx)) as done:
            for files in done:
                made += files
                meter.add(sum(f.rows for f in files))
                ctx.commit_point("remote:file-rewritten")
        ctx.commit_point("remote:before-commit")
        removes = [file for b in some for file in b.files]
        commit_remote(current, made, removes, data_change=False, ctx=ctx, point="remote:after-commit")
        current = open_remote(current.root)
    meter.finish()


def _rewritten(
    current: RemoteTable, bins: Sequence[Bin], ctx: TaskContext
) -> Generator[tuple[TableFile, ...], None, None]:
    """The files that the bins become, uploaded; in the bins' order."""
    with ThreadPoolExecutor(FETCHES) as fetchers, ThreadPoolExecutor(BINS) as pool:
        coming = iter(bins)
        waiting: list[Future[tuple[TableFile, ...]]] = []
        try:
            while True:
                while len(waiting) < BINS and (item := next(coming, None)) is not None:
                    waiting.append(pool.submit(_one, current, item, ctx.scratch, fetchers))
                if not waiting:
                    return
                ctx.check_cancelled()
                yield waiting.pop(0).result()
        finally:
            fetchers.shutdown(cancel_futures=True)
            pool.shutdown(cancel_futures=True)


def _one(current: RemoteTable, item: Bin, scratch: Path, fetchers: ThreadPoolExecutor) -> tuple[TableFile, ...]:
    root = current.root
    folder = scratch / f"bin-{item.files[0].path.removesuffix('.parquet')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        sources = [RowSource(folder / f.path, f.bytes, ((0, f.rows),)) for f in item.files]
        for _ in fetchers.map(lambda f: _fetch(root / f.path, folder / f.path, f.bytes), item.files):
            pass
        compression = compression_of(read_metadata(s.path, s.bytes) for s in sources)
        recipe = Recipe.of(current.spec, pa.schema(current.columns.to_arrow()), compression)
        name = rewritten_name(sources, recipe)
        paths = rewrite(sources, recipe, folder, name, lambda _: None)
        made = tuple(describe_file(folder, path.name) for path in paths)
        if sum(f.rows for f in made) != item.rows:
            raise DataError(f"the new files {name} do not hold the rows they should", hint="Run it again.")
        origins = _origins(root, item)
        for path in paths:
            if origins is not None:
                write_origins(root, path.name, origins)
            (root / path.name).upload(path)
        return made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _origins(root: RemotePath, item: Bin) -> list[str] | None:
    found = [origins_of(root, f.path) if f.path.startswith(PREFIX) else (f.path,) for f in item.files]
    known = [origins for origins in found if origins is not None]
    return list(chain.from_iterable(known)) if len(known) == len(found) else None


def _fetch(place: RemotePath, target: Path, size: int) -> None:
    try:
        data, found = place.read()
    except FileNotFoundError as exc:
        raise DataError(f"{place} is gone", hint="Make the table again.") from exc
    if found.size != size:
        raise DataError(f"{place} has {found.size} bytes, not {size} as the table's log says", hint="Make it again.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
