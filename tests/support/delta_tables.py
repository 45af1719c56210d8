"""Parquet datasets for table tests, contexts to run nodes in, and nodes run and killed in processes of their own."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import signal
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import forked_programs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from volumes import rows_by_polars, rows_by_pyarrow

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, VolumeDelta, VolumeParquet, VolumeSpec, dataset_from_json
from nodes.table.log import actions, commit_file, versions
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.parts import Part, Parts, write_parts

STARTED = "started"
"""What a node's process says when its work begins."""
SPEC = VolumeSpec(shape=(4, 3, 2), dtype="float32", classes=("a", "b"))


def volume_of(volume_id: str, spec: VolumeSpec = SPEC) -> bytes:
    """The bytes that the volume with this id has in every test."""
    seed = int.from_bytes(hashlib.blake2b(volume_id.encode(), digest_size=8).digest(), "big")
    values = np.random.default_rng(seed).integers(0, 100, spec.shape)
    return values.astype(np.dtype(spec.dtype).newbyteorder("<")).tobytes()


def label_of(volume_id: str) -> float | None:
    """Every seventh volume has no label."""
    number = int(volume_id[-5:])
    return None if number % 7 == 0 else float(number % 2)


def ids(first: int, count: int) -> list[str]:
    return [f"vol-{i:05d}" for i in range(first, first + count)]


def rows_of(volume_ids: Iterable[str], spec: VolumeSpec = SPEC) -> list[tuple[str, float | None, bytes]]:
    """What a table with these volumes must hold, sorted."""
    return sorted((i, label_of(i), volume_of(i, spec)) for i in volume_ids)


def write_shard(
    folder: Path,
    volume_ids: Sequence[str],
    *,
    name: str = "",
    spec: VolumeSpec = SPEC,
    row_group: int = 64,
    **options: Any,
) -> Part:
    """One Parquet file in the volume layout; without a `name` it is named after its content."""
    columns = schema(spec)
    table = pa.table(
        {
            "id": list(volume_ids),
            "label": pa.array([label_of(i) for i in volume_ids], pa.float32()),
            "volume": [volume_of(i, spec) for i in volume_ids],
        },
        schema=columns,
    )
    name = name or hashlib.blake2b(json.dumps(list(volume_ids)).encode(), digest_size=16).hexdigest() + ".parquet"
    path = folder / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with pq.ParquetWriter(temporary, columns, **writer_options() | options) as writer:
            writer.write_table(table, row_group_size=row_group)
        temporary.replace(path)
    labels = [x for i in volume_ids if (x := label_of(i)) is not None]
    stat = path.stat()
    return Part(
        path=name,
        rows=len(volume_ids),
        bytes=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        labelled=len(labels),
        id_min=min(volume_ids),
        id_max=max(volume_ids),
        label_min=min(labels, default=None),
        label_max=max(labels, default=None),
    )


