"""`RunAfter`: let one branch of a pipeline begin when another has finished."""

from __future__ import annotations

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Predictions, Preview, Report, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.node import node


@node(
    "RunAfter",
    version=1,
    category="Utilities",
    icon="step-forward",
    keywords=("wait", "order", "depends on", "sequence", "barrier"),
    anywhere="only names files",
)
def run_after(
    files: VolumeFiles,
    after: VolumeDelta | VolumeParquet | TrainedModel | Predictions | Report,
    *,
    ctx: TaskContext,
) -> VolumeFiles:
    """Hand the files on once another node has finished.

    Branches of a pipeline run side by side. Where one would slow down the other, as when both are timed, put this
    node at the beginning of the one that is to wait. Nothing is read or copied.

    Args:
        files: the volumes to hand on, as they are.
        after: what must be there first; nothing of it is used.
    """
    from pathlib import Path

    from engine.storage.hard_link import link_or_copy

    # A listing of its own: the result stays whole when that of the files is cleaned up.
    listing = ctx.out / "volumes.arrow"
    link_or_copy(Path(files.manifest), listing, "link")
    return files.model_copy(update={"manifest": str(listing)})


@run_after.preview
def _preview(look: CheckContext) -> Preview:
    return look.inputs.get("files", Preview(kind="VolumeFiles"))
