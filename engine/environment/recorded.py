"""The environment of a run as one value, kept in the run's folder when the run starts."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.catalog import Catalog
from engine.environment.git import GitState, git_state
from engine.environment.machine import Machine, this_machine
from engine.environment.packages import installed_packages, requirements
from engine.plan import Plan
from engine.workspace import Workspace

FILE = "environment.json"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class NodeCode(_Frozen):
    """What a node of the run was: `source` is the hash of its file where it is the workspace's own, else ""."""

    type: str
    version: int
    source: str = ""
    params: dict[str, Any] = {}
    """Every parameter, the defaults too."""
    seed: int = 0
    """What its context gave it as a seed."""


class Resources(_Frozen):
    """What the profile let the run use."""

    profile: str
    backend: str
    cores: int
    gpus: int


class Environment(_Frozen):
    """What a run worked with."""

    format: int = 1
    voxelflow: str
    python: str
    platform: str
    packages: dict[str, str]
    machine: Machine
    resources: Resources
    git: GitState
    nodes: dict[str, NodeCode]

    @property
    def requirements(self) -> str:
        """The packages as the text of a requirements file."""
        return requirements(self.packages)


def environment_of(workspace: Workspace, plan: Plan, catalog: Catalog) -> Environment:
    """The environment of a run of `plan` that starts in this process now."""
    profile = plan.profile
    return Environment(
        voxelflow=_version(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
        packages=installed_packages(),
        machine=this_machine(),
        resources=Resources(profile=profile.name, backend=profile.backend, cores=profile.cores, gpus=profile.gpus),
        git=git_state(workspace.root),
        nodes={
            task.node: NodeCode(
                type=task.node_type,
                version=task.version,
                source=_source(catalog, task.node_type, task.version),
                params=task.params,
                seed=task.given_seed,
            )
            for task in plan.tasks
        },
    )


def keep_environment(workspace: Workspace, run_id: str, plan: Plan, catalog: Catalog) -> None:
    """Keep the environment of a run's first start; a later attempt leaves it as it is."""
    path = workspace.run_folder(run_id) / FILE
    if path.exists():
        return
    partial = path.with_name(f".{FILE}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(environment_of(workspace, plan, catalog).model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def kept_environment(folder: Path) -> Environment | None:
    """The environment in a run's folder; None when it is gone or cannot be read."""
    try:
        return read_environment((folder / FILE).read_bytes())
    except OSError:
        return None


def read_environment(text: str | bytes) -> Environment | None:
    """The environment in a JSON text; None when it is none."""
    try:
        return Environment.model_validate_json(text)
    except ValidationError:
        return None


def _version() -> str:
    try:
        return version("voxelflow")
    except PackageNotFoundError:
        return "unknown"


def _source(catalog: Catalog, name: str, number: int) -> str:
    found = catalog.find(name, number)
    return "" if found is None or found.origin == "built-in" else found.source_digest


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back: tuples as lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in params.items()}
