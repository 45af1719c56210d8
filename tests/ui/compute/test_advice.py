"""What the picture of the advice shows of each machine, before Streamlit draws it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pretended_advice import HERE, work

from engine.advisor.advice import Advice, Estimate
from ui.compute.advice import chart_points, own_line

ENDS = ((0.1, 100.0), (60.0, 1e6))


def estimate(name: str, cost: float | None, currency: str = "USD") -> Estimate:
    machine = replace(HERE, name=name, price_per_hour=cost, currency=currency)
    return Estimate(machine, "table", 32, 1, "compute", seconds=3600.0, low=3600.0, high=3600.0)


OTHERS = (estimate("a", 1.0), estimate("b", 2.0))


@pytest.mark.parametrize(
    ("cost", "currency", "label"),
    [
        (None, "USD", "own: 1 h 00 min, no price"),
        (0.0, "USD", "own: 1 h 00 min, 0.00 USD"),
        (0.0, "", "own: 1 h 00 min, 0.00"),
        (3.0, "EUR", "own: 1 h 00 min, 3.00 EUR"),
        (3.0, "USD", ""),
    ],
)
def test_the_profiles_own_machine_is_a_point_or_a_line(cost: float | None, currency: str, label: str) -> None:
    own = estimate("own", cost, currency)
    estimates = (*OTHERS, own)
    advice = Advice(work(), "table", estimates, own=own, recommended=OTHERS[0])
    line = own_line(estimates, advice, ENDS)
    assert (line["label"] if line else "") == label
    drawn = {point["machine"] for point in chart_points(estimates, advice)}
    assert drawn == {"a", "b"} | ({"own"} if not label else set())
