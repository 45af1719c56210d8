"""The table of what object storage costs."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.prices import StoragePrice, add_storage, read_storage, storage_file, storage_table
from engine.prices.doubts import storage_doubts
from engine.prices.storage import COLUMNS
from engine.storage.schemes import SCHEMES
from engine.workspace import Workspace

FILES, EPOCHS, KEPT = 650_000, 5, 234 * 10**9


def test_every_price_has_its_region_source_and_date() -> None:
    found = storage_table().prices
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
    price = storage_table().usual(store)
    assert price is not None
    assert price.of_reads(FILES * EPOCHS) == pytest.approx(requests, rel=0.005)
    assert price.of_a_month(KEPT) == pytest.approx(a_month, rel=near)


def test_what_no_document_says_costs_an_unknown_amount_and_never_nothing() -> None:
    blank = [price for price in storage_table().prices if price.per_10000_reads is None]
    assert blank
    assert all(price.of_reads(1e6) is None for price in blank)
    assert replace(blank[0], per_month=None).of_a_month(1e9) is None
    assert storage_table().usual("ftp") is None


HEADER = "provider,class,region,per_10000_reads,currency\n"


def test_the_workspaces_rows_go_before_the_shipped_ones(workspace: Workspace) -> None:
    storage_file(workspace).write_text(HEADER + "s3,Standard,US-EAST-1,0.003,eur\naz,archive,here,5,EUR\n")
    table = storage_table(workspace)
    mine = table.usual("s3")
    assert mine is not None
    assert (mine.per_10000_reads, mine.currency, mine.per_month, mine.origin) == (0.003, "EUR", None, "storage.csv")
    usual = table.usual("az")
    assert usual is not None
    assert usual.storage_class == "archive", "one's own first"
    assert len(table.prices) == len(storage_table().prices) + 1
    assert table.usual("gs") == storage_table().usual("gs")


def test_importing_adds_and_replaces_and_keeps_the_rest(workspace: Workspace, tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text("\ufeff" + HEADER + "s3,standard,here,0.004,USD\naz,hot,here,0.005,USD\n")
    assert add_storage(read_storage(given), workspace) == (2, 0)
    given.write_bytes(b"per_month,class,provider,unit,region\r\n0.02,HOT,az,GiB,here\r\n,standard,gs,,there\r\n")
    assert add_storage(read_storage(given), workspace) == (1, 1)
    own = [price for price in storage_table(workspace).prices if price.origin != "shipped"]
    assert [(price.provider, price.per_10000_reads, price.per_month, price.unit) for price in own] == [
        ("az", None, 0.02, "GiB"), ("gs", None, None, "GB"), ("s3", 0.004, None, "GB"),
    ]  # fmt: skip
    assert own[0].of_a_month(2**30) == 0.02
    assert storage_file(workspace).read_text().splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("provider,region\n", "no column class"),
        (HEADER, "has no rows"),
        (HEADER + "s3,standard,here,free,USD\n", "line 2, per_10000_reads: must be a number of at least 0, not 'free'"),
        (HEADER + "s3,,here,1,USD\n", "line 2 has no class"),
        (HEADER + "s3,x,here,1,$\n", "line 2, currency: must be the three letters of a currency, not '$'"),
        (HEADER + "ftp,x,here,1,USD\n", "line 2, provider: 'ftp' is no store"),
        ("provider,class,region,unit\ns3,x,here,TB\n", "line 2, unit: 'TB' is no unit of data"),
        (HEADER + "s3,x,here,1,USD\ns3,X,HERE,2,USD\n", "line 3: s3://, X in HERE is listed twice"),
        ("provider,class,region,price\n", "a column 'price', which a table of storage prices has not"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    given = tmp_path / "given.csv"
    given.write_text(text)
    with pytest.raises(UsageError, match=r"given\.csv") as caught:
        read_storage(given)
    assert said in caught.value.message


def test_a_damaged_own_table_makes_all_unknown(workspace: Workspace, tmp_path: Path) -> None:
    storage_file(workspace).write_bytes(b"provider\n\xff\n")
    table = storage_table(workspace)
    assert table.problem is not None
    assert table.prices == storage_table().prices
    assert table.usual("s3") is None, "the file may say another price"
    with pytest.raises(UsageError, match="not text in UTF-8"):
        add_storage(storage_table().prices[:1], workspace)
    with pytest.raises(UsageError, match="no file"):
        read_storage(tmp_path / "nowhere.csv")


def _price(**more: object) -> StoragePrice:
    usual = StoragePrice("s3", "standard", "us-east-1", 0.004, 0.05, 0.023, "GB", "USD", "2026-01-01")
    return replace(usual, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("price", "said"),
    [
        (_price(per_10000_reads=0.05, per_10000_writes=0.004), "10,000 reads cost 0.05 USD, more than 10,000 writes"),
        (
            _price(per_10000_reads=0.0004, region="x"),
            "0.0004 USD for 10,000 reads is far from what is known of that class",
        ),
        (_price(per_month=23.0), "23 USD a month for a GB is far from what is known of that class (0.023 USD)"),
        (
            _price(per_10000_reads=0.008, date="2019-01-01"),
            "older than what is known: 0.004 USD for 10,000 reads, as of 2024-07-01",
        ),
    ],
)
def test_a_price_that_looks_wrong_is_named(price: StoragePrice, said: str) -> None:
    found = storage_doubts([price], storage_table().prices)
    assert any(said in text for text in found), found


@pytest.mark.parametrize(
    "price",
    [
        _price(),
        _price(per_10000_reads=0.003),
        _price(per_10000_reads=1.0, per_10000_writes=12.0, currency="EUR"),
        _price(per_month=None),
        _price(per_10000_reads=0.008, date=""),
    ],
)
def test_what_may_well_be_is_taken(price: StoragePrice) -> None:
    assert storage_doubts([price], storage_table().prices) == []


def test_nothing_shipped_looks_wrong() -> None:
    assert storage_doubts(storage_table().prices, storage_table().prices) == []
