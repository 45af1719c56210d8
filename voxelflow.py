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

import engine

if importlib.util.find_spec("engine.document.pipeline") is None:  # not a look at the disk: on executors we are in a zip
    raise ImportError(
        f"another package called 'engine' ({engine.__file__}) hides Voxelflow's."
        " Install Voxelflow in an environment of its own."
    )

import engine.processes.interrupt

if engine.processes.interrupt.is_command(__name__):
    engine.processes.interrupt.end_at_interrupt()

import sys
import warnings
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.bench.compare import Comparison
    from engine.bench.options import BenchOptions
    from engine.bench.result import BenchResult
    from engine.catalog import Catalog
    from engine.cli.node_work import Asked, CheckedData
    from engine.declare.appearance import Category, Colour
    from engine.declare.check_context import CheckContext, Look
    from engine.declare.context import TaskContext
    from engine.declare.datasets import (
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
    from engine.declare.node import node
    from engine.declare.parameters import (
        Added,
        Advanced,
        Extendable,
        Help,
        Needs,
        PathIn,
        PathOut,
        Pattern,
        Policy,
        Range,
        Secret,
        Step,
        Unit,
        Widget,
    )
    from engine.declare.progress import enter_phase, track
    from engine.declare.view import (
        Chart,
        ChartPanel,
        Choice,
        DatasetView,
        Document,
        Gallery,
        GalleryItem,
        Option,
        Picked,
        Table,
        TableColumn,
        TablePage,
        TableRow,
    )
    from engine.diagnostics.rule import Rule
    from engine.document.pipeline import Pipeline
    from engine.errors import StaleInput, VoxelflowError
    from engine.probes import StorageProbe
    from engine.storage.place import NewFile, Place, Stat
    from engine.workspace import Workspace
    from nodes.conversion.formats import VolumeFormat
    from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
    from nodes.loaders.interface import LoaderState
    from nodes.loaders.load import load
    from nodes.testing.format import FormatConformance
    from nodes.testing.learner import LearnerConformance
    from nodes.testing.loader import LoaderConformance
    from nodes.testing.node import NodeConformance
    from nodes.testing.place import PlaceConformance
    from nodes.testing.table import TableConformance
    from nodes.writing.volumes import Volumes
    from nodes.writing.write import write_volumes

__all__ = [
    "Added",
    "Advanced",
    "Category",
    "Chart",
    "ChartPanel",
    "CheckContext",
    "Choice",
    "Colour",
    "Dataset",
    "DatasetView",
    "Document",
    "Extendable",
    "FormatConformance",
    "Gallery",
    "GalleryItem",
    "Help",
    "LearnerConformance",
    "LoaderConformance",
    "LoaderState",
    "Look",
    "Needs",
    "NewFile",
    "NodeConformance",
    "OpenVolume",
    "Option",
    "PathIn",
    "PathOut",
    "Pattern",
    "Picked",
    "Place",
    "PlaceConformance",
    "Policy",
    "Predictions",
    "Preview",
    "Range",
    "Report",
    "Rule",
    "RunResult",
    "Secret",
    "Selection",
    "StaleInput",
    "Stat",
    "Step",
    "Table",
    "TableColumn",
    "TableConformance",
    "TablePage",
    "TableRow",
    "TaskContext",
    "TrainedModel",
    "Unit",
    "VolumeDelta",
    "VolumeFiles",
    "VolumeFormat",
    "VolumeHeader",
    "VolumeParquet",
    "VolumeSpec",
    "Volumes",
    "VoxelflowError",
    "Widget",
    "catalog",
    "enter_phase",
    "load",
    "node",
    "run",
    "track",
    "write_volumes",
]


_HOME = {
    "engine.declare.appearance": ("Category", "Colour"),
    "engine.declare.context": ("TaskContext",),
    "engine.declare.datasets": (
        "Dataset", "Predictions", "Preview", "Report", "Selection", "TrainedModel", "VolumeDelta", "VolumeFiles",
        "VolumeParquet", "VolumeSpec",
    ),
    "engine.diagnostics.rule": ("Rule",),
    "engine.errors": ("StaleInput", "VoxelflowError"),
    "engine.declare.check_context": ("CheckContext", "Look"),
    "engine.declare.node": ("node",),
    "engine.declare.parameters": (
        "Added", "Advanced", "Extendable", "Help", "Needs", "PathIn", "PathOut", "Pattern", "Policy", "Range", "Secret",
        "Step", "Unit", "Widget",
    ),
    "engine.declare.progress": ("enter_phase", "track"),
    "engine.declare.view": (
        "Chart", "ChartPanel", "Choice", "DatasetView", "Document", "Gallery", "GalleryItem", "Option", "Picked",
        "Table", "TableColumn", "TablePage", "TableRow",
    ),
    "engine.storage.place": ("NewFile", "Place", "Stat"),
    "nodes.loaders.interface": ("LoaderState",),
    "nodes.loaders.load": ("load",),
    "nodes.conversion.formats": ("VolumeFormat",),
    "nodes.conversion.formats.interface": ("OpenVolume", "VolumeHeader"),
    "nodes.testing.format": ("FormatConformance",),
    "nodes.testing.learner": ("LearnerConformance",),
    "nodes.testing.loader": ("LoaderConformance",),
    "nodes.testing.node": ("NodeConformance",),
    "nodes.testing.place": ("PlaceConformance",),
    "nodes.testing.table": ("TableConformance",),
    "nodes.writing.volumes": ("Volumes",),
    "nodes.writing.write": ("write_volumes",),
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
    pipeline: Pipeline | str | Path,
    *,
    workspace: str | Path | None = None,
    profile: str | None = None,
    stop_after: str | None = None,
    stop_at_cost: float | None = None,
    **values: Any,
) -> RunResult:
    """Run a pipeline to its end: a document, a file's path, or a name as the command takes it ("quickstart", or one of
    the workspace). `values` set its parameters.

    Without a `profile` it runs under the workspace's default one. It is cancelled after the time `stop_after` (`"3h"`,
    `"90min"`) or at `stop_at_cost`, in the currency of the profile's price; None: the profile's own limit, if it has
    one. Then, as after a cancel, its state is "cancelled". Interrupting the call leaves the run at work:
    `voxelflow runs cancel` stops it.

    Raises `CheckFailed` with all problems when it cannot start, `UsageError` for a limit that cannot be kept (a cost
    without a price), and `ExecutionError` when it has been stuck for five minutes. A run that fails is returned, not
    raised.
    """
    from engine.document.find import find_pipeline
    from engine.document.pipeline import read_pipeline
    from engine.errors import hints_as_notes
    from engine.limit import changed_limit, read_time
    from engine.profiles import find_profile
    from engine.run import launch
    from engine.store.runs import RunStore
    from engine.workspace import open_workspace

    with hints_as_notes():
        place = open_workspace(Path(workspace) if workspace is not None else None)
        document = find_pipeline(pipeline, place) if isinstance(pipeline, str) else pipeline
        document = read_pipeline(document) if isinstance(document, Path) else document
        where = find_profile(profile, place)
        limit = changed_limit(where.limit, None if stop_after is None else read_time(stop_after), stop_at_cost)
        with closing(RunStore(place)) as store:
            run_id, _ = launch.start(
                document, catalog(place), place, store, values=values, profile=where, base=Path.cwd(), limit=limit
            )
            warned = False
            for last in launch.ended(place, store, run_id):
                state, error = last.state, last.error
                if state == "stuck" and not warned:
                    warned = True
                    from engine.wording import stuck_line

                    warnings.warn(stuck_line(last), stacklevel=2)
            return RunResult(run_id, state, error, {t.node: t.outputs for t in store.tasks(run_id)})


def _studio(workspace: Workspace, *, address: str, port: int | None, open_browser: bool, traceback: bool) -> int:
    from engine.extras import modules, require

    require("the editor", *modules("studio"))
    from ui.studio import serve

    return serve(workspace, catalog, address=address, port=port, open_browser=open_browser, show_tracebacks=traceback)


def _ask_model(folder: Path, files: Sequence[Path], *, dataset: str = "") -> Asked:
    from nodes.prediction.few_files import ask

    return ask(folder, files, dataset=dataset)


def _check_data(
    data: Dataset | str,
    *,
    threads: int,
    progress: Callable[[int, int], None],
    aside: Sequence[Path] | None = None,
) -> CheckedData:
    from nodes.inspection.verify import check_data

    return check_data(data, threads=threads, progress=progress, aside=aside)


def _probe_storage(
    workspace: Workspace,
    place: str,
    *,
    seconds: int,
    limit_mb: int,
    files: int | None,
    file_bytes: int | None,
    report: Callable[[str], None],
) -> tuple[StorageProbe, Path]:
    import uuid

    from engine.cgroups import usable_cores
    from nodes.storage_probe.measure import probe_place
    from nodes.storage_probe.parameters import EXAMPLE, Epoch, ProbeParameters
    from nodes.storage_probe.report import keep_with_page

    epoch = None
    if files is not None or file_bytes is not None:
        epoch = Epoch(files or EXAMPLE.files, file_bytes or EXAMPLE.file_bytes, "given")
    parameters = ProbeParameters(seconds, limit_mb)
    probe = probe_place(place, parameters, name=uuid.uuid4().hex, epoch=epoch, cores=usable_cores(), report=report)
    return probe, keep_with_page(workspace, probe)


def _run_bench(
    options: BenchOptions, folder: Path, *, report: Callable[[str], None], keep: Callable[[BenchResult], None]
) -> BenchResult:
    from nodes.bench.measure import bench

    return bench(options, folder, report=report, keep=keep)


def _write_bench_page(comparison: Comparison, results: Sequence[BenchResult], path: Path) -> None:
    from nodes.bench.report import write_page

    write_page(comparison, results, path)


def _open_view(dataset: Dataset, made_from: Mapping[str, Dataset]) -> DatasetView | None:
    from nodes.viewing import open_view

    return open_view(dataset, made_from)


def _prepare_views() -> None:
    from nodes.viewing import prepare

    prepare()


def main() -> None:
    """The `voxelflow` command."""
    engine.processes.interrupt.end_at_interrupt()
    from engine.processes.pandas_when_wanted import import_pandas_when_wanted
    from engine.processes.system import QuickExit

    leave = QuickExit()
    import_pandas_when_wanted()
    from engine.cli import main as command
    from engine.cli.node_work import NodeWork

    work = NodeWork(_ask_model, _check_data, _probe_storage, _run_bench, _write_bench_page, _open_view, _prepare_views)
    sys.exit(leave.with_status(command(catalog, _studio, work)))


if __name__ == "__main__":
    main()
