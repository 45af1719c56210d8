"""The law of a step: what it finds again, and what it must never say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.advisor.steps import CPU, UNTRIED_SPREAD, MeasuredStep, StepModel, Terms, fit, terms
from engine.declare.workload import Network

SMALL, MIDDLE, LARGE = (
    Network(37, 2_000_000, 10_000_000, 30_000),
    Network(69, 16_000_000, 200_000_000, 200_000),
    Network(102, 46_000_000, 500_000_000, 950_000),
)
factors = st.floats(0.5, 2)
networks = st.builds(
    Network,
    layers=st.integers(10, 400),
    parameters=st.integers(10_000, 10**8),
    multiply_adds=st.integers(10**6, 10**10),
    values=st.integers(10_000, 10**7),
)


def measured(seconds: Terms, *more: MeasuredStep) -> list[MeasuredStep]:
    return [
        MeasuredStep(network, batch, terms(network, batch).times(seconds))
        for network in (SMALL, MIDDLE, LARGE)
        for batch in (4, 16, 64)
    ] + list(more)


@pytest.mark.slow
@given(st.tuples(*[factors] * 5))
def test_a_machine_with_other_proportions_is_found_again(by: tuple[float, ...]) -> None:
    seconds = Terms(*(a * b for a, b in zip(CPU, by, strict=True)))
    model = fit(measured(seconds), CPU)
    for network in (SMALL, MIDDLE, LARGE):
        for batch in (8, 32):
            wanted = terms(network, batch).times(seconds)
            assert model.step(network, batch) == pytest.approx(wanted, rel=0.25)


@given(factors, st.integers(1, 128))
def test_one_row_of_a_machine_like_the_reference_gives_all(faster: float, batch: int) -> None:
    seconds = Terms(*(each * faster for each in CPU))
    model = fit([MeasuredStep(SMALL, batch, terms(SMALL, batch).times(seconds))], CPU)
    assert model.step(LARGE, 2 * batch) == pytest.approx(terms(LARGE, 2 * batch).times(seconds), rel=1e-6)
    # What it is worth stands beside it.
    assert model.spread >= UNTRIED_SPREAD
    assert model.error(LARGE) > model.error(SMALL)


@given(networks, st.integers(1, 1000), st.integers(1, 8), st.tuples(*[factors] * 5))
def test_more_work_never_takes_less(network: Network, batch: int, workers: int, by: tuple[float, ...]) -> None:
    model = fit(measured(Terms(*(a * b for a, b in zip(CPU, by, strict=True)))), CPU)
    step = model.step(network, batch, workers)
    assert step > 0
    assert model.step(network, batch + 1, workers) >= step
    assert model.step(network, batch, workers + 1) >= step
    # And a volume of a larger batch costs no more than one of a smaller.
    assert model.step(network, 2 * batch, workers) <= 2 * step * (1 + 1e-9)
    assert min(model.seconds) >= 0


@pytest.mark.slow
@given(st.lists(st.floats(0.5, 2), min_size=9, max_size=9))
def test_the_spread_is_that_of_the_rows(noise: list[float]) -> None:
    rows = [
        MeasuredStep(row.network, row.batch_size, row.seconds * factor)
        for row, factor in zip(measured(CPU), noise, strict=True)
    ]
    apart = max(noise) / min(noise)
    assert 0 <= fit(rows, CPU).spread <= 2.5 * math.log(apart) + 1e-6


def test_an_outlier_does_not_move_the_others() -> None:
    rows = measured(CPU)
    rows[3] = MeasuredStep(rows[3].network, rows[3].batch_size, 3 * rows[3].seconds)
    model = fit(rows, CPU)
    assert model.step(LARGE, 32) == pytest.approx(terms(LARGE, 32).times(CPU), rel=0.15)


def test_workers_cost_what_a_row_of_them_says() -> None:
    alone = terms(MIDDLE, 32).times(CPU)
    two = MeasuredStep(MIDDLE, 32, 1.5 * alone, workers=2)
    model = fit(measured(CPU, two), CPU)
    assert model.step(MIDDLE, 32, 2) == pytest.approx(1.5 * alone, rel=0.05)
    assert model.exchange_measured
    unknown = fit(measured(CPU), CPU)
    assert unknown.error(MIDDLE, 2) > unknown.error(MIDDLE, 1)


def test_nothing_measured_is_no_law() -> None:
    with pytest.raises(ValueError, match="nothing"):
        fit([], CPU)


@given(st.tuples(*[factors] * 5))
def test_a_scaled_law_is_the_law_times_the_factors(by: Any) -> None:
    model = StepModel(CPU, (1e-4, 1e-9), 0.1, (SMALL,), True, 3)
    scaled = model.scaled(Terms(*by))
    assert scaled.seconds == Terms(*(a * b for a, b in zip(CPU, by, strict=True)))
    assert not scaled.exchange_measured
