"""Committing to a Delta table in object storage: against exactly one version, or not at all.

There is no lock that two machines would share, and none is needed: an object store writes a version of the log only
if nobody has written it (a conditional put), and here nothing is tried again by itself. Whoever comes second is
refused, looks again and plans anew. So rows are never there twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake import Transaction as DeltaTransaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from engine.context import TaskContext
from engine.datasets import VolumeSpec
from engine.errors import DataError, TableConflict
from engine.storage.objects import RemotePath, redact, told
from nodes.delta.delta_commit import MAX_ACTIONS, table_properties
from nodes.delta.delta_table import TableFile
from nodes.delta.remote_table import SOURCE, RemoteTable, load_remote

_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""The log is never cleaned here: references pin versions."""


def create_remote(root: RemotePath, spec: VolumeSpec, columns: Schema, source: str, ctx: TaskContext) -> None:
    """Make the empty table. Raises `TableConflict` when somebody just made it."""
    with _in_our_words(root):
        DeltaTable.create(
            str(root),
            columns,
            configuration=table_properties(spec, in_place=False) | {SOURCE: source},
            raise_if_key_not_exists=False,
            commit_properties=_properties(ctx),
            post_commithook_properties=_HOOKS,
        )


def commit_remote(
    table: RemoteTable,
    adds: Sequence[TableFile],
    removes: Sequence[TableFile],
    *,
    data_change: bool,
    ctx: TaskContext,
    point: str,
) -> int:
    """Commit on top of `table`, in parts of `MAX_ACTIONS`; gives the new version. `point` is passed after each part.

    Removals come first: between the parts of a large change rows may lack, but are never there twice. The files added
    must have been uploaded. Raises `TableConflict` when anything else was committed since: nothing of that part is.
    """
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [RemoveAction(f.path, data_change, now, f.bytes, {}) for f in removes]
    actions += [AddAction(f.path, f.bytes, {}, f.mtime_ms, data_change, f.statistics()) for f in adds]
    version = table.version
    for start in range(0, len(actions), MAX_ACTIONS):
        delta = load_remote(table.root, version)
        with _in_our_words(table.root):
            delta.create_write_transaction(
                actions[start : start + MAX_ACTIONS],
                "append",
                delta.schema(),
                commit_properties=_properties(ctx),
                post_commithook_properties=_HOOKS,
            )
        version += 1
        ctx.commit_point(point)
    return version


def _properties(ctx: TaskContext) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"voxelflow.node": ctx.node_id},
        max_commit_retries=0,
        app_transactions=[DeltaTransaction(ctx.transaction.app_id, ctx.transaction.version)],
    )


@contextmanager
def _in_our_words(root: RemotePath) -> Iterator[None]:
    try:
        yield
    except CommitFailedError:
        raise TableConflict(
            f"another program committed to the table {root} first",
            hint="Run it again; let only one program write the table at a time.",
        ) from None
    except DeltaError as exc:
        if "already exists" in str(exc):
            raise TableConflict(f"another program just made the table {root}", hint="Run it again.") from None
        raise DataError(f"the table {root} cannot be written: {redact(str(exc))[:300]}") from None
    except OSError as exc:
        raise told(root.url, exc) from None
