"""What object storage costs: for requests, and for keeping data a month. The table that is shipped.

Each row names the documents that it was read from and the newest one's date; what they do not say, or say only rounded,
is empty. Where a document has amounts and no price, the price is their quotient: of two documents the one that fits
both. Prices are those of the first 50 TB. The first row of a provider is its usual class.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SHIPPED = Path(__file__).with_name("storage.csv")
_UNITS = {"GB": 10**9, "GiB": 2**30}


@dataclass(frozen=True)
class StoragePrice:
    """What a class of storage costs in one region; None is what is not known.

    `provider` is the scheme of its addresses. `per_month` is for a `unit` (GB or GiB, as the document has it) that is
    kept for a month, the others are for 10,000 requests. `date` is in ISO 8601; `source` are addresses with a space
    between them.
    """

    provider: str
    storage_class: str
    region: str
    per_10000_reads: float | None
    per_10000_writes: float | None
    per_month: float | None
    unit: str
    currency: str
    date: str
    source: str

    def of_reads(self, requests: float) -> float | None:
        """What so many reading requests cost."""
        return None if self.per_10000_reads is None else requests / 10_000 * self.per_10000_reads

    def of_a_month(self, kept_bytes: float) -> float | None:
        """What it costs to keep so many bytes for a month."""
        return None if self.per_month is None else kept_bytes / _UNITS[self.unit] * self.per_month


@cache
def storage_table() -> tuple[StoragePrice, ...]:
    """All rows, as they stand in the file."""
    with _SHIPPED.open(encoding="utf-8", newline="") as file:
        return tuple(_price(row) for row in csv.DictReader(file))


def usual_price(provider: str) -> StoragePrice | None:
    """The price of the provider's usual class; None of a provider that is not in the table."""
    return next((row for row in storage_table() if row.provider == provider), None)


def _price(row: dict[str, str]) -> StoragePrice:
    def amount(column: str) -> float | None:
        return float(row[column]) if row[column] else None

    return StoragePrice(
        provider=row["provider"],
        storage_class=row["class"],
        region=row["region"],
        per_10000_reads=amount("per_10000_reads"),
        per_10000_writes=amount("per_10000_writes"),
        per_month=amount("per_month"),
        unit=row["unit"],
        currency=row["currency"],
        date=row["date"],
        source=row["source"],
    )
