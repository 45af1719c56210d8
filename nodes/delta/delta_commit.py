"""Committing to a Delta table: under its lock, fenced, all or nothing, durable.

Rewrites by two processes from one version would both succeed in delta-rs and double the rows, and
it removes files that are not there without a word. So every commit here is made under the table's
lock, against exactly the version it was planned for, with no retries: when anything else was
committed meanwhile it is refused, and the caller plans again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake import Transaction as DeltaTransaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from engine.context import TaskContext, Transaction
from engine.datasets import VolumeSpec
from engine.errors import DataError, TableConflict, UnsupportedTable
from engine.table_lock import WRITER_APP_ID, table_lock
from nodes.delta.delta_log import commit_file, last_writer, newest_version
from nodes.delta.delta_table import IN_PLACE, TableFile, is_table, load_delta
from nodes.delta.log_checkpoint import SPARK_CHECKSUM, make_checkpoint
from nodes.delta.log_state import checkpoint_file
from nodes.delta.log_writer import lines_of, write_commit
from nodes.durable_files import CANNOT_LINK, flush
from nodes.volume_layout import properties

MAX_ACTIONS = 10_000
"""Files added and removed in one commit: readers hold a commit in memory, delta-rs 3 kB a file where it commits."""
CHECKPOINT_INTERVAL = "10"
LOG_KEPT = {"delta.checkpointInterval": CHECKPOINT_INTERVAL, "delta.enableExpiredLogCleanup": "false"}
"""Properties of every table that Voxelflow makes."""

_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""The log is never cleaned here: references pin versions, and data versions are read from it."""


@dataclass(frozen=True)
class Change:
    """Files that come and go together: never in two commits."""

    adds: tuple[TableFile, ...] = ()
    removes: tuple[TableFile, ...] = ()

    @property
    def actions(self) -> int:
        return len(self.adds) + len(self.removes)


class Standing(Protocol):
    """What a commit is made on top of: a version of a table, its active files, and its last writer's token."""

    @property
    def version(self) -> int: ...
    @property
    def files(self) -> Sequence[TableFile]: ...
    @property
    def token(self) -> int: ...
    @property
    def plain_log(self) -> bool: ...


@contextmanager
def table_writer(root: Path, ctx: TaskContext) -> Iterator[TableWriter]:
    """The table's lock, with what commits under it. Waits while another process writes; raises `Cancelled`."""
    with table_lock(root, floor=lambda: _token_in_log(root), on_wait=ctx.info, is_cancelled=ctx.is_cancelled) as token:
        yield TableWriter(root, token, ctx.node_id)


