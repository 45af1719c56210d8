"""Steps of a real training a second: volumes from the Delta table beside the same volumes in memory.

Ours is `voxelflow run` of TrainResNet3D; the time of a step is that between two of its reported figures. The other is
the same loop, the same network and the same settings with a loader that hands out batches lying in memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.data import ReadingData, add_reading_options, prepare
from benchmarks.race import Contender, Entry, race
from benchmarks.reports import Report, aim_of

LIMIT = "from memory"
NOT_TIMED = 2
"""Steps at the start: the first builds the graph."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    parser.add_argument("--depth", type=int, default=18, help="layers of the network (default: 18)")
    parser.add_argument("--steps", type=int, default=12, help="steps of a round, the first two not timed (default: 12)")
    parser.set_defaults(volumes=640, rounds=3)


def run(options: argparse.Namespace, folder: Path) -> Report:
    data = prepare(options, folder, records=False, array=False)
    settings = {"depth": options.depth, "steps": options.steps, "data": data.as_json()}
    entries = [
        Entry(LIMIT, "limit", FromMemory, settings, delivers=""),
        Entry("ours", "ours", FromDelta, settings | {"home": str(folder / "training")}, delivers=""),
    ]
    title = f"train, ResNet-{options.depth}, batches of {options.batch}"
    common = {"rounds": options.rounds, "seed": options.seed, "folder": folder}
    # Each round warms up by itself, and which rows a step gets is held by tests of the loaders.
    found = race(title, entries, unit="steps/s", limit=LIMIT, warm_up=False, **common)
    return Report("train", [found], aims=[aim_of(found, "ours", LIMIT, 0.99)])


def rate_of(times: Sequence[float]) -> float:
    """Steps a second by the median step; `times` are when each ended."""
    return 1 / statistics.median(b - a for a, b in pairwise(times[NOT_TIMED - 1 :]))


def parameters(data: ReadingData, depth: int, steps: int) -> dict[str, Any]:
    return {
        "depth": depth,
        "epochs": 1,
        "batch_size": data.batch,
        "steps_per_epoch": steps,
        "validation_share": 0.0,
        "checkpoint_every_s": 86_400,
    }


class FromDelta(Contender):
    """TrainResNet3D in a run. `transforms` are parameters of a TransformVolumes between the table and it."""

    def __init__(
        self, data: dict[str, Any], depth: int, steps: int, home: str, transforms: dict[str, Any] | None = None
    ) -> None:
        from benchmarks.pipelines import Benchwork, chain
        from engine.document.pipeline import Node

        self._data = ReadingData.of(data)
        self._work = Benchwork(Path(home))
        boxes = [Node(id="there", type="TableAt", params={"folder": self._data.delta.uri})]
        params = parameters(self._data, depth, steps)
        if transforms is not None:
            boxes.append(Node(id="transform", type="TransformVolumes", params=transforms))
            params["loader"] = "npy"
        boxes.append(Node(id="train", type="TrainResNet3D", params=params))
        self._document = chain("train", boxes)

    def round(self, number: int) -> dict[str, Any]:
        from engine.declare.events import Metrics

        ran = self._work.run(self._document)
        steps = [e for e in self._work.events(ran.run_id, "metrics") if isinstance(e, Metrics)]
        times = [event.time for event in steps if "step_loss" in event.values]
        return {"rate": rate_of(times), "peak": ran.tasks["train"].peak}

    def tidy(self) -> None:
        self._work.clean()

    def close(self) -> None:
        self._work.close()


class FromMemory(Contender):
    """The node's function here, with a source whose batches were read beforehand."""

    def __init__(self, data: dict[str, Any], depth: int, steps: int) -> None:
        self._data, self._depth, self._steps = ReadingData.of(data), depth, steps

    def round(self, number: int) -> dict[str, Any]:
        import voxelflow
        from engine.declare.context import Resources, TaskContext
        from engine.declare.events import Event, Metrics

        times: list[float] = []

        def emit(event: Event) -> None:
            if isinstance(event, Metrics) and "step_loss" in event.values:
                times.append(event.time)

        home = Path(tempfile.mkdtemp())
        context = TaskContext(
            run_id="benchmark", node_id="train", fingerprint=f"{number:032x}", out=home / "out", shared=home / "shared",
            scratch=home / "scratch", resources=Resources(cores=len(os.sched_getaffinity(0))), emit=emit,
        )  # fmt: skip
        for folder in (context.out, context.shared, context.scratch):
            folder.mkdir()
        node_type = voxelflow.catalog().find("TrainResNet3D")
        assert node_type is not None
        values = {parameter.name: parameter.default for parameter in node_type.parameters}
        values |= parameters(self._data, self._depth, self._steps)
        try:
            with _read_beforehand():
                node_type(self._data.delta, **values, ctx=context)
        finally:
            shutil.rmtree(home)
        return {"rate": rate_of(times)}


def _read_beforehand() -> Any:
    """Within it, a loader reads an epoch's batches before it hands out the first."""
    from nodes.loaders.random_access import RandomAccessLoader

    read = RandomAccessLoader._read

    def all_at_once(loader: RandomAccessLoader, seed: int, epoch: int, first: int) -> Iterator[Any]:
        return iter(list(read(loader, seed, epoch, first)))

    return mock.patch.object(RandomAccessLoader, "_read", all_at_once)
