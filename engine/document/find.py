"""Finding the pipeline that a person means: a file, one of the workspace, or one that comes with Voxelflow."""

from __future__ import annotations

from pathlib import Path

import engine
from engine.declare.field_rules import control_character
from engine.document.pipeline import Pipeline, read_pipeline
from engine.document.values import is_utf8
from engine.errors import PipelineError
from engine.storage import expanded
from engine.text import did_you_mean
from engine.workspace import Workspace


def find_pipeline(name: str, workspace: Workspace) -> Pipeline:
    """The document at the path `name`, else the one called so in the workspace, else the shipped one.

    Raises `PipelineError` when there is none, it cannot be read or `name` is no text that can be kept.
    """
    if bad := control_character(name):
        raise PipelineError(
            f"no pipeline can be called {name!r}: it holds the control character {bad!r}", hint="Remove it."
        )
    if not is_utf8(name):
        raise PipelineError(f"no pipeline can be called {name!r}: it is not UTF-8 text", hint="Rename the file.")
    path = expanded(name)
    if path.is_file():
        return read_pipeline(path)
    is_name = path.name == name and path.suffix != ".json"
    candidates = [workspace.pipelines / f"{name}.json"] if is_name else []
    shipped = shipped_pipelines()
    if is_name and name in shipped:
        candidates.append(shipped[name])
    for candidate in candidates:
        if candidate.is_file():
            return read_pipeline(candidate)
    if not is_name and not path.exists() and path.stem in shipped:
        raise PipelineError(
            f"{name} does not exist", hint=f"Write `{path.stem}` alone for the pipeline that comes with Voxelflow."
        )
    if not is_name or path.exists():
        return read_pipeline(path)
    known = sorted({p.stem for p in _documents(workspace.pipelines)} | shipped.keys())
    raise PipelineError(
        f"there is no pipeline {name}",
        hint=f"{did_you_mean(name, known)} Give a file, or one of: {', '.join(known)}.".lstrip()
        if known
        else "`voxelflow new` makes one to start from.",
    )


def shipped_pipelines() -> dict[str, Path]:
    """The pipelines that come with Voxelflow, by name. They lie beside the engine, in a checkout and in a wheel."""
    folder = Path(engine.__file__ or "").parents[1] / "pipelines"
    return {p.stem: p for p in _documents(folder)}


def _documents(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.json") if not p.name.endswith(".schema.json"))
