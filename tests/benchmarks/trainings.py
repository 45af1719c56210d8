"""Two trainings that differ only in where a batch comes from."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.benchmarks.contender import Contender
from tests.benchmarks.reading_data import ReadingData

NOT_TIMED = 2
"""Steps at the start: the first builds the graph."""


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
    """TrainResNet3D in a run."""

    def __init__(self, data: dict[str, Any], depth: int, steps: int, home: str) -> None:
        from engine.pipeline import Node
        from tests.benchmarks.pipelines import Benchwork, chain

        self._data = ReadingData.of(data)
        self._work = Benchwork(Path(home))
        train = Node(id="train", type="TrainResNet3D", params=parameters(self._data, depth, steps))
        table = Node(id="there", type="TableAt", params={"folder": self._data.delta.uri})
        self._document = chain("train", [table, train])

    def round(self, number: int) -> dict[str, Any]:
        from engine.events import Metrics

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
        from engine.context import Resources, TaskContext
        from engine.events import Event, Metrics

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
                node_type.function(self._data.delta, **values, ctx=context)
        finally:
            shutil.rmtree(home)
        return {"rate": rate_of(times)}


class _read_beforehand:  # noqa: N801 - reads like a function where it is used
    """Within it, a loader reads an epoch's batches before it hands out the first."""

    def __enter__(self) -> None:
        from nodes.loaders.random_access import RandomAccessLoader

        read = self._read = RandomAccessLoader._read

        def all_at_once(loader: RandomAccessLoader, seed: int, epoch: int, first: int) -> Iterator[Any]:
            return iter(list(read(loader, seed, epoch, first)))

        RandomAccessLoader._read = all_at_once  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        from nodes.loaders.random_access import RandomAccessLoader

        RandomAccessLoader._read = self._read  # type: ignore[method-assign]
