"""Beginning a new profile in `profiles.toml`."""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import UsageError
from engine.profiles.file import is_profile_name
from engine.profiles.find import profile_names, profiles_file, unreadable
from engine.profiles.toml_text import example
from engine.workspace import Workspace


def new_profile(name: str, workspace: Workspace) -> Path:
    """Write a commented example into the file, making it if need be; gives its path.

    Raises `UsageError` when the name cannot be one or is taken, or the file cannot be read or written.
    """
    if not is_profile_name(name):
        raise UsageError(
            f"{name!r} is not a profile's name", hint="Use up to 64 letters, digits, points, dashes and underscores."
        )
    if (problem := unreadable(workspace)) is not None:
        raise problem
    if name in profile_names(workspace):
        raise UsageError(
            f"there is a profile {name} already",
            hint=f"`voxelflow profiles show {name}` prints its table, to copy and change.",
        )
    path = profiles_file(workspace)
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        # Aside and renamed: whoever reads the file meanwhile sees the old one or the new one.
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(before + gap + example(name), encoding="utf-8")
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path.resolve())
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}") from exc
    return path
