"""How many Databricks units an hour of a machine takes: the table that is shipped, for Azure's machines.

Each row names the document that it was read from and that document's date. What a unit costs depends on the plan and
the kind of compute, so a profile says it (`price_per_dbu`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SHIPPED = Path(__file__).with_name("dbu.csv")


@dataclass(frozen=True)
class DatabricksUnits:
    """The units (DBU) that an hour of a machine type takes; `date` (ISO 8601) and `source` are those of the figure."""

    name: str
    provider: str
    dbu_per_hour: float
    date: str
    source: str


@cache
def dbu_table() -> Mapping[str, DatabricksUnits]:
    """By the machine's name in lower case."""
    with _SHIPPED.open(encoding="utf-8", newline="") as file:
        rows = [
            DatabricksUnits(row["name"], row["provider"], float(row["dbu_per_hour"]), row["date"], row["source"])
            for row in csv.DictReader(file)
        ]
    return {row.name.casefold(): row for row in rows}
