"""Finding a profile, the ready ones and those of the workspace's `profiles.toml` over them; beginning a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.cgroups import memory, usable_cores
from engine.errors import UsageError
from engine.prices import Machine, machine_table
from engine.prices.dbu import dbu_table
from engine.profiles.cluster import DATABRICKS
from engine.profiles.file import ProfilesFile, check_name, example, parse_profiles, read_profiles_file
from engine.profiles.profile import Profile
from engine.storage.files import whole_file
from engine.storage.io_errors import remedy
from engine.text import did_you_mean
from engine.workspace import Workspace

FILE = "profiles.toml"
READY: Mapping[str, Mapping[str, Any]] = {"local": {}, "spark-local": {"backend": "spark"}}
"""What exists without any file, the usual one first."""
_USUAL = "local"


@dataclass(frozen=True)
class Listed:
    """A profile that was found by its name, or what is wrong with its table. `origin` says where it is written."""

    name: str
    origin: str
    profile: Profile | None = None
    problem: UsageError | None = None


_Machine = dict[str, int]
"""What this machine has to give: `cores` this process may use, `memory_bytes`: three quarters of what is free."""


def profiles_file(workspace: Workspace) -> Path:
    """Where the workspace's profiles are written; it need not exist."""
    return workspace.root / FILE


def local_profile() -> Profile:
    """This machine, whatever a file says of it."""
    return _build("local", {}, _machine())


def profile_names(workspace: Workspace | None = None) -> list[str]:
    """All profiles that have a name, the usual one first; those with a mistake in their table too."""
    return _names(_read(workspace))


def find_profile(name: str | None, workspace: Workspace | None = None) -> Profile:
    """The profile of that name; None means the workspace's default one.

    Raises `UsageError` when there is none, or when its own table is wrong: a mistake in another's is
    no reason not to run here. A file that cannot be read may say which one is the default: then it is not guessed.
    """
    file = _read(workspace)
    if name is None:
        if (unknown := file.default_problem) is not None:
            raise unknown
        name = file.default or _USUAL
    elif not name:
        raise UsageError(f"no compute profile {name!r}", hint="`voxelflow profiles` lists them.")
    problem = _problem(name, file)
    if problem is not None:
        raise problem
    return _find(name, file, _machine(), workspace)


def default_profile(workspace: Workspace | None = None) -> str:
    """The name of the profile that is used where none is named; it may have a mistake in its table, or not exist.

    "" where the file cannot be read and seems to name one, or names it by what is no text.
    """
    file = _read(workspace)
    return "" if file.default_problem is not None else file.default or _USUAL


def list_profiles(workspace: Workspace | None = None) -> list[Listed]:
    """Every profile with where it is written; a mistake in one table does not hide the others."""
    file, machine = _read(workspace), _machine()
    out: list[Listed] = []
    for name in _names(file):
        in_file = name in file.tables or name in file.problems
        origin = f"{file.path.name} over the ready one" if in_file and name in READY else FILE if in_file else "ready"
        problem, profile = _problem(name, file), None
        if problem is None:
            try:
                profile = _find(name, file, machine, workspace)
            except UsageError as exc:
                problem = exc
        out.append(Listed(name, origin, profile, problem))
    return out


def unreadable(workspace: Workspace) -> UsageError | None:
    """Why the file as a whole cannot be read, if so."""
    return _read(workspace).unreadable


def check_profile(name: str, file: ProfilesFile, workspace: Workspace) -> None:
    """Raise `UsageError` when the profile cannot be used as the file has it."""
    problem = _problem(name, file)
    if problem is not None:
        raise problem
    _find(name, file, _machine(), workspace)


def write_profiles_file(path: Path, text: str) -> None:
    """Replace the file whole. A link, such as to a folder of settings, stays one. Raises `UsageError`."""
    try:
        with whole_file(path.resolve(), durable=True) as temporary:
            temporary.write_text(text, encoding="utf-8")
            if path.exists():
                temporary.chmod(path.stat().st_mode)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}", hint=remedy(exc)) from exc


def _read(workspace: Workspace | None) -> ProfilesFile:
    return ProfilesFile(Path(FILE)) if workspace is None else read_profiles_file(profiles_file(workspace))


def _names(file: ProfilesFile) -> list[str]:
    names = list(dict.fromkeys([*READY, *file.tables, *file.problems]))
    return sorted(names, key=lambda name: name != file.default)


def _problem(name: str, file: ProfilesFile) -> UsageError | None:
    """What keeps this profile from being used. A file that cannot be read is everyone's problem who may be in it."""
    if file.unreadable is not None and (name not in READY or file.may_define(name)):
        return file.unreadable
    return file.problems.get(name)


def _find(name: str, file: ProfilesFile, machine: _Machine, workspace: Workspace | None) -> Profile:
    if name not in READY and name not in file.tables:
        raise UsageError(
            f"there is no compute profile {name}",
            hint=f"{did_you_mean(name, _names(file))} Choose one of: {', '.join(_names(file))}. `voxelflow profiles new"
            f" {name}` begins another.".lstrip(),
        )
    ready, own = READY.get(name, {}), file.tables.get(name, {})
    fields = {**ready, **own}
    backend = fields.get("backend", "embedded")
    if name in READY and backend != ready.get("backend", "embedded"):
        raise UsageError(
            f"{file.path}: profile {name}, backend: the ready profile {name} keeps its backend",
            hint="Give the profile another name.",
        )
    for field in ("master", "spark", "keep_warm_minutes", "executor_machine", "executor_dbu_per_hour"):
        if backend == "embedded" and fields.get(field):
            raise UsageError(
                f"{file.path}: profile {name}, {field}: is for Spark, and the profile runs embedded",
                hint='Write backend = "spark" in its table, or take the field out.',
            )
    return _build(name, {**fields, **_priced(name, file, fields, workspace)}, machine)


