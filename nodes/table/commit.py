"""Committing to a Delta table: fenced, all or nothing, durable.

Rewrites by two processes from one version would both succeed in delta-rs and double the rows, and
it silently removes files that are not there. So every commit here is made against exactly the version it was
planned for, with no retries: when anything else was committed meanwhile it is refused, and the caller plans again.

Locally commits are made under the table's lock too. In an object store no two machines share a lock, and none is
needed: the store writes a version of the log only if nobody has written it (a conditional put).

Under a Spark profile a local table's commits are made by Delta's own transactions (`Committer`); what is planned, the
lock, the tokens and the ledger are the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake import Transaction as DeltaTransaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Field
from deltalake.transaction import AddAction, RemoveAction

from engine.declare.context import TaskContext, Transaction
from engine.declare.datasets import VolumeSpec
from engine.errors import DataError, TableConflict, UnsupportedTable, VoxelflowError
from engine.storage.files import flush
from engine.storage.find_place import place_at
from engine.storage.hard_link import CANNOT_LINK
from engine.storage.io_errors import remedy
from engine.storage.objects import redact
from engine.storage.place import Place
from engine.storage.table_lock import WRITER_APP_ID, table_lock
from nodes.table.delta_rs_paths import refuse_misspelled
from nodes.table.features import CommitRules
from nodes.table.ledger import claim_token, newest_token
from nodes.table.log import LOG, actions, checkpoint_file, commit_file, last_writer, newest_version
from nodes.table.log_checkpoint import SPARK_CHECKSUM, make_checkpoint
from nodes.table.log_copy import log_copy
from nodes.table.log_writer import Change, Operation, lines_of, timestamp_after, write_commit
from nodes.table.snapshot import IN_PLACE, TableFile, TableVersion, is_table, last_token, load_delta, refuse_misread
from nodes.volume_file.layout import properties

MAX_ACTIONS = 10_000
"""Files added and removed in one commit: readers hold a commit in memory, delta-rs 3 kB a file where it commits."""
CHECKPOINT_INTERVAL = "10"
LOG_KEPT = {"delta.checkpointInterval": CHECKPOINT_INTERVAL, "delta.enableExpiredLogCleanup": "false"}
"""Properties of every table that Voxelflow makes."""

NODE_NOTE = "voxelflow.node"
"""In a commit's description: the node that made it."""
TASK_NOTE = "voxelflow.task"
"""In a commit's description: the task that made it. A transaction of its own would stay in the log for ever."""

_NOTE_TRIES = 5
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""The log is never cleaned here: references pin versions, and data versions are read from it."""


class CommitPart(NamedTuple):
    """One commit on top of `version`, by the writer with the fencing `token` (0: it leaves none).

    `notes` go into the commit's description.
    """

    version: int
    changes: Sequence[Change]
    operation: Operation
    data_change: bool
    token: int
    notes: Mapping[str, str]

    @property
    def adds(self) -> list[TableFile]:
        """The files that come."""
        return [f for c in self.changes for f in c.adds]

    @property
    def removes(self) -> list[TableFile]:
        """The files that go."""
        return [f for c in self.changes for f in c.removes]


class Committer(Protocol):
    """Who makes the commits of local tables in place of us. Both methods make exactly one version, durable."""

    def create(
        self, root: Path, schema: Schema, configuration: Mapping[str, str], token: int, notes: Mapping[str, str]
    ) -> None:
        """Make an empty table with these properties. Raises `TableConflict` when somebody just made one."""

    def commit(self, root: Path, part: CommitPart) -> None:
        """Commit on top of `part.version` or not at all.

        Raises `TableConflict` when that is not the newest version any more, or its token is not below ours;
        `UnsupportedTable` or `DataError` when the table does not take such a commit.
        """

    def add_columns(self, root: Path, schema: Schema, version: int, notes: Mapping[str, str]) -> None:
        """Give the table at `version` this schema, which has more columns than its own. Raises as `commit`."""


class Base(Protocol):
    """What a commit is made on top of: a version of a table, its active files, and its last writer's token."""

    @property
    def version(self) -> int: ...
    @property
    def files(self) -> Sequence[TableFile]: ...
    @property
    def token(self) -> int: ...
    @property
    def rules(self) -> CommitRules: ...


