from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.limit import Limit, changed_limit, read_time, require_price, written_time


@pytest.mark.parametrize("text", ["soon", "soon 3h", "9" * 400 + "h", "30ms", "1h30ms", "2hs"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="no time to stop after") as caught:
        read_time(text)
    assert "3h, 90min" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("5 mins", 300), ("2hours 1second", 7201), ("2 days", 172800)]
)
def test_a_plural_is_read_as_its_unit(text: str, seconds: float) -> None:
    assert read_time(text) == seconds


@given(st.floats(1e-3, 1e7))
def test_a_time_that_is_written_reads_the_same(seconds: float) -> None:
    assert read_time(written_time(seconds)) == pytest.approx(seconds, rel=1e-9)


def test_what_is_left_is_the_least_of_both() -> None:
    limit = Limit(seconds=3600, cost=20)
    assert limit.seconds_left(600, None) == 3000
    assert limit.seconds_left(600, 2.0) == 3000
    assert limit.seconds_left(600, 40.0) == 1200
    assert limit.seconds_left(1800, 40.0) == 0
    assert Limit().seconds_left(1e9, 40.0) == math.inf


@given(st.floats(0.1, 1e6), st.floats(0.01, 1e4), st.floats(0, 1e6), st.floats(0.01, 100))
def test_a_limit_with_as_much_again_lets_a_run_go_on(
    seconds: float, cost: float, worked_s: float, price: float
) -> None:
    limit = Limit(seconds, cost)
    spent = worked_s / 3600 * price
    assert limit.more(worked_s, spent).seconds_left(worked_s, price) >= limit.seconds_left(0, price) * (1 - 1e-9) - 1e-6
    assert not limit.more(worked_s, spent).is_used(worked_s, spent)


def test_a_limit_survives_in_the_options_of_a_run_and_is_shown() -> None:
    limit = Limit(5400, 20)
    assert Limit.of(limit.as_options()) == limit
    assert Limit.of({}) == Limit()
    assert not Limit().as_options()
    assert limit.text("USD") == "1 h 30 min or 20.00 USD"
    assert limit.options() == "--stop-after 90min --stop-at-cost 20"
    assert changed_limit(limit, cost=5) == Limit(5400, 5)
    assert changed_limit(limit, without=True) == Limit()
    with pytest.raises(UsageError, match="--no-limit"):
        changed_limit(limit, cost=5, without=True)


@pytest.mark.parametrize(("price", "why"), [(None, "is not known"), (0.0, "is 0 an hour")])
def test_a_cost_without_a_price_is_refused(price: float | None, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        require_price(Limit(cost=20), price, "gpu")
    assert "profile gpu" in caught.value.message
    assert "price_per_hour" in caught.value.hint
    require_price(Limit(seconds=20), price, "gpu")
    require_price(Limit(cost=20), 0.5, "gpu")