def _priced(name: str, file: ProfilesFile, fields: Mapping[str, Any], workspace: Workspace | None) -> Mapping[str, Any]:
    """The prices of the machines that the profile names, with their currency. Raises `UsageError` when there is no such
    machine, or the prices do not go together."""
    out = dict(_units(name, file, fields))
    spot = bool(fields.get("spot"))
    executors = None
    if "executor_machine" in fields:
        executors = _in_table(name, "executor_machine", file, fields, workspace)
        out |= {"executor_machine": executors.key, "provider": executors.provider}
    if "machine" not in fields:
        if spot:
            raise UsageError(
                f"{file.path}: profile {name}, spot: the profile names no machine type",
                hint='Write for example machine = "m5.2xlarge"; a price of your own (price_per_hour) needs no spot.',
            )
        return out
    found = _in_table(name, "machine", file, fields, workspace)
    out |= {"machine": found.key, "provider": found.provider}
    if fields.get("price_per_hour") is not None:
        return out
    own = str(fields.get("currency", ""))
    if own and found.currency and found.currency.upper() != own:
        raise UsageError(
            f"{file.path}: profile {name}, currency: the price of {found.key} is in {found.currency}, not in {own}",
            hint=f"Give a price of your own (price_per_hour = ..., in {own}), or take the currency out.",
        )
    # A job there has its driver on demand, and takes the executors alone from the spot market.
    driver_stays = spot and fields.get("backend") == "spark" and fields.get("master") == DATABRICKS
    out |= {"machine_price": _hour(name, found, spot and not driver_stays, file), "currency": own or found.currency}
    if spot:
        out["on_demand_price"] = found.price_per_hour
    if executors is None and driver_stays:
        executors = found
    if executors is None:
        return out
    if executors.currency != found.currency and None not in (executors.price_per_hour, found.price_per_hour):
        raise UsageError(
            f"{file.path}: profile {name}, executor_machine: the price of {executors.key} is in"
            f" {executors.currency or 'no currency'}, that of {found.key} in {found.currency or 'none'}",
            hint="Give a price of your own for all machines together (price_per_hour = ..., and its currency).",
        )
    if spot:
        out["executor_on_demand_price"] = executors.price_per_hour
    return out | {"executor_price": _hour(name, executors, spot, file)}


def _in_table(
    name: str, field: str, file: ProfilesFile, fields: Mapping[str, Any], workspace: Workspace | None
) -> Machine:
    try:
        return machine_table(workspace).find(fields[field])
    except UsageError as exc:
        raise UsageError(f"{file.path}: profile {name}, {field}: {exc.message}", hint=exc.hint) from None


def _hour(name: str, machine: Machine, spot: bool, file: ProfilesFile) -> float | None:
    if spot and machine.spot_per_hour is None:
        raise UsageError(
            f"{file.path}: profile {name}, spot: no spot price of {machine.key} is known",
            hint="A row in machines.csv of the workspace gives it (spot_per_hour); or give price_per_hour here.",
        )
    return machine.spot_per_hour if spot else machine.price_per_hour


def _units(name: str, file: ProfilesFile, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Databricks' units an hour that the profile does not give itself, where it says what one costs.

    Raises `UsageError` where they are not known: those of one machine are never taken for those of another type.
    """
    if fields.get("price_per_dbu") is None:
        return {}
    machine, executors = (str(fields.get(field, "")).partition("@")[0] for field in ("machine", "executor_machine"))
    wanted = {"dbu_per_hour": machine}
    if executors and executors.casefold() != machine.casefold():
        wanted["executor_dbu_per_hour"] = executors
    return {field: _units_of(name, file, of, field) for field, of in wanted.items() if fields.get(field) is None}


def _units_of(name: str, file: ProfilesFile, machine: str, field: str) -> float:
    if (known := dbu_table().get(machine.casefold())) is not None:
        return known.dbu_per_hour
    of = f"of {machine} " if machine else ""
    raise UsageError(
        f"{file.path}: profile {name}, price_per_dbu: how many units an hour {of}takes is not known",
        hint=f"Databricks' calculator of prices shows it; write for example {field} = 3.",
    )


def _build(name: str, fields: Mapping[str, Any], machine: _Machine) -> Profile:
    merged: dict[str, Any] = {**machine, **fields}
    merged.setdefault("parallel_tasks", max(1, min(merged["cores"], 8)))
    return Profile(name=name, **merged)


def _machine() -> _Machine:
    return {"cores": usable_cores(), "memory_bytes": max(1 << 28, int(memory().available * 0.75))}


def new_profile(name: str, workspace: Workspace) -> Path:
    """Write a commented example into the file, making it if need be; gives its path.

    Raises `UsageError` when the name cannot be one or is taken, or the file cannot be read or written.
    """
    check_name(name)
    file = _read(workspace)
    if file.unreadable is not None:
        raise file.unreadable
    if name in file.lines:
        raise UsageError(
            f"{file.path} has a line of its own that begins with {name} =, so no profile can be called so",
            hint="Choose another name.",
        )
    if name in _names(file):
        raise UsageError(
            f"there is a profile {name} already",
            hint=f"`voxelflow profiles show {name}` prints its table, to copy and change.",
        )
    gap = "" if not file.text else "\n" if file.text.endswith("\n") else "\n\n"
    text = file.text + gap + example(name)
    if (problem := parse_profiles(file.path, text).unreadable) is not None:
        raise problem
    write_profiles_file(file.path, text)
    return file.path
