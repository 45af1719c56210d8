"""The laws of a comparison: ratios to the best, the efficient frontier, what a training is bound by, and pictures."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_results import RESULTS, result, row, runs
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.compare import (
    Comparison,
    Work,
    best_by_machine,
    bound_of,
    common_input,
    compare,
    others_share,
    stalls,
    works,
)
from engine.bench.picture import draw_curves, draw_frontier, draw_ratios, draw_stalls
from engine.bench.result import BenchResult, Curves
from engine.bench.tables import (
    COMPARED,
    HARDWARE,
    STALLS,
    compared_rows,
    disturbance,
    hardware_rows,
    meaning,
    stalls_rows,
    unfinished,
)

MANY = st.lists(RESULTS, max_size=5, unique_by=lambda found: found.name)


def comparisons(results: list[BenchResult]) -> list[Comparison]:
    return [compare(results, work, common_input(results, work)) for work in works(results)]


@pytest.mark.slow
@given(MANY)
def test_ratios_are_to_the_best_and_the_frontier_is_what_nothing_beats(results: list[BenchResult]) -> None:
    for found in comparisons(results):
        points = found.points
        assert points
        assert [p.seconds for p in points] == sorted(p.seconds for p in points)
        assert min(p.time_ratio for p in points) == 1
        priced = [p for p in points if p.cost is not None]
        costs = [p.cost for p in priced if p.cost is not None]
        for point in points:
            assert point.time_ratio == point.seconds / points[0].seconds
            assert (point.cost_ratio is None) == (point.cost is None)
            assert math.isclose(point.seconds * point.row.samples_per_s, found.volumes)
        if min(costs, default=0) > 0:
            assert min(p.cost_ratio or 0 for p in priced) == 1
        for point in priced:
            cost = point.cost or 0.0
            beaten = [
                p for p in priced
                if p.seconds <= point.seconds and (p.cost or 0.0) <= cost
                and (p.seconds < point.seconds or (p.cost or 0.0) < cost)
            ]  # fmt: skip
            if point.efficient:
                assert not beaten
            elif not beaten:
                # Points that are equal stand for each other.
                assert any((p.seconds, p.cost) == (point.seconds, point.cost) and p.efficient for p in priced)
        # The slower, the cheaper.
        frontier = [p.cost for p in found.frontier if p.cost is not None]
        assert frontier == sorted(frontier, reverse=True)
        assert bool(frontier) == bool(priced)


@pytest.mark.slow
@given(MANY, st.floats(1.5, 10))
def test_a_dearer_machine_costs_more_and_times_do_not_change(results: list[BenchResult], factor: float) -> None:
    for found in comparisons(results):
        dearer = [
            r.model_copy(update={"price_per_hour": None if r.price_per_hour is None else r.price_per_hour * factor})
            for r in results
        ]
        again = compare(dearer, found.work, found.input)
        # Where times are equal the cheaper is first, so all keep their places.
        for one, two in zip(found.points, again.points, strict=True):
            assert one.seconds == two.seconds
            if one.cost is not None and two.cost is not None:
                assert math.isclose(two.cost, one.cost * factor)


@pytest.mark.slow
@given(MANY)
def test_every_comparison_can_be_printed_and_drawn(results: list[BenchResult]) -> None:
    for found in comparisons(results):
        assert {len(line) for line in compared_rows(found, found.points)} == {len(COMPARED)}
        assert meaning(found)
        for picture in (draw_frontier(found), draw_ratios(found)):
            if picture:
                ElementTree.fromstring(picture)
    for one in results:
        lines = stalls(one)
        assert {len(line) for line in stalls_rows(lines)} <= {len(STALLS)}
        assert {len(line) for line in hardware_rows(one)} <= {len(HARDWARE)}
        if picture := draw_stalls(lines):
            ElementTree.fromstring(picture)
        for measured in one.measured:
            if picture := draw_curves(one, measured):
                ElementTree.fromstring(picture)


def test_three_machines_are_compared_by_time_and_cost() -> None:
    slow = result("slow", *runs(10, 10, 10), price=0.36)
    fast = result("fast", *runs(100, 90, 50), price=3.6)
    poor = result("poor", *runs(20, 20, 20), price=36.0)
    other = result("euro", *runs(30, 30, 30), price=1.0, currency="EUR")
    found = compare([slow, fast, poor, other], works([slow])[0], "cold", volumes=36_000)
    assert [p.result.name for p in found.machines] == ["fast", "euro", "poor", "slow"]
    times = {p.result.name: (p.seconds, p.time_ratio, p.cost, p.cost_ratio, p.efficient) for p in found.points}
    assert times == {
        "fast": (720, 1, 0.72, 2, True),
        "euro": (1200, 1200 / 720, None, None, False),
        "poor": (1800, 2.5, 18, 50, False),
        "slow": (3600, 5, 0.36, 1, True),
    }
    assert [p.bound for p in found.machines] == ["input", "compute", "compute", "compute"]
    assert meaning(found) == [
        "fast is the fastest: an epoch of 36,000 volumes takes 12 min 00 s and costs 0.72 USD.",
        "slow is the cheapest of those with a price to compare: it takes 1 h 00 min and costs 0.36 USD.",
        "Costs are compared in USD alone: not of euro (EUR).",
        "Not bound by computing, also in the fastest way: fast by input (arrow, batch 32).",
    ]
    assert "fast" in draw_frontier(found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"price": 0.36}, "slow is the cheapest: it takes 1 h 00 min and costs 0.36 USD."),
        ({}, "No price is known of slow."),
        ({"price": 0.36, "currency": "EUR"}, "Costs are compared in USD alone: not of slow (EUR)."),
        ({"price": 0.36, "currency": ""}, "Costs are compared in USD alone: not of slow (none given)."),
    ],
)
def test_why_a_cost_is_not_compared_is_said(more: dict[str, Any], said: str) -> None:
    slow = result("slow", *runs(10, 10, 10), **more)
    results = [slow, *(result(name, *runs(rate, rate, rate), price=36.0) for name, rate in (("a", 100), ("b", 90)))]
    found = meaning(compare(results, works(results)[0], "cold", volumes=36_000))
    assert [line for line in found if line.endswith(said)]
    # One price is no choice.
    found = meaning(compare([results[1], slow], works(results)[0], "cold", volumes=36_000))
    assert any("the cheapest" in line for line in found) is (more == {"price": 0.36})
    unpriced = [results[2].model_copy(update={"price_per_hour": None}), slow]
    found = meaning(compare(unpriced, works(results)[0], "cold", volumes=36_000))
    assert not any("the cheapest" in line for line in found)


def test_one_that_is_not_the_fastest_and_alone_has_a_price_says_what_it_costs() -> None:
    results = [result("fast", row(100)), result("slow", row(10), price=0.36)]
    found = meaning(compare(results, works(results)[0], "synthetic", volumes=36_000))
    assert found[1:] == ["slow takes 1 h 00 min and costs 0.36 USD.", "No price is known of fast."]


def test_beside_a_machine_that_costs_nothing_no_ratio_is_shown() -> None:
    results = [result("free", row(100), price=0.0), result("paid", row(10), price=0.36)]
    found = compare(results, works(results)[0], "synthetic", volumes=1)
    assert [line[6:8] for line in compared_rows(found)] == [("0.00 USD", "1.00"), ("<0.0001 USD", "")]
    assert meaning(found)[0].startswith("free is the fastest: an epoch of 1 volume takes")


def test_a_damaged_row_that_took_no_time_is_not_compared() -> None:
    damaged = row(10).model_copy(update={"waiting_s": 0.0, "computing_s": 5e-324, "rest_s": 0.0})
    broken, whole = result("broken", damaged), result("whole", row(10))
    assert broken.measured == ()
    assert [p.result.name for p in compare([broken, whole], works([whole])[0], "synthetic").points] == ["whole"]


def test_costs_are_in_the_currency_of_those_that_did_the_work() -> None:
    ours = [result(name, row(rate), price=1.0) for name, rate in (("a", 10), ("b", 20))]
    others = [result(name, row(10, depth=50), price=1.0, currency="EUR") for name in "cde"]
    found = compare([*ours, *others], works(ours)[0], "synthetic")
    assert (found.currency, [point.cost is None for point in found.points]) == ("USD", [False, False])


def test_only_the_same_work_is_compared() -> None:
    small = {"shape": (12, 12, 8, 2)}
    one = result("one", *runs(10, 9, 8), *runs(100, 90, 80, **small))
    two = result("two", row(20), row(500, **small))
    known = works([one, two])
    assert known[0] == Work(18, (12, 12, 8, 2), "float32", "adam", "standard", 64)
    assert {work.shape for work in known} == {(12, 12, 8, 2), (30, 30, 10, 10)}
    # The second machine was not measured cold.
    assert common_input([one, two], known[0]) == "synthetic"
    assert common_input([one], known[0]) == "cold"
    best = best_by_machine([one, two.model_copy(update={"machine_type": "X@Y"})])
    assert {name: point.row.samples_per_s for name, point in best.items()} == {"one": 100, "two": 500, "x@y": 500}
    assert best_by_machine([]) == {}


def test_the_input_of_most_machines_is_compared_and_who_lacks_it_is_named() -> None:
    fast, slow = result("fastbox", row(5000.0)), result("slowbox", *runs(10, 10, 10)[2:])
    (work,) = works([fast, slow])
    # As many with each: the coldest. Of one machine alone it is not said that it is the fastest.
    assert common_input([fast, slow], work) == "cold"
    found = compare([fast, slow], work, "cold", volumes=36_000)
    assert found.left_out == ("fastbox",)
    assert meaning(found) == [
        "slowbox: an epoch of 36,000 volumes takes 1 h 00 min.",
        "No price is known of slowbox.",
        "Not compared, as not measured with cold input: fastbox.",
    ]
    both = result("both", *runs(100, 90, 80))
    assert common_input([fast, slow, both, result("another", row(1.0))], work) == "synthetic"
    found = compare([fast, slow, both], work, "synthetic")
    assert found.left_out == ("slowbox",)
    assert meaning(found)[0].startswith("fastbox is the fastest: ")
    assert not compare([both], work, "cached").left_out
    # A machine that did other work lacks no input.
    assert not compare([both, result("x", row(1.0, depth=50))], work, "cold").left_out
    assert common_input([], work) == "cold"


def test_a_try_of_the_command_is_no_rate_of_a_machine() -> None:
    quick = result("m", row(9000.0), measured_at=2e9, quick=True)
    assert best_by_machine([quick]) == {}
    assert best_by_machine([quick, result("m", row(10.0))])["m"].row.samples_per_s == 10.0


def test_what_a_training_is_bound_by() -> None:
    def curves(**values: float) -> Curves:
        return Curves(seconds=(1.0,), values={name: (value,) for name, value in values.items()})

    assert bound_of(row(10)) == "compute"
    assert bound_of(row(10, waiting=0.5)) == "input"
    assert bound_of(row(10, waiting=0.5, curves=curves(swap_out_megabytes_per_second=5))) == "memory"
    assert bound_of(row(10, curves=curves(system_memory_usage_percentage=97))) == "memory"
    assert bound_of(row(10).model_copy(update={"outcome": "out of memory"})) == "memory"
    full = row(10, curves=curves(run_processes_cpu_percentage=364))
    machine = result("m", full)
    four = machine.model_copy(update={"cores": 4})
    assert (bound_of(full, four), bound_of(full, machine.model_copy(update={"cores": 8}))) == ("cores", "compute")
    assert bound_of(row(10, curves=curves(cpu_utilization_percentage=97)), machine) == "cores"
    card = four.machine.model_copy(update={"gpus": ("NVIDIA T4",)})
    assert bound_of(full, four.model_copy(update={"machine": card})) == "compute", "the GPU computes"
    assert bound_of(row(10, waiting=0.5, curves=full.curves), four) == "input"
    found = compare([four], works([four])[0], full.configuration.input)
    assert "Bound by their cores, which were busy nearly all the time, with no GPU: m 91%." in meaning(found)
    assert [line[8] for line in compared_rows(found)] == ["cores"]
    busy = row(10, curves=curves(cpu_utilization_percentage=90, run_processes_cpu_percentage=200))
    assert others_share(busy, 4) == 0.4
    assert disturbance([result("m", busy)]).startswith("Other programs had a part of the cores meanwhile (m 40%)")
    assert disturbance([result("m", row(10))]) == ""


def test_a_result_that_was_ended_early_says_so() -> None:
    whole, early = result("m", row(10), row(10), planned=2), result("early", row(10), planned=12)
    assert unfinished([whole, result("of before", row(10))]) == ""
    assert unfinished([whole, early]) == "Ended early, so that faster ways may be missing: early 1 of 12 rows."
    (found,) = comparisons([whole, early])
    assert unfinished([early]) in meaning(found)


def test_what_is_lost_to_reading_and_to_storage() -> None:
    failed = row(1, batch_size=64).model_copy(update={"outcome": "out of memory", "steps": 0, "note": "no space"})
    found = stalls(result("m", *runs(100, 80, 40), *runs(100, 100, 110, "npy"), failed))
    lost = {s.configuration.loader: (s.preparing, s.fetching, s.outcome, s.bound) for s in found}
    assert lost == {
        "": (None, None, "out of memory", "memory"),
        "arrow": (1 - 80 / 100, 0.5, "measured", "input"),
        "npy": (0, 0, "measured", "compute"),
    }


def test_each_gpu_has_a_curve() -> None:
    values = {f"gpu_{n}_utilization_percentage": (10.0, 20.0) for n in (10, 0, 2)}
    measured = row(10, curves=Curves(seconds=(1.0, 2.0), values=values))
    picture = draw_curves(result("m", measured), measured)
    assert [f"GPU {n}<" in picture for n in (0, 1, 2, 10)] == [True, False, True, True]
