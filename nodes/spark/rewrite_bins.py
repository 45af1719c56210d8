"""The bins of a compaction written by Spark: one Spark task a bin, each with embedded's own rewriter."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence

from engine.context import TaskContext
from engine.progress import Meter
from nodes.delta.compaction import Job
from nodes.delta.compaction_plan import Bin
from nodes.delta.delta_table import TableFile
from nodes.delta.table_staging import Away, Made, Staging
from nodes.spark.results import executor_point, results


def rewrite_on_spark(
    bins: Sequence[Bin], job: Job, staging: Staging, ctx: TaskContext, meter: Meter
) -> Generator[tuple[int, tuple[TableFile, ...]], None, None]:
    """See `nodes.delta.compaction.RewriteBins`. What a killed run had taken over is not written again."""
    work: list[Away] = []
    numbers: list[int] = []
    for number, item in enumerate(bins):
        sources, recipe = job(item)
        found = staging.find(sources, recipe)
        if found is not None:
            meter.add(item.rows)
            yield number, found
        else:
            work.append(staging.away(sources, recipe))
            numbers.append(number)
    with contextlib.closing(results(ctx, work, _rewrite, meter=meter, amount=lambda away: away.rows)) as done:
        for place, made in done:
            yield numbers[place], staging.take(work[place], made)


def _rewrite(work: Away) -> Made:
    made = work()
    executor_point("optimize:file-written")
    return made
