"""Volumes that are resampled, cropped and normalised while they are read, beside a table that holds the result.

First volumes a second of the loaders alone, then steps a second of a real training: TransformVolumes wired straight to
TrainResNet3D does its steps again in every epoch, a table that NumpyToParquet made after it was written once.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.data import ReadingData, add_reading_options, prepare, shape_of
from benchmarks.race import Entry, race
from benchmarks.readers import OurLoader
from benchmarks.reports import Report
from benchmarks.train import FromDelta

STORED, AFTER = "stored after the chain", "after the chain"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    parser.add_argument("--resampled", default="36,36,12", help="shape to resample to (default: 36,36,12)")
    parser.add_argument("--depth", type=int, default=18, help="layers of the network (default: 18)")
    parser.add_argument("--steps", type=int, default=10, help="steps of a training; 0 measures none (default: 10)")
    parser.set_defaults(volumes=640, rounds=3)


def run(options: argparse.Namespace, folder: Path) -> Report:
    data = prepare(options, folder, records=False, array=False)
    steps = {"shape": list(shape_of(options.resampled)), "size": list(data.shape[:3]), "normalise": "z-score"}
    changed = _stored(data, steps, folder)
    common = {"rounds": options.rounds, "seed": options.seed, "folder": folder, "limit": STORED}
    loaders = [
        Entry(STORED, "limit", OurLoader, {"data": changed.as_json(), "loader": "arrow"}),
        Entry(AFTER, "ours", OurLoader, {"data": changed.as_json(), "loader": "npy"}),
    ]
    races = [race("chain, batches", loaders, unit="volumes/s", **common)]
    if options.steps:
        settings = {"depth": options.depth, "steps": options.steps, "home": str(folder / "training")}
        after = settings | {"data": data.as_json(), "transforms": steps}
        trainings = [
            Entry(STORED, "limit", FromDelta, settings | {"data": changed.as_json()}, delivers=""),
            Entry(AFTER, "ours", FromDelta, after, delivers=""),
        ]
        title = f"chain, ResNet-{options.depth}, batches of {options.batch}"
        races.append(race(title, trainings, unit="steps/s", warm_up=False, **common))
    return Report("chain", races)


def _stored(data: ReadingData, steps: dict[str, Any], folder: Path) -> ReadingData:
    """The same volumes after the steps: as `files` what TransformVolumes gives, as `table` what was made of that."""
    from benchmarks.pipelines import Benchwork, chain
    from engine.document.pipeline import Node

    boxes = [
        Node(id="there", type="TableAt", params={"folder": data.delta.uri}),
        Node(id="transform", type="TransformVolumes", params=steps),
        Node(id="convert", type="NumpyToParquet"),
        Node(id="table", type="ParquetToDelta"),
    ]
    work = Benchwork(folder / "stored")
    ran = work.run(chain("stored", boxes))
    work.close()
    return replace(data, files=ran.out("transform").model_dump_json(), table=ran.out("table").model_dump_json())
