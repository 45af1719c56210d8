"""A version of a table as its Delta log tells it, in Arrow columns instead of objects.

delta-rs reads the log in more memory than the files' names and statistics take, which tells where every volume is a
file of its own. This reads what the first versions of the protocol have: one checkpoint file and the commits
behind it. Any other log is left to delta-rs.

Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Action Reconciliation, Checkpoints).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from numpy.typing import NDArray

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

_NAMES = pa.schema([FILES.field("path")])
_ONCE = ("protocol", "metaData")
_UNTOLD = frozenset({"commitInfo"})
_OTHERS = {"sidecar": "path", "domainMetadata": "domain"}
"""What else a checkpoint may hold, each with a field that is never null."""
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_BATCH = 50_000


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


def read_log(root: Path, version: int | None = None, *, removes: bool = True) -> LogState:
    """The state of version `version` (the newest by default) of the local table at `root`; `removes` may be left out.

    Raises `NotPlain` for all that delta-rs had better look at: another protocol, other checkpoints, a log that
    has holes or cannot be read, no log at all.
    """
    try:
        return _read(root, version, ("remove", "add") if removes else ("add",))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        raise NotPlain(f"{type(exc).__name__}: {exc}") from exc


def checkpoint_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.checkpoint.parquet"


def _read(root: Path, version: int | None, kinds: Sequence[str]) -> LogState:
    newest, begin = newest_version(root), -1
    if newest is None:
        raise NotPlain("there is no log")
    wanted = newest if version is None else version
    for found in _checkpoints(root):
        if found > newest:
            raise NotPlain("commits are missing")
        begin = max(begin, found if found <= wanted else begin)
    log = _Log(root, begin, wanted)
    once, transactions = log.singles()
    protocol, metadata = once["protocol"], once["metaData"]
    if protocol["minReaderVersion"] > 1 or protocol["minWriterVersion"] > 2:
        raise NotPlain("the protocol is a later one")
    counts = None if begin == wanted else _which_count(log)
    parts: dict[str, list[pa.Table]] = {"remove": [], "add": []}
    for kind, files in log.files(FILES, kinds):
        parts[kind].append(files if counts is None else files.filter(counts[kind].next(len(files))))
    adds, removes = (pa.concat_tables([FILES.empty_table(), *parts[kind]]) for kind in ("add", "remove"))
    return LogState(wanted, protocol, metadata, transactions, adds, removes)


def _checkpoints(root: Path) -> Iterator[int]:
    for path in (root / "_delta_log").iterdir():
        if match := _CHECKPOINT.fullmatch(path.name):
            yield int(match[1])
        elif ".checkpoint." in path.name and not path.name.startswith("."):
            raise NotPlain(f"{path.name} is another kind of checkpoint")


class _Log:
    """The checkpoint of version `begin` (-1: none) and the commits after it, up to version `wanted`."""

    def __init__(self, root: Path, begin: int, wanted: int) -> None:
        self._checkpoint = checkpoint_file(root, begin) if begin >= 0 else None
        self._commits = [commit_file(root, number) for number in range(begin + 1, wanted + 1)]

    def singles(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """The actions that are not about files: those there is one of, by kind, and the transactions, by id."""
        once: dict[str, dict[str, Any]] = {}
        transactions: dict[str, dict[str, Any]] = {}
        for kind, action in self._singles():
            if kind in _ONCE:
                once[kind] = action
            elif kind == "txn":
                transactions[action["appId"]] = action
            elif kind not in _UNTOLD:
                raise NotPlain(f"the log has {kind}")
        return once, transactions

    def _singles(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self._checkpoint is not None:
            with pq.ParquetFile(self._checkpoint, memory_map=True) as file:
                there = set(file.schema_arrow.names)
                others = [f"{kind}.{field}" for kind, field in _OTHERS.items() if kind in there]
                if others and any(part.null_count < len(part) for c in file.read(others) for part in c.flatten()):
                    raise NotPlain(f"{self._checkpoint.name} holds more than files")
                for kind in (*_ONCE, "txn"):
                    for action in file.read([kind])[kind].drop_null().to_pylist(maps_as_pydicts="strict"):
                        yield kind, action
        for path in self._commits:
            with path.open("rb") as commit:
                for line in commit:
                    kind = kind_of(line)
                    if not kind and line.strip():
                        raise NotPlain(f"{path.name} has a line that is no action")
                    if kind and kind not in ("add", "remove"):
                        yield kind, json.loads(line)[kind]

    def files(self, fields: pa.Schema, kinds: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
        """The files that were added or removed, piece by piece in the log's order, with the columns `fields`."""
        if self._checkpoint is not None:
            names = (*fields.names, "deletionVector.storageType")
            wanted = {f"{kind}.{name}" for kind in kinds for name in names}
            with pq.ParquetFile(self._checkpoint, memory_map=True) as file:
                columns = [column.path for column in file.schema if column.path in wanted]
                for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
                    for kind in kinds:
                        yield kind, _files(batch[kind], fields)
        in_json = pa.struct([*fields, ("deletionVector", pa.struct([("storageType", pa.string())]))])
        for path in self._commits:
            for kind in kinds:
                with path.open("rb") as commit:
                    lines = b"".join(line for line in commit if kind_of(line) == kind)
                if lines:
                    read = _from_json(lines, pa.schema([(kind, in_json)]))
                    yield kind, _files(read[kind].combine_chunks(), fields)


def _files(actions: pa.StructArray, wanted: pa.Schema) -> pa.Table:
    """The actions that are not null, in the columns `wanted`."""
    actions = actions.drop_null()
    fields = dict(zip((field.name for field in actions.type), actions.flatten(), strict=True))
    vectors = fields.get("deletionVector")
    if vectors is not None and vectors.null_count < len(vectors):
        raise NotPlain("files have deletion vectors")
    kept = [fields[f.name].cast(f.type) if f.name in fields else pa.nulls(len(actions), f.type) for f in wanted]
    return pa.table(kept, schema=wanted)


class _Mask:
    """What `files` yields counts where this is true, piece by piece."""

    def __init__(self, rows: NDArray[np.bool_]) -> None:
        self._rows, self._at = rows, 0

    def next(self, count: int) -> pa.Array:
        self._at += count
        return pa.array(self._rows[self._at - count : self._at])


def _which_count(log: _Log) -> dict[str, _Mask]:
    """Of all that the log says of a file the last counts. Only names are held meanwhile."""
    parts = list(log.files(_NAMES, ("remove", "add")))
    names = pa.concat_tables([_NAMES.empty_table(), *(part for _, part in parts)])["path"]
    is_add = np.repeat(np.array([kind == "add" for kind, _ in parts], bool), [len(part) for _, part in parts])
    if pc.any(pc.match_substring(names, "%")).as_py():
        # Two programs may encode one name in two ways.
        names = pa.array([unquote(path) for path in names.to_pylist()], pa.string())
    places = pa.table({"name": names, "place": np.arange(len(names))})
    last = places.group_by("name", use_threads=False).aggregate([("place", "max")])["place_max"]
    counts = np.zeros(len(names), bool)
    counts[last.to_numpy()] = True
    return {"add": _Mask(counts[is_add]), "remove": _Mask(counts[~is_add])}


def _from_json(lines: bytes, schema: pa.Schema) -> pa.Table:
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # A line must lie in one block, or two.
    reading = pj.ReadOptions(use_threads=False, block_size=max(1 << 20, min(len(lines) + 1, 64 << 20)))
    return pj.read_json(pa.BufferReader(lines), read_options=reading, parse_options=parsing)
