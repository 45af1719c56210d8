"""How many executors a Spark master gives for a profile's settings.

Each is paid for as a machine of its own. Several may share one, and fewer may be there than the settings allow: the
machines, and their price, are at most these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.profiles.dynamic_allocation import allocates_dynamically

DATABRICKS = "databricks"
"""The master of a profile whose runs are jobs on Databricks: it has no address that a driver here could use."""
PROVIDERS = ("aws", "azure", "gcp")
"""Those on whose machines Databricks runs, as the table of prices names them."""
INSTANCES = "spark.executor.instances"
_MOST = "spark.dynamicAllocation.maxExecutors"
_CORES, _OF_ALL = "spark.executor.cores", "spark.cores.max"
_USUAL = 2
"""Executors where nothing says how many: Spark's own figure on YARN and Kubernetes, and that of our jobs on Databricks.
"""


@dataclass(frozen=True)
class Executors:
    """How many executors there are: `count`, or where Spark adds and removes them (`at_most`), the most of them.

    `count` is None where the profile does not say it; `missing` is then what would, as the profile writes it.
    """

    count: int | None
    at_most: bool = False
    missing: str = ""

    @property
    def text(self) -> str:
        """`4 executors`, `at most 8 executors`; "" of none, or of an unknown number."""
        if not self.count:
            return ""
        return f"{'at most ' * self.at_most}{self.count} executor{'s' * (self.count > 1)}"


def executors_of(master: str, settings: Mapping[str, str]) -> Executors:
    """The executors of a Spark session by its master and its settings; none where it is in one process here."""
    if master.startswith("local"):
        return Executors(0)
    standalone = master.startswith("spark:")
    of_all, each = _whole(settings, _OF_ALL), _whole(settings, _CORES)
    # Standalone Spark heeds no spark.executor.instances: it takes the cores of all its workers, or this many.
    fitting = of_all // each if standalone and of_all and each else None
    if allocates_dynamically(master, settings):
        known = [count for count in (_whole(settings, _MOST), fitting) if count is not None]
        if known:
            return Executors(min(known), at_most=True)
        usual = _USUAL if master == DATABRICKS and _MOST not in settings else None
        return Executors(usual, at_most=True, missing=_MOST)
    if standalone:
        return Executors(fitting, missing=f"{_OF_ALL} and {_CORES}")
    count = _whole(settings, INSTANCES) if INSTANCES in settings else _USUAL
    return Executors(count, missing=INSTANCES)


def _whole(settings: Mapping[str, str], name: str) -> int | None:
    value = settings.get(name, "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 7 else None
