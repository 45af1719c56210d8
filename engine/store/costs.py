"""What runs have cost, summed by pipeline and month."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.store.runs import Run


@dataclass(frozen=True)
class CostSum:
    """What the runs of one pipeline that began in one month (`2026-06`, local time) have cost, in one currency.

    `idle_cost` is the idle part of those runs whose idle time was measured; None when it was of none. `expected` is the
    least and the most that was expected of them; None unless all of them are done and all of their nodes were known.
    """

    month: str
    pipeline: str
    currency: str
    runs: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    idle_cost: float | None = None
    expected: tuple[float, float] | None = (0.0, 0.0)


def costs_by_month(runs: Iterable[Run], others: Iterable[CostSum] = ()) -> list[CostSum]:
    """The sums, the newest month first and in a month the dearest pipeline. Runs without a known price are left out.

    `others` are the sums of further runs, which are added.
    """
    sums = {(each.month, each.pipeline, each.currency): each for each in others}
    for run in runs:
        if run.cost is None or run.started is None:
            continue
        month = time.strftime("%Y-%m", time.localtime(run.started))
        key = (month, run.pipeline, run.currency)
        before = sums.get(key, CostSum(*key))
        idle = before.idle_cost if run.idle_cost is None else (before.idle_cost or 0.0) + run.idle_cost
        sums[key] = replace(
            before,
            runs=before.runs + 1,
            seconds=before.seconds + (run.seconds or 0.0),
            cost=before.cost + run.cost,
            idle_cost=idle,
            expected=_expected(before.expected, run),
        )
    return sorted(sums.values(), key=lambda each: (each.month, each.cost), reverse=True)


def _expected(before: tuple[float, float] | None, run: Run) -> tuple[float, float] | None:
    kept = run.estimated
    if before is None or run.state != "done" or kept is None or kept.unknown or run.price is None:
        return None
    # A run with nothing to do was expected to take no time.
    return before[0] + run.price * (kept.low or 0.0) / 3600, before[1] + run.price * (kept.high or 0.0) / 3600
