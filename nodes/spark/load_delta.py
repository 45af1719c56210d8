"""Delta's code loaded by the driver's Java while the converter is at work.

Java reads the classes of Delta and of Spark SQL when they are first used, and interprets them until they are compiled.
That is most of what a small table's `CONVERT TO DELTA` costs in a new session, and it needs no data: so a table of one
row is converted, and changed once, beside the converter's job, in a Spark session and a scheduler pool of its own. It
is only a head start: what goes wrong here goes unreported, and Delta itself says so when it is needed. A JVM that an
earlier run has left may have it loaded already.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading

import pyarrow as pa
import pyarrow.parquet as pq

from engine.declare.context import TaskContext
from engine.spark.jars import INTERPRETED
from engine.spark.session import is_local
from engine.spark.warm_jvm import delta_is_loaded, note_delta_loaded
from nodes.spark.delta_transactions import DeltaTransactions
from nodes.spark.session import settings, sql, table_name
from nodes.table.commit import CommitPart
from nodes.table.log_writer import Operation
from nodes.table.temporary_folder import temporary_folder

_POLL_S = 0.05
_loading: dict[str, threading.Thread] = {}
"""Threads by the Spark application that they work in."""


def load_delta(ctx: TaskContext) -> None:
    """Begin to load Delta, in a thread; once a session. Not where executors do not see this machine's folders."""
    context = ctx.spark.sparkContext
    if context.applicationId in _loading or not is_local(str(context.master)) or delta_is_loaded(context._gateway):
        return
    thread = threading.Thread(target=_load, args=(ctx,), name="load-delta", daemon=True)
    _loading[context.applicationId] = thread
    thread.start()


def wait_for_delta(ctx: TaskContext) -> None:
    """Wait for a thread that is loading it: to begin beside it would be slower. Raises `Cancelled`."""
    thread = _loading.get(ctx.spark.sparkContext.applicationId)
    while thread is not None and thread.is_alive():
        ctx.check_cancelled()
        thread.join(_POLL_S)


def _load(ctx: TaskContext) -> None:
    with contextlib.suppress(Exception), temporary_folder() as folder:
        session = ctx.spark.newSession()
        session.sparkContext.setLocalProperty("spark.scheduler.pool", "load-delta")
        apart = dataclasses.replace(ctx, open_spark=lambda: session)
        row = {"id": ["a"], "label": pa.array([0], pa.float32()), "volume": pa.array([b""], pa.binary())}
        pq.write_table(pa.table(row), folder / "row.parquet")
        with settings(apart, INTERPRETED):
            sql(apart, f"CONVERT TO DELTA {table_name(folder, 'parquet')}", "loading Delta")
        transactions = DeltaTransactions(apart)
        transactions.set_properties(folder, {"voxelflow.loaded": "true"}, 0, {})
        nothing = Operation.of((), data_change=False, replaces_all=False)
        transactions.commit(folder, CommitPart(1, (), nothing, data_change=False, token=0, notes={}))
        note_delta_loaded(session.sparkContext._gateway)
