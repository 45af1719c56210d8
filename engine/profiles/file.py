"""`profiles.toml`: reading it table by table, so that a mistake in one profile leaves the others usable.

default = "cluster"            # used where no profile is named; without it, local

[cluster]
backend = "spark"
master = "spark://10.0.0.5:7077"
cores = 8                      # of the driver's machine, for tasks that run there
memory = "16 GB"
storage_root = "/mnt/shared/voxelflow"

[cluster.spark]                # settings as spark-submit takes them
"spark.executor.memory" = "8g"
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from engine.declare.field_rules import control_character
from engine.errors import UsageError
from engine.limit import TIME_EXAMPLE, read_time, written_time
from engine.profiles.profile import (
    KEEP_WARM_MINUTES,
    SECRETS_BELONG,
    Backend,
    Profile,
    as_text,
    flatten,
    holds_secret,
    text_holds_secret,
)
from engine.storage.files import read_document
from engine.storage.io_errors import remedy
from engine.text import did_you_mean

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MASTER = re.compile(r"local(\[|-cluster\[|$)|spark://|k8s:|sc://|yarn$|databricks$")
"""How masters begin. A session refuses sc:// with a reason of its own."""
_UNITS = {"": 1, "b": 1} | {
    unit: base**power
    for power, letter in enumerate("kmgt", start=1)
    for unit, base in ((f"{letter}b", 1000), (f"{letter}ib", 1024), (letter, 1024))
}
_SMALLEST_MEMORY, _MOST_MEMORY = 1 << 28, 1 << 60


@dataclass(frozen=True)
class ProfilesFile:
    """What the file says: each profile's fields as `Profile` takes them, or what is wrong with it.

    `unreadable` is set when the file as a whole cannot be read; `text` then shows what may be in it.
    """

    path: Path
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: Mapping[str, UsageError] = field(default_factory=dict)
    unreadable: UsageError | None = None
    text: str = ""
    default: str | None = None
    """The profile to use where none is named, as the file says; it need not exist."""
    lines: frozenset[str] = frozenset()
    """Names that the file itself gives a value, outside every table: no table can be called so."""

    def may_define(self, name: str) -> bool:
        """Whether a file that cannot be read seems to have a table of this name."""
        if self.unreadable is None:
            return False
        if not self.text:
            return True
        quoted = rf"[\"']?{re.escape(name)}[\"']?"
        return re.search(rf"^\s*(\[+\s*{quoted}\s*[.\]]|{quoted}\s*[.=])", self.text, re.MULTILINE) is not None

    def may_set_default(self) -> bool:
        """Whether a file that cannot be read seems to say which profile is used where none is named."""
        if self.unreadable is None:
            return False
        return not self.text or re.search(r"^\s*[\"']?default[\"']?\s*=", self.text, re.MULTILINE) is not None

    @property
    def default_problem(self) -> UsageError | None:
        """Why it is not known which profile is used where none is named, if so."""
        if self.may_set_default():
            return self.unreadable
        return self.problems.get("default") if "default" in self.lines else None


def read_profiles_file(path: Path) -> ProfilesFile:
    """Read the file; one that is not there is empty. Raises nothing: problems are part of what it gives."""
    try:
        # Some editors begin a file with a byte order mark.
        text = read_document(path).decode("utf-8-sig")
    except FileNotFoundError:
        return ProfilesFile(path)
    except OSError as exc:
        return ProfilesFile(
            path, unreadable=UsageError(f"{path} cannot be read: {exc.strerror or exc}", hint=remedy(exc))
        )
    except UnicodeDecodeError:
        return ProfilesFile(path, unreadable=UsageError(f"{path} is not text in UTF-8", hint="Save it as UTF-8."))
    return parse_profiles(path, text)


