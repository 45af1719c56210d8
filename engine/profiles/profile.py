"""What a compute profile is, and what a check of one found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.errors import UsageError
from engine.limit import Limit
from engine.profiles.cluster import DATABRICKS, Executors, executors_of

Backend = Literal["embedded", "spark"]
LOCAL_MASTER = "local[*]"
"""Spark on this machine, in one process, with all its cores."""
KEEP_WARM_MINUTES = 5.0


class Profile(BaseModel):
    """Where and with how much. Policy, not identity: nothing here enters a fingerprint.

    `cores`, `memory_bytes` and `gpus` are what tasks on this machine may use; on a cluster cores and memory
    are those of the driver's machine, `gpus` those that each executor needs, and the Spark settings say
    what each executor gets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    backend: Backend = "embedded"
    cores: Annotated[int, Field(ge=1)]
    memory_bytes: Annotated[int, Field(ge=1 << 28)]
    gpus: Annotated[int, Field(ge=0)] = 0
    parallel_tasks: Annotated[int, Field(ge=1)] = 2
    """Tasks that may run side by side."""
    master: str = LOCAL_MASTER
    """The Spark master, as spark-submit takes it. Means nothing to the embedded backend."""
    spark: dict[str, str] = {}
    """Spark settings by their full names. Never a secret: those are `${NAME}` references (see `spark_settings`)."""
    keep_warm_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = KEEP_WARM_MINUTES
    """How long the Java of Spark on this machine waits for the next run; 0: it ends with its run."""
    price_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What an hour of all machines costs by the profile itself, in `currency`."""
    machine: str = ""
    """The machine type in the table of prices, `name@region`; "" when none is named."""
    spot: bool = False
    """Whether the machine is one that the provider may take back, which costs less: its price is then that of these. On
    Databricks the executors' machines alone are such: the driver stays one on demand."""
    provider: str = ""
    """Who rents the machine type out, as that table says: `aws`, `azure`, `gcp`; "" where it is not known."""
    machine_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What that table says of an hour, in `currency`. A `price_per_hour` goes before it."""
    on_demand_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """With `spot`, what it says of an hour of the same machine on demand."""
    executor_machine: str = ""
    """On a cluster, the machine type of each executor, `name@region`; "" where it is that of the driver, `machine`."""
    executor_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What the table says of an hour of that one, in `currency`; with `spot` on Databricks of each executor's machine,
    also where it is of the driver's type."""
    executor_on_demand_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """With `spot`, what it says of an hour of the same machine on demand."""
    price_per_dbu: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Where Databricks runs the machines: what one of its units (DBU) costs. An hour costs these beside the machines.
    """
    dbu_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The units that an hour of each machine takes; of the driver's, where `executor_dbu_per_hour` is given."""
    executor_dbu_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Those of each executor's machine; None where `dbu_per_hour` is that of all."""
    currency: str = ""
    """That of all amounts of the profile, the price of its machine too, such as `EUR`; "" where none is given."""
    stop_after_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    stop_at_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The limit of each run, where it is given none of its own."""
    storage_root: Path | None = None
    """Folder for the data of runs, absolute; all executors must see it. None: the workspace."""

    @property
    def executors(self) -> Executors:
        """Those of its Spark; none where all work is done here."""
        return Executors(0) if self.is_here else executors_of(self.master, self.spark)

    @property
    def hourly_price(self) -> float | None:
        """What an hour costs of all its machines, on a cluster those of the driver and of the most executors that it
        has: the profile's own price, else the machines', and Databricks' units where it has a price of those; None when
        one of them is not known. What runs cost, their limits, estimates and the advisor go by it alone."""
        return self.hour_of(self.executors.count)

    def hour_of(self, executors: int | None) -> float | None:
        """The same with so many executors; None: their number is unknown.

        `price_per_hour` is that of all machines; the price of a machine type, and Databricks' units, are those of each.
        """
        own = self.price_per_hour
        price = self._machines_price(executors) if own is None else own
        if price is None or self.price_per_dbu is None:
            return price
        units = self.units_of(executors)
        return None if units is None else price + units * self.price_per_dbu

    def units_of(self, executors: int | None) -> float | None:
        """Databricks' units that an hour of the driver and so many executors takes; None where they are not known."""
        if self.dbu_per_hour is None or executors is None:
            return None
        each = self.dbu_per_hour if self.executor_dbu_per_hour is None else self.executor_dbu_per_hour
        return self.dbu_per_hour + executors * each

    def _machines_price(self, executors: int | None) -> float | None:
        driver = self.machine_price
        each = self.executor_price if self.executor_machine or self._driver_stays else driver
        if driver is None or not executors:
            return driver if executors == 0 else None
        return None if each is None else driver + executors * each

    @property
    def _driver_stays(self) -> bool:
        """Whether executors are on the spot market, and their driver is not."""
        return self.spot and self.on_databricks

    def on_demand(self) -> Profile:
        """The same with all machines on demand: what a provider takes where it has none on the spot market."""
        if not self.spot:
            return self
        prices = {"machine_price": self.on_demand_price, "executor_price": self.executor_on_demand_price}
        return self.model_copy(update={"spot": False, **prices})

    @property
    def unpriced(self) -> str:
        """Why `hourly_price` is not known, in words; "" where it is."""
        if self.hourly_price is not None:
            return ""
        if self.price_per_hour is None and not self.machine:
            if self.executor_machine:
                return f"the profile {self.name} names no machine for its driver"
            return f"the profile {self.name} names neither a machine nor a price"
        if self.price_per_hour is None and self.machine_price is None:
            of = f"{self.machine} on demand, as the driver is," if self._driver_stays else self.machine
            return f"no price of {of} is known (`voxelflow prices`)"
        if self.executors.count is None:
            return f"the profile {self.name} does not say how many executors it has (set {self.executors.missing})"
        return f"no price of {self.executor_machine}, the machine of its executors, is known (`voxelflow prices`)"

    @property
    def machines_text(self) -> str:
        """The machines by their types: `m5.2xlarge@us-east-1`, `5 x m5.2xlarge@us-east-1 (driver and 4 executors)`; ""
        where none is named."""
        found = self.executors
        if not found.count or not self.machine:
            return self.machine
        if self.executor_machine not in ("", self.machine):
            return f"{self.machine} (driver) and {found.count} x {self.executor_machine} ({found.text})"
        return f"{1 + found.count} x {self.machine} (driver and {found.text})"

    @property
    def counted_text(self) -> str:
        """`machines_text`, and which of these machines are counted at their price on the spot market."""
        if not self.spot or self.price_per_hour is not None:
            return self.machines_text
        if self._driver_stays:
            return f"{self.machines_text}, the driver on demand and the executors on the spot market"
        return f"{self.machines_text} on the spot market"

    @property
    def limit(self) -> Limit:
        """The limit of each run, where it is given none of its own."""
        return Limit(self.stop_after_s, self.stop_at_cost)

    @property
    def is_here(self) -> bool:
        """Whether all work is done on this machine: by worker processes, or by Spark in one process."""
        return self.backend == "embedded" or self.master.startswith("local")

    @property
    def on_databricks(self) -> bool:
        """Whether pipelines run there as jobs (`voxelflow export --to databricks`), never from this machine."""
        return self.backend == "spark" and self.master == DATABRICKS

    @property
    def where(self) -> str:
        """The place in a word or two: `this machine`, or the Spark master."""
        if self.backend == "embedded":
            return "this machine"
        if self.on_databricks:
            return "Databricks"
        return f"this machine ({self.master})" if self.is_here else self.master


