"""A folder of `.npy` files into a durable Delta table, from files in the page cache and from the disk.

Ours is `voxelflow run` of VolumeFolder, NumpyToParquet, ParquetToDelta and OptimizeDelta; its time is the span of the
three storage tasks, their processes' start apart. Everybody flushes to the disk before the clock stops. Spark takes
the first files only, as many as --spark-files says (0: no Spark), and its session's start is not counted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks.race import Entry, Race, race
from tests.benchmarks.reports import Aim, Report, aim_of
from tests.benchmarks.source_files import SourceFiles, add_data_options, make, shape_of

_HOME = "tests.benchmarks.ingest_contenders"
LIMIT = "cat files > one; fsync"
NAIVE = "np.load loop, write_deltalake"
SPARK = "Spark: binaryFile, mapInArrow"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2000)
    parser.add_argument("--spark-files", type=int, default=200, help="files for Spark; 0 leaves it out (default: 200)")
    parser.add_argument("--no-cold", action="store_true", help="leave out the rounds from the disk")


def run(options: argparse.Namespace, folder: Path) -> Report:
    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    aims: list[Aim] = []
    races = []
    for cold in (False,) if options.no_cold else (False, True):
        found = _race(options, folder, source, cold)
        races.append(found)
        if cold:
            continue
        aims += [aim_of(found, "ours", LIMIT, 0.9), aim_of(found, "ours", NAIVE, 5)]
        if options.spark_files:
            aims.append(aim_of(found, "ours", SPARK, 10))
        aims.append(Aim("ingest: peak memory of a task, MB", found["ours"].peak / 1e6, 500, at_most=True))
    return Report("ingest", races, aims=aims)


def _race(options: argparse.Namespace, folder: Path, source: SourceFiles, cold: bool) -> Race:
    place = {"source": str(source.folder)}

    def entry(name: str, kind: str, program: str, *, few: bool = False, rounds: int = 1000, **more: object) -> Entry:
        home = folder / "".join(c if c.isalnum() else "-" for c in name)
        # Who gets fewer files delivers other bytes, which must be the same as those of `cat` on so many.
        delivers = "the first files" if few else "all"
        arguments = {**place, "home": str(home), **more}
        return Entry(name, kind, f"{_HOME}:{program}", arguments, delivers, rounds)  # type: ignore[arg-type]

    entries = [
        entry(LIMIT, "limit", "Cat", sync=True),
        entry("cat files > one", "limit", "Cat", sync=False),
        entry("ours", "ours", "Ours", whole=False, cold=cold),
        entry("ours, the whole command", "ours", "Ours", whole=True, cold=cold, rounds=2),
        entry(NAIVE, "peer", "NaiveLoop"),
        entry("one table of lists", "peer", "TableOfLists", rounds=2),
        entry("one Parquet file a volume", "peer", "FileEach", rounds=2),
    ]
    if options.spark_files and not cold:
        few = min(options.spark_files, options.volumes)
        entries.append(entry(SPARK, "peer", "Spark", few=True, rounds=2, count=few))
        entries.append(entry("cat, Spark's files", "limit", "Cat", few=True, sync=True, count=few))
    title = f"ingest, {'from the disk' if cold else 'files in the page cache'}"
    return race(
        title, entries, unit="MB/s", limit=LIMIT, rounds=options.rounds, seed=options.seed, folder=folder, cold=cold
    )
