"""Samples a second of every loader, beside the loop people write by hand: `np.load` and stack.

    python tests/benchmarks/loaders.py [--volumes 2000] [--shape 30,30,10,10] [--rounds 3]

Makes synthetic volumes, takes them through the storage nodes as a run does, then reads shuffled
epochs of batches of 32 in turn with each reader, and prints the median ratio to the hand-written
loop. The files are in the page cache: what is compared is the readers, not the disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import voxelflow
from engine.context import Resources, TaskContext
from engine.datasets import VolumeFiles
from engine.manifest import entries, read
from nodes.loaders import open_source
from nodes.loaders.interface import Reading

BATCH = 32


def make(folder: Path, name: str, *inputs: Any, **params: Any) -> Any:
    """Run one node here."""
    home = folder / name
    context = TaskContext(
        run_id="benchmark",
        node_id=name,
        fingerprint=name.ljust(32, "0"),
        out=home / "out",
        shared=home,
        scratch=home / "scratch",
        resources=Resources(cores=os.cpu_count() or 1),
    )
    for path in (context.out, context.scratch):
        path.mkdir(parents=True)
    node_type = voxelflow.catalog().find(name)
    assert node_type is not None
    values = {p.name: p.default for p in node_type.parameters if not p.required} | params
    return node_type.function(*inputs, **values, ctx=context)


def by_hand(files: VolumeFiles) -> Callable[[], int]:
    paths = [f"{files.uri}/{e.path}" for e in entries(read(files.manifest))]

    def epoch() -> int:
        order = np.random.default_rng(0).permutation(len(paths))
        steps = len(paths) // BATCH
        for step in range(steps):
            np.stack([np.load(paths[i]) for i in order[step * BATCH : (step + 1) * BATCH]])
        return steps * BATCH

    return epoch


def by_loader(name: Any, dataset: Any) -> Iterator[Callable[[], int]]:
    source = open_source(name, dataset, cores=os.cpu_count() or 1)
    loader = source.loader(source.rows_in(), Reading(BATCH, seed=0, training=True))
    yield lambda: sum(len(batch.rows) for batch in loader.batches())
    source.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volumes", type=int, default=2000)
    parser.add_argument("--shape", default="30,30,10,10")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = tuple(int(n) for n in args.shape.split(","))
        files = make(folder, "SyntheticVolumes", count=args.volumes, shape=shape)
        table = make(folder, "ParquetToDelta", make(folder, "NumpyToParquet", files))
        opened = {n: by_loader(n, files if n == "npy" else table) for n in ("arrow", "npy", "petastorm")}
        readers = {"np.load + stack": by_hand(files)} | {f"loader {n}": next(o) for n, o in opened.items()}
        speeds: dict[str, list[float]] = {n: [] for n in readers}
        for _ in range(args.rounds + 1):
            for reader, epoch in readers.items():
                begin = time.perf_counter()
                rows = epoch()
                speeds[reader].append(rows / (time.perf_counter() - begin))
        hand = speeds["np.load + stack"][1:]
        for reader, found in speeds.items():
            ratio = statistics.median(a / b for a, b in zip(found[1:], hand, strict=True))
            print(f"{reader:<18} {statistics.median(found[1:]):10,.0f} samples/s  {ratio:6.2f} x np.load + stack")
        for reader_opened in opened.values():
            next(reader_opened, None)


if __name__ == "__main__":
    main()