@dataclass(frozen=True)
class Check:
    """One thing that a profile needs: its name, whether it is there, what was found, and else what to do."""

    name: str
    ok: bool
    said: str
    hint: str = ""


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`${NAME}`. Spark's own references (`${spark.a}`, `${env:NAME}`) have a point or a colon and are left to Spark."""
# Spark's own pattern for what it blacks out in its UI, with a few that it misses (Azure's account keys, SAS tokens,
# connection strings; the variables of other programs, such as PGPASS and MYSQL_PWD).
_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|token|credential|access[._-]?key|account[._-]?key|api[._-]?key|private[._-]?key"
    r"|connection[._-]?string|[._](key|sas|sig)(\.|$)|([._-]|pg|ssh)pass$|[_-]pwd$",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(file|path|provider|providers|class|enabled|interval|ratio|type|name|location|algorithm|size)$", re.IGNORECASE
)
"""Settings that speak of secrets without holding one: `...oauthTokenFile`, `...credentials.provider`."""
_SECRET_IN_TEXT = re.compile(
    r"://[^/@\s]*:[^/@\s]+@"  # https://user:password@host
    # https://TOKEN@host; only there: abfss://container@account is an address
    r"|https?://(?!\$\{)[^/@\s:,;?#]{16,}@"
    r"|(AccountKey|SharedAccessSignature|SharedAccessKey)=(?!\$\{)[^;\s]"  # connection strings of Azure
    r"|[?&](sig|Signature|X-Amz-Signature|X-Goog-Signature)=(?!\$\{)[^&\s]"  # signed addresses
    r"|[?&;]\s*(passw(or)?d|pwd)=(?!\$\{)[^&;\s]"  # jdbc:...?user=me&password=...
    r"|-D\S*(secret|passw(or)?d|token|credential|[._](access|account|api|private)?key)\S*=(?!\$\{)\S+",
    re.IGNORECASE,
)
SECRETS_BELONG = (
    'Put it into an environment variable and write "${NAME}" here, or into Spark\'s own files'
    " (conf/spark-defaults.conf, Hadoop's core-site.xml)."
)


