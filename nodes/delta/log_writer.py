"""Writing a commit of the Delta log ourselves, a line at a time.

delta-rs takes about 3 kB of memory for each file that a commit names, and reads the whole log again for the next one;
this takes none, and commits as fast as the disk. It is for tables that ask for nothing but the first
versions of the protocol, which are the ones that Voxelflow makes: there a commit is these lines and a name that nobody
had before. Any other table is left to delta-rs.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Actions).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nodes.delta.delta_log import commit_file
from nodes.delta.delta_table import TableFile
from nodes.durable_files import flush


def write_commit(root: Path, version: int, lines: Iterable[bytes]) -> None:
    """Let version `version` appear, whole and on the disk.

    Raises `FileExistsError` when it is there already, another `OSError` when it cannot be written or the file
    system has no hard links (`durable_files.CANNOT_LINK`).
    """
    target = commit_file(root, version)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as sink:
            sink.writelines(lines)
        flush([temporary])
        # A link never replaces: in this folder delta-rs and Spark too put a commit only where there is none.
        os.link(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    flush([target.parent])


def lines_of(
    adds: Iterable[TableFile],
    removes: Iterable[TableFile],
    *,
    data_change: bool,
    transactions: Mapping[str, int],
    node: str,
) -> Iterator[bytes]:
    """The actions of a commit. `transactions` are versions by application id."""
    now = int(time.time() * 1000)
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "engineInfo": "voxelflow",
        "voxelflow.node": node,
    }
    yield _line("commitInfo", info)
    for app_id, number in transactions.items():
        yield _line("txn", {"appId": app_id, "version": number, "lastUpdated": now})
    for file in removes:
        yield _line(
            "remove",
            {
                "path": quote(file.path),
                "deletionTimestamp": now,
                "dataChange": data_change,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": file.bytes,
            },
        )
    for file in adds:
        yield _line(
            "add",
            {
                "path": quote(file.path),
                "partitionValues": {},
                "size": file.bytes,
                "modificationTime": file.mtime_ms,
                "dataChange": data_change,
                "stats": file.statistics(),
            },
        )


def _line(kind: str, action: Mapping[str, Any]) -> bytes:
    return json.dumps({kind: action}, separators=(",", ":")).encode() + b"\n"
