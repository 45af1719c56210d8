"""A version of a table as its Delta log tells it, in Arrow columns instead of objects.

delta-rs reads the log in more memory than the files' names and statistics take, which tells where every volume is a
file of its own. This reads what the first versions of the protocol have: one checkpoint file and the commits
behind it. Any other log is left to delta-rs.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Action Reconciliation, Checkpoints).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from nodes.delta.delta_log import commit_file, kind_of, newest_version

FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("deletionTimestamp", pa.int64()),
    ]
)
"""What is kept of an action about a file; the last one is that of removed files alone. Paths are URI-encoded."""
STATISTICS = pa.schema(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("id", pa.string()), ("label", pa.float64())])),
        ("maxValues", pa.struct([("id", pa.string()), ("label", pa.float64())])),
        ("nullCount", pa.struct([("id", pa.int64()), ("label", pa.int64())])),
    ]
)
"""What is read of a file's statistics."""

_IN_JSON = pa.struct([*FILES, ("deletionVector", pa.struct([("storageType", pa.string())]))])
_ONCE = ("protocol", "metaData")
_UNTOLD = frozenset({"commitInfo"})
_OTHERS = {"sidecar": "path", "domainMetadata": "domain"}
"""What else a checkpoint may hold, each with a field that is never null."""
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_BATCH = 50_000
_Take = Callable[[str, dict[str, Any]], None]
_Part = tuple[bool, pa.Table]
"""Files that were added, or removed, one after the other."""


class NotPlain(Exception):
    """The log is none that is read here."""


