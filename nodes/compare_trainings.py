"""`CompareTrainings`: the same training from several inputs, side by side and beside the whitepaper's experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, Report, TrainedModel
from engine.declare.node import node
from engine.declare.node_type import FromWorkspace
from engine.declare.parameters import Advanced, PathIn, Range, Unit
from engine.errors import UsageError

_PORTS = ("files", "table", "petastorm", "tfrecord")


@node(
    "CompareTrainings",
    version=1,
    category="Training",
    icon="scale",
    keywords=("benchmark", "cost", "epoch time", "loader", "report"),
    imports=("nodes.comparison.report", "matplotlib.figure"),
    needs=("matplotlib",),
    anywhere="reads what the runs have recorded",
)
def compare_trainings(
    files: TrainedModel,
    table: TrainedModel,
    petastorm: TrainedModel | None = None,
    tfrecord: TrainedModel | None = None,
    *,
    others: Annotated[str, PathIn("folder", "*.json")] = "",
    volumes: Annotated[int, Range(1), Unit("volumes")] = 650_000,
    epochs: Annotated[int, Range(1)] = 5,
    beside_whitepaper: bool = True,
    note: Annotated[str, Advanced()] = "",
    ctx: TaskContext,
) -> Report:
    """Compare how long trainings took, what they cost and what they waited for.

    Times, losses and the machine's CPU, network, disk and GPU are those that the runs have recorded, also of trainings
    that are up to date. The page has them as tables and curves: volumes a second, the share of waiting, the time and
    the cost of `epochs` epochs of `volumes` volumes (an extrapolation, which says so), the highest network and disk
    rates, and after how many epochs converting the files has paid. Costs need a price an hour in the profile.
    The training that reads files one by one is what the others are compared with.

    `comparison.json`, beside the page, holds all of it: put those of other machines, one with a GPU for instance,
    into a folder and name it as `others`, and they become further rows.

    Args:
        files: trained from the files one by one (loader npy).
        table: the same training from the optimised table (loader arrow).
        petastorm: the same with the petastorm package.
        tfrecord: the same from TFRecord files, by a node of your own.
        others: folder with a comparison.json, by any name, of each other machine; empty for none.
        volumes: number of volumes to which times and costs are extrapolated.
        epochs: passes over them.
        beside_whitepaper: show the figures of DeepIQ's whitepaper, which are for 96,000 volumes.
        note: what to say of the storage on the page, such as where it is and how far away.
    """
    from engine.storage import manifest
    from engine.workspace import Workspace
    from nodes.comparison.comparison import Comparison, ordered
    from nodes.comparison.measured import measured_trainings
    from nodes.comparison.record import joined, read_trainings
    from nodes.comparison.report import JSON, PAGE, TEXT, write_report

    if ctx.workspace is None:
        raise UsageError(
            "there is no workspace, in which the times of trainings are recorded",
            hint="Run the pipeline with `voxelflow run`.",
        )
    found = measured_trainings(Workspace(ctx.workspace), ctx.run_id, ctx.node_id, _PORTS, "files", note)
    names = manifest.read(ctx.inputs_found["others"])["path"].to_pylist() if others else []
    elsewhere = [training for name in names for training in read_trainings(Path(others) / name)]
    comparison = Comparison(ordered(joined(found, elsewhere)), volumes, epochs, beside_whitepaper)
    pictures = write_report(comparison, ctx.out)
    ctx.commit_point("compare:report-written")
    for sentence in comparison.headline():
        ctx.info(sentence)
    figures = comparison.figures()
    ctx.facts(**figures)
    for picture in pictures:
        ctx.artifact("plot", picture)
    for name in (PAGE, JSON, TEXT):
        ctx.artifact("file", ctx.out / name)
    return Report(uri=str(ctx.out / PAGE), figures=figures)


@compare_trainings.from_workspace
def _from_workspace(_: Mapping[str, Any]) -> FromWorkspace:
    return "runs"


@compare_trainings.preview
def _preview(look: CheckContext) -> Preview:
    return Preview(kind="Report")
