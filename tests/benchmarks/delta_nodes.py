"""Speed and memory of ParquetToDelta and OptimizeDelta, beside `cat files > one file` in the same run.

    python tests/benchmarks/delta_nodes.py FOLDER [--volumes 2000] [--per-file 8] [--shape 30,30,10,10] [--rounds 3]

Each node runs in a process of its own; its peak memory is told beside that of a process that only
imports what it imports. FOLDER must be empty or new; it is left behind for a closer look.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from delta_tables import context, dataset_of

from engine.datasets import VolumeSpec, dataset_from_json
from nodes.volume_layout import schema, writer_options
from nodes.volume_parts import Part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--volumes", type=int, default=2000)
    parser.add_argument("--per-file", type=int, default=8)
    parser.add_argument("--shape", default="30,30,10,10")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--node", choices=["idle", "fill", "optimize"], help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.node:
        _run_node(given.folder, given.node, given.name)
        return
    shape = tuple(int(n) for n in given.shape.split(","))
    megabytes = _make(given.folder, given.volumes, given.per_file, shape) / 1e6
    print(f"{given.volumes} volumes in {-(-given.volumes // given.per_file)} files, {megabytes:.0f} MB")
    print(f"{'round':>5} {'step':>16} {'seconds':>8} {'MB/s':>7} {'peak MB':>8} {'above imports':>13}")
    for number in range(given.rounds):
        idle = _node(given.folder, "idle", str(number))["peak_mb"]
        for step in ("cat", "cat+fsync", "fill", "optimize", "cat"):
            if step.startswith("cat"):
                seconds, memory = _cat(given.folder, sync=step.endswith("fsync")), ""
            else:
                found = _node(given.folder, step, str(number))
                seconds, memory = found["seconds"], f"{found['peak_mb']:8.0f} {found['peak_mb'] - idle:13.0f}"
            print(f"{number:>5} {step:>16} {seconds:8.2f} {megabytes / seconds:7.0f} {memory}", flush=True)


def _make(folder: Path, volumes: int, per_file: int, shape: tuple[int, ...]) -> int:
    spec = VolumeSpec(shape=shape, dtype="float32", classes=("a", "b"))
    columns = schema(spec)
    (folder / "parquet").mkdir(parents=True)
    rng = np.random.default_rng(0)
    parts = []
    for number, first in enumerate(range(0, volumes, per_file)):
        ids = [f"volumes/{i:06d}.npy" for i in range(first, min(first + per_file, volumes))]
        labels = [float(i % 2) for i in range(len(ids))]
        values = [rng.random(shape, dtype=np.float32).tobytes() for _ in ids]
        table = pa.table({"id": ids, "label": pa.array(labels, pa.float32()), "volume": values}, schema=columns)
        path = folder / "parquet" / f"{number:032x}.parquet"
        with pq.ParquetWriter(path, columns, **writer_options()) as writer:
            writer.write_table(table, row_group_size=64)
        stat = path.stat()
        part = Part(
            path=path.name,
            rows=len(ids),
            bytes=stat.st_size,
            mtime_ns=stat.st_mtime_ns,
            labelled=len(ids),
            id_min=ids[0],
            id_max=ids[-1],
            label_min=min(labels),
            label_max=max(labels),
        )
        parts.append(part)
    dataset = dataset_of(folder / "parquet", parts, spec)
    (folder / "parquet.json").write_text(dataset.model_dump_json())
    os.sync()
    return dataset.bytes


def _cat(folder: Path, *, sync: bool) -> float:
    target = folder / "cat.out"
    target.unlink(missing_ok=True)
    began = time.perf_counter()
    command = f"find {folder / 'parquet'} -type f -print0 | sort -z | xargs -0 cat > {target}"
    subprocess.run(command, shell=True, check=True)
    if sync:
        handle = os.open(target, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    return time.perf_counter() - began


def _node(folder: Path, node: str, name: str) -> dict[str, float]:
    command = [sys.executable, __file__, str(folder), "--node", node, "--name", name]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _run_node(folder: Path, node: str, name: str) -> None:
    import nodes.delta.compaction
    import nodes.delta.table_ingest  # noqa: F401 - what is imported belongs to no node's figures
    from nodes.optimize_delta import optimize_delta
    from nodes.parquet_to_delta import parquet_to_delta

    pa.array([1])  # pyarrow looks for pandas, and imports it, when it is first given a list
    table = folder / f"table-{name}.json"
    began = time.perf_counter()
    if node == "fill":
        made = parquet_to_delta(
            dataset_from_json((folder / "parquet.json").read_text()),  # type: ignore[arg-type]
            ctx=context(folder, name),
        )
        table.write_text(made.model_dump_json())
    elif node == "optimize":
        optimize_delta(dataset_from_json(table.read_text()), ctx=context(folder, f"{name}-o"))  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mb": peak}))


if __name__ == "__main__":
    main()
