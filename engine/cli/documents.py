"""Finding the pipeline that a person means, and reading the values given with --set."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from pydantic import JsonValue

import engine
from engine.catalog import Catalog
from engine.errors import PipelineError, UsageError
from engine.pipeline import Pipeline, read_pipeline
from engine.storage import place_from
from engine.workspace import Workspace


def find_pipeline(name: str, workspace: Workspace) -> Pipeline:
    """The document at the path `name`, else the one called so in the workspace, else the shipped one.

    Raises `PipelineError` when there is none or it cannot be read.
    """
    path = Path(name).expanduser()
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
            f"{name} does not exist", hint=f"`{path.stem}` alone means the pipeline that comes with Voxelflow."
        )
    if not is_name or path.exists():
        return read_pipeline(path)
    known = sorted({p.stem for p in _documents(workspace.pipelines)} | shipped.keys())
    raise PipelineError(
        f"there is no pipeline {name}",
        hint=f"Give a file, or one of: {', '.join(known)}." if known else "`voxelflow new` makes one to start from.",
    )


def shipped_pipelines() -> dict[str, Path]:
    """The pipelines that come with Voxelflow, by name. They lie beside the engine, in a checkout and in a wheel."""
    folder = Path(engine.__file__ or "").parents[1] / "pipelines"
    return {p.stem: p for p in _documents(folder)}


def _documents(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.json") if not p.name.endswith(".schema.json"))


def read_settings(settings: Iterable[str], pipeline: Pipeline, catalog: Catalog) -> dict[str, JsonValue]:
    """Values by parameter from `NAME=VALUE` texts; paths among them are made absolute.

    The pipeline's document records them, so a relative path would mean another folder wherever the
    document is run next. Raises `UsageError` for a text without `=` and a name given twice.
    """
    out: dict[str, JsonValue] = {}
    for text in settings:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"--set {text} is not of the form name=value")
        name = name.strip()
        if name in out:
            raise UsageError(f"--set {name} is given twice")
        known = pipeline.parameters.get(name)
        out[name] = read_setting(value, known.value if known else None)
    for name in path_parameters(pipeline, catalog):
        given = out.get(name)
        if isinstance(given, str) and given:
            out[name] = place_from(Path.cwd(), given)
    return out


def read_setting(text: str, default: JsonValue) -> JsonValue:
    """The value that `text` means for a parameter which holds `default` in the document.

    Where the document holds text or nothing, a bare figure or word stays text: a folder may be
    called 2024. The node reads text as its own parameter's type in any case.
    """
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text
    if isinstance(value, str):
        return value
    if isinstance(default, str) or (default is None and isinstance(value, (int, float, bool))):
        return text
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def path_parameters(pipeline: Pipeline, catalog: Catalog) -> set[str]:
    """The pipeline's parameters that some node takes, whole, as a path."""
    return {
        name
        for node in pipeline.nodes
        for parameter, given in node.params.items()
        if (name := _whole_reference(given)) is not None and _is_path(catalog, node.type, node.version, parameter)
    }


def _whole_reference(value: JsonValue) -> str | None:
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value[2:-1]
    return None


def _is_path(catalog: Catalog, node_type: str, version: int | None, name: str) -> bool:
    found = catalog.find(node_type, version)
    parameter = found.parameter(name) if found else None
    return parameter is not None and (parameter.path_in is not None or parameter.path_out is not None)
