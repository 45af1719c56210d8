"""A node that reports a curve made from what its input files hold, loaded as `my_nodes/curve_nodes.py`.

Its parameters do not say all: VOXELFLOW_TEST_DRIFT is added to the curve from step 3 on, as other hardware would.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from voxelflow import Extendable, Report, TaskContext, VolumeFiles, node


@node("Study", version=1, category="Probes")
def study(
    files: VolumeFiles, *, epochs: Annotated[int, Extendable()] = 4, rate: float = 0.5, ctx: TaskContext
) -> Report:
    """Learn how long the files are, and report how."""
    from engine.storage import manifest

    total = manifest.total_bytes(manifest.read(Path(files.manifest)))
    drift = float(os.environ.get("VOXELFLOW_TEST_DRIFT", "0"))
    for epoch in range(1, epochs + 1):
        ctx.metrics(epoch, loss=total / (1 + epoch * rate) + drift * (epoch > 2), epoch_seconds=os.getpid())
    ctx.facts(total=total, weights=f"{total + ctx.seed:x}", rate=rate)
    path = ctx.out / "report.txt"
    path.write_text(str(total))
    return Report(uri=str(path), figures={"epochs": epochs})
