"""`profiles.toml`: reading it table by table, so that a mistake in one profile leaves the others usable.

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

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from engine.errors import UsageError
from engine.profiles.profile import Backend
from engine.profiles.settings import SECRETS_BELONG, as_text, flatten, holds_secret, text_holds_secret

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNITS = {"": 1, "b": 1} | {
    unit: base**power
    for power, letter in enumerate("kmgt", start=1)
    for unit, base in ((f"{letter}b", 1000), (f"{letter}ib", 1024), (letter, 1024))
}
_SMALLEST_MEMORY = 1 << 28


@dataclass(frozen=True)
class ProfilesFile:
    """What stands in the file: each profile's fields as `Profile` takes them, or what is wrong with it.

    `unreadable` is set when the file as a whole cannot be read; `text` then tells what may be in it.
    """

    path: Path
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: Mapping[str, UsageError] = field(default_factory=dict)
    unreadable: UsageError | None = None
    text: str = ""

    def may_define(self, name: str) -> bool:
        """Whether a file that cannot be read seems to have a table of this name."""
        if self.unreadable is None:
            return False
        if not self.text:
            return True
        quoted = rf"[\"']?{re.escape(name)}[\"']?"
        return re.search(rf"^\s*(\[+\s*{quoted}\s*[.\]]|{quoted}\s*[.=])", self.text, re.MULTILINE) is not None


def read_profiles_file(path: Path) -> ProfilesFile:
    """Read the file; one that is not there is empty. Raises nothing: problems are part of what it gives."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except FileNotFoundError:
        return ProfilesFile(path)
    except OSError as exc:
        return ProfilesFile(path, unreadable=UsageError(f"{path} cannot be read: {exc.strerror or exc}"))
    except UnicodeDecodeError:
        return ProfilesFile(path, unreadable=UsageError(f"{path} is not text in UTF-8", hint="Save it as UTF-8."))
    except tomllib.TOMLDecodeError as exc:
        hint = "Mend that line; `voxelflow profiles show local` prints a table that is right."
        if "overwrite" in str(exc):
            # spark.speculation is a setting, and the beginning of others.
            hint = 'Put the names of Spark settings in quotes: "spark.speculation" = true.'
        return ProfilesFile(path, unreadable=UsageError(f"{path} is not valid TOML: {exc}", hint=hint), text=text)
    tables: dict[str, Mapping[str, Any]] = {}
    problems: dict[str, UsageError] = {}
    for name, table in document.items():
        try:
            tables[name] = _profile(path, name, table)
        except UsageError as exc:
            problems[name] = exc
    return ProfilesFile(path, tables, problems, text=text)


def memory(value: object) -> int:
    """Bytes of `"16 GB"` (thousands), `"16 GiB"` or Spark's `"16g"` (both 1024), or of a whole number.

    Raises `ValueError` when it is none of these.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)):
        factor = _UNITS.get(match[2].lower())
        if factor is not None:
            return int(float(match[1]) * factor)
    raise ValueError(f"{value!r} is no amount of memory")


def is_profile_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _profile(path: Path, name: str, table: object) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise UsageError(
            f"{path}: {name} stands outside every profile",
            hint=f"Write the profile's name above it: [NAME], then {name}.",
        )
    if not is_profile_name(name):
        raise UsageError(
            f"{path}: {name!r} is not a profile's name",
            hint="Use up to 64 letters, digits, points, dashes and underscores.",
        )
    out: dict[str, Any] = {}
    for key, value in table.items():
        reader = _FIELDS.get(key)
        if reader is None:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            raise _wrong(
                path,
                name,
                key,
                "there is no such field",
                f"Did you mean {near[0]}?" if near else f"It may have: {', '.join(_FIELDS)}.",
            )
        try:
            out |= reader(value, path)
        except _Wrong as exc:
            raise _wrong(path, name, exc.field or key, exc.what, exc.hint) from None
    return out


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
    example = 'As spark-submit takes it: "local[*]", "spark://host:7077", "yarn", "k8s://https://host:443".'
    if not isinstance(value, str) or not value.strip() or any(c.isspace() for c in value.strip()):
        raise _Wrong("must be the address of a Spark master", example)
    if text_holds_secret(value):
        raise _Wrong("holds a password", SECRETS_BELONG)
    return {"master": value.strip()}


def _whole(name: str, at_least: int) -> Any:
    def read(value: object, _: Path) -> dict[str, Any]:
        if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
            raise _Wrong(f"must be a whole number of at least {at_least}, not {value!r}", f"For example {name} = 4.")
        return {name: value}

    return read


def _memory(value: object, _: Path) -> dict[str, Any]:
    hint = 'For example "16 GB", "16 GiB", "16g", or a whole number of bytes.'
    try:
        count = memory(value)
    except ValueError as exc:
        raise _Wrong(str(exc), hint) from None
    if count < _SMALLEST_MEMORY:
        raise _Wrong(f"{value!r} is too little: at least 256 MiB", hint)
    return {"memory_bytes": count}


def _price(value: object, _: Path) -> dict[str, Any]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= float(value) < float("inf"):  # type: ignore[arg-type]
        raise _Wrong(f"must be a number of at least 0, not {value!r}", "For example price_per_hour = 3.2.")
    return {"price_per_hour": float(value)}  # type: ignore[arg-type]


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
            raise _Wrong("stands in a field of its own", "Write master = ... in the profile's own table.", name)
        out[name] = text
    return {"spark": out}


_FIELDS: dict[str, Any] = {
    "backend": _backend,
    "master": _master,
    "cores": _whole("cores", 1),
    "memory": _memory,
    "gpus": _whole("gpus", 0),
    "parallel_tasks": _whole("parallel_tasks", 1),
    "price_per_hour": _price,
    "storage_root": _storage_root,
    "spark": _spark,
}
