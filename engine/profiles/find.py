"""Finding a profile: the ready ones, and those of the workspace's `profiles.toml` over them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.profiles.file import ProfilesFile, read_profiles_file
from engine.profiles.profile import Profile
from engine.workspace import Workspace

FILE = "profiles.toml"
READY: Mapping[str, Mapping[str, Any]] = {"local": {}, "spark-local": {"backend": "spark"}}
"""What exists without any file, the usual one first."""


@dataclass(frozen=True)
class Listed:
    """A profile that was found by its name, or what is wrong with its table. `origin` says where it stands."""

    name: str
    origin: str
    profile: Profile | None = None
    problem: UsageError | None = None


@dataclass(frozen=True)
class _Machine:
    """What this machine has to give: the cores this process may use, three quarters of the free memory (bytes)."""

    cores: int
    memory_bytes: int


def profiles_file(workspace: Workspace) -> Path:
    return workspace.root / FILE


def local_profile() -> Profile:
    """This machine, whatever a file says of it."""
    return _build("local", {}, _machine())


def profile_names(workspace: Workspace | None = None) -> list[str]:
    """All profiles that have a name, the usual one first; those with a mistake in their table too."""
    return _names(_read(workspace))


def find_profile(name: str, workspace: Workspace | None = None) -> Profile:
    """The profile of that name.

    Raises `UsageError` when there is none, or when its own table is wrong: a mistake in another's is
    no reason not to run here.
    """
    file = _read(workspace)
    problem = _problem(name, file)
    if problem is not None:
        raise problem
    return _find(name, file, _machine())


def list_profiles(workspace: Workspace | None = None) -> list[Listed]:
    """Every profile with where it stands; a mistake in one table does not hide the others."""
    file, machine = _read(workspace), _machine()
    out: list[Listed] = []
    for name in _names(file):
        in_file = name in file.tables or name in file.problems
        origin = f"{file.path.name} over the ready one" if in_file and name in READY else FILE if in_file else "ready"
        problem, profile = _problem(name, file), None
        if problem is None:
            try:
                profile = _find(name, file, machine)
            except UsageError as exc:
                problem = exc
        out.append(Listed(name, origin, profile, problem))
    return out


def unreadable(workspace: Workspace) -> UsageError | None:
    """Why the file as a whole cannot be read, if so."""
    return _read(workspace).unreadable


def _read(workspace: Workspace | None) -> ProfilesFile:
    return ProfilesFile(Path(FILE)) if workspace is None else read_profiles_file(profiles_file(workspace))


def _names(file: ProfilesFile) -> list[str]:
    return list(dict.fromkeys([*READY, *file.tables, *file.problems]))


def _problem(name: str, file: ProfilesFile) -> UsageError | None:
    """What keeps this profile from being used. A file that cannot be read is everyone's problem who may be in it."""
    if file.unreadable is not None and (name not in READY or file.may_define(name)):
        return file.unreadable
    return file.problems.get(name)


def _find(name: str, file: ProfilesFile, machine: _Machine) -> Profile:
    if name not in READY and name not in file.tables:
        raise UsageError(
            f"there is no compute profile {name}",
            hint=f"Ready ones: {', '.join(_names(file))}. `voxelflow profiles new {name}` begins another.",
        )
    ready, own = READY.get(name, {}), file.tables.get(name, {})
    fields = {**ready, **own}
    backend = fields.get("backend", "embedded")
    if name in READY and backend != ready.get("backend", "embedded"):
        raise UsageError(
            f"{file.path}: profile {name}, backend: the ready profile {name} keeps its backend",
            hint="Give the profile another name.",
        )
    for field in ("master", "spark"):
        if backend == "embedded" and fields.get(field):
            raise UsageError(
                f"{file.path}: profile {name}, {field}: is for Spark, and the profile runs embedded",
                hint='Write backend = "spark" in its table, or take the field out.',
            )
    return _build(name, fields, machine)


def _build(name: str, fields: Mapping[str, Any], machine: _Machine) -> Profile:
    usual: dict[str, Any] = {"cores": machine.cores, "memory_bytes": machine.memory_bytes}
    merged = usual | dict(fields)
    merged.setdefault("parallel_tasks", max(1, min(merged["cores"], 8)))
    return Profile(name=name, **merged)


def _machine() -> _Machine:
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _Machine(cores, max(1 << 28, int(psutil.virtual_memory().available * 0.75)))