def parse_profiles(path: Path, text: str) -> ProfilesFile:
    """The same for `text` as the content of the file at `path`; relative folders in it are meant from there."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # Python refuses numbers of thousands of digits, and deep nesting
        problem = UsageError(f"{path} is not valid TOML: {exc}", hint=_correction(str(exc), text))
        return ProfilesFile(path, unreadable=problem, text=text)
    tables: dict[str, Mapping[str, Any]] = {}
    problems: dict[str, UsageError] = {}
    default = None
    for name, table in document.items():
        if name == "default" and isinstance(table, str):
            default = table
            continue
        try:
            tables[name] = _profile(path, name, table)
        except UsageError as exc:
            problems[name] = exc
    lines = frozenset(name for name, table in document.items() if not isinstance(table, Mapping))
    return ProfilesFile(path, tables, problems, text=text, default=default, lines=lines)


def _correction(error: str, text: str) -> str:
    """What to do about a text that is not TOML, by the parser's words."""
    if "overwrite" not in error:
        return "Correct that line; `voxelflow profiles show local` prints a table that is right."
    at = re.search(r"at line (\d+)", error)
    line = text.split("\n")[int(at[1]) - 1].strip() if at else ""
    if re.match(r"\[[^.]*\]", line):
        return f"Rename the profile {line}: a line of the file itself has its name."
    # spark.speculation is a setting, and the beginning of others.
    return 'Put the names of Spark settings in quotes: "spark.speculation" = true.'


def memory(value: object) -> int:
    """Bytes of `"16 GB"` (thousands), `"16 GiB"` or Spark's `"16g"` (both 1024), or of a whole number.

    Raises `ValueError` when it is none of these.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)):
        factor = _UNITS.get(match[2].lower())
        if factor is not None and math.isfinite(amount := float(match[1]) * factor):
            return int(amount)
    raise ValueError(f"{value!r} is no amount of memory")


def check_name(name: str, where: str = "") -> None:
    """Raise `UsageError` when a profile cannot be called so; `where` begins the message."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{where}{name!r} is not a profile's name",
            hint="Use up to 64 letters, digits, points, dashes and underscores.",
        )


def _profile(path: Path, name: str, table: object) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise _no_table(path, name, table)
    check_name(name, f"{path}: ")
    out: dict[str, Any] = {}
    for key, value in table.items():
        reader = _FIELDS.get(key)
        if reader is None:
            hint = did_you_mean(key, _FIELDS) or f"It may have: {', '.join(_FIELDS)}."
            raise _wrong(path, name, key, "there is no such field", hint)
        if bad := control_character(value):
            raise _wrong(path, name, key, f"holds the control character {bad!r}", "Remove it.")
        try:
            out |= reader(value, path)
        except _Wrong as exc:
            raise _wrong(path, name, exc.field or key, exc.what, exc.hint) from None
    return out


def _no_table(path: Path, name: str, value: object) -> UsageError:
    """What is wrong with a value in the file that is no profile's table."""
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        return UsageError(
            f"{path}: the profile {name} is in double brackets, which begin a list", hint=f"Write [{name}]."
        )
    if name == "default":
        return UsageError(
            f"{path}: default must be the name of a profile in quotes, not {value!r}",
            hint='Write for example default = "local".',
        )
    return UsageError(
        f"{path}: {name} is outside every profile", hint=f"Write the profile's name above it: [NAME], then {name}."
    )


def _wrong(path: Path, profile: str, field_name: str, what: str, hint: str) -> UsageError:
    return UsageError(f"{path}: profile {profile}, {field_name}: {what}", hint=hint)


class _Wrong(Exception):
    """What is wrong with a field's value. `field` when it is a part of the one that is read."""

    def __init__(self, what: str, hint: str, field: str = "") -> None:
        super().__init__(what)
        self.what, self.hint, self.field = what, hint, field


def _backend(value: object, _: Path) -> dict[str, Any]:
    known = get_args(Backend)
    if value not in known:
        raise _Wrong(f"{value!r} is no backend", f"There are: {', '.join(known)}.")
    return {"backend": value}


def _master(value: object, _: Path) -> dict[str, Any]:
    known = ("local[*]", "spark://host:7077", "yarn", "k8s://https://host:443", "databricks")
    example = f"As spark-submit takes it: {', '.join(map(json.dumps, known))}."
    if not isinstance(value, str) or not value.strip() or any(c.isspace() for c in value.strip()):
        raise _Wrong("must be the address of a Spark master", example)
    if text_holds_secret(value):
        raise _Wrong("holds a password", SECRETS_BELONG)
    if not _MASTER.match(value.strip()):
        raise _Wrong(f"{value.strip()!r} is no Spark master", example)
    return {"master": value.strip()}


def _whole(name: str, at_least: int) -> Any:
    def read(value: object, _: Path) -> dict[str, Any]:
        if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
            raise _Wrong(f"must be a whole number of at least {at_least}, not {value!r}", f"For example {name} = 4.")
        return {name: value}

    return read