@contextmanager
def table_writer(root: Path | Place, ctx: TaskContext, committer: Committer | None = None) -> Iterator[TableWriter]:
    """What commits to the table. Locally under its lock: waits while another process writes; raises `Cancelled`.

    `committer` makes the commits of a local table. In an object store they stay ours: several machines may write
    there, and only a conditional put keeps one from replacing another's commit.
    """
    place = place_at(root)
    folder = place.local_folder
    if folder is None:
        yield TableWriter(place, 0, ctx.node_id)
        return
    floor = partial(_last_token, place)
    with table_lock(folder, floor=floor, on_wait=ctx.info, is_cancelled=ctx.is_cancelled) as token:
        yield TableWriter(place, token, ctx.node_id, committer)


@dataclass
class TableWriter:
    """Commits to the table at `place` under the fencing token `token`. Get one from `table_writer`."""

    place: Place
    token: int
    """0: there is no lock, and no token has been claimed yet."""
    node: str = ""
    committer: Committer | None = None
    """None: commits are lines that we write, or delta-rs'."""

    @property
    def root(self) -> Path:
        """The table's local folder. Raises `UsageError` where it does not lie in one."""
        return self.place.folder

    def claim(self, table: Base) -> int:
        """The token for the next commit on top of `table`, under which its ledger is written before."""
        if self.place.local_folder is None:
            self.token = claim_token(self.place, table.token)
        return self.token

    def create(self, spec: VolumeSpec, schema: Schema, *, in_place: bool = False) -> None:
        """Make the empty table of volumes. Raises `TableConflict` when somebody just made it."""
        self.create_with(schema, table_properties(spec, in_place=in_place))

    def create_with(self, schema: Schema, configuration: Mapping[str, str]) -> None:
        """Make an empty table of any columns, with these properties. Raises as `create`."""
        if self.committer is not None:
            self.committer.create(self.root, schema, configuration, self.token, self.notes())
            return
        refuse_misread(self.place)
        if (address := self.place.delta_rs_address) is not None:
            self._create_by_delta_rs(address, schema, configuration)
            self.flush_log(0)
            return
        with log_copy(self.place) as copy:
            self._create_by_delta_rs(str(copy), schema, configuration)
            self._link_commit(0, [commit_file(copy, 0).read_bytes()])

    def _create_by_delta_rs(self, address: str, schema: Schema, configuration: Mapping[str, str]) -> None:
        with _in_our_words(self.place):
            DeltaTable.create(
                address,
                schema,
                configuration=configuration,
                # delta-rs would refuse properties whose names it does not know.
                raise_if_key_not_exists=False,
                commit_properties=self._properties(self.notes()),
                post_commithook_properties=_HOOKS,
            )

    def commit(
        self,
        table: Base,
        changes: Sequence[Change],
        *,
        data_change: bool,
        transaction: Transaction | None = None,
        after_each: Callable[[], None] = lambda: None,
    ) -> int:
        """Commit the changes on top of `table`, in parts of about `MAX_ACTIONS`; gives the new version.

        The files added must be durable, and the ledger that describes them written. `after_each` runs after each part.
        Raises `TableConflict` when the table is not as `changes` assumes: nothing of that part is then committed;
        `UnsupportedTable` when the table takes no such commit.
        """
        self.check(table.rules)
        self._refuse_taken_over(table.token)
        active = {f.path for f in table.files}
        version = table.version
        for changes_together in _parts(changes):
            self._refuse_moved(changes_together, active)
            active.difference_update(f.path for c in changes_together for f in c.removes)
            operation = Operation.of(changes_together, data_change=data_change, replaces_all=not active)
            notes = self.notes(transaction)
            part = CommitPart(version, changes_together, operation, data_change, self.token, notes)
            self._commit_part(part, table.rules)
            version += 1
            active.update(f.path for f in part.adds)
            after_each()
        if version != table.version and self.committer is None:
            make_checkpoint(self.place, version, int(CHECKPOINT_INTERVAL))
        return version

    def add_columns(self, table: TableVersion, columns: Sequence[Field]) -> str:
        """Have the table get these nullable columns, by a commit that changes no row; gives their names.

        Without our token: no ledger is written for it. Raises `TableConflict` when the table is not at this version.
        """
        self.check(table.rules)
        schema = Schema([*table.columns.fields, *columns])
        names = ", ".join(column.name for column in columns)
        if self.committer is not None:
            self.committer.add_columns(self.root, schema, table.version, self.notes())
            return names
        metadata = load_delta(self.place, table.version).metadata()
        given = {"name": metadata.name, "description": metadata.description}
        action = {
            "id": metadata.id,
            **{name: text for name, text in given.items() if text is not None},
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.to_json(),
            "partitionColumns": metadata.partition_columns,
            "configuration": metadata.configuration,
            "createdTime": metadata.created_time,
        }
        added = [{"column": json.loads(column.to_json())} for column in columns]
        timestamp = timestamp_after(self.place, table.version) if table.rules.in_commit_timestamps else None
        lines = lines_of(
            (),
            Operation("ADD COLUMNS", {"columns": json.dumps(added)}, {}),
            notes=self.notes(),
            in_commit_timestamp=timestamp,
            metadata=action,
        )
        if not self._link_commit(table.version + 1, lines):
            with _in_our_words(self.place):
                load_delta(self.place, table.version).alter.add_columns(list(columns))
            self.flush_log(table.version + 1)
        return names

    def check(self, rules: CommitRules) -> None:
        """Raise `UnsupportedTable` when a table with these rules takes no commit of ours. A committer has its own."""
        if self.committer is None:
            rules.check(self.place)

    def _commit_part(self, part: CommitPart, rules: CommitRules) -> None:
        if self.committer is not None:
            self.committer.commit(self.root, part)
            return
        if rules.append_only and part.data_change and part.removes:
            raise UnsupportedTable(
                f"rows may not leave the table {self.place}: its property delta.appendOnly is true",
                hint="Choose another table, or set that property to false.",
            )
        timestamp = timestamp_after(self.place, part.version) if rules.in_commit_timestamps else None
        lines = lines_of(
            part.changes,
            part.operation,
            data_change=part.data_change,
            token=(WRITER_APP_ID, part.token),
            notes=part.notes,
            in_commit_timestamp=timestamp,
        )
        if not self._write_lines(part.version, lines):
            self._commit_by_delta_rs(part)

    def _write_lines(self, version: int, lines: Iterable[bytes]) -> bool:
        """Write the commit after `version`; False where the file system cannot (`_link_commit`)."""
        try:
            for action in actions(self.place, version, "txn"):
                if action.get("appId") == WRITER_APP_ID:
                    self._refuse_taken_over(int(action["version"]))
        except FileNotFoundError as exc:
            raise DataError(f"version {version} of the table {self.place} is gone", hint="Run it again.") from exc
        return self._link_commit(version + 1, lines)

    def _link_commit(self, version: int, lines: Iterable[bytes]) -> bool:
        """Write the commit of a version that is not there; False where the file system has neither hard links nor a
        rename that replaces nothing."""
        try:
            write_commit(self.place, version, lines)
        except FileExistsError as exc:
            raise beaten(self.place) from exc
        except OSError as exc:
            # What delta-rs cannot open, it cannot commit to either.
            if exc.errno not in CANNOT_LINK or self.place.delta_rs_address is None:
                raise DataError(f"the table {self.place} cannot be written: {exc}", hint=remedy(exc)) from exc
            return False
        return True

    def _commit_by_delta_rs(self, part: CommitPart) -> None:
        refuse_misspelled(self.place, part.removes)
        delta = load_delta(self.place, part.version)
        now, change = int(time.time() * 1000), part.data_change
        files: list[AddAction | RemoveAction] = [RemoveAction(f.path, change, now, f.bytes, {}) for f in part.removes]
        files += [AddAction(f.path, f.bytes, {}, f.mtime_ms, change, f.statistics()) for f in part.adds]
        version = delta.version() + 1
        with _in_our_words(self.place):
            delta.create_write_transaction(
                files,
                "append",
                delta.schema(),
                commit_properties=self._properties(part.notes),
                post_commithook_properties=_HOOKS,
            )
        self.flush_log(version)

    def note(self, operation: Operation, rules: CommitRules) -> None:
        """Have the log say what was done to the table's files, as far as `rules` let us; the version's files stay.

        Without our token: what other programs did since our last commit is still to be looked at.
        """
        for _ in range(0 if rules.refusal and self.committer is None else _NOTE_TRIES):
            version = newest_version(self.place) or 0
            part = CommitPart(version, (), operation, data_change=False, token=0, notes=self.notes())
            try:
                self._write_note(part, rules)
            except (FileExistsError, TableConflict):
                continue
            except (OSError, UnsupportedTable, DataError):
                # A full disk, for one, is what files are deleted for.
                pass
            break

    def _write_note(self, part: CommitPart, rules: CommitRules) -> None:
        if self.committer is not None:
            self.committer.commit(self.root, part)
            return
        timestamp = timestamp_after(self.place, part.version) if rules.in_commit_timestamps else None
        lines = lines_of((), part.operation, notes=part.notes, in_commit_timestamp=timestamp)
        write_commit(self.place, part.version + 1, lines)

    def _refuse_taken_over(self, token: int) -> None:
        if token > self.token:
            raise taken_over(self.place)

    def _refuse_moved(self, part: list[Change], active: set[str]) -> None:
        for change in part:
            if any(f.path not in active for f in change.removes) or any(f.path in active for f in change.adds):
                raise TableConflict(f"the files of the table {self.place} changed meanwhile", hint="Run it again.")

    def _properties(self, notes: Mapping[str, str]) -> CommitProperties:
        transactions = [DeltaTransaction(WRITER_APP_ID, self.token)] if self.token else []
        return CommitProperties(custom_metadata=dict(notes), max_commit_retries=0, app_transactions=transactions)

    def notes(self, transaction: Transaction | None = None) -> dict[str, str]:
        """What a commit's description says of who made it."""
        return {NODE_NOTE: self.node} | ({TASK_NOTE: transaction.app_id} if transaction is not None else {})

    def flush_log(self, version: int) -> None:
        """Have what delta-rs or Spark wrote of the log at this version durable, in a local table."""
        if (folder := self.place.local_folder) is not None:
            flush_log(folder, version)