def flatten(table: Mapping[str, Any], prefix: str = "spark") -> Iterator[tuple[str, Any]]:
    """Full names and values of a TOML table of Spark settings.

    TOML reads `executor.memory = "4g"` as a table in a table; the leading `spark.` may be left out.
    """
    for key, value in table.items():
        name = full_name(key, prefix)
        if isinstance(value, Mapping):
            yield from flatten(value, name)
        else:
            yield name, value


def full_name(key: str, prefix: str) -> str:
    """The full name of a key in a table of Spark settings whose own is `prefix`."""
    return key if key == "spark" or key.startswith("spark.") else f"{prefix}.{key}"


def as_text(value: object) -> str | None:
    """A TOML value as spark-submit takes it; None when Spark has no such values (lists, dates)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return value if isinstance(value, str) else None


def holds_secret(name: str, value: str) -> bool:
    """Whether this looks like a secret in plain text: the file is shown and stored, so it must not contain one."""
    if _REFERENCE.fullmatch(value) or value.lower() in ("", "true", "false"):
        return False
    return text_holds_secret(value) or bool(_SECRET.search(name) and not _NO_SECRET.search(name))


def text_holds_secret(value: str) -> bool:
    """Whether it contains a password: in an address, or as a Java option."""
    return bool(_SECRET_IN_TEXT.search(value))


def variables_of(profile: Profile) -> dict[str, list[str]]:
    """The environment variables that the profile's settings name, each with the settings that do."""
    out: dict[str, list[str]] = {}
    for name, value in profile.spark.items():
        for variable in _REFERENCE.findall(value):
            out.setdefault(variable, []).append(name)
    return out


def spark_settings(profile: Profile, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The profile's Spark settings with `${NAME}` put in from the environment: secrets included.

    Only for the session that is about to start: never print or store what this gives. Raises
    `UsageError` when a variable is not set.
    """
    known = os.environ if environ is None else environ
    for variable, settings in variables_of(profile).items():
        if variable not in known:
            raise UsageError(
                f"the environment variable {variable} is not set; profile {profile.name} uses it for"
                f" {', '.join(settings)}",
                hint=f"Set {variable} where you start Voxelflow: `export {variable}=...`.",
            )
    return {name: _REFERENCE.sub(lambda m: known[m[1]], value) for name, value in profile.spark.items()}
