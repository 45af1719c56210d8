"""Sums of what runs have cost."""

from __future__ import annotations

import time

import pytest
from building import some_run

from engine.store.costs import CostSum, costs_by_month
from engine.store.estimates import Estimated
from engine.store.runs import Run

HOUR = 3600.0


def _run(pipeline: str, started: str, hours: float, *, idle: float = 0, measured: float = 0, **options: object) -> Run:
    begin = time.mktime(time.strptime(started, "%Y-%m-%d %H:%M"))
    return some_run(
        pipeline=pipeline,
        started=begin,
        ended=begin + hours * HOUR,
        idle_s=idle,
        measured_s=measured,
        options={"price_per_hour": 2.0, "currency": "USD"} | options,
    )


def test_runs_are_summed_by_month_and_pipeline_in_each_currency() -> None:
    runs = [
        _run("train", "2026-05-31 23:30", 2),  # counts where it began
        _run("train", "2026-06-02 10:00", 3, idle=1, measured=2),
        _run("train", "2026-06-03 10:00", 1),
        _run("etl", "2026-06-03 10:00", 10, currency="EUR"),
        _run("etl", "2026-06-04 10:00", 1, price_per_hour=None),
    ]
    assert costs_by_month(runs) == [
        CostSum("2026-06", "etl", "EUR", 1, 10 * HOUR, 20.0, None, None),
        CostSum("2026-06", "train", "USD", 2, 4 * HOUR, 8.0, 3.0, None),
        CostSum("2026-05", "train", "USD", 1, 2 * HOUR, 4.0, None, None),
    ]
    assert costs_by_month([]) == []
    assert costs_by_month(runs[2:], costs_by_month(runs[:2])) == costs_by_month(runs)


def test_what_was_expected_is_summed_where_it_was_known_of_all() -> None:
    known = Estimated(1 * HOUR, 2 * HOUR).as_options()
    (both,) = costs_by_month([_run("p", "2026-06-03 10:00", 1, **known), _run("p", "2026-06-04 10:00", 1, **known)])
    assert both.expected == (4.0, 8.0)
    in_part = Estimated(1 * HOUR, 2 * HOUR, ("a",)).as_options()
    runs = [_run("p", "2026-06-03 10:00", 1, **known), _run("p", "2026-06-04 10:00", 1, **in_part)]
    assert costs_by_month(runs)[0].expected is None
    assert costs_by_month(reversed(runs))[0].expected is None


@pytest.mark.parametrize("price", [None, "dear"])
def test_a_run_without_a_known_price_is_left_out(price: object) -> None:
    assert costs_by_month([_run("p", "2026-06-03 10:00", 1, price_per_hour=price)]) == []
