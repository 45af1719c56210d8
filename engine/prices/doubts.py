"""What looks wrong in prices that somebody brings along, before anything is computed from them.

Each was found wrong in a published table: a size twice as large at nearly four times the price of the smaller one, the
price of Databricks units in the column of the machine's, a price of years ago. A price on the spot market above the one
on demand is most likely in the wrong column.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from engine.prices.dbu import dbu_table
from engine.prices.machines import Machine, machine_table, own_machines, with_figures
from engine.prices.storage import StoragePrice, storage_table
from engine.text import hourly, number
from engine.workspace import Workspace

_SIZE = re.compile(
    r"(?:^Standard_[A-Z]+|\.(?=\d*xlarge)|^[a-z]+\d+[a-z]*-[a-z]+-)(?P<size>\d*)(?=xlarge|[a-z]*(_|$))", re.IGNORECASE
)
"""The size in a machine's name: `Standard_D16ads_v5`, `m5.2xlarge`, `n1-standard-8`. A number in another name, as in
`host-17`, says nothing of it."""
_COUNTED = re.compile(r"Standard_DS?\d+(_v2)?$", re.IGNORECASE)
"""Names that count sizes: `Standard_DS5_v2` has four times the cores of `Standard_DS3_v2`."""
UNLIKE = 1.75
"""Prices for each core of one family differ by less; several GPUs on one machine, too."""
_NEIGHBOURS = 20
"""So many smaller and larger ones of a family are compared with a machine."""
_MOST_OF_ONE = 3
"""Sentences about one machine."""
_USUAL_DBU = 0.55
"""USD for a unit of all-purpose compute: tables hold the units at this price beside that of the machine."""


def doubts(new: Iterable[Machine], known: Iterable[Machine]) -> list[str]:
    """What looks wrong in the prices of `new` machines, a sentence for each; `known` are those to compare them with."""
    given = list(new)
    # A row that gives no more than a price is of the machine whose GPUs and cores are known. Only where it names its
    # provider, it is beside the prices of that: a discount on one size is no mistake.
    machines = [replace(filled, provider=m.provider) for m, filled in zip(given, with_figures(given), strict=True)]
    added = [m for m in machines if m.price_per_hour is not None]
    others = {m.key.casefold(): m for m in known if m.price_per_hour is not None}
    brought = {m.key.casefold(): m for m in added}
    now = others | brought
    # Of many machines few are of one family: each is compared with these alone.
    families: dict[object, list[tuple[float, Machine]]] = {}
    for machine in now.values():
        if (alike := _alike(machine)) is not None:
            families.setdefault(alike, []).append((_size(machine), machine))
    for family in families.values():
        family.sort(key=_first)
    out = [text for machine in machines for text in _spot_doubts(machine, now.get(machine.key.casefold()))]
    for machine in added:
        beside = _nearest(machine, families.get(_alike(machine), []))
        out += islice(_doubts(machine, others, beside, brought), _MOST_OF_ONE)
    return out


def _first(each: tuple[float, Machine]) -> float:
    return each[0]


def _nearest(machine: Machine, family: list[tuple[float, Machine]]) -> list[Machine]:
    """Those of its family that are next to it in size: a file may have thousands."""
    at = bisect_left(family, _size(machine), key=_first)
    return [other for _, other in family[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS]]


def own_doubts(workspace: Workspace) -> list[str]:
    """What looks wrong in the prices that a workspace has of its own, as somebody may have edited them."""
    return doubts(own_machines(workspace), machine_table().machines)


def _spot_doubts(machine: Machine, on_demand: Machine | None) -> Iterator[str]:
    """A machine that may be taken back costs no more than one that may not."""
    if machine.spot_per_hour is None or on_demand is None or machine.currency != on_demand.currency:
        return
    price = on_demand.price_per_hour or 0.0
    if machine.spot_per_hour > price:
        yield (
            f"{machine.key} at {hourly(machine.spot_per_hour, machine.currency)} on the spot market costs more than on"
            f" demand ({hourly(price, on_demand.currency)})"
        )


def _doubts(
    machine: Machine, others: dict[str, Machine], beside: list[Machine], brought: Collection[str]
) -> Iterator[str]:
    price = machine.price_per_hour or 0.0
    shown = f"{machine.key} at {hourly(price, machine.currency)}"
    units = dbu_table().get(machine.name.casefold())
    if units is not None and abs(price - units.dbu_per_hour * _USUAL_DBU) < 1e-6 * price:
        yield f"{shown} is the price of its {number(units.dbu_per_hour)} Databricks units, not that of the machine"
    before = others.get(machine.key.casefold())
    if before is not None and before.currency == machine.currency and _older(machine.date, before.date):
        was = before.price_per_hour or 0.0
        if was and not 1 / UNLIKE < price / was < UNLIKE:
            yield f"{shown} is older than what is known: {hourly(was, before.currency)}, as of {before.date}"
    for other in beside:
        times = _unlike(machine, other)
        if not times and other.key.casefold() not in brought and (larger := _unlike(other, machine)):
            # Of two that are brought along the larger one is named.
            times = 1 / larger
        if times:
            ratio = price / (other.price_per_hour or 1.0)
            yield (
                f"{shown} costs {number(float(f'{ratio:.3g}'))} times as much as {other.name}"
                f" ({hourly(other.price_per_hour or 0.0, other.currency)}), and is {number(times)} times as large"
            )


def _older(date: str, than: str) -> bool:
    """Of a row without a date nothing is known of its age."""
    return bool(date and than) and date < than


def _unlike(larger: Machine, smaller: Machine) -> float:
    """How many times as large a machine is as the other of its family, where its price does not fit that; else 0."""
    here, there = _family(larger), _family(smaller)
    same = (larger.provider, larger.region, larger.currency) == (smaller.provider, smaller.region, smaller.currency)
    if here is None or there is None or here[0] != there[0] or not same:
        return 0.0
    if larger.cores and smaller.cores:
        times = larger.cores / smaller.cores
    else:
        times = 0.0 if _COUNTED.match(larger.name) else here[1] / there[1]
    if times <= 1:
        return 0.0
    # Where GPUs do not grow with the size, neither does the price.
    if (larger.gpus or 0) != (smaller.gpus or 0) * times:
        return 0.0
    price, other = larger.price_per_hour or 0.0, smaller.price_per_hour or 0.0
    return 0.0 if other and 1 / UNLIKE < price / other / times < UNLIKE else times


def _alike(machine: Machine) -> object:
    """The same of all machines whose prices are compared: those of one family at one place."""
    family = _family(machine)
    return None if family is None else (family[0], machine.provider, machine.region, machine.currency)


def _size(machine: Machine) -> float:
    family = _family(machine)
    return 0.0 if family is None else family[1]


def _family(machine: Machine) -> tuple[str, float] | None:
    """What all sizes of a machine have in common, and its size; None where its name says no size."""
    found = _SIZE.search(machine.name)
    if found is None or (not found["size"] and "xlarge" not in machine.name):
        return None
    name = machine.name[: found.start("size")] + "*" + machine.name[found.end("size") :]
    size = float(found["size"] or 1)
    # There is no machine of size 0, whatever its name.
    return (name.casefold(), size) if size else None


# --- storage -----------------------------------------------------------------------------------------

_UNLIKE_STORAGE = 5.0
"""Regions differ by less in what a class costs; a price for 1,000 requests instead of 10,000 differs by ten times."""


def storage_doubts(new: Iterable[StoragePrice], known: Iterable[StoragePrice]) -> list[str]:
    """What looks wrong in prices of object storage, a sentence for each; `known` are those to compare them with."""
    beside = list(known)
    return [text for price in new for text in _storage_doubts(price, beside)]


def own_storage_doubts(workspace: Workspace) -> list[str]:
    """What looks wrong in the prices of storage that a workspace has of its own."""
    own = [price for price in storage_table(workspace).prices if price.origin != "shipped"]
    return storage_doubts(own, storage_table().prices)


def _storage_doubts(price: StoragePrice, known: list[StoragePrice]) -> Iterator[str]:
    reads, writes = price.per_10000_reads, price.per_10000_writes
    if reads is not None and writes is not None and reads > writes:
        dearer = f"more than 10,000 writes ({_amount(writes, price)})"
        yield f"{price.name}: 10,000 reads cost {_amount(reads, price)}, {dearer}"
    # Of another class, such as an archive, all may differ by far more.
    alike = [each for each in known if (*each.key[:2], each.currency) == (*price.key[:2], price.currency)]
    same = next((each for each in alike if each.key == price.key), None)
    before = same.per_10000_reads if same is not None and _older(price.date, same.date) else None
    if same is not None and reads and before and not 1 / UNLIKE < reads / before < UNLIKE:
        yield f"{price.name} is older than what is known: {_amount(before, same)} for 10,000 reads, as of {same.date}"
    for column, of in (
        ("per_10000_reads", "for 10,000 reads"),
        ("per_10000_writes", "for 10,000 writes"),
        ("per_month", f"a month for a {price.unit}"),
    ):
        own, others = getattr(price, column), [found for each in alike if (found := getattr(each, column))]
        if own and others and not min(others) / _UNLIKE_STORAGE <= own <= max(others) * _UNLIKE_STORAGE:
            usual = " to ".join(dict.fromkeys(_amount(end, price) for end in (min(others), max(others))))
            yield f"{price.name}: {_amount(own, price)} {of} is far from what is known of that class ({usual})"


def _amount(value: float, price: StoragePrice) -> str:
    return hourly(value, price.currency, "")
