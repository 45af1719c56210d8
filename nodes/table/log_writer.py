"""Writing a commit of the Delta log ourselves, a line at a time.

delta-rs takes about 3 kB of memory for each file that a commit names, reads the whole log again for the next one,
spells paths in its own way, and calls whatever it commits a WRITE; this does none of it, and commits as fast as the
disk. A commit is these lines and a name that nobody had before. What a table asks of them besides is in
`nodes.table.features`.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Actions).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.storage.files import new_file
from engine.storage.place import Place
from nodes.table.log import LOG, actions, commit_file, commit_name
from nodes.table.snapshot import TableFile
from nodes.volume_file.footer import release


@dataclass(frozen=True)
class Change:
    """Files that come and go together: never in two commits."""

    adds: tuple[TableFile, ...] = ()
    removes: tuple[TableFile, ...] = ()

    @property
    def actions(self) -> int:
        return len(self.adds) + len(self.removes)


@dataclass(frozen=True)
class Operation:
    """What a commit did, in the words of Delta's own `DESCRIBE HISTORY`: name, parameters, figures as text."""

    name: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, int]

    @classmethod
    def of(cls, changes: Sequence[Change], *, data_change: bool, replaces_all: bool) -> Operation:
        """The operation that makes these changes; `replaces_all`: no file of the table stays."""
        adds = [f for c in changes for f in c.adds]
        removes = [f for c in changes for f in c.removes]
        if not data_change:
            return cls("OPTIMIZE", {"predicate": "[]", "zOrderBy": "[]", "auto": False}, _optimize(adds, removes))
        written = {"numFiles": len(adds), "numOutputRows": _rows(adds), "numOutputBytes": _bytes(adds)}
        if not removes:
            return cls("WRITE", {"mode": "Append", "partitionBy": "[]"}, written)
        if adds and replaces_all:
            gone = {"numRemovedFiles": len(removes), "numRemovedBytes": _bytes(removes)}
            return cls("WRITE", {"mode": "Overwrite", "partitionBy": "[]"}, written | gone)
        # Of a file that is written again without some rows, the others are copied.
        copied = _rows([f for c in changes if c.removes for f in c.adds])
        deleted = _rows(removes) - copied
        if copied == _rows(adds):
            return cls("DELETE", {"predicate": "[]"}, _delete(adds, removes, deleted, copied))
        inserted = _rows(adds) - copied
        return cls("MERGE", {"predicate": "[]"}, _merge(adds, removes, inserted, deleted, copied))


def write_commit(place: Place, version: int, lines: Iterable[bytes]) -> None:
    """Let version `version` appear, whole and durable.

    Raises `FileExistsError` when it is there already, another `OSError` when it cannot be written; of the numbers in
    `engine.storage.hard_link.CANNOT_LINK` where a local file system cannot do so (`engine.storage.files.new_file`).
    """
    folder = place.local_folder
    if folder is None:
        if not place.put_if_absent(f"{LOG}/{commit_name(version)}", b"".join(lines)):
            raise FileExistsError(f"{place.path(LOG)} has version {version}")
        return
    # In this folder delta-rs and Spark, too, put a commit only where there is none.
    with new_file(commit_file(folder, version)) as temporary, temporary.open("wb") as sink:
        sink.writelines(lines)


def lines_of(
    changes: Sequence[Change],
    operation: Operation,
    *,
    data_change: bool = False,
    token: tuple[str, int] | None = None,
    notes: Mapping[str, str],
    in_commit_timestamp: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """The actions of a commit. `token` is an application id and its version; `notes` go into the commit's description;
    `metadata` is the table's new metadata action, where it changes.

    There is one application id for all commits of ours, so that a table's checkpoints do not grow with their number.
    A commit without one counts as another program's where somebody asks what happened since our last one.
    """
    now = in_commit_timestamp or int(time.time() * 1000)
    info = {
        "timestamp": now,
        "operation": operation.name,
        "operationParameters": operation.parameters,
        # What is added depends on what the table holds.
        "isBlindAppend": False,
        "operationMetrics": {name: str(value) for name, value in operation.metrics.items()},
        "engineInfo": f"Voxelflow/{release()}",
        **notes,
    }
    if in_commit_timestamp is not None:
        info = {"inCommitTimestamp": in_commit_timestamp} | info
    yield _line("commitInfo", info)
    if token is not None:
        yield _line("txn", {"appId": token[0], "version": token[1], "lastUpdated": now})
    if metadata is not None:
        yield _line("metaData", metadata)
    for file in (f for c in changes for f in c.removes):
        yield _line("remove", remove_action(file, now, data_change=data_change))
    for file in (f for c in changes for f in c.adds):
        yield _line("add", add_action(file, data_change=data_change))


def add_action(file: TableFile, *, data_change: bool) -> dict[str, Any]:
    """What the log says of a file that comes."""
    return {
        "path": file.path_in_log,
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": file.mtime_ms,
        "dataChange": data_change,
        "stats": file.statistics(),
    }


def remove_action(file: TableFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
    """What the log says of a file that goes."""
    return {
        "path": file.path_in_log,
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": file.bytes,
    }


def timestamp_after(place: Place, version: int) -> int:
    """The in-commit timestamp of the commit after `version`, in milliseconds: now, or later than that of `version`."""
    try:
        last = next(actions(place, version, "commitInfo"), {})
    except FileNotFoundError:
        last = {}
    return max(int(time.time() * 1000), int(last.get("inCommitTimestamp") or 0) + 1)


def _optimize(adds: Sequence[TableFile], removes: Sequence[TableFile]) -> dict[str, int]:
    figures = {
        "numAddedFiles": len(adds),
        "numRemovedFiles": len(removes),
        "numAddedBytes": _bytes(adds),
        "numRemovedBytes": _bytes(removes),
    }
    if sizes := sorted(f.bytes for f in adds):
        names = ("p25FileSize", "p50FileSize", "p75FileSize")
        quartiles = statistics.quantiles(sizes, n=4, method="inclusive") if len(sizes) > 1 else sizes * 3
        figures |= {"minFileSize": sizes[0], "maxFileSize": sizes[-1]}
        figures |= {name: round(size) for name, size in zip(names, quartiles, strict=True)}
    return figures


def _delete(adds: Sequence[TableFile], removes: Sequence[TableFile], deleted: int, copied: int) -> dict[str, int]:
    return {
        "numDeletedRows": deleted,
        "numCopiedRows": copied,
        "numAddedFiles": len(adds),
        "numRemovedFiles": len(removes),
        "numAddedBytes": _bytes(adds),
        "numRemovedBytes": _bytes(removes),
    }


def _merge(
    adds: Sequence[TableFile], removes: Sequence[TableFile], inserted: int, deleted: int, copied: int
) -> dict[str, int]:
    return {
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": 0,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsCopied": copied,
        "numOutputRows": inserted + copied,
        "numTargetFilesAdded": len(adds),
        "numTargetFilesRemoved": len(removes),
        "numTargetBytesAdded": _bytes(adds),
        "numTargetBytesRemoved": _bytes(removes),
    }


def _rows(files: Iterable[TableFile]) -> int:
    return sum(f.rows for f in files)


def _bytes(files: Iterable[TableFile]) -> int:
    return sum(f.bytes for f in files)


def _line(kind: str, action: Mapping[str, Any]) -> bytes:
    # As UTF-8, see `TableFile.statistics`.
    return json.dumps({kind: action}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