@dataclass(frozen=True)
class LogState:
    """What stands in the log up to `version`; `adds` and `removes` have the columns `FILES`, transactions are by id."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    transactions: dict[str, dict[str, Any]]
    adds: pa.Table
    removes: pa.Table

    @property
    def configuration(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    def files(self) -> Iterator[pa.RecordBatch]:
        """The files of this version: path, size and modificationTime, and the columns `STATISTICS`.

        Raises `NotPlain` for statistics that are no JSON.
        """
        for batch in self.adds.to_batches(_BATCH):
            if not batch.num_rows:
                continue
            lines = "\n".join(text or "{}" for text in batch["stats"].to_pylist())
            try:
                stats = _from_json(lines.encode(), STATISTICS).combine_chunks()
            except pa.ArrowException as exc:
                raise NotPlain(f"statistics: {exc}") from exc
            names = ["path", "size", "modificationTime"]
            columns = [batch[name] for name in names] + [stats[name].combine_chunks() for name in STATISTICS.names]
            yield pa.record_batch(columns, names=[*names, *STATISTICS.names])


def read_log(root: Path, version: int | None = None) -> LogState:
    """The state of version `version` (the newest by default) of the local table at `root`.

    Raises `NotPlain` for all that delta-rs had better look at: another protocol, other checkpoints, a log that
    has holes or cannot be read, no log at all.
    """
    try:
        return _read(root, version)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        raise NotPlain(f"{type(exc).__name__}: {exc}") from exc


def checkpoint_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.checkpoint.parquet"


def _read(root: Path, version: int | None) -> LogState:
    newest, begin = newest_version(root), -1
    if newest is None:
        raise NotPlain("there is no log")
    wanted = newest if version is None else version
    for found in _checkpoints(root):
        if found > newest:
            raise NotPlain("commits are missing")
        begin = max(begin, found if found <= wanted else begin)
    once: dict[str, dict[str, Any]] = {}
    transactions: dict[str, dict[str, Any]] = {}

    def take(kind: str, action: dict[str, Any]) -> None:
        if kind in _ONCE:
            once[kind] = action
        elif kind == "txn":
            transactions[action["appId"]] = action
        elif kind not in _UNTOLD:
            raise NotPlain(f"the log has {kind}")

    parts: list[_Part] = list(_from_checkpoint(checkpoint_file(root, begin), take)) if begin >= 0 else []
    for number in range(begin + 1, wanted + 1):
        parts += _from_commit(commit_file(root, number), take)
    protocol, metadata = once["protocol"], once["metaData"]
    if protocol["minReaderVersion"] > 1 or protocol["minWriterVersion"] > 2:
        raise NotPlain("the protocol is a later one")
    adds, removes = _divided(parts) if begin == wanted else _last_of_each(parts)
    return LogState(wanted, protocol, metadata, transactions, adds, removes)


def _checkpoints(root: Path) -> Iterator[int]:
    for path in (root / "_delta_log").iterdir():
        if match := _CHECKPOINT.fullmatch(path.name):
            yield int(match[1])
        elif ".checkpoint." in path.name and not path.name.startswith("."):
            raise NotPlain(f"{path.name} is another kind of checkpoint")


def _from_checkpoint(path: Path, take: _Take) -> Iterator[_Part]:
    with pq.ParquetFile(path, memory_map=True) as file:
        there = set(file.schema_arrow.names)
        others = [f"{kind}.{field}" for kind, field in _OTHERS.items() if kind in there]
        if others and any(part.null_count < len(part) for c in file.read(others) for part in c.flatten()):
            raise NotPlain(f"{path.name} holds more than files")
        for kind in (*_ONCE, "txn"):
            for action in file.read([kind])[kind].drop_null().to_pylist(maps_as_pydicts="strict"):
                take(kind, action)
        wanted = {
            f"{kind}.{name}" for kind in ("remove", "add") for name in (*FILES.names, "deletionVector.storageType")
        }
        columns = [column.path for column in file.schema if column.path in wanted]
        for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
            yield from (_files(batch["remove"], is_add=False), _files(batch["add"], is_add=True))


def _from_commit(path: Path, take: _Take) -> Iterator[_Part]:
    lines: dict[str, list[bytes]] = {"remove": [], "add": []}
    with path.open("rb") as commit:
        for line in commit:
            kind = kind_of(line)
            if kind in lines:
                lines[kind].append(line)
            elif kind:
                take(kind, json.loads(line)[kind])
            elif line.strip():
                raise NotPlain(f"{path.name} has a line that is no action")
    for kind, found in lines.items():
        if found:
            read = _from_json(b"".join(found), pa.schema([(kind, _IN_JSON)]))
            yield _files(read[kind].combine_chunks(), is_add=kind == "add")


def _files(actions: pa.StructArray, *, is_add: bool) -> _Part:
    """The actions that are not null, in the columns `FILES`."""
    actions = actions.drop_null()
    fields = dict(zip((field.name for field in actions.type), actions.flatten(), strict=True))
    vectors = fields.get("deletionVector")
    if (is_add and "stats" not in fields) or (vectors is not None and vectors.null_count < len(vectors)):
        raise NotPlain("files have no statistics as JSON, or deletion vectors")
    kept = [fields[f.name].cast(f.type) if f.name in fields else pa.nulls(len(actions), f.type) for f in FILES]
    return is_add, pa.table(kept, schema=FILES)


def _divided(parts: list[_Part]) -> tuple[pa.Table, pa.Table]:
    """The added and the removed files, in their order."""
    empty = FILES.empty_table()
    return tuple(pa.concat_tables([empty, *(p for is_add, p in parts if is_add == kind)]) for kind in (True, False))


def _last_of_each(parts: list[_Part]) -> tuple[pa.Table, pa.Table]:
    """The same where files are named more than once: of all that was said of one the last counts."""
    said = pa.concat_tables([FILES.empty_table(), *(part for _, part in parts)])
    is_add = np.repeat(np.array([is_add for is_add, _ in parts], bool), [len(part) for _, part in parts])
    names = said["path"]
    if pc.any(pc.match_substring(names, "%")).as_py():
        # Two programs may encode one name in two ways.
        names = pa.array([unquote(path) for path in names.to_pylist()], pa.string())
    places = pa.table({"name": names, "place": np.arange(len(said))})
    last = places.group_by("name", use_threads=False).aggregate([("place", "max")])["place_max"]
    rows = np.sort(last.to_numpy())
    return said.take(rows[is_add[rows]]), said.take(rows[~is_add[rows]])


def _from_json(lines: bytes, schema: pa.Schema) -> pa.Table:
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # A line must lie in one block, or two.
    reading = pj.ReadOptions(use_threads=False, block_size=max(1 << 20, min(len(lines) + 1, 64 << 20)))
    return pj.read_json(pa.BufferReader(lines), read_options=reading, parse_options=parsing)
