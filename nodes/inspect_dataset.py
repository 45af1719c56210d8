"""`InspectDataset`: what is in a dataset, as a page to read and figures to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, Report, VolumeDelta, VolumeParquet
from engine.declare.node import node
from engine.declare.parameters import Range, Unit

if TYPE_CHECKING:
    from nodes.inspection.dataset_statistics import Found


@node(
    "InspectDataset",
    version=2,
    category="Dataset",
    icon="scan-search",
    keywords=("histogram", "statistics", "class balance", "data quality", "checksum", "profile"),
    imports=("engine.processes.pyarrow_without_pandas", "numpy", "pyarrow.parquet"),
)
def inspect_dataset(
    dataset: VolumeDelta | VolumeParquet,
    *,
    sample: Annotated[int, Range(1, 100_000), Unit("volumes")] = 512,
    ctx: TaskContext,
) -> Report:
    """Count labels, measure values and files, and compare checksums, before a training is paid for.

    All bytes are read. Damaged files are reported with what is lost, and left out of the figures. Labels
    are counted over all volumes of the dataset (of its selection, where it is one); values are measured
    over a sample spread evenly over the files, the same one each time.

    Args:
        dataset: the volumes to look at.
        sample: volumes whose values are measured.
    """
    from nodes.inspection.dataset_statistics import measure

    return _report(measure(dataset, sample, ctx), ctx)


@inspect_dataset.on("spark")
def _on_spark(dataset: VolumeDelta | VolumeParquet, *, sample: int, ctx: TaskContext) -> Report:
    """The same figures, counted by Spark and measured by its tasks."""
    from nodes.inspection.dataset_statistics import measure
    from nodes.spark.dataset_counts import check_on_spark, count_on_spark, measure_on_spark

    return _report(measure(dataset, sample, ctx, count_on_spark, measure_on_spark, check_on_spark), ctx)


def _report(found: Found, ctx: TaskContext) -> Report:
    from nodes.inspection.dataset_report import write_report

    page = write_report(found, ctx.out)
    figures = found.figures()
    ctx.facts(**figures)
    ctx.artifact("file", page, "dataset.html")
    ctx.artifact("file", page.with_name("figures.json"), "dataset.json")
    return Report(uri=str(page), figures=figures)


@inspect_dataset.preview
def _preview(look: CheckContext) -> Preview:
    return Preview(kind="Report")