@dataclass(frozen=True)
class TableWriter:
    """Commits to the table at `root` under the fencing token `token`. Get one from `table_writer`."""

    root: Path
    token: int
    node: str = ""

    def create(self, spec: VolumeSpec, schema: Schema, *, in_place: bool = False) -> None:
        """Make the empty table of volumes. Raises `TableConflict` when somebody just made it."""
        self.create_with(schema, table_properties(spec, in_place=in_place))

    def create_with(self, schema: Schema, configuration: Mapping[str, str]) -> None:
        """Make an empty table of any columns, with these properties. Raises as `create`."""
        with _told(self.root):
            DeltaTable.create(
                str(self.root),
                schema,
                configuration=configuration,
                # delta-rs would refuse properties whose names it does not know.
                raise_if_key_not_exists=False,
                commit_properties=self._properties(None),
                post_commithook_properties=_HOOKS,
            )
        self.flush_log(0)

    def commit(
        self,
        table: Standing,
        changes: Sequence[Change],
        *,
        data_change: bool,
        transaction: Transaction | None = None,
        after_each: Callable[[], None] = lambda: None,
    ) -> int:
        """Commit the changes on top of `table`, in parts of about `MAX_ACTIONS`; gives the new version.

        The files added must be durable, and the ledger that describes them written. `after_each` runs after each part.
        Raises `TableConflict` when the table is not as `changes` assumes: nothing of that part is then committed.
        """
        self._refuse_taken_over(table.token)
        active = {f.path for f in table.files}
        version = table.version
        for part in _parts(changes):
            self._refuse_moved(part, active)
            self._commit_part(table, version, part, data_change, transaction)
            version += 1
            active -= {f.path for c in part for f in c.removes}
            active |= {f.path for c in part for f in c.adds}
            after_each()
        if version != table.version:
            flush(make_checkpoint(self.root, version, int(CHECKPOINT_INTERVAL)))
        return version

    def _commit_part(
        self,
        table: Standing,
        version: int,
        part: list[Change],
        data_change: bool,
        transaction: Transaction | None,
    ) -> None:
        adds = [f for c in part for f in c.adds]
        removes = [f for c in part for f in c.removes]
        if table.plain_log:
            if not commit_file(self.root, version).exists():
                raise DataError(f"version {version} of the table {self.root} is gone", hint="Run it again.")
            given = {WRITER_APP_ID: self.token} | ({transaction.app_id: transaction.version} if transaction else {})
            lines = lines_of(adds, removes, data_change=data_change, transactions=given, node=self.node)
            try:
                write_commit(self.root, version + 1, lines)
                return
            except FileExistsError as exc:
                raise _beaten(self.root) from exc
            except OSError as exc:
                if exc.errno not in CANNOT_LINK:
                    raise DataError(f"the table {self.root} cannot be written: {exc}") from exc
        self._commit_by_delta_rs(version, adds, removes, data_change, transaction)

    def _commit_by_delta_rs(
        self,
        version: int,
        adds: Sequence[TableFile],
        removes: Sequence[TableFile],
        data_change: bool,
        transaction: Transaction | None,
    ) -> None:
        delta = load_delta(self.root, version)
        self._refuse_taken_over(delta.transaction_version(WRITER_APP_ID) or 0)
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [RemoveAction(f.path, data_change, now, f.bytes, {}) for f in removes]
        actions += [AddAction(f.path, f.bytes, {}, f.mtime_ms, data_change, f.statistics()) for f in adds]
        with _told(self.root):
            delta.create_write_transaction(
                actions,
                "append",
                delta.schema(),
                commit_properties=self._properties(transaction),
                post_commithook_properties=_HOOKS,
            )
        self.flush_log(version + 1)

    def sign(self, transaction: Transaction) -> None:
        """Leave the token and the transaction in the log of a table that another program made."""
        delta = load_delta(self.root)
        with _told(self.root):
            delta.create_write_transaction(
                [],
                "append",
                delta.schema(),
                commit_properties=self._properties(transaction),
                post_commithook_properties=_HOOKS,
            )
        self.flush_log(delta.version() + 1)

    def _refuse_taken_over(self, token: int) -> None:
        if token > self.token:
            raise TableConflict(
                f"another process took over writing the table {self.root}",
                hint="Run it again; if that comes back, put the table on a disk whose file locks work.",
            )

    def _refuse_moved(self, part: list[Change], active: set[str]) -> None:
        for change in part:
            if any(f.path not in active for f in change.removes) or any(f.path in active for f in change.adds):
                raise TableConflict(f"the files of the table {self.root} changed meanwhile", hint="Run it again.")

    def _properties(self, transaction: Transaction | None) -> CommitProperties:
        transactions = [DeltaTransaction(WRITER_APP_ID, self.token)]
        if transaction is not None:
            transactions.append(DeltaTransaction(transaction.app_id, transaction.version))
        return CommitProperties(
            custom_metadata={"voxelflow.node": self.node}, max_commit_retries=0, app_transactions=transactions
        )

    def flush_log(self, version: int) -> None:
        # delta-rs leaves its files to the system's cache: a power cut could lose a commit that was reported.
        log = self.root / "_delta_log"
        (log / SPARK_CHECKSUM).unlink(missing_ok=True)
        written = (commit_file(self.root, version), checkpoint_file(self.root, version), log / "_last_checkpoint", log)
        flush(p for p in written if p.exists())


def table_properties(spec: VolumeSpec, *, in_place: bool) -> dict[str, str]:
    """The properties of a table that Voxelflow makes."""
    return properties(spec) | LOG_KEPT | ({IN_PLACE: "true"} if in_place else {})


def _parts(changes: Sequence[Change]) -> Iterator[list[Change]]:
    part: list[Change] = []
    size = 0
    for change in changes:
        if part and size + change.actions > MAX_ACTIONS:
            yield part
            part, size = [], 0
        part.append(change)
        size += change.actions
    if part:
        yield part


def _token_in_log(root: Path) -> int:
    newest = newest_version(root)
    # Mostly the newest commit is one of ours: its first lines tell, where delta-rs would read the whole log.
    found = last_writer(root, newest) if newest is not None else None
    if found is not None:
        return found[1]
    return (load_delta(root).transaction_version(WRITER_APP_ID) or 0) if is_table(root) else 0


def _beaten(root: Path) -> TableConflict:
    return TableConflict(
        f"another program committed to the table {root} first",
        hint="Run it again; let only one program write the table at a time.",
    )


@contextmanager
def _told(root: Path) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as exc:
        if "nsupported" in str(exc):
            raise UnsupportedTable(f"the table {root} cannot be written: {exc}", hint="Choose another table.") from exc
        raise _beaten(root) from exc
    except TableNotFoundError as exc:
        raise DataError(f"the table {root} is gone", hint="Run it again.") from exc
    except DeltaError as exc:
        if "already exists" in str(exc):
            raise TableConflict(f"another program just made the table {root}", hint="Run it again.") from exc
        raise DataError(f"the table {root} cannot be written: {exc}") from exc
