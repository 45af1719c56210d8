"""The table of what object storage costs."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from engine.prices import storage_table
from engine.prices.storage import usual_price
from engine.storage.schemes import SCHEMES

FILES, EPOCHS, KEPT = 650_000, 5, 234 * 10**9


def test_every_price_has_its_region_source_and_date() -> None:
    found = storage_table()
    assert {price.provider for price in found} <= SCHEMES.keys()
    assert len({(p.provider, p.storage_class, p.region) for p in found}) == len(found)
    for price in found:
        assert price.storage_class, price
        assert price.region, price
        assert price.currency == "USD", price
        assert datetime.date.fromisoformat(price.date), price
        assert all(each.startswith("https://github.com/") for each in price.source.split()), price
        assert (price.per_month or 0) > 0, price
        # Each names a commit: what it says stays.
        assert all(len(each.split("/")[6]) == 40 for each in price.source.split()), price


@pytest.mark.parametrize(
    ("store", "requests", "a_month", "near"),
    [("az", 1.43, 4.87, 0.005), ("s3", 1.30, 5.38, 0.005), ("gs", 1.30, 6.08, 0.08)],
)
def test_the_sources_training_from_files_costs_what_others_say(
    store: str, requests: float, a_month: float, near: float
) -> None:
    """650,000 files of 360 kB, read five times. Google's is priced by the GiB: 7% less than the same by the GB."""
    price = usual_price(store)
    assert price is not None
    assert price.of_reads(FILES * EPOCHS) == pytest.approx(requests, rel=0.005)
    assert price.of_a_month(KEPT) == pytest.approx(a_month, rel=near)


def test_what_no_document_says_costs_an_unknown_amount_and_never_nothing() -> None:
    blank = [price for price in storage_table() if price.per_10000_reads is None]
    assert blank
    assert all(price.of_reads(1e6) is None for price in blank)
    assert replace(blank[0], per_month=None).of_a_month(1e9) is None
    assert usual_price("ftp") is None
