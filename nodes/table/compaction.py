"""Compacting a Delta table: many small files become few large ones, and no row changes.

It goes in increments. New files are written aside (`nodes.table.staging`), several at once, while others may read and
write the table; as soon as some are ready, one commit takes the small files out and the large ones in, provided
that nobody committed meanwhile; else the work is planned again from the newest version, and files that still fit are
not written twice. So a task that is killed, or meets rows that are new, keeps the increments it had committed, and the
next one goes on from there. `DeltaTable.optimize.compact` is never used: two of them double the rows.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeDelta
from engine.declare.progress import Meter
from engine.errors import DataError, StaleInput, TableConflict, UsageError
from engine.text import plural
from nodes.table.check import damage_in
from nodes.table.commit import MAX_ACTIONS, Committer, table_writer
from nodes.table.constraints import refuse_rewriting
from nodes.table.ledger import concatenate, cut, drop_old_ledgers, ledgers_up_to, write_ledger, write_news
from nodes.table.log import data_version, last_writer, newest_version
from nodes.table.log_writer import Change
from nodes.table.provenance import open_ledger
from nodes.table.snapshot import TableFile, TableVersion, open_table
from nodes.table.staging import Staging, open_staging
from nodes.volume_file.rewrite import (
    GROUP_BYTES,
    Recipe,
    RowSource,
    compression_of,
    layout_problem,
    read_metadata,
)

TRIES = 5
INCREMENT_ACTIONS = MAX_ACTIONS
"""What one commit takes at least, in files added and removed (or in bytes: `Staging.increment_bytes`)."""
_POLL_S = 0.5
_GROUPS = 3
"""Row groups in memory while rows are decoded and written again."""
_AHEAD = 4
"""Bins a thread is given beforehand: what waits is in memory."""


@dataclass(frozen=True)
class Bin:
    """Files to write together, in order. `odd` when one of them is not in the volume layout."""

    files: tuple[TableFile, ...]
    odd: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of the files together."""
        return sum(f.bytes for f in self.files)

    @property
    def rows(self) -> int:
        """Rows of the files together."""
        return sum(f.rows for f in self.files)


@dataclass(frozen=True)
class Target:
    """What the files should be like afterwards."""

    file_bytes: int
    min_fill: float
    rewrite_layout: bool


Job = Callable[[Bin], tuple[list[RowSource], Recipe]]
"""What to write for a bin, and how."""
Rewritten = Generator[tuple[int, tuple[TableFile, ...]], None, None]
RewriteBins = Callable[[Sequence[Bin], Job, Staging, TaskContext, Meter], Rewritten]
"""Writes the bins: gives (number, new files in the staging) of each when it is done, in any order; to be closed."""


class _StoppedError(Exception):
    """The file is not wanted any more."""