def deletion_vector(rows: Sequence[int]) -> dict[str, Any]:
    """One within the log, that deletes these rows of a file: a 64-bit roaring bitmap with one container, in Z85."""
    bitmap = struct.pack(f"<IIHHI{len(rows)}H", 12346, 1, 0, len(rows) - 1, 16, *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded = data + bytes(-len(data) % 4)
    other = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = base64.b85encode(padded).decode().translate(str.maketrans(other, z85))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


def delete_by_vector(root: Path, path: str, rows: Sequence[int]) -> None:
    """Delete rows of a file, by its path in the log, as Spark does it with `delta.enableDeletionVectors`."""
    there = sorted(versions(root))
    *_, newest = (found for version in there for found in actions(root, version, "add") if found["path"] == path)
    remove = {"path": path, "dataChange": True, "deletionTimestamp": 1, "partitionValues": newest["partitionValues"]}
    if "deletionVector" in newest:
        remove["deletionVector"] = newest["deletionVector"]
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    lines = [{"protocol": protocol}, {"remove": remove}, {"add": newest | {"deletionVector": deletion_vector(rows)}}]
    commit_file(root, there[-1] + 1).write_text("".join(json.dumps(line) + "\n" for line in lines))


def dataset_of(folder: Path, parts: Sequence[Part], spec: VolumeSpec = SPEC) -> VolumeParquet:
    """The reference to these parts; each has a manifest of its own."""
    key = hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
    manifest = folder.parent / f"{folder.name}-{key}.json"
    write_parts(Parts(parts=tuple(parts)), manifest)
    count = sum(p.rows for p in parts)
    return VolumeParquet(
        uri=str(folder),
        manifest=str(manifest),
        count=count,
        bytes=sum(p.bytes for p in parts),
        spec=spec,
        found=count,
        labelled=sum(p.labelled for p in parts),
    )


def shards(folder: Path, *sizes: int, first: int = 0, spec: VolumeSpec = SPEC) -> VolumeParquet:
    """A dataset of content-named shards with so many volumes each, ids counting on."""
    parts = []
    for size in sizes:
        parts.append(write_shard(folder, ids(first, size), spec=spec))
        first += size
    return dataset_of(folder, parts, spec)


def context(
    tmp_path: Path, name: str = "task", *, protected: Mapping[str, tuple[int, ...]] | None = None
) -> TaskContext:
    """A context whose folders exist; the same name gives the same fingerprint and folders again."""
    home = tmp_path / "tasks" / name
    for folder in ("out", "shared", "scratch"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    return TaskContext(
        run_id="run",
        node_id=name,
        fingerprint=hashlib.blake2b(name.encode(), digest_size=16).hexdigest(),
        out=home / "out",
        shared=home / "shared",
        scratch=home / "scratch",
        protected=protected or {},
    )


class Interfering:
    """Lets something happen to the table at a commit point, as another program would."""

    def __init__(self, ctx: TaskContext, point: str, *actions: Any) -> None:
        self.__dict__.update(ctx.__dict__)
        self._point, self._actions, self.said = point, list(actions), list[str]()
        self.transaction, self.warn, self.facts = ctx.transaction, ctx.warn, ctx.facts
        self.check_cancelled, self.earlier_places = ctx.check_cancelled, ctx.earlier_places

    def info(self, text: str) -> None:
        self.said.append(text)

    def commit_point(self, name: str) -> None:
        if name == self._point and self._actions:
            self._actions.pop(0)()


def read_by_deltalake(uri: str, version: int | None = None) -> list[tuple[str, float | None, bytes]]:
    """All rows through delta-rs' own engine (DataFusion), sorted; not through pyarrow's Parquet reader."""
    from deltalake import DeltaTable

    table = pa.table(DeltaTable(uri, version=version).scan().read_all())
    return sorted(zip(*(table[c].to_pylist() for c in ("id", "label", "volume")), strict=True))


def exactly(uri: str, volume_ids: Iterable[str], version: int | None = None, spec: VolumeSpec = SPEC) -> None:
    """The table holds these volumes and no others, through every reader that reads such a place."""
    readers = [read_by_deltalake] if "://" in uri else [read_by_deltalake, rows_by_pyarrow, rows_by_polars]
    for read in readers:
        assert read(uri, version) == rows_of(volume_ids, spec), read


def multiset(rows: Iterable[tuple[str, float | None, bytes]]) -> Counter[str]:
    return Counter(row[0] for row in rows)


# --- nodes in processes of their own ----------------------------------------------------------


def start_node(
    tmp_path: Path,
    node: str,
    dataset: Dataset,
    name: str,
    kill_at: str = "",
    increment: int | None = None,
    **params: Any,
) -> subprocess.Popen[str]:
    """Run a node in its own process, forked, under the context `name`, killed at the commit point `kill_at`.

    With `increment` a compaction commits whenever it added and removed so many files.
    """
    order = {
        "tmp": str(tmp_path),
        "node": node,
        "name": name,
        "increment": increment,
        "params": params,
        "input": dataset.model_dump(mode="json"),
    }
    return forked_programs.start(
        f"import delta_tables; delta_tables.run_node({order!r})",
        {"VOXELFLOW_KILL_AT": kill_at},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish_node(process: subprocess.Popen[str]) -> VolumeDelta:
    """The node's result. Raises `AssertionError` with its traceback when it failed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    made = dataset_from_json(out.splitlines()[-1])
    assert isinstance(made, VolumeDelta)
    return made


def was_killed(process: subprocess.Popen[str]) -> bool:
    process.communicate(timeout=120)
    return process.returncode == -signal.SIGKILL


def run_node(order: dict[str, Any]) -> None:
    """What such a process does."""
    from nodes.optimize_delta import optimize_delta
    from nodes.parquet_to_delta import parquet_to_delta

    # Heavy modules before the word that it begins: whoever kills it then hits its work, not its imports.
    for module in ("nodes.table.ingest", "nodes.table.compaction", "nodes.table.vacuum"):
        importlib.import_module(module)
    if order["increment"]:
        importlib.import_module("nodes.table.compaction").INCREMENT_ACTIONS = order["increment"]  # type: ignore[attr-defined]
    print(STARTED, flush=True)
    node: Any = {"ParquetToDelta": parquet_to_delta, "OptimizeDelta": optimize_delta}[order["node"]]
    made = node(dataset_from_json(order["input"]), **order["params"], ctx=context(Path(order["tmp"]), order["name"]))
    print(made.model_dump_json())
