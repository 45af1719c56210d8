"""Steps of a real training a second: volumes from the Delta table beside the same volumes in memory.

Ours is `voxelflow run` of TrainResNet3D; the time of a step is that between two of its reported figures. The other is
the same loop, the same network and the same settings with a loader that hands out batches lying in memory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks.race import Entry, race
from tests.benchmarks.reading_data import add_reading_options, prepare
from tests.benchmarks.reports import Report, aim_of

_HOME = "tests.benchmarks.trainings"
LIMIT = "from memory"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    parser.add_argument("--depth", type=int, default=18, help="layers of the network (default: 18)")
    parser.add_argument("--steps", type=int, default=12, help="steps of a round, the first two not timed (default: 12)")
    parser.set_defaults(volumes=640, rounds=3)


def run(options: argparse.Namespace, folder: Path) -> Report:
    data = prepare(options, folder, records=False, array=False)
    settings = {"depth": options.depth, "steps": options.steps, "data": data.as_json()}
    entries = [
        Entry(LIMIT, "limit", f"{_HOME}:FromMemory", settings, delivers=""),
        Entry("ours", "ours", f"{_HOME}:FromDelta", settings | {"home": str(folder / "training")}, delivers=""),
    ]
    title = f"train, ResNet-{options.depth}, batches of {options.batch}"
    common = {"rounds": options.rounds, "seed": options.seed, "folder": folder}
    # Each round warms up by itself, and which rows a step gets is held by tests of the loaders.
    found = race(title, entries, unit="steps/s", limit=LIMIT, warm_up=False, **common)
    return Report("train", [found], aims=[aim_of(found, "ours", LIMIT, 0.99)])
