"""Filling a Delta table in object storage with a Parquet dataset: what is new is uploaded, what vanished is taken out.

Files are uploaded under names that tell their content, before any commit names them: what a killed run has uploaded
is found again. Such a name also says which source file the rows came from, and of a file that OptimizeDelta wrote its
*origins* say it (`remote_origins`). That is all that the next run must know. It holds while Voxelflow alone writes
the table: where another program did, it is refused.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from engine.context import TaskContext
from engine.errors import DataError, StaleInput, TableConflict, UsageError
from engine.progress import Meter
from engine.storage.objects import RemotePath
from nodes.delta.delta_table import TableFile
from nodes.delta.ingest_checks import Wanted, columns_of, refuse_other_columns, refuse_other_spec
from nodes.delta.ingest_plan import file_of
from nodes.delta.parquet_rewrite import PREFIX
from nodes.delta.remote_commit import commit_remote, create_remote
from nodes.delta.remote_origins import origins_of
from nodes.delta.remote_table import RemoteTable, is_remote_table, open_remote
from nodes.delta.shard_ledger import is_content_named, shard_of, source_of
from nodes.volume_parts import Part

TRIES = 5
UPLOADS = 4
"""Files that are uploaded at a time, each in pieces of 8 MB, four of them under way: 128 MB of memory."""


def ingest_remote(root: RemotePath, wanted: Wanted, ctx: TaskContext) -> RemoteTable:
    """Make the table at `root` hold the dataset, and give the version that does.

    Raises `SpecDiffers`, `UsageError` or `DataError` when the dataset and what lies there do not go together,
    `StaleInput` when another program has written the table, `TableConflict` when others kept committing.
    """
    if not wanted.parts:
        raise DataError(f"{wanted.dataset.uri} has no volumes to make a table of", hint="Check the step before.")
    for left in reversed(range(TRIES)):
        try:
            return _bring_up(root, wanted, ctx)
        except TableConflict as exc:
            if not left:
                raise
            ctx.info(f"{exc.message}: planning again")
    raise AssertionError


def _bring_up(root: RemotePath, wanted: Wanted, ctx: TaskContext) -> RemoteTable:
    if not is_remote_table(root):
        _refuse_other_objects(root)
        create_remote(root, wanted.spec, columns_of(wanted, wanted.parts[0]), _source(wanted), ctx)
        ctx.commit_point("remote:created")
    table = open_remote(root)
    _refuse_other_table(table, wanted)
    work = _plan(table, wanted)
    if not (work.adds or work.drops):
        return table
    refuse_other_columns(table.columns, root, wanted, [part for part, _ in work.adds])
    _upload(root, wanted, work, ctx)
    ctx.commit_point("remote:before-commit")
    added = [file for _, file in work.adds]
    commit_remote(table, added, work.drops, data_change=True, ctx=ctx, point="remote:after-commit")
    return open_remote(root)


@dataclass(frozen=True)
class _Work:
    """Parts to upload with the files they become, and files to take out."""

    adds: list[tuple[Part, TableFile]]
    drops: list[TableFile]


def _plan(table: RemoteTable, wanted: Wanted) -> _Work:
    files = {file.path: (part, file) for part in wanted.parts for file in [_table_file(part)]}
    if len(files) < len(wanted.parts):
        raise DataError(f"{wanted.dataset.uri} lists two files of one name", hint="Give each a name of its own.")
    drops: list[TableFile] = []
    present: set[str] = set()
    for file in table.files:
        origins = _origins(table, file)
        if origins is None and wanted.existing == "keep":
            raise StaleInput(
                f"another program has written {file.path} into the table {table.root}, so that nobody knows"
                " whether it holds rows of this dataset",
                hint="Set existing to replace, which fills the table again, or choose a new table.",
                parameter="existing",
            )
        # Of a file with rows that must go, those that stay come back with their own files.
        if origins is None or not files.keys() >= set(origins):
            drops.append(file)
        else:
            present |= set(origins)
    return _Work([item for path, item in files.items() if path not in present], drops)


def _origins(table: RemoteTable, file: TableFile) -> tuple[str, ...] | None:
    if file.path.startswith(PREFIX):
        return origins_of(table.root, file.path)
    return (file.path,) if is_content_named(file.path) else None


def _upload(root: RemotePath, wanted: Wanted, work: _Work, ctx: TaskContext) -> None:
    meter = Meter(sum(part.rows for part, _ in work.adds), "volumes", "uploading")

    def upload(part: Part, file: TableFile) -> int:
        source, target = wanted.folder / part.path, root / file.path
        try:
            if source.stat().st_size != part.bytes:
                raise StaleInput(f"{source} is not the file it was", hint="Run it again.")
            if not _stands(target, part.bytes):
                target.upload(source)
        except FileNotFoundError as exc:
            raise StaleInput(f"{source} is gone", hint="Run the node that made it again.") from exc
        return part.rows

    waiting = iter(work.adds)
    with ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload") as pool:
        under_way: set[Future[int]] = {pool.submit(upload, *item) for item in islice(waiting, UPLOADS)}
        try:
            while under_way:
                done, under_way = wait(under_way, timeout=0.5, return_when=FIRST_COMPLETED)
                ctx.check_cancelled()
                for future in done:
                    meter.add(future.result())
                    ctx.commit_point("remote:file-uploaded")
                    under_way |= {pool.submit(upload, *item) for item in islice(waiting, 1)}
        finally:
            pool.shutdown(cancel_futures=True)
    meter.finish()


def _stands(target: RemotePath, size: int) -> bool:
    try:
        return target.stat().size == size
    except FileNotFoundError:
        return False


def _refuse_other_objects(root: RemotePath) -> None:
    stranger = next((found.path for found in root.walk() if not found.path.startswith(("_", "."))), None)
    if stranger is not None:
        raise UsageError(
            f"{root} is neither a Delta table nor empty (it holds {stranger})",
            hint="Choose another place for the table.",
            parameter="table",
        )


def _refuse_other_table(table: RemoteTable, wanted: Wanted) -> None:
    refuse_other_spec(table.root, table.spec, wanted)
    if table.source != _source(wanted):
        raise UsageError(
            f"the table {table.root} was filled from another dataset",
            hint="In object storage a table takes one dataset. Choose another place for the table.",
            parameter="table",
        )


def _table_file(part: Part) -> TableFile:
    name = part.path.rsplit("/", 1)[-1]
    if not is_content_named(name) or name.startswith(PREFIX):
        digest = hashlib.blake2b(repr(tuple(shard_of(part))).encode(), digest_size=16).hexdigest()
        name = f"{name.removesuffix('.parquet').removeprefix(PREFIX)}-{digest}.parquet"
    return file_of(part, name)


def _source(wanted: Wanted) -> str:
    # A digest: the path of somebody's folder is nothing that a shared table should tell.
    return hashlib.blake2b(source_of(wanted.dataset).encode(), digest_size=16).hexdigest()
