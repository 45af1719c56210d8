"""The table of prices as the page Compute shows it, and what a person sends or types into it; without Streamlit."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.bench.compare import Point
from engine.errors import UsageError
from engine.prices import COLUMNS, Machine, MachineTable, read_machines
from engine.prices.doubts import UNLIKE
from engine.text import hourly, moment, number, plural

SENT_MB = 5
"""The largest file that is taken from a browser: the machines of all providers in all regions are less."""
SHOWN = 2000
"""Rows that the table has at most: a search finds the others."""
_FIELDS = ("price_per_hour", "spot_per_hour", "currency", "date", "source")
_TITLES: Mapping[str, str] = {
    "name": "Name",
    "provider": "Provider",
    "region": "Region",
    "cores": "Cores",
    "memory_gib": "Memory, GiB",
    "gpus": "GPUs",
    "gpu": "GPU",
    "price_per_hour": "Price an hour",
    "spot_per_hour": "Spot price an hour",
    "currency": "Currency",
    "date": "As of",
    "source": "Source",
}


@dataclass(frozen=True)
class PriceRow:
    """A machine of the table; `origin` is `built in`, `own` (a row of the workspace) or `measured` (of no table, but
    with a benchmark); `rate` are volumes a second of its fastest training, where it was measured."""

    machine: Machine
    origin: str
    rate: float | None = None

    @property
    def comes_from(self) -> str:
        """`built in`, `own`, `measured`, `built in, measured`."""
        return self.origin if self.rate is None or self.origin == "measured" else f"{self.origin}, measured"


def price_rows(table: MachineTable, measured: Mapping[str, Point]) -> list[PriceRow]:
    """All machines, the cheapest first; also those that are in no table and were measured.

    `measured` is as `best_by_machine` gives it.
    """
    rows, taken = [], set()
    for machine in table.machines:
        point = measured.get(machine.key.casefold())
        taken.add(id(point))
        origin = "built in" if machine.origin == "shipped" else "own"
        rows.append(PriceRow(machine, origin, None if point is None else point.row.samples_per_s))
    others = {id(point): point for point in measured.values() if id(point) not in taken}
    rows += [PriceRow(_machine_of(point), "measured", point.row.samples_per_s) for point in others.values()]
    return sorted(rows, key=lambda r: (r.machine.price_per_hour is None, r.machine.price_per_hour or 0, r.machine.key))


def _machine_of(point: Point) -> Machine:
    result = point.result
    gpus = result.machine.gpus
    return Machine(
        result.name,
        cores=result.machine.cores or None,
        memory_gib=round(result.machine.memory_bytes / 2**30, 1) or None,
        gpus=len(gpus),
        gpu=gpus[0] if gpus else "",
        price_per_hour=result.price_per_hour,
        currency=result.currency,
        date=moment(result.measured_at)[:10],
        source="voxelflow bench",
        origin="measured",
    )


def matching(rows: Iterable[PriceRow], typed: str, *, with_gpu: bool) -> list[PriceRow]:
    """The rows that have all words that are typed; `with_gpu`: of machines that have one."""
    words = typed.casefold().split()
    return [row for row in rows if (row.machine.gpus or not with_gpu) and _has(row, words)]


def _has(row: PriceRow, words: Sequence[str]) -> bool:
    machine = row.machine
    searched = f"{machine.key} {machine.provider} {machine.gpu} {row.comes_from} {machine.source}".casefold()
    return all(word in searched for word in words)


def frame_of(rows: Sequence[PriceRow]) -> Any:
    """The table as Pandas styles it: figures with separators, prices with their currency; a click on the header sorts
    by what they are."""
    import pandas as pd

    machines = [row.machine for row in rows]
    columns = {
        "machine": [m.name for m in machines],
        "place": [", ".join(filter(None, (m.provider, m.region))) for m in machines],
        "cores": pd.array([m.cores for m in machines], dtype="Int64"),
        "memory": pd.array([m.memory_gib for m in machines], dtype="Float64"),
        "gpus": [gpus_of(m) for m in machines],
        "disk": pd.array([m.disk_mb_s for m in machines], dtype="Float64"),
        "network": pd.array([m.network_mb_s for m in machines], dtype="Float64"),
        "price": [m.price_per_hour for m in machines],
        "date": [m.date for m in machines],
        "source": [next(iter(links_of(m.source)), None) for m in machines],
        "from": [row.comes_from for row in rows],
    }
    if any(row.rate is not None for row in rows):
        columns["rate"] = [None if row.rate is None else float(f"{row.rate:.3g}") for row in rows]
    frame = pd.DataFrame(columns)
    frame["price"] = frame["price"].astype(float)
    figures = [name for name in ("cores", "memory", "disk", "network", "rate") if name in columns]
    styled = frame.style.format(number, subset=figures, na_rep="")
    for currency in {m.currency for m in machines}:
        these = [at for at, m in enumerate(machines) if m.currency == currency]
        styled = styled.format(partial(hourly, currency=currency, an_hour=""), subset=(these, ["price"]), na_rep="")
    return styled


def gpus_of(machine: Machine) -> str:
    """`2 x NVIDIA T4`; "" without one."""
    return f"{machine.gpus} x {machine.gpu}".removesuffix(" x ") if machine.gpus else ""


def links_of(source: str) -> Iterator[str]:
    """The addresses in a source that a browser may open: a file that somebody sends may name any other."""
    for part in source.split():
        try:
            if urlsplit(part).scheme in ("http", "https") and urlsplit(part).hostname:
                yield part
        except ValueError:
            continue


# --- what a person sends -------------------------------------------------------------------------


def read_sent(name: str, data: bytes) -> list[Machine]:
    """The machines of a CSV file from a browser, as `voxelflow prices import` reads it.

    Raises `UsageError`, with the line; for a file that is empty or larger than `SENT_MB`, too.
    """
    # A browser sends the name alone; another program may send a path.
    file = Path(Path(name).name or "the file")
    if len(data) > SENT_MB * 1_000_000:
        raise UsageError(
            f"{file} is larger than {SENT_MB} MB", hint="`voxelflow prices import` takes larger ones, from the disk."
        )
    if not data.strip():
        raise UsageError(f"{file} is empty", hint=f"Name the columns in the first line: {', '.join(COLUMNS)}.")
    return read_machines(file, data)


def sent_in_words(new: Sequence[Machine], table: MachineTable) -> str:
    """`3 machines: 1 new, 1 instead of an own row, 1 instead of a built-in row`."""
    known = {m.key.casefold(): m.origin for m in table.machines}
    origins = [known.get(m.key.casefold()) for m in new]
    shipped = origins.count("shipped")
    counts = {"new": origins.count(None), "instead of an own row": 0, "instead of a built-in row": shipped}
    counts["instead of an own row"] = len(new) - counts["new"] - shipped
    return f"{plural(len(new), 'machines')}: " + ", ".join(
        f"{count:,} {what}" for what, count in counts.items() if count
    )


def sent_row(machine: Machine, table: Mapping[str, Machine]) -> tuple[str, ...]:
    """A row of what was found: name, region, price now and then, date. `table` is by the key in lower case."""
    known = table.get(machine.key.casefold())
    now = "not in the table" if known is None else price_of(known) or "not known"
    return machine.name, machine.region, now, price_of(machine) or "none", machine.date


def price_of(machine: Machine) -> str:
    """`0.384 USD`, `0.384 USD, spot 0.1 USD`; "" where none is known."""
    parts = [] if machine.price_per_hour is None else [hourly(machine.price_per_hour, machine.currency, "")]
    if machine.spot_per_hour is not None:
        parts.append("spot " + hourly(machine.spot_per_hour, machine.currency, ""))
    return ", ".join(parts)


def own_row(base: Machine, price: float | None, spot: float | None, currency: str, date: str, source: str) -> Machine:
    """`base` with a person's own prices, read and checked as a row of `machines.csv`.

    Raises `UsageError`, which begins with the field as the page calls it; also when there is no price.
    """
    if price is None:
        raise UsageError(f"{_TITLES['price_per_hour']}: there is none", hint="Write what an hour costs you: 0.384.")
    given = dict(zip(_FIELDS, (price, spot, currency, date, source), strict=True))
    # What is in the table stays as it is written there; the name of a benchmark is new to it.
    base_fields = vars(base) if base.origin == "measured" else {"name": "x"}
    found = _as_row(base_fields | given)
    return replace(base, **{field: getattr(found, field) for field in _FIELDS})


def new_row(fields: Mapping[str, Any], table: MachineTable) -> Machine:
    """A machine from what a person typed, by the columns of `machines.csv`, read and checked as a row of it.

    Raises `UsageError`, which begins with the field as the page calls it; also when the table has the machine already.
    """
    if not fields.get("name"):
        raise UsageError(f"{_TITLES['name']}: there is none", hint="Write what you call the machine: lab-box.")
    found = _as_row(fields)
    if any(machine.key.casefold() == found.key.casefold() for machine in table.machines):
        raise UsageError(
            f"{_TITLES['name']}: there is a machine {found.key} already",
            hint="Choose another name or region, or tick it in the table and save your price there.",
        )
    return found


def _as_row(fields: Mapping[str, Any]) -> Machine:
    written = io.StringIO()
    row = csv.writer(written)
    row.writerow(COLUMNS)
    row.writerow("" if (value := fields.get(name)) is None else value for name in COLUMNS)
    try:
        (found,) = read_machines(Path("row"), written.getvalue().encode())
    except UsageError as error:
        field, _, what = error.message.partition("line 2, ")[2].partition(": ")
        raise UsageError(f"{_TITLES.get(field, field)}: {what}", hint=error.hint) from None
    return found


def far_from(new: Machine, shown: Machine) -> list[str]:
    """That a price is far from the one that the table shows for the machine: most likely a slip."""
    price, known = new.price_per_hour, shown.price_per_hour
    if not price or not known or new.currency != shown.currency or 1 / UNLIKE < price / known < UNLIKE:
        return []
    ratio = number(float(f"{price / known:.3g}"))
    return [f"{new.key} at {hourly(price, new.currency)} is {ratio} times what the table has ({price_of(shown)})"]


def base_of(row: PriceRow, own: Iterable[Machine]) -> Machine:
    """What an own row of the machine begins with: the one that there is, as it is written; else its name and region,
    since its figures are those that are shipped."""
    key = row.machine.key.casefold()
    written = next((machine for machine in own if machine.key.casefold() == key), None)
    if written is not None:
        return written
    return row.machine if row.origin == "measured" else Machine(row.machine.name, region=row.machine.region)
