"""`ProbeStorage`: how fast a place is for small files and for a table, before an epoch is waited for."""

from __future__ import annotations

from typing import Annotated

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, Report, VolumeFiles
from engine.declare.node import node
from engine.declare.parameters import PathOut
from nodes.storage_probe.parameters import Epoch, ProbeParameters


@node(
    "ProbeStorage",
    version=1,
    category="Utilities",
    icon="hard-drive",
    keywords=("benchmark", "throughput", "disk", "latency", "bandwidth"),
    imports=("engine.processes.pyarrow_without_pandas", "numpy", "pyarrow.parquet"),
    anywhere="measures from the machine that it runs on",
)
def probe_storage(
    volumes: VolumeFiles | None = None,
    *,
    place: Annotated[str, PathOut("folder")] = "",
    parameters: ProbeParameters,
    ctx: TaskContext,
) -> Report:
    """Measure reading and writing at a place, and say how long an epoch takes there.

    Files like the volumes are written to a hidden folder in the place, read back one by one, several at a time, at
    random, in order and as a table by the loader that trains, and removed again. The report has latencies (50th, 95th
    and 99th percentile), operations and MB a second, and what they mean; it is also kept in the workspace's folder
    probes. On a local disk the system is asked to drop its cache first, and the report says whether it did.

    A finished probe is up to date until a parameter changes: rerun the node to measure anew.

    Args:
        volumes: the files whose epoch is predicted; without them those in the place, else 650,000 of 360 kB.
        place: folder, or a place in object storage (az://container/folder, s3://bucket/folder,
            gs://bucket/folder), that can be written; empty for where this run's results lie.
    """
    from engine.workspace import Workspace
    from nodes.storage_probe.measure import probe_place
    from nodes.storage_probe.report import JSON, PAGE, PICTURE, keep_with_page, write_report

    epoch = None
    if volumes is not None and volumes.count:
        epoch = Epoch(volumes.count, max(1, volumes.bytes // volumes.count), "given")
    probe = probe_place(
        place or str(ctx.out),
        parameters,
        name=ctx.fingerprint[:16] or ctx.node_id,
        epoch=epoch,
        cores=ctx.resources.cores,
        check=ctx.check_cancelled,
        report=ctx.info,
        commit_point=ctx.commit_point,
    )
    write_report(probe, ctx.out)
    if ctx.workspace is not None:
        keep_with_page(Workspace(ctx.workspace), probe)
    ctx.commit_point("probe:kept")
    for line in probe.meaning():
        ctx.info(line)
    figures = probe.figures()
    ctx.facts(**figures)
    ctx.artifact("plot", ctx.out / PICTURE)
    ctx.artifact("file", ctx.out / JSON)
    ctx.artifact("file", ctx.out / PAGE)
    return Report(uri=str(ctx.out / PAGE), figures=figures)


@probe_storage.preview
def _preview(look: CheckContext) -> Preview:
    return Preview(kind="Report")
