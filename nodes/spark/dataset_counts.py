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
from pyspark.sql.functions import udf
from pyspark.sql.types import BooleanType

from engine.datasets import Selection, VolumeDelta, VolumeSpec
from engine.progress import Meter
from engine.spark.progress import following
from nodes.delta.delta_table import local_folder
from nodes.delta.parquet_rewrite import RowSource
from nodes.inspection.dataset_statistics import Task, Values, see
from nodes.spark.results import results


def count_on_spark(task: Task) -> Counter[float | None]:
    """Volumes by label over the whole dataset; of a table, over the version that is pinned."""
    frame = _frame(task)
    for selection in task.selections:
        frame = frame.where(udf(_Holds(selection), BooleanType())("id"))
    with following(task.ctx, "counting labels"):
        rows = frame.groupBy("label").count().collect()
    return Counter({row["label"]: row["count"] for row in rows})


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


@dataclass(frozen=True)
class _Holds:
    selection: Selection

    def __call__(self, volume_id: str) -> bool:
        return self.selection.holds(volume_id)


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
