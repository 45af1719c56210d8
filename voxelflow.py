"""Voxelflow's public API, and the one place that joins the engine with the built-in nodes.

    import voxelflow

    run = voxelflow.run("pipelines/quickstart.json")
    run.state, run.outputs["train"]["out"].metrics

    with voxelflow.load(run.outputs["table"]["out"], batch_size=32) as batches:
        for batch in batches: ...  # batch.volumes, batch.labels: NumPy arrays

Node authors import what they need from here too: `from voxelflow import node, track, TaskContext`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine

if importlib.util.find_spec("engine.pipeline") is None:  # not a look at the disk: on executors we are in a zip
    raise ImportError(
        f"another package called 'engine' ({engine.__file__}) hides Voxelflow's."
        " Install Voxelflow in an environment of its own."
    )

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.catalog import Catalog
    from engine.cli.session import Answer
    from engine.context import TaskContext
    from engine.datasets import (
        Dataset,
        Predictions,
        Preview,
        Report,
        Selection,
        TrainedModel,
        VolumeDelta,
        VolumeFiles,
        VolumeParquet,
        VolumeSpec,
    )
    from engine.errors import VoxelflowError
    from engine.node import Look, node
    from engine.parameters import Advanced, Extendable, Help, PathIn, PathOut, Policy, Range, Secret, Unit
    from engine.pipeline import Pipeline
    from engine.progress import track
    from engine.workspace import Workspace
    from nodes.loaders.interface import LoaderState
    from nodes.loaders.loaded import load

__all__ = [
    "Advanced",
    "Dataset",
    "Extendable",
    "Help",
    "LoaderState",
    "Look",
    "PathIn",
    "PathOut",
    "Policy",
    "Predictions",
    "Preview",
    "Range",
    "Report",
    "RunResult",
    "Secret",
    "Selection",
    "TaskContext",
    "TrainedModel",
    "Unit",
    "VolumeDelta",
    "VolumeFiles",
    "VolumeParquet",
    "VolumeSpec",
    "VoxelflowError",
    "catalog",
    "load",
    "node",
    "run",
    "track",
]


_HOME = {
    "engine.context": ("TaskContext",),
    "engine.datasets": (
        "Dataset", "Predictions", "Preview", "Report", "Selection", "TrainedModel", "VolumeDelta", "VolumeFiles",
        "VolumeParquet", "VolumeSpec",
    ),
    "engine.errors": ("VoxelflowError",),
    "engine.node": ("Look", "node"),
    "engine.parameters": ("Advanced", "Extendable", "Help", "PathIn", "PathOut", "Policy", "Range", "Secret", "Unit"),
    "engine.progress": ("track",),
    "nodes.loaders.interface": ("LoaderState",),
    "nodes.loaders.loaded": ("load",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Looked up when first asked for: the command's `--help` needs none of them.
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def catalog(workspace: Workspace | None = None) -> Catalog:
    """All node types: built-in ones, those of installed packages, and the workspace's own if trusted."""
    import nodes
    from engine.catalog import build_catalog

    return build_catalog(nodes.BUILT_IN, workspace)


@dataclass(frozen=True)
class RunResult:
    """A run that has ended: its id, state, error, and the outputs by node and port."""

    run_id: str
    state: str
    error: str
    outputs: Mapping[str, Mapping[str, Dataset]]


def run(
    pipeline: Pipeline | str | Path, *, workspace: str | Path | None = None, profile: str = "local", **values: Any
) -> RunResult:
    """Run a pipeline (a document or a file's path) to its end; `values` set its parameters.

    Raises `CheckFailed` with all problems when it cannot start. A run that fails is returned, not raised.
    """
    from engine import launch
    from engine.pipeline import read_pipeline
    from engine.profiles import find_profile
    from engine.runs import RunStore
    from engine.workspace import open_workspace

    place = open_workspace(Path(workspace) if workspace is not None else None)
    store = RunStore(place)
    document = read_pipeline(Path(pipeline)) if isinstance(pipeline, (str, Path)) else pipeline
    run_id, _ = launch.start(
        document, catalog(place), place, store, values=values, profile=find_profile(profile, place), base=Path.cwd()
    )
    for last in launch.ended(place, store, run_id):
        state, error = last.state, last.error
    return RunResult(run_id, state, error, {t.node: t.outputs for t in store.tasks(run_id)})


def _studio(workspace: Workspace, *, address: str, port: int | None, open_browser: bool, traceback: bool) -> int:
    from ui.studio import serve

    return serve(workspace, catalog, address=address, port=port, open_browser=open_browser, show_tracebacks=traceback)


def _ask_model(folder: Path, files: Sequence[Path]) -> Sequence[Answer]:
    from nodes.prediction.few_files import ask

    return ask(folder, files)


def main() -> None:
    """The `voxelflow` command."""
    from engine.quick_exit import QuickExit

    leave = QuickExit()
    from engine.cli import main as command

    sys.exit(leave.with_status(command(catalog, _studio, _ask_model)))


if __name__ == "__main__":
    main()