def _memory(value: object, _: Path) -> dict[str, Any]:
    hint = 'Write for example "16 GB", "16 GiB", "16g", or a whole number of bytes.'
    try:
        count = memory(value)
    except ValueError as exc:
        raise _Wrong(str(exc), hint) from None
    if count < _SMALLEST_MEMORY:
        raise _Wrong(f"{value!r} is too little: at least 256 MiB", hint)
    if count > _MOST_MEMORY:
        raise _Wrong(f"{value!r} is more than any machine has", hint)
    return {"memory_bytes": count}


def _amount(name: str, example: float) -> Any:
    def read(value: object, _: Path) -> dict[str, Any]:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # A whole number may be too large for a fraction.
        if not number or not 0 <= value <= sys.float_info.max:  # type: ignore[operator]
            raise _Wrong(f"must be a number of at least 0, not {value!r}", f"For example {name} = {example:g}.")
        return {name: float(value)}  # type: ignore[arg-type]

    return read


def _spot(value: object, _: Path) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise _Wrong(f"must be true or false, not {value!r}", "For example spot = true.")
    return {"spot": value}


def _machine(name: str) -> Any:
    def read(value: object, _: Path) -> dict[str, Any]:
        if not isinstance(value, str) or not value.strip():
            hint = 'For example "m5.2xlarge"; `voxelflow prices` lists them.'
            raise _Wrong("must be the name of a machine type", hint)
        return {name: value.strip()}

    return read


def _currency(value: object, _: Path) -> dict[str, Any]:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z]{3}", value.strip()):
        raise _Wrong(f"must be the three letters of a currency, not {value!r}", 'For example currency = "EUR".')
    return {"currency": value.strip().upper()}


def _stop_after(value: object, _: Path) -> dict[str, Any]:
    if not isinstance(value, str):
        raise _Wrong(f"must be a time in quotes, not {value!r}", TIME_EXAMPLE)
    try:
        return {"stop_after_s": read_time(value)}
    except UsageError as exc:
        raise _Wrong(exc.message, exc.hint) from None


def _stop_at_cost(value: object, path: Path) -> dict[str, Any]:
    out: dict[str, Any] = _amount("stop_at_cost", 20)(value, path)
    if not out["stop_at_cost"]:
        raise _Wrong("must be above 0", "For example stop_at_cost = 20.")
    return out


def _storage_root(value: object, path: Path) -> dict[str, Any]:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("must be a folder", 'For example "/mnt/shared/voxelflow".')
    if "://" in value:
        raise _Wrong(
            f"{value!r} is an address, not a folder", "Name a folder that this machine and all executors have mounted."
        )
    try:
        return {"storage_root": path.parent / Path(value).expanduser()}
    except RuntimeError:
        raise _Wrong(f"{value!r} names a home that is not there", "Write the whole path.") from None


def _spark(value: object, _: Path) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _Wrong(
            "must be a table of Spark settings", 'For example [NAME.spark], then "spark.executor.memory" = "8g".'
        )
    out: dict[str, str] = {}
    for name, given in flatten(value):
        text = as_text(given)
        if text is None:
            raise _Wrong("Spark takes text, numbers, true and false only", 'Lists are text: "a,b".', name)
        if holds_secret(name, text):
            raise _Wrong("looks like a secret, and this file is shown and stored", SECRETS_BELONG, name)
        if name == "spark.master":
            raise _Wrong("belongs in a field of its own", "Write master = ... in the profile's own table.", name)
        out[name] = text
    return {"spark": out}


_FIELDS: dict[str, Any] = {
    "backend": _backend,
    "master": _master,
    "cores": _whole("cores", 1),
    "memory": _memory,
    "gpus": _whole("gpus", 0),
    "parallel_tasks": _whole("parallel_tasks", 1),
    "keep_warm_minutes": _amount("keep_warm_minutes", 10),
    "price_per_hour": _amount("price_per_hour", 3.2),
    "price_per_dbu": _amount("price_per_dbu", 0.3),
    "dbu_per_hour": _amount("dbu_per_hour", 3),
    "executor_dbu_per_hour": _amount("executor_dbu_per_hour", 6),
    "currency": _currency,
    "machine": _machine("machine"),
    "executor_machine": _machine("executor_machine"),
    "spot": _spot,
    "stop_after": _stop_after,
    "stop_at_cost": _stop_at_cost,
    "storage_root": _storage_root,
    "spark": _spark,
}


