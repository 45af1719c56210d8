"""Batches of shuffled volumes, to NumPy and into tf.data: loaders, what people use, memcpy and memmap.

Ours is the loader that TrainResNet3D uses, on the table that `voxelflow run` makes of the files. A round is as many
whole epochs as --seconds takes (one from the disk). Every contender hands out batches of float32 arrays (or tensors)
that are whole in memory; all of them must hand out each volume once an epoch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.data import ReadingData, add_cold_option, add_reading_options, prepare
from benchmarks.race import Entry, Race, race
from benchmarks.readers import (
    ArrowDataset,
    Memcpy,
    Memmap,
    NpLoad,
    OurLoader,
    Petastorm,
    Polars,
    Reader,
    TFRecord,
)
from benchmarks.reports import Aim, Report, aim_of

LIMIT = "memcpy, one thread"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    parser.add_argument("--seconds", type=float, default=1.0, help="least length of a round (default: 1)")
    add_cold_option(parser)
    parser.add_argument("--only", nargs="+", choices=["numpy", "tensorflow"], default=["numpy", "tensorflow"])


def run(options: argparse.Namespace, folder: Path) -> Report:
    data = prepare(options, folder)
    races, aims = [], list[Aim]()
    for to in options.only:
        warm = _race(options, folder, data, to, cold=False)
        races.append(warm)
        ours = "ours, arrow"
        if to == "numpy":
            aims += [aim_of(warm, ours, LIMIT, 0.8), aim_of(warm, ours, "petastorm", 15)]
            aims += [aim_of(warm, ours, "TFRecord, shuffled", 4), aim_of(warm, ours, "np.load + stack", 3)]
        else:
            aims += [aim_of(warm, ours, LIMIT, 0.6), aim_of(warm, ours, "petastorm", 10)]
        if not options.no_cold:
            races.append(_race(options, folder, data, to, cold=True))
    return Report("load", races, aims=aims)


def _race(options: argparse.Namespace, folder: Path, data: ReadingData, to: str, *, cold: bool) -> Race:
    seconds = 0.0 if cold else options.seconds

    def entry(name: str, kind: str, program: type[Reader], **more: object) -> Entry:
        arguments = {"data": data.as_json(), "to": to, "seconds": seconds, **more}
        return Entry(name, kind, program, arguments)  # type: ignore[arg-type]

    entries = [
        entry(LIMIT, "limit", Memcpy),
        entry("ours, arrow", "ours", OurLoader, loader="arrow"),
        entry("ours, arrow, unverified", "ours", OurLoader, loader="arrow", verify=False),
        entry("ours, npy", "ours", OurLoader, loader="npy"),
        entry("petastorm", "peer", Petastorm),
        entry("TFRecord, shuffled", "peer", TFRecord, shuffled=True),
        entry("TFRecord, sequential", "peer", TFRecord, shuffled=False),
        entry("np.load + stack", "peer", NpLoad),
    ]
    if to == "tensorflow":
        entries.append(entry("ours, arrow, eager tensors", "ours", OurLoader, loader="arrow", eager=True))
    else:
        entries += [
            entry("memcpy into new buffers", "limit", Memcpy, fresh=True),
            entry("np.memmap, random", "limit", Memmap),
            entry("ours, petastorm", "ours", OurLoader, loader="petastorm"),
            entry("polars scan_delta, in order", "peer", Polars),
            entry("pyarrow dataset, in order", "peer", ArrowDataset),
        ]
    if cold:  # what is in memory already has nothing to fetch, and stays for comparison
        entries = [e for e in entries if e.name != "memcpy into new buffers"]
    title = f"load to {to}, {'from the disk' if cold else 'files in the page cache'}"
    return race(
        title,
        entries,
        unit="samples/s",
        limit=LIMIT,
        rounds=options.rounds,
        seed=options.seed,
        folder=folder,
        cold=cold,
    )