def flush_log(root: Path, version: int) -> None:
    """Have what another program wrote of a local table's log at this version durable."""
    # delta-rs and Spark leave their files to the system's cache: a power cut could lose a commit that was reported.
    log = root / LOG
    (log / SPARK_CHECKSUM).unlink(missing_ok=True)
    written = (commit_file(root, version), checkpoint_file(root, version), log / "_last_checkpoint", log)
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


def _last_token(place: Place) -> int:
    # A ledger that was written for a commit which never came has used up its token too: nobody else may commit with it.
    return max(_token_in_log(place), newest_token(place))


def _token_in_log(place: Place) -> int:
    newest = newest_version(place)
    # Mostly the newest commit is one of ours: its first lines have it, where delta-rs would read the whole log.
    found = last_writer(place, newest) if newest is not None else None
    if found is not None:
        return found[1]
    return last_token(load_delta(place), place) if is_table(place) else 0


def beaten(place: object) -> TableConflict:
    """The error of a commit that lost to another writer's."""
    return TableConflict(
        f"another program committed to the table {place} first",
        hint="Run it again; let only one program write the table at a time.",
    )


def taken_over(place: object) -> TableConflict:
    """The error of a writer whose lock another one holds by now, as its newer token shows."""
    return TableConflict(
        f"another process took over writing the table {place}",
        hint="Run it again; if that comes back, put the table on a disk whose file locks work.",
    )


@contextmanager
def _in_our_words(place: Place) -> Iterator[None]:
    """delta-rs' errors as ours."""
    try:
        yield
    except (DeltaError, OSError) as exc:
        if place.local_folder is None:
            # Not chained: the library's text may hold secrets, which ours leaves out.
            raise (place.error_of(exc) if isinstance(exc, OSError) else _error(place, exc)) from None
        if isinstance(exc, OSError):
            raise
        raise _error(place, exc) from exc


def _error(place: Place, exc: DeltaError) -> VoxelflowError:
    text = redact(str(exc))
    if isinstance(exc, CommitFailedError):
        if "nsupported" in text:
            return UnsupportedTable(f"the table {place} cannot be written: {text}", hint="Choose another table.")
        return beaten(place)
    if isinstance(exc, TableNotFoundError):
        return DataError(f"the table {place} is gone", hint="Run it again.")
    if "already exists" in text:
        return TableConflict(f"another program just made the table {place}", hint="Run it again.")
    return DataError(f"the table {place} cannot be written: {text}", hint=remedy(exc))
