"""What object storage costs, for requests and for keeping data: a CSV file that is shipped, and a workspace's over it.

Both are called `storage.csv` and have the columns `COLUMNS`, in any order; provider, class and region are needed, all
others may be empty or left out. A row is known by these three, and a workspace's row replaces the shipped one.
Predictions take the first row of a provider, its usual class: of a workspace's own rows, where it has any of that
provider.

Each shipped row names the documents that it was read from and the newest one's date; what they do not say, or say only
rounded, is empty. Where a document has amounts and no price, the price is their quotient: of two documents the one that
fits both. Prices are those of the first 50 TB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from engine.errors import UsageError
from engine.prices.csv_rows import Layout, brought_rows, merged_rows, own_rows, read_rows, write_rows
from engine.storage.schemes import SCHEMES
from engine.text import hourly, short_source
from engine.workspace import Workspace

FILE = "storage.csv"
_SHIPPED = Path(__file__).with_name(FILE)
_UNITS = {"GB": 10**9, "GiB": 2**30}
_AMOUNTS = ("per_10000_reads", "per_10000_writes", "per_month")
COLUMNS = ("provider", "class", "region", *_AMOUNTS, "unit", "currency", "date", "source")
SHOWN = ("store", "class", "region", "10,000 reads", "10,000 writes", "a month", "as of", "from")
"""Of the lines of `StoragePrice.row`."""
_LAYOUT = Layout(COLUMNS, needed=("provider", "class", "region"), numbers=_AMOUNTS, rows="storage price")


@dataclass(frozen=True)
class StoragePrice:
    """What a class of storage costs in one region; None is what is not known.

    `provider` is the scheme of its addresses. `per_month` is for a `unit` (GB or GiB, as the document has it) that is
    kept for a month, the others are for 10,000 requests. `date` is in ISO 8601; `source` are addresses with a space
    between them. `origin` is "shipped" or the workspace's file.
    """

    provider: str
    storage_class: str
    region: str
    per_10000_reads: float | None = None
    per_10000_writes: float | None = None
    per_month: float | None = None
    unit: str = "GB"
    currency: str = ""
    date: str = ""
    source: str = ""
    origin: str = "shipped"

    @property
    def name(self) -> str:
        """What names it among all: `az://, hot LRS in westus`."""
        return f"{self.provider}://, {self.storage_class} in {self.region}"

    @property
    def key(self) -> tuple[str, str, str]:
        """The same to compare by: upper and lower case are the same."""
        return self.provider, self.storage_class.casefold(), self.region.casefold()

    def row(self) -> tuple[str, ...]:
        """A line of the table that people see, with the columns `SHOWN`; "" is what is not known."""

        def amount(value: float | None, of: str = "") -> str:
            return "" if value is None else hourly(value, self.currency, of)

        return (
            f"{self.provider}://",
            self.storage_class,
            self.region,
            amount(self.per_10000_reads),
            amount(self.per_10000_writes),
            amount(self.per_month, f" a {self.unit}"),
            self.date,
            ", ".join(filter(None, (short_source(self.source), "" if self.origin == "shipped" else self.origin))),
        )

    def of_reads(self, requests: float) -> float | None:
        """What so many reading requests cost."""
        return None if self.per_10000_reads is None else requests / 10_000 * self.per_10000_reads

    def of_a_month(self, kept_bytes: float) -> float | None:
        """What it costs to keep so many bytes for a month."""
        return None if self.per_month is None else kept_bytes / _UNITS[self.unit] * self.per_month


@dataclass(frozen=True)
class StorageTable:
    """All prices, the workspace's own first. `problem` is why its file cannot be used; the shipped ones then stay."""

    prices: tuple[StoragePrice, ...]
    problem: UsageError | None = None

    def usual(self, provider: str) -> StoragePrice | None:
        """The price of the provider's usual class, its first row; None of a provider that is not in the table, and of
        all where the workspace's own rows cannot be read: they may say another price."""
        return None if self.problem else next((row for row in self.prices if row.provider == provider), None)


def storage_file(workspace: Workspace) -> Path:
    """Where the workspace's own prices of storage stand; it need not exist."""
    return workspace.root / FILE


def storage_table(workspace: Workspace | None = None) -> StorageTable:
    """The workspace's rows, and the shipped ones that they do not replace. Raises nothing."""
    own, problem = own_rows(None if workspace is None else storage_file(workspace), _read_own)
    keys = {price.key for price in own}
    return StorageTable((*own, *(price for price in _shipped() if price.key not in keys)), problem)


def read_storage(file: Path) -> list[StoragePrice]:
    """The rows of a CSV file that a person brings along. Raises `UsageError`, with the line."""
    return brought_rows(file, partial(_read_own, codes=True), "class")


def add_storage(new: Sequence[StoragePrice], workspace: Workspace) -> tuple[int, int]:
    """Take rows into the workspace's own, the new ones first; gives how many were added and how many replaced.

    Raises `UsageError` when the workspace's file cannot be read, with the line, or written; then nothing has changed.
    """
    path = storage_file(workspace)
    rows, replaced = merged_rows(new, path, _read_own, lambda price: price.key)
    write_rows(path, COLUMNS, (_row(price) for price in rows))
    return len(new) - replaced, replaced


@cache
def _shipped() -> tuple[StoragePrice, ...]:
    return tuple(_read(_SHIPPED, origin="shipped"))


def _read_own(path: Path, *, codes: bool = False) -> list[StoragePrice]:
    return _read(path, origin=FILE, codes=codes)


def _read(path: Path, *, origin: str, codes: bool = True) -> list[StoragePrice]:
    """The rows of a file. Raises `FileNotFoundError`, and `UsageError` with the line for anything wrong."""
    out: dict[tuple[str, str, str], StoragePrice] = {}
    for where, cells in read_rows(path, _LAYOUT, codes=codes):
        storage_class = cells.pop("class")
        price = StoragePrice(storage_class=storage_class, **cells, origin=origin)  # type: ignore[arg-type]
        if price.provider not in SCHEMES:
            known = ", ".join(sorted(SCHEMES))
            raise UsageError(f"{where}, provider: {price.provider!r} is no store", hint=f"Write one of: {known}.")
        if price.unit not in _UNITS:
            raise UsageError(f"{where}, unit: {price.unit!r} is no unit of data", hint=f"Write {' or '.join(_UNITS)}.")
        if price.key in out:
            raise UsageError(f"{where}: {price.name} is listed twice", hint="Remove one of the rows.")
        out[price.key] = price
    return list(out.values())


def _row(price: StoragePrice) -> list[object]:
    return [price.storage_class if column == "class" else getattr(price, column) for column in COLUMNS]
