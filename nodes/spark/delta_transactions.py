"""Commits by Delta's own transactions, from the driver's Java: its checks, its log store, its protocol upgrades.

What a commit holds is planned by `nodes.table`, as on the embedded backend, and made under the table's lock. Here it
becomes Delta's actions, which travel to Java as one JSON text per kind: a call per file takes 0.2 ms. Delta adds
what the table's features ask for (row ids, in-commit timestamps), refuses what it may not take, and looks after
checkpoints and version checksums.

Two things are asked of Delta that it would not do by itself. A commit that finds another one in its place is not
tried again on top of it (`maxCommitAttempts`), because the plan was made for one version. And what it has written is
flushed, since Spark leaves it to the system's cache.

On a local disk Delta looks whether a version is there and then renames its own to that name. Programs that do not take
the table's lock can come between the two; embedded's commits, which are links, cannot replace another one.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import Schema
from pyspark.sql import SparkSession

from engine.declare.context import TaskContext
from engine.errors import DataError, TableConflict, UnsupportedTable, VoxelflowError
from engine.spark.failures import is_spark_error, spark_error
from engine.spark.jars import INTERPRETED
from engine.spark.progress import following
from engine.storage.table_lock import WRITER_APP_ID
from nodes.spark.session import settings
from nodes.table.commit import CommitPart, beaten, flush_log, taken_over
from nodes.table.log_writer import add_action, remove_action

_ONE_TRY = {"spark.databricks.delta.maxCommitAttempts": "0"}
_LOST = re.compile(
    r"DELTA_MAX_COMMIT_RETRIES_EXCEEDED|DELTA_CONCURRENT_|Concurrent\w*Exception|ProtocolChangedException"
)
_UNSUPPORTED = re.compile(r"DELTA_UNSUPPORTED_FEATURES?_|DELTA_FEATURES_|DELTA_INVALID_PROTOCOL_VERSION|DELTA_ROW_ID_")
_CONDITION = re.compile(r"\[?(DELTA_[A-Z_]+)")


class DeltaTransactions:
    """A `nodes.table.commit.Committer` that works through the task's Spark session."""

    def __init__(self, ctx: TaskContext) -> None:
        self._ctx = ctx

    def create(
        self, root: Path, schema: Schema, configuration: Mapping[str, str], token: int, notes: Mapping[str, str]
    ) -> None:
        """See `Committer`."""
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.to_json(),
            "partitionColumns": [],
            "configuration": dict(configuration),
            "createdTime": _now_ms(),
        }
        with self._transaction(root, -1) as transaction:
            made = self._parse("Metadata", metadata)
            transaction.updateMetadataForNewTable(made)
            operation = self._operation("CreateTable", made, False)
            transaction.commit(self._seq(self._token(token, _now_ms())), operation, self._scala_map(notes))
        flush_log(root, 0)

    def commit(self, root: Path, part: CommitPart) -> None:
        """See `Committer`."""
        now = _now_ms()
        actions = self._seq(
            self._token(part.token, now),
            self._parse_all("RemoveFile", [remove_action(f, now, data_change=part.data_change) for f in part.removes]),
            self._parse_all("AddFile", [add_action(f, data_change=part.data_change) for f in part.adds]),
        )
        with self._transaction(root, part.version) as transaction:
            if part.token and transaction.txnVersion(WRITER_APP_ID) > part.token:
                raise taken_over(root)
            operation, metrics = self._operation_of(part)
            transaction.registerSQLMetrics(self._ctx.spark._jsparkSession, self._metrics(metrics))
            transaction.commit(actions, operation, self._scala_map(part.notes))
        flush_log(root, part.version + 1)

    def set_properties(self, root: Path, properties: Mapping[str, str], token: int, notes: Mapping[str, str]) -> None:
        """Give the table at version 0 these properties besides those that it has, and leave our token there.

        Not flushed: it is for a table that nobody sees yet.
        """
        with self._transaction(root, 0) as transaction:
            metadata = json.loads(transaction.metadata().json())["metaData"]
            metadata["configuration"] = metadata.get("configuration", {}) | dict(properties)
            transaction.updateMetadata(self._parse("Metadata", metadata), False)
            operation = self._operation("SetTableProperties", self._scala_map(properties))
            transaction.commit(self._seq(self._token(token, _now_ms())), operation, self._scala_map(notes))

    def add_columns(self, root: Path, schema: Schema, version: int, notes: Mapping[str, str]) -> None:
        """See `Committer`."""
        with self._transaction(root, version) as transaction:
            metadata = json.loads(transaction.metadata().json())["metaData"]
            metadata["schemaString"] = schema.to_json()
            transaction.updateMetadata(self._parse("Metadata", metadata), False)
            operation = self._operation("AddColumns", self._seq())
            transaction.commit(self._seq(), operation, self._scala_map(notes))
        flush_log(root, version + 1)

    # --- a transaction -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self, root: Path, version: int) -> Iterator[Any]:
        """Delta's transaction on top of `version` (-1: there is no table), with its errors as ours."""
        with following(self._ctx, "committing"), settings(self._ctx, _ONE_TRY | INTERPRETED):
            try:
                # Delta asks Java's thread for its session; the one that opened it may have been another.
                SparkSession._get_j_spark_session_class(self._jvm).setActiveSession(self._ctx.spark._jsparkSession)
                log = self._delta.DeltaLog.forTable(self._ctx.spark._jsparkSession, str(root))
                transaction = log.startTransaction()
                if transaction.readVersion() != version:
                    raise beaten(root)
                yield transaction
            except Exception as exc:
                if not is_spark_error(exc):
                    raise
                if (meant := _meant(exc, root)) is None:
                    raise
                raise meant from exc

    def _operation_of(self, part: CommitPart) -> tuple[Any, Mapping[str, int]]:
        """What the history says of the commit, and its figures by the names that Delta has for them."""
        name, given, metrics = part.operation.name, part.operation.parameters, part.operation.metrics
        if name == "OPTIMIZE":
            return self._operation("Optimize", self._seq()), {"numDeletionVectorsRemoved": 0, **metrics}
        if name == "DELETE":
            return self._operation("Delete", self._seq()), metrics
        if name == "VACUUM START":
            # Py4J passes a number within an Option as an Integer, where Delta wants a Long.
            kept, usual = self._jvm.scala.Option.empty(), int(given["defaultRetentionMillis"])
            return self._operation("VacuumStart", bool(given["retentionCheckEnabled"]), kept, usual), metrics
        if name == "VACUUM END":
            return self._operation("VacuumEnd", str(given["status"])), metrics
        # Delta's MERGE has conditions to name, of which a comparison of folders has none.
        modes = self._jvm.org.apache.spark.sql.SaveMode
        written = {
            "numFiles": len(part.adds),
            "numOutputRows": sum(f.rows for f in part.adds),
            "numOutputBytes": sum(f.bytes for f in part.adds),
            "numRemovedFiles": len(part.removes),
            "numRemovedBytes": sum(f.bytes for f in part.removes),
        }
        return self._operation("Write", modes.Overwrite if part.removes else modes.Append), written

    # --- Python's values as Scala's ------------------------------------------------------------------

    @property
    def _jvm(self) -> Any:
        return self._ctx.spark._jvm

    @property
    def _delta(self) -> Any:
        return self._jvm.org.apache.spark.sql.delta

    def _operation(self, name: str, *given: Any) -> Any:
        """One of `DeltaOperations`, with its own defaults for what is not given."""
        companion = getattr(getattr(self._delta, f"DeltaOperations${name}$"), "MODULE$")
        wanted = len(self._class(f"DeltaOperations${name}").getConstructors()[0].getParameterTypes())
        rest = (getattr(companion, f"apply$default${number}")() for number in range(len(given) + 1, wanted + 1))
        return companion.apply(*given, *rest)

    def _class(self, name: str) -> Any:
        return self._jvm.org.apache.spark.util.Utils.classForName(f"org.apache.spark.sql.delta.{name}", True, False)

    def _parse(self, kind: str, action: Mapping[str, Any]) -> Any:
        return self._delta.util.JsonUtils.mapper().readValue(_text(action), self._class(f"actions.{kind}"))

    def _parse_all(self, kind: str, actions: Sequence[Mapping[str, Any]]) -> Any:
        jvm = self._jvm
        array = jvm.java.lang.reflect.Array.newInstance(self._class(f"actions.{kind}"), 0).getClass()
        found = self._delta.util.JsonUtils.mapper().readValue(_text(actions), array)
        return jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(found)

    def _seq(self, *parts: Any) -> Any:
        """The parts, one after the other, as a `scala.collection.immutable.Seq`."""
        whole = self._jvm.scala.collection.immutable.List.newBuilder()
        for part in parts:
            whole.addAll(part)
        return whole.result()

    def _scala_map(self, values: Mapping[str, Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(values))

    def _token(self, token: int, now: int) -> Any:
        known = [{"appId": WRITER_APP_ID, "version": token, "lastUpdated": now}] if token else []
        return self._parse_all("SetTransaction", known)

    def _metrics(self, figures: Mapping[str, int]) -> Any:
        context = self._ctx.spark._jsparkSession.sparkContext()
        create = self._jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric
        metrics = {name: create(context, name) for name in figures}
        for name, value in figures.items():
            metrics[name].set(value)
        return self._scala_map(metrics)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _meant(exc: BaseException, root: Path) -> VoxelflowError | None:
    """Delta's refusal of a commit as one of ours; None for what is none, such as a session that has ended."""
    text = f"{type(exc).__name__} {spark_error(exc).message} {exc}"
    if _LOST.search(text):
        return beaten(root)
    if "DELTA_TABLE_ALREADY_EXISTS" in text:
        return TableConflict(f"another program just made the table {root}", hint="Run it again.")
    why = spark_error(exc).message
    if _UNSUPPORTED.search(text):
        return UnsupportedTable(f"Delta does not write to the table {root}: {why}", hint="Choose another table.")
    if _CONDITION.search(text):
        hint = "Look at the whole error in the node's log (`voxelflow runs logs`)."
        return DataError(f"Delta refused the commit to the table {root}: {why}", hint=hint)
    return None
