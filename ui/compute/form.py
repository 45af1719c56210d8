"""A profile's table as a form, and back: pure functions, without Streamlit."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from engine.errors import UsageError
from engine.prices import Machine
from engine.profiles.cluster import DATABRICKS
from engine.profiles.edit import Written
from engine.profiles.file import parse_profiles
from engine.profiles.find import FILE
from engine.profiles.profile import LOCAL_MASTER
from engine.text import hourly, plural


@dataclass(frozen=True)
class Place:
    """A kind of place to run: what a person calls it, and how a profile says it.

    `master` is the Spark master where it is always the same, `example` what one looks like where it is not.
    """

    title: str
    help: str
    backend: str = "spark"
    master: str = ""
    example: str = ""


PLACES: Mapping[str, Place] = {
    "machine": Place("This machine", "Worker processes beside this app. Nothing to install.", backend="embedded"),
    "spark-local": Place("Spark, this machine", "Spark in one process, with all cores.", master=LOCAL_MASTER),
    "standalone": Place("Spark, standalone", "A cluster that Spark manages itself.", example="spark://host:7077"),
    "yarn": Place("YARN", "A Hadoop cluster; HADOOP_CONF_DIR says where.", master="yarn"),
    "kubernetes": Place(
        "Kubernetes",
        "Executors are pods of the image that the setting spark.kubernetes.container.image names.",
        example="k8s://https://host:443",
    ),
    "databricks": Place(
        "Databricks", "Pipelines run there as jobs that Export code… writes, not from here.", master=DATABRICKS
    ),
}
"""In the order in which people meet them."""
CLUSTERS = ("standalone", "yarn", "kubernetes", "databricks")
"""The places whose executors may have machines of another type than the driver's."""

WHOLE_NUMBERS: Mapping[str, tuple[str, int, str]] = {
    "cores": ("Cores", 1, "For tasks that run on this machine; on a cluster that is the driver's."),
    "gpus": ("GPUs", 0, "NVIDIA devices that a training may use."),
    "parallel_tasks": ("Parallel tasks", 1, "Independent nodes of a pipeline run at the same time."),
}
"""Title, smallest value and help of the fields that are whole numbers."""

TITLES: Mapping[str, str] = {
    "master": "Spark master",
    **{key: title for key, (title, _, _) in WHOLE_NUMBERS.items()},
    "memory": "Memory",
    "keep_warm_minutes": "Keep Java warm, minutes",
    "machine": "Machine type",
    "executor_machine": "Machine type of executors",
    "price_per_hour": "Price an hour",
    "currency": "Currency",
    "storage_root": "Storage root",
    "spot": "Spot price",
    "price_per_dbu": "Price of a DBU",
    "dbu_per_hour": "DBU an hour",
    "executor_dbu_per_hour": "DBU an hour of an executor",
    "stop_after": "Stop after",
    "stop_at_cost": "Stop at a cost",
}
"""What the page calls the fields of `profiles.toml`."""


@dataclass
class Form:
    """What the widgets show. A field that is None, or "", is not written: the profile then takes the default."""

    name: str
    place: str = "machine"
    master: str = ""
    numbers: dict[str, int | None] = field(default_factory=dict)
    memory: str = ""
    machine: str = ""
    executor_machine: str = ""
    spot: bool = False
    keep_warm_minutes: float | None = None
    price_per_hour: float | None = None
    price_per_dbu: float | None = None
    dbu_per_hour: float | None = None
    executor_dbu_per_hour: float | None = None
    currency: str = ""
    stop_after: str = ""
    stop_at_cost: float | None = None
    storage_root: str = ""
    spark: dict[str, str] = field(default_factory=dict)

    @property
    def shows_units(self) -> bool:
        """Whether Databricks' units are asked for: there, and wherever they are part of the price already."""
        given = (self.price_per_dbu, self.dbu_per_hour, self.executor_dbu_per_hour)
        return self.place == "databricks" or any(value is not None for value in given)

    @property
    def shows_executor_units(self) -> bool:
        """Whether those of an executor are asked for: where its machine is, or may be, of a type of its own."""
        if self.place not in CLUSTERS:
            return False
        return bool(self.executor_machine) or self.executor_dbu_per_hour is not None


@dataclass(frozen=True)
class Example:
    """A machine of the price table that a new profile may begin with, and what somebody has measured on it."""

    machine: str
    title: str
    measured: str


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Standard_D16s_v3@eastus",
        "The whitepaper's CPU machine",
        "96,000 volumes took 3.59 h from files in blob storage and 2.42 h from an optimised Delta table",
    ),
    Example(
        "Standard_NC4as_T4_v3@eastus",
        "The whitepaper's GPU machine",
        "96,000 volumes took 1.8 h from files in blob storage and 19 min from an optimised Delta table",
    ),
)
"""Those of DeepIQ's "Deep Learning on Cloud", Figures 1 and 2."""


def example_form(example: Example, machine: Machine, names: Iterable[str]) -> Form:
    """The form of a profile with the figures of that machine."""
    return Form(
        name=unique_name(machine.name, names),
        numbers={"cores": machine.cores, "gpus": machine.gpus, "parallel_tasks": None},
        memory=f"{machine.memory_gib:g} GiB" if machine.memory_gib else "",
        machine=example.machine,
    )


