"""`write_volumes`: a node that makes volumes, in five lines. Importing this imports neither NumPy nor Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, VolumeParquet
from nodes.volume_file.layout import ROW_GROUP_ROWS
from nodes.volume_file.parameters import TARGET_FILE_MB
from nodes.writing.volumes import MakeVolumes


def write_volumes(
    ctx: TaskContext,
    *,
    batches: MakeVolumes,
    like: Dataset | None = None,
    ids: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    column_types: Mapping[str, str] | None = None,
    keeps_values: bool = False,
    target_file_mb: int = TARGET_FILE_MB,
    row_group_rows: int = ROW_GROUP_ROWS,
    threads: int = 0,
) -> VolumeParquet:
    """Make a volume of each row of `like`, or of each of the `ids`, and publish them as a node's result.

        def blurred(batch):
            return np.stack([gaussian_filter(volume, sigma) for volume in batch.volumes])

        return write_volumes(ctx, like=table, batches=blurred)

    `batches` is a function. It gets a `Volumes` batch, up to 64 rows and 32 MB of them, and gives an array with as many
    volumes in the same order, of any one shape and dtype, or a `Volumes` batch with labels and columns of its own
    (`dataclasses.replace(batch, volumes=..., labels=...)`). Ids stay; labels and columns are carried where it gives
    none. It is called from several threads at once, each time with arrays of its own, and once more for the first row,
    to see what it makes. What it makes of a row must follow from that row, the node's parameters and its code alone.

    `like` is a VolumeDelta, with its selections, or a VolumeParquet, of which `ids` are the rows to take, by default
    all. Without it the rows are `ids`, a text for each volume, and the function makes the volumes out of nothing else:
    a simulation, say, whose seed is the id. Rows are
    known by their id and by what they came from. A run that was killed goes on with the parts (`target_file_mb`, in
    10^6 bytes) that it had finished; when `like` or `ids` have grown, only parts with new or changed rows are made;
    with other parameters or other code of the node, all. Generators are not taken: nobody could say which of their
    batches a finished part holds.

    `classes` names the labels 0, 1, ... where the function gives labels of its own; otherwise those of `like` stay.
    `column_types` are Arrow's names ("float64", "string") for columns that the function adds; without it the type is
    that of the first row's value. `row_group_rows` are written, and later read, together. `threads`: 0 for one more
    than there are cores; each holds a row group and a batch, within the task's memory.

    The node is noted in the chain of transforms of what it makes of `like`: a model that is trained on it predicts
    volumes that went through the node, too, and refuses files as they are. A function that leaves every voxel as it
    is, for some of the rows or for other labels or columns, says so with `keeps_values`; then the chain stays that of
    `like`.

    The files lie in `ctx.shared`, the list of them in `ctx.out`. Raises `DataError` when the function gives something
    that a table of volumes cannot hold, or other voxels in spite of `keeps_values`, `UsageError` for arguments that do
    not fit, and whatever the function raises.
    """
    from nodes.writing.made_rows import make_volumes

    return make_volumes(
        ctx,
        batches,
        like,
        ids,
        classes=classes,
        column_types=column_types or {},
        keeps_values=keeps_values,
        target_file_mb=target_file_mb,
        row_group_rows=row_group_rows,
        threads=threads,
    )
