"""Prices that look wrong, and the units of Databricks."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from engine.prices import Machine, machine_table
from engine.prices.dbu import dbu_table
from engine.prices.doubts import doubts

SHIPPED = machine_table().machines


def _machine(name: str, price: float, **more: object) -> Machine:
    return replace(Machine(name, "azure", "eastus", price_per_hour=price, currency="USD"), **more)  # type: ignore[arg-type]


def test_nothing_shipped_looks_wrong() -> None:
    assert doubts(SHIPPED, SHIPPED) == []


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        (
            [_machine("Standard_D16ads_v5", 1.56), _machine("Standard_D8ads_v5", 0.412)],
            "costs 3.79 times as much as Standard_D8ads_v5 (0.412 USD an hour), and is 2 times as large",
        ),
        ([_machine("Standard_D16s_v3", 3 * 0.55)], "is the price of its 3 Databricks units"),
        (
            [Machine("p5.48xlarge", "aws", "us-east-1", price_per_hour=98.32, currency="USD", date="2024-01-01")],
            "is older than what is known: 55.04 USD an hour, as of",
        ),
        ([_machine("x1.2xlarge", 1.0), _machine("x1.xlarge", 1.0)], "and is 2 times as large"),
        (
            # The smallest size: what is larger is known.
            [Machine("m5.xlarge", "aws", "us-east-1", price_per_hour=19.2, currency="USD")],
            "costs 50 times as much as m5.2xlarge (0.384 USD an hour), and is 0.5 times as large",
        ),
        (
            [_machine("cellar", 0.3, spot_per_hour=0.9)],
            "at 0.9 USD an hour on the spot market costs more than on demand (0.3 USD an hour)",
        ),
        (
            # Only the spot price is brought along: beside the one on demand that is known.
            [Machine("p5.48xlarge", "aws", "us-east-1", spot_per_hour=98.32, currency="USD")],
            "costs more than on demand (55.04 USD an hour)",
        ),
    ],
)
def test_what_was_found_wrong_in_published_tables_is_named(machines: list[Machine], said: str) -> None:
    found = doubts(machines, SHIPPED)
    assert any(said in text for text in found), found
    assert all(text.startswith(tuple(m.key for m in machines)) for text in found)


@pytest.mark.parametrize(
    "machine",
    [
        _machine("Standard_D16s_v3", 0.5),  # a discount
        _machine("Standard_D16ads_v5", 1.56, currency="EUR"),
        _machine("cellar", 0.9),
        _machine("cellar", 0.9, spot_per_hour=0.3),
        Machine("cellar", spot_per_hour=0.3),
        Machine("p5.48xlarge", "aws", "us-east-1", spot_per_hour=98.32, currency="EUR"),
        _machine("g9.12xlarge", 5.672, gpus=4),
        Machine("p5.48xlarge", "aws", "us-east-1", price_per_hour=98.32, currency="USD", date="2099-01-01"),
    ],
)
def test_what_may_well_be_is_taken(machine: Machine) -> None:
    beside = [*SHIPPED, _machine("Standard_D8ads_v5", 0.412), _machine("g9.8xlarge", 2.448, gpus=1)]
    assert doubts([machine], beside) == []


def _row(name: str, price: float, **more: object) -> Machine:
    """As a person writes it, without what is known of the machine."""
    return replace(Machine(name, region="us-east-1", price_per_hour=price, currency="USD"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "machines",
    [
        [_row("g5.xlarge", 0.855), _row("g5.8xlarge", 2.081)],
        [_row("Standard_DS3_v2", 0.229, cores=4), _row("Standard_DS5_v2", 0.916, cores=16)],
        [_row("Standard_DS3_v2", 0.229), _row("Standard_DS5_v2", 0.916)],
        [_row("p5.48xlarge", 98.32)],
    ],
)
def test_a_row_without_figures_is_of_a_machine_that_has_them(machines: list[Machine]) -> None:
    assert doubts(machines, SHIPPED) == []


@pytest.mark.timeout(60)
def test_thousands_of_sizes_are_compared_with_few() -> None:
    """Of one price, each would be doubted by all others."""
    machines = [_machine(f"m5.{number}xlarge", 1.0) for number in range(1, 3_000)]
    assert 0 < len(doubts(machines, SHIPPED)) <= 3 * len(machines)


@pytest.mark.parametrize("name", ["host-{}", "vm-{:05d}", "node.{}", "gpu-box-{}"])
def test_numbers_that_count_machines_say_no_size(name: str) -> None:
    machines = [_machine(name.format(number), 1.0 + number % 3) for number in range(30)]
    assert doubts(machines, SHIPPED) == []


def test_a_size_of_zero_is_none() -> None:
    machines = [_machine(f"Standard_D{size}s_v9", 1.0) for size in (0, 2)]
    assert doubts(machines, SHIPPED) == []


def test_sizes_are_told_by_their_cores() -> None:
    (said,) = doubts(
        [_row("x1.small", 1.0, cores=4), _row("x1.xlarge", 1.0, cores=4), _row("x1.2xlarge", 1.0, cores=16)], []
    )
    assert "and is 4 times as large" in said


def test_every_figure_of_databricks_units_has_its_source_and_date() -> None:
    assert dbu_table()["standard_d16s_v3"].dbu_per_hour == 3
    for row in dbu_table().values():
        assert row.dbu_per_hour > 0, row.name
        assert row.source.startswith("https://"), row.name
        assert datetime.date.fromisoformat(row.date), row.name
