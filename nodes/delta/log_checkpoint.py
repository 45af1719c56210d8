"""Summing up the log in a checkpoint, so that nobody need read every commit. Nothing is lost without it.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Checkpoints, Last Checkpoint File).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nodes.delta.delta_log import commit_file
from nodes.delta.log_state import LogState, NotPlain, checkpoint_file, read_log

SPARK_CHECKSUM = "._last_checkpoint.crc"
"""Spark keeps it beside the name of the last checkpoint, and would not read what others wrote there since."""
MOST_COMMITS = 100
"""Behind a checkpoint there are never more, however few files they name.

Else one is made when the commits behind the last one say as much as it does: so each is twice as long as the one
before, and all together grow as the log does, not as its square.
"""
_KEPT_S = 7 * 24 * 3600
"""How long a removed file is remembered: Delta's default."""
_RETENTION = "delta.deletedFileRetentionDuration"
_BATCH = 50_000

_MAP = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _MAP}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "createdTime": pa.int64(),
                "configuration": _MAP,
            }
        ),
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": _MAP,
                "size": pa.int64(),
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _MAP,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
    }
)


def make_checkpoint(root: Path, version: int, every: int) -> Sequence[Path]:
    """Sum up the log at `version` when it pays, at least `every` versions after the last time; gives what it wrote."""
    log = root / "_delta_log"
    last, size = _last(log)
    behind = version - last
    if behind < every:
        return ()
    if behind < MOST_COMMITS and not _say_more(root, range(last + 1, version + 1), than=size):
        return ()
    try:
        state = read_log(root, version)
        if _RETENTION in state.configuration:
            raise NotPlain(f"the table has {_RETENTION}")
        _write(root, state)
    except NotPlain:
        if not _by_delta_rs(root, version):
            return ()
    (log / SPARK_CHECKSUM).unlink(missing_ok=True)
    return [p for p in (checkpoint_file(root, version), log / "_last_checkpoint", log) if p.exists()]


def _last(log: Path) -> tuple[int, int]:
    """The last checkpoint's version, and how many actions it has; zeros when there is none."""
    try:
        told = json.loads((log / "_last_checkpoint").read_bytes())
        return int(told["version"]), int(told.get("size") or 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def _say_more(root: Path, versions: range, *, than: int) -> bool:
    """Whether these commits have as many lines."""
    try:
        for version in versions:
            than -= commit_file(root, version).read_bytes().count(b"\n")
    except OSError:
        return False
    return than <= 0


def _write(root: Path, state: LogState) -> None:
    log = root / "_delta_log"
    since = int((time.time() - _KEPT_S) * 1000)
    removes = state.removes.filter(pc.greater_equal(state.removes["deletionTimestamp"], since))
    target = checkpoint_file(root, state.version)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with pq.ParquetWriter(temporary, _SCHEMA, compression="snappy") as sink:
            for batch in _batches(state, removes):
                sink.write_batch(batch)
        told = {
            "version": state.version,
            "size": 2 + len(state.transactions) + len(removes) + len(state.adds),
            "sizeInBytes": temporary.stat().st_size,
            "numOfAddFiles": len(state.adds),
        }
        temporary.replace(target)
        temporary = log / f"._last_checkpoint.{os.getpid()}"
        temporary.write_text(json.dumps(told))
        temporary.replace(log / "_last_checkpoint")
    finally:
        temporary.unlink(missing_ok=True)


def _batches(state: LogState, removes: pa.Table) -> Iterator[pa.RecordBatch]:
    singles = [("protocol", state.protocol), ("metaData", _metadata(state)), *_transactions(state)]
    for kind, action in singles:
        yield _batch(kind, pa.array([action], _SCHEMA.field(kind).type))
    for kind, files, fixed in (
        ("remove", removes, {"dataChange": False, "extendedFileMetadata": True}),
        ("add", state.adds, {"dataChange": False}),
    ):
        for batch in files.to_batches(_BATCH):
            yield _batch(kind, _actions(_SCHEMA.field(kind).type, batch, fixed))


def _metadata(state: LogState) -> dict[str, Any]:
    known = {field.name for field in _SCHEMA.field("metaData").type}
    return {name: value for name, value in state.metadata.items() if name in known}


def _transactions(state: LogState) -> Iterator[tuple[str, dict[str, Any]]]:
    for action in state.transactions.values():
        yield "txn", action


def _actions(kind: pa.StructType, batch: pa.RecordBatch, fixed: Mapping[str, bool]) -> pa.StructArray:
    """The files of the batch as actions; no file has partition values."""
    rows = batch.num_rows
    columns = []
    for field in kind:
        if field.name == "partitionValues":
            columns.append(pa.array([{}], _MAP).take(pa.repeat(0, rows)))
        elif field.name in fixed:
            columns.append(pa.repeat(fixed[field.name], rows))
        else:
            columns.append(batch[field.name])
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _batch(kind: str, actions: pa.Array) -> pa.RecordBatch:
    rows = len(actions)
    columns = [actions if field.name == kind else pa.nulls(rows, field.type) for field in _SCHEMA]
    return pa.record_batch(columns, schema=_SCHEMA)


def _by_delta_rs(root: Path, version: int) -> bool:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable(str(root), version=version).create_checkpoint()
    except DeltaError:
        return False
    return True
