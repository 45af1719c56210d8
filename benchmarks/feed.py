"""Does the accelerator wait? A simulated one takes a batch every t ms; utilisation is its busy time over all time.

As in MLPerf Storage: ask for a batch, be busy for as long as the device would be, ask for the next. The paces are those
at which an H100 takes samples there, CosmoFlow and 3D-UNet, with samples of 360 kB. Busy time is what the device would
need, not what the sleep took. The limit gets batches that lie in memory.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import readers
from benchmarks.data import add_reading_options, prepare
from benchmarks.race import Contender, Entry, race
from benchmarks.reports import Aim, Report

PACES = {"CosmoFlow": (2_245.0, 0.95), "3D-UNet": (8_800.0, 0.90)}
"""Samples a second of an H100, and the utilisation that is aimed at."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    parser.add_argument("--seconds", type=float, default=3.0, help="least length of a round (default: 3)")
    parser.add_argument("--only", nargs="+", choices=list(PACES), default=list(PACES))


def run(options: argparse.Namespace, folder: Path) -> Report:
    data = prepare(options, folder)
    races, aims = [], []
    for name in options.only:
        pace, wanted = PACES[name]

        def entry(title: str, kind: str, reader: str, to: str = "numpy", pace: float = pace, **more: object) -> Entry:
            values = {"reader": reader, "pace": pace, "seconds": options.seconds}
            arguments = {**values, "arguments": {"data": data.as_json(), "to": to, **more}}
            return Entry(title, kind, Accelerator, arguments)  # type: ignore[arg-type]

        entries = [
            entry("batches in memory", "limit", "Memcpy"),
            entry("ours, arrow", "ours", "OurLoader", loader="arrow"),
            entry("ours, arrow, to tensors", "ours", "OurLoader", "tensorflow", loader="arrow", eager=True),
            entry("ours, arrow, unverified", "ours", "OurLoader", loader="arrow", verify=False),
            entry("ours, npy", "ours", "OurLoader", loader="npy"),
            entry("petastorm, to tensors", "peer", "Petastorm", "tensorflow"),
            entry("TFRecord, shuffled, to tensors", "peer", "TFRecord", "tensorflow", shuffled=True),
        ]
        title = f"feed, {name} on an H100: {pace:,.0f} samples/s"
        settings = {"rounds": options.rounds, "seed": options.seed, "folder": folder}
        found = race(title, entries, unit="utilisation", limit="batches in memory", **settings)
        races.append(found)
        rates = found["ours, arrow"].rates.values()
        spread = f"{min(rates):.3f}..{max(rates):.3f}"
        aims.append(Aim(f"{title}: utilisation", found["ours, arrow"].rate, wanted, spread=spread))
    return Report("feed", races, aims=aims)


class Accelerator(Contender):
    """A simulated accelerator: takes batches from `readers.READER(**arguments)`.

    At `pace` samples a second, for at least `seconds`.
    """

    def __init__(self, reader: str, arguments: dict[str, Any], pace: float, seconds: float) -> None:
        self._reader: readers.Reader = getattr(readers, reader)(**arguments)
        self._in_memory = reader == "Memcpy"
        self._pace, self._seconds = pace, seconds

    def digest(self) -> str:
        return self._reader.digest()

    def close(self) -> None:
        self._reader.close()

    def _batches(self) -> Iterator[Any]:
        """Epoch after epoch; what lies between two of them counts."""
        if self._in_memory:
            return itertools.cycle(list(itertools.islice(self._reader.batches(), 2)))
        return itertools.chain.from_iterable(self._reader.batches() for _ in itertools.count())

    def round(self, number: int) -> dict[str, Any]:
        busy, longest, samples = 0.0, 0.0, 0
        batches = self._batches()
        began = asked = time.perf_counter()
        while True:
            _, volumes = next(batches)
            taken = time.perf_counter()
            longest = max(longest, taken - asked)
            step = volumes.shape[0] / self._pace
            time.sleep(max(0.0, step - (time.perf_counter() - taken)))
            busy += step
            samples += volumes.shape[0]
            asked = time.perf_counter()
            if asked - began >= self._seconds:
                break
        if hasattr(batches, "close"):
            batches.close()
        beside = {"longest wait ms": 1000 * longest, "samples/s": samples / (asked - began)}
        return {"rate": busy / (asked - began), "beside": beside}