def to_toml(profile: Profile) -> str:
    """The table that gives this profile, to copy into `profiles.toml`."""
    spark = profile.backend == "spark"
    fields: list[tuple[str, object]] = [("backend", profile.backend)]
    if spark:
        fields.append(("master", profile.master))
    fields += [("cores", profile.cores), ("memory", profile.memory_bytes), ("gpus", profile.gpus)]
    fields.append(("parallel_tasks", profile.parallel_tasks))
    if spark and profile.keep_warm_minutes != KEEP_WARM_MINUTES:
        fields.append(("keep_warm_minutes", profile.keep_warm_minutes))
    if profile.price_per_hour is not None:
        fields.append(("price_per_hour", profile.price_per_hour))
    if profile.price_per_dbu is not None:
        fields.append(("price_per_dbu", profile.price_per_dbu))
        units = (("dbu_per_hour", profile.dbu_per_hour), ("executor_dbu_per_hour", profile.executor_dbu_per_hour))
        fields += [(name, value) for name, value in units if value is not None]
    if profile.currency and re.fullmatch(r"[A-Z]{3}", profile.currency):
        fields.append(("currency", profile.currency))
    if profile.machine:
        fields.append(("machine", profile.machine))
    if profile.executor_machine:
        fields.append(("executor_machine", profile.executor_machine))
    if profile.spot:
        fields.append(("spot", True))
    if profile.stop_after_s is not None:
        fields.append(("stop_after", written_time(profile.stop_after_s)))
    if profile.stop_at_cost is not None:
        fields.append(("stop_at_cost", profile.stop_at_cost))
    if profile.storage_root is not None:
        fields.append(("storage_root", str(profile.storage_root)))
    lines = [f"[{toml_key(profile.name)}]", *(f"{name} = {_value(value)}" for name, value in fields)]
    if profile.spark:
        lines += ["", f"[{toml_key(profile.name)}.spark]"]
        lines += [f"{_value(name)} = {_value(value)}" for name, value in sorted(profile.spark.items())]
    return "\n".join(lines) + "\n"


def example(name: str) -> str:
    """A profile to start from: Spark on this machine, with all other settings commented out."""
    key = toml_key(name)
    return f"""\
[{key}]
backend = "spark"                  # "embedded": worker processes on this machine; "spark": Spark and Delta Lake
master = "local[*]"                # as spark-submit takes it: "spark://host:7077", "yarn", "k8s://https://host:443";
                                   # or "databricks", for jobs that `voxelflow export --to databricks` writes
# cores = 8                        # of this machine (a cluster's driver) for tasks that run here; default: all
# memory = "16 GB"                 # likewise; "16 GiB", "16g" or bytes too; default: 3/4 of what is free
# gpus = 0
# parallel_tasks = 2               # tasks that run at the same time
# keep_warm_minutes = 5            # how long Java of a local[...] master waits for the next run, idle; 0: not at all
# machine = "m5.2xlarge"           # shows what runs have cost, by the table of `voxelflow prices`; or with your price:
# executor_machine = "m5.4xlarge"  # on a cluster: that of each executor, where it is not the driver's (machine)
# spot = true                      # the machine may be taken back: the price is its spot_per_hour in that table
# price_per_hour = 3.20            # of all machines together
# price_per_dbu = 0.30             # where Databricks runs the machine: what one of its units costs, of which an hour
# dbu_per_hour = 3                 # takes so many (known of many Azure machines);
# executor_dbu_per_hour = 6        # one of executor_machine so many
# currency = "EUR"                 # of these prices and of stop_at_cost
# stop_after = "3h"                # stops each run then, as a cancel does; and at a cost, by the price:
# stop_at_cost = 20
# storage_root = "/mnt/shared"     # a folder that this machine and all executors see; default: the workspace

[{key}.spark]                    # settings as spark-submit takes them, names in quotes
# "spark.executor.memory" = "8g"
# "spark.executor.cores" = 4
# "spark.dynamicAllocation.enabled" = true               # executors come with the work, between minExecutors and
# "spark.dynamicAllocation.maxExecutors" = 8             # this; not for training, which needs a fixed number of them
# "spark.authenticate.secret" = "${{CLUSTER_SECRET}}"   # secrets only as names of environment variables
"""


def toml_key(name: str) -> str:
    """The name as a key of TOML, in quotes where it needs them."""
    # A bare key may hold no point: [a.b] would be a table b in a table a.
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: object) -> str:
    # JSON's strings and numbers are TOML's too.
    return json.dumps(value, ensure_ascii=False)
