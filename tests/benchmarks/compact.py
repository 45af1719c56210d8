"""A Delta table of many small files into one of few large ones.

The table has one Parquet file for each volume (--per-file: as many volumes), in the volume layout, as NumpyToParquet
would write them. Each contender gets its own copy of the log over the same data files. Ours is `voxelflow run` of
OptimizeDelta, its time the task's span; it is durable when it says so, and the others are flushed before the clock
stops. The limit is copying the bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks.race import Entry, race
from tests.benchmarks.reports import Aim, Report, aim_of
from tests.benchmarks.source_files import add_data_options, make, shape_of

_HOME = "tests.benchmarks.compact_contenders"
LIMIT = "copy the bytes; fsync"
DEFAULTS = "delta-rs, defaults"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2000)
    parser.add_argument("--per-file", type=int, default=1, help="volumes in a small file (default: 1)")
    parser.add_argument("--no-cold", action="store_true", help="leave out the rounds from the disk")


def run(options: argparse.Namespace, folder: Path) -> Report:
    from tests.benchmarks.compact_contenders import make_table

    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    small = folder / "small"
    make_table(small, source, options.per_file)
    for path in source.folder.iterdir():
        path.unlink()

    def entry(name: str, kind: str, program: str, **more: object) -> Entry:
        home = folder / "".join(c if c.isalnum() else "-" for c in name)
        arguments = {"table": str(small), "home": str(home), **more}
        return Entry(name, kind, f"{_HOME}:{program}", arguments)  # type: ignore[arg-type]

    races = []
    for cold in (False,) if options.no_cold else (False, True):
        entries = [
            entry(LIMIT, "limit", "Copy", sync=True),
            entry("copy the bytes", "limit", "Copy", sync=False),
            entry("ours", "ours", "Ours", cold=cold),
            entry(DEFAULTS, "peer", "DeltaRs", tuned=False),
            entry("delta-rs, tuned", "peer", "DeltaRs", tuned=True),
        ]
        title = f"compact, {'from the disk' if cold else 'files in the page cache'}"
        settings = {"rounds": options.rounds, "seed": options.seed, "folder": folder, "cold": cold}
        races.append(race(title, entries, unit="MB/s", limit=LIMIT, **settings))
    warm = races[0]
    aims = [
        aim_of(warm, "ours", LIMIT, 0.5),
        aim_of(warm, "ours", DEFAULTS, 3),
        Aim("compact: peak memory of the task, MB", warm["ours"].peak / 1e6, 500, at_most=True),
    ]
    return Report("compact", races, aims=aims)