def rewrite_in_threads(bins: Sequence[Bin], job: Job, staging: Staging, ctx: TaskContext, meter: Meter) -> Rewritten:
    """See `RewriteBins`: by threads of this process; one copies while another waits for the disk or the network."""
    most = min(ctx.resources.cores, ctx.resources.memory_bytes // (_GROUPS * GROUP_BYTES))
    threads = max(1, min(staging.threads or most, len(bins)))
    messages: queue.Queue[int | tuple[int, tuple[TableFile, ...]] | BaseException] = queue.Queue()
    stop = threading.Event()

    def on_rows(rows: int) -> None:
        if stop.is_set():
            raise _StoppedError
        messages.put(rows)

    def work(number: int) -> None:
        try:
            messages.put((number, staging.rewrite(*job(bins[number]), on_rows)))
        except BaseException as exc:
            messages.put(exc)

    waiting = iter(range(len(bins)))
    left = len(bins)
    with ThreadPoolExecutor(threads, thread_name_prefix="rewrite") as pool:
        try:
            for number in islice(waiting, threads * _AHEAD):
                pool.submit(work, number)
            while left:
                try:
                    message = messages.get(timeout=_POLL_S)
                except queue.Empty:
                    ctx.check_cancelled()
                    continue
                if isinstance(message, BaseException):
                    raise message
                if isinstance(message, int):
                    meter.add(message)
                    continue
                left -= 1
                for number in islice(waiting, 1):
                    pool.submit(work, number)
                yield message
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def compact(
    table: VolumeDelta,
    target: Target,
    ctx: TaskContext,
    rewrite: RewriteBins = rewrite_in_threads,
    committer: Committer | None = None,
) -> TableVersion:
    """Compact the newest version of the table; gives the version that is then newest (the same with nothing to do).

    `rewrite` writes the files, `committer` makes the commits of a local table.

    Raises `StaleInput` when its rows are no longer those that `table` refers to, `TableConflict`
    when other programs kept committing, `UnsupportedTable` for a table that keeps an id for each row, `UsageError`
    when the layout of files outside of a local folder should be looked into. Increments that were committed before
    stay.
    """
    current = fresh(table)
    if committer is None:
        current.rules.check(table.uri)
    if target.rewrite_layout and current.place.local_folder is None:
        raise UsageError(
            f"the layout of the files of {current.place} is not looked into: they do not lie in a local folder",
            hint="Set rewrite_layout to false, or optimise the table before it goes there.",
            parameter="rewrite_layout",
        )
    left, fewest = TRIES, sys.maxsize
    with open_staging(current.place, ctx) as staging:
        while bins := _plan(current, target):
            refuse_rewriting(current.place, current.properties)
            small = sum(len(b.files) for b in bins)
            ctx.info(f"compacting {plural(small, 'files')} into about {_expected(bins, target):,}")
            if small < fewest:
                # Another compaction may take a share of the work: that is no conflict without end.
                left, fewest = TRIES, small
            planned = [current]
            # The round knows the files, and lets go of those that it has replaced.
            current = replace(current, files=())
            try:
                _Round(planned.pop(), bins, target, staging, ctx, committer).run(rewrite)
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
        if staging.unchecked:
            ctx.info(f"copied without a check: {plural(staging.unchecked, 'volumes')}, in files without checksums")
        staging.clear()
        return current


def fresh(table: VolumeDelta) -> TableVersion:
    """The table's newest version, which holds the rows that the reference means.

    Raises `StaleInput` when it holds others, `DataError` when one of its files is damaged.
    """
    current = open_table(table.uri)
    changed = data_version(current.place, current.version, (table.version, table.data_version)) != table.data_version
    # The count shows a table that was deleted and made anew: its versions begin again.
    if changed or sum(f.rows for f in current.files) != table.count:
        raise StaleInput(
            f"the table {table.uri} has other rows since version {table.version} (it is at version {current.version})",
            hint="Run the nodes before this one again, so that they refer to the newest version.",
        )
    if damage := damage_in(current):
        raise DataError(
            f"{damage}, in the table {table.uri}",
            hint="Run again from the node that makes the table (--from): it fills it again from the Parquet files.",
        )
    return current


def _plan(current: TableVersion, target: Target) -> list[Bin]:
    odd: set[str] = set()
    if target.rewrite_layout:
        odd = {f.path for f in current.files if layout_problem(read_metadata(current.root / f.path, f.bytes))}
    return plan_bins(current.files, target.file_bytes, target.min_fill, odd)


def plan_bins(files: Sequence[TableFile], target_bytes: int, min_fill: float, odd: Collection[str] = ()) -> list[Bin]:
    """Pack the files that are smaller than `min_fill` of the target, in their order, into bins up to the target.

    Files of a good size stay as they are. Files named in `odd` are written again whatever their size. A bin of a single
    file in good layout is left out: writing it again would gain nothing. So every bin leaves fewer
    files than it takes, or corrects a layout, and planning again ends after a few rounds.
    """
    bins: list[list[TableFile]] = []
    size = 0
    for file in files:
        if file.path not in odd and file.bytes >= min_fill * target_bytes:
            continue
        if not bins or size + file.bytes > target_bytes:
            bins.append([])
            size = 0
        bins[-1].append(file)
        size += file.bytes
    found = [Bin(tuple(some), any(f.path in odd for f in some)) for some in bins]
    return [b for b in found if b.odd or len(b.files) > 1]


def _expected(bins: Sequence[Bin], target: Target) -> int:
    return sum(max(1, round(b.bytes / target.file_bytes)) for b in bins)


class _Round:
    """The bins of one plan, on their way into the table."""

    def __init__(
        self,
        planned: TableVersion,
        bins: list[Bin],
        target: Target,
        staging: Staging,
        ctx: TaskContext,
        committer: Committer | None,
    ) -> None:
        self._bins, self._target, self._staging, self._ctx = bins, target, staging, ctx
        self._committer = committer
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
                if self._is_worth_a_commit(change for _, change in ready):
                    self._commit(ready)
                    ready = []
        meter.finish()
        if ready:
            self._commit(ready)

    def _job(self, item: Bin) -> tuple[list[RowSource], Recipe]:
        spec = self._table.spec
        sources = self._staging.sources([(f, ((0, f.rows),)) for f in item.files])
        if item.odd:
            # Written plain they may grow beyond the target: then they become several.
            return sources, Recipe.of(spec, self._columns, max_bytes=self._target.file_bytes)
        # Files that are compressed stay compressed.
        compression = compression_of(read_metadata(s.path, s.bytes) for s in sources)
        return sources, Recipe.of(spec, self._columns, compression)

    def _commit(self, ready: list[tuple[int, Change]]) -> None:
        ctx, place = self._ctx, self._table.place
        changes = [change for _, change in sorted(ready, key=lambda item: item[0])]
        made = [f for c in changes for f in c.adds]
        # Before the lock: others need not wait for the disk.
        self._staging.settle(made)
        with table_writer(place, ctx, self._committer) as writer:
            self._refuse_if_moved_on()
            self._follow(changes)
            self._staging.join(made)
            token = writer.claim(self._table)
            if self._recorded and not self._ledger.absorbed:
                before = ledgers_up_to(place, self._table.token)
                write_news(place, self._ledger, [f.path for f in made], token, before)
            else:
                write_ledger(self._table, self._ledger, token)
            ctx.commit_point("optimize:before-commit")
            version = writer.commit(
                self._table,
                changes,
                data_change=False,
                transaction=ctx.transaction,
                after_each=lambda: ctx.commit_point("optimize:after-commit"),
            )
            drop_old_ledgers(place, token)
        self._recorded = True
        self._enter(changes, version, token)
        for number, _ in ready:
            self._bins[number] = Bin(())

    def _refuse_if_moved_on(self) -> None:
        place, version = self._table.place, self._table.version
        newest = newest_version(place)
        if newest != version:
            raise TableConflict(f"the table {place} is at version {newest} now, not {version}", hint="Run it again.")
        # A table that was deleted and made anew counts from the beginning; its last token differs.
        writer = last_writer(place, version)
        if writer is not None and writer[1] != self._table.token:
            raise TableConflict(f"the table {place} was made anew", hint="Run it again.")

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
                    # Where its rows were is in the ledgers that are written.
                    self._ledger.files.pop(file.path, None)
            self._active |= {f.path: f for f in change.adds}
        self._table = replace(self._table, version=version, token=token, files=tuple(self._active.values()))

    def _is_worth_a_commit(self, changes: Iterable[Change]) -> bool:
        actions = size = 0
        for change in changes:
            actions += change.actions
            size += sum(f.bytes for f in change.adds)
        return actions >= INCREMENT_ACTIONS or size >= self._staging.increment_bytes