def figures_of(machine: Machine) -> str:
    """The machine in a line: `4 cores, 28 GiB, 1 NVIDIA T4, 0.526 USD an hour (eastus, 2026-06-18)`."""
    parts = [
        plural(machine.cores, "cores") if machine.cores else "",
        f"{machine.memory_gib:g} GiB" if machine.memory_gib else "",
    ]
    parts.append(f"{machine.gpus} {machine.gpu or 'GPU'}" if machine.gpus else "no GPU" if machine.gpus == 0 else "")
    parts.append(f"disks {machine.disk_mb_s:g} MB/s" if machine.disk_mb_s else "")
    parts.append(f"network {machine.network_mb_s:g} MB/s" if machine.network_mb_s else "")
    if machine.price_per_hour is not None:
        of = ", ".join(filter(None, (machine.region, machine.date)))
        parts.append(hourly(machine.price_per_hour, machine.currency) + (f" ({of})" if of else ""))
    return ", ".join(filter(None, parts))


def place_of(backend: str, master: str) -> str:
    """The kind of place that a backend and a Spark master mean."""
    if backend != "spark":
        return "machine"
    if master.startswith("local"):
        return "spark-local"
    return {"yarn": "yarn", "k8s": "kubernetes", DATABRICKS: "databricks"}.get(master.partition(":")[0], "standalone")


def form_of(name: str, written: Written, ready: Mapping[str, Any] | None = None) -> Form:
    """The form of a profile as its table says it; `ready` are the fields that it has without one.

    A value that is wrong, which the profile's own error says, is an empty field.
    """
    fields = {**(ready or {}), **written.fields}
    master = str(fields.get("master", LOCAL_MASTER))
    return Form(
        name=name,
        place=place_of(str(fields.get("backend", "embedded")), master),
        master=master,
        numbers={key: _whole(fields.get(key), least) for key, (_, least, _) in WHOLE_NUMBERS.items()},
        memory=str(fields.get("memory", "")),
        machine=str(fields.get("machine", "")),
        executor_machine=str(fields.get("executor_machine", "")),
        spot=fields.get("spot") is True,
        keep_warm_minutes=_amount(fields.get("keep_warm_minutes")),
        price_per_hour=_amount(fields.get("price_per_hour")),
        price_per_dbu=_amount(fields.get("price_per_dbu")),
        dbu_per_hour=_amount(fields.get("dbu_per_hour")),
        executor_dbu_per_hour=_amount(fields.get("executor_dbu_per_hour")),
        currency=str(fields.get("currency", "")),
        stop_after=str(fields.get("stop_after", "")),
        stop_at_cost=_amount(fields.get("stop_at_cost")),
        storage_root=str(fields.get("storage_root", "")),
        spark=dict(written.spark),
    )


def _whole(value: object, least: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None


def _amount(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # A whole number may be too large for a fraction.
    return float(value) if number and 0 <= value <= sys.float_info.max else None  # type: ignore[arg-type, operator]


def fields_of(form: Form, ready: Mapping[str, Any] | None = None) -> dict[str, object]:
    """The fields of `profiles.toml` that the form says; None for those that are to be left out."""
    place = PLACES[form.place]
    spark = place.backend == "spark"
    memory: object = form.memory.strip() or None
    if isinstance(memory, str) and memory.isdecimal() and len(memory) < 20:
        memory = int(memory)
    backend = None if place.backend == (ready or {}).get("backend", "embedded") else place.backend
    master = (form.master.strip() if not place.master or _is_local(form) else place.master) if spark else ""
    return {
        # The usual values are left out, unless the profile is a ready one with another backend.
        "backend": backend if ready is not None or backend != "embedded" else None,
        "master": None if master in ("", LOCAL_MASTER) else master,
        **form.numbers,
        "memory": memory,
        "machine": form.machine.strip() or None,
        "executor_machine": form.executor_machine.strip() or None if form.place in CLUSTERS else None,
        "spot": form.spot or None,
        "keep_warm_minutes": form.keep_warm_minutes if spark else None,
        "price_per_hour": form.price_per_hour,
        "price_per_dbu": form.price_per_dbu,
        "dbu_per_hour": form.dbu_per_hour,
        "executor_dbu_per_hour": form.executor_dbu_per_hour if form.shows_executor_units else None,
        "currency": form.currency.strip() or None,
        "stop_after": form.stop_after.strip() or None,
        "stop_at_cost": form.stop_at_cost,
        "storage_root": form.storage_root.strip() or None,
    }


def _is_local(form: Form) -> bool:
    # local[2] and the like, which somebody wrote by hand, stay.
    return form.place == "spark-local" and form.master.startswith("local")


_ANY = "profile"


def field_problems(fields: Mapping[str, object]) -> dict[str, UsageError]:
    """What the reader of `profiles.toml` finds wrong with each of the fields by itself, by their names there."""
    out = {}
    for key, value in fields.items():
        if value is None:
            continue
        found = parse_profiles(Path(FILE), tomlkit.dumps({_ANY: {key: value}})).problems.get(_ANY)
        if found is not None:
            out[key] = field_problem(found, _ANY)[1]
    return out


def field_problem(error: UsageError, profile: str) -> tuple[str, UsageError]:
    """The field that an error of the profile is about, and the error as the page says it there; "" and the error itself
    where it is about none that the page has."""
    key, _, what = error.message.partition(f": profile {profile}, ")[2].partition(": ")
    return (key, UsageError(f"{TITLES[key]}: {what}", hint=error.hint)) if key in TITLES else ("", error)


def settings_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Spark settings from the rows of a table with the columns `name` and `value`; rows without a name are left out."""
    out: dict[str, str] = {}
    for row in rows:
        name, value = str(row.get("name") or "").strip(), row.get("value")
        if name:
            out[name] = "" if value is None else str(value)
    return out


def unique_name(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, or with the first number after it that no other profile has."""
    names = set(taken)
    candidates = [wanted, *(f"{wanted}-{n}" for n in range(2, len(names) + 3))]
    return next(name for name in candidates if name not in names)
