"""`InspectDataset`: what is in a dataset, as a page to read and figures to compare."""

from __future__ import annotations

from typing import Annotated

from engine.context import TaskContext
from engine.datasets import Preview, Report, VolumeDelta, VolumeParquet
from engine.node import Look, node
from engine.parameters import Range, Unit


@node("InspectDataset", version=1, category="Data", imports=("numpy", "pyarrow.parquet"))
def inspect_dataset(
    dataset: VolumeDelta | VolumeParquet,
    *,
    sample: Annotated[int, Range(1, 100_000), Unit("volumes")] = 512,
    ctx: TaskContext,
) -> Report:
    """Count labels, and measure values and files, before a training is paid for.

    Labels are counted over all volumes of the dataset (of its selection, where it is one); values
    are measured over a sample spread evenly over the files, the same one each time.

    Args:
        dataset: the volumes to look at.
        sample: volumes whose values are measured.
    """
    from nodes.inspection.dataset_report import write_report
    from nodes.inspection.dataset_statistics import measure

    found = measure(dataset, sample, ctx)
    page = write_report(found, ctx.out)
    figures = found.figures()
    ctx.facts(**figures)
    ctx.artifact("file", page, "dataset.html")
    ctx.artifact("file", page.with_name("figures.json"), "dataset.json")
    return Report(uri=str(page), figures=figures)


@inspect_dataset.preview
def _preview(look: Look) -> Preview:
    return Preview(kind="Report")
