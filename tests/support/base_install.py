"""Processes that see what `pip install voxelflow` brings, without any extra, and nothing else of this environment."""

from __future__ import annotations

import importlib.metadata
import os
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE: tuple[str, ...] = tuple(_PROJECT["dependencies"])
EXTRAS: dict[str, list[str]] = _PROJECT["optional-dependencies"]


def project(requirement: str) -> str:
    """`streamlit_agraph>=0.0.45` is of the project streamlit-agraph."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def projects(extra: str) -> set[str]:
    """The projects that an extra brings, those of other extras that it names among them."""
    out: set[str] = set()
    for requirement in EXTRAS[extra]:
        if named := re.match(r"voxelflow\[([\w,]+)\]", requirement):
            out |= {name for other in named[1].split(",") for name in projects(other)}
        else:
            out.add(project(requirement))
    return out


def environment() -> dict[str, str]:
    """The environment variables of such a process and of those that it starts."""
    paths = [str(Path(__file__).parent / "hidden_packages"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "VOXELFLOW_HIDDEN": " ".join(hidden())}


@cache
def hidden() -> tuple[str, ...]:
    """What can be imported here and is not in the base: the extras' packages, what these need, and the tests' own."""
    kept = {"voxelflow", "pip"} | {name for requirement in BASE for name in _closure(project(requirement))}
    found = importlib.metadata.packages_distributions()
    return tuple(sorted(name for name, of in found.items() if not kept & {project(one) for one in of}))


def _closure(name: str) -> set[str]:
    out, left = set(), [name]
    while left:
        name = left.pop()
        if name in out:
            continue
        out.add(name)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        left += [project(need) for need in needs if "extra ==" not in need]
    return out
