"""Compute profiles: named places to run. `local` is this machine."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.errors import UsageError

Backend = Literal["embedded", "spark"]


class Profile(BaseModel):
    """Where and with how much. Policy, not identity: nothing here enters a fingerprint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    backend: Backend = "embedded"
    cores: Annotated[int, Field(ge=1)]
    memory_bytes: Annotated[int, Field(ge=1 << 28)]
    gpus: int = 0
    parallel_tasks: Annotated[int, Field(ge=1)] = 2
    """Tasks that may run side by side."""


def local_profile() -> Profile:
    """This machine: the cores this process may use and three quarters of the free memory."""
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = max(1 << 28, int(psutil.virtual_memory().available * 0.75))
    return Profile(name="local", cores=cores, memory_bytes=memory, parallel_tasks=max(1, min(cores, 8)))


def profile_names() -> list[str]:
    """All profiles that `find_profile` knows, the usual one first."""
    return ["local"]


def find_profile(name: str) -> Profile:
    """The profile of that name. Raises `UsageError` when there is none."""
    if name == "local":
        return local_profile()
    raise UsageError(f"there is no compute profile {name}", hint=f"Ready ones: {', '.join(profile_names())}.")
