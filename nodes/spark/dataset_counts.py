"""A dataset measured by Spark: labels counted by its own aggregation, values of the sample by tasks that read blocks.

The same figures as embedded's to the last digit: a volume's own sums are made where it is read, and are added up on
the driver in embedded's order.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from engine.declare.datasets import Selection, VolumeDelta, VolumeSpec
from engine.declare.progress import Meter
from engine.spark.progress import following
from engine.storage.place import Place
from nodes.inspection.damage import StoredFile, check_files
from nodes.inspection.dataset_statistics import DataFile, Task, Values, count_file, see
from nodes.spark.session import results
from nodes.table.snapshot import local_folder
from nodes.volume_file.damage import FileCheck
from nodes.volume_file.rewrite import RowSource

_MOST_TASKS = 1000
"""A dataset may have more files than are worth a Spark task each."""


def count_on_spark(task: Task) -> Counter[float | None]:
    """Volumes by label over the whole dataset; of a table, over the version that is pinned."""
    if task.selections or task.partial:
        return _count_selected(task)
    with following(task.ctx, "counting labels"):
        rows = _frame(task).groupBy("label").count().collect()
    return Counter({row["label"]: row["count"] for row in rows})


def _count_selected(task: Task) -> Counter[float | None]:
    """By tasks of our own: which volumes a selection holds is Python's to say, and a Python function within SQL hung
    in a session that had run other Python tasks before (Spark 4.2)."""
    meter = Meter(sum(f.rows for f in task.files), "volumes", "counting labels")
    each = -(-len(task.files) // _MOST_TASKS)
    lots = [task.files[i : i + each] for i in range(0, len(task.files), each)]
    labels: Counter[float | None] = Counter()
    work = _Count(task.spec, task.selections)
    with contextlib.closing(
        results(task.ctx, lots, work, meter=meter, amount=lambda lot: sum(f.rows for f in lot))
    ) as done:
        for _, counted in done:
            labels.update(counted)
    meter.finish()
    return labels


def measure_on_spark(task: Task, looks: Sequence[RowSource]) -> Generator[Iterable[Values], None, None]:
    """See `SeeSample`. What comes back of a volume is five numbers a channel."""
    meter = Meter(sum(s.rows for s in looks), "volumes", "measuring the sample")
    work = _Measure(task.spec, task.selections)
    waiting: dict[int, list[Values]] = {}
    following = 0
    with contextlib.closing(results(task.ctx, looks, work, meter=meter, amount=lambda s: s.rows)) as done:
        for place, values in done:
            waiting[place] = values
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    meter.finish()


def check_on_spark(task: Task, place: Place) -> Generator[tuple[StoredFile, FileCheck], None, None]:
    """See `CheckAll`."""
    files = task.stored
    each = -(-len(files) // _MOST_TASKS)
    lots = [files[i : i + each] for i in range(0, len(files), each)]
    meter = Meter(sum(f.rows for f in files), "volumes", "comparing checksums")
    work, amount = _Check(place, task.spec), lambda lot: sum(f.rows for f in lot)
    with contextlib.closing(results(task.ctx, lots, work, meter=meter, amount=amount)) as done:
        for _, found in done:
            yield from found
    meter.finish()


@dataclass(frozen=True)
class _Check:
    place: Place
    spec: VolumeSpec

    def __call__(self, lot: Sequence[StoredFile]) -> list[tuple[StoredFile, FileCheck]]:
        return list(check_files(self.place, lot, self.spec, 1, lambda done, total: None))


@dataclass(frozen=True)
class _Count:
    spec: VolumeSpec
    selections: tuple[Selection, ...]

    def __call__(self, lot: Sequence[DataFile]) -> Counter[float | None]:
        labels: Counter[float | None] = Counter()
        for file in lot:
            labels.update(count_file(file, self.spec, self.selections))
        return labels


@dataclass(frozen=True)
class _Measure:
    spec: VolumeSpec
    selections: tuple[Selection, ...]

    def __call__(self, source: RowSource) -> list[Values]:
        return [seen.values() for seen in see(source, self.spec, self.selections)]


def _frame(task: Task) -> DataFrame:
    session, dataset = task.ctx.spark, task.dataset
    if isinstance(dataset, VolumeDelta):
        root = str(local_folder(dataset.uri))
        return session.read.format("delta").option("versionAsOf", dataset.version).load(root)
    return session.read.schema("id string, label float").parquet(*(str(f.path) for f in task.files))
