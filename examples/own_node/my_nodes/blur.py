from typing import Annotated

from voxelflow import CheckContext, Preview, Range, TaskContext, VolumeDelta, VolumeParquet, node, write_volumes


@node("Blur", version=1, category="Conversion", icon="blend", needs=("scipy",), anywhere="its function runs here")
def blur(
    table: VolumeDelta | VolumeParquet, *, sigma: Annotated[float, Range(0.1, 10)] = 1.0, ctx: TaskContext
) -> VolumeParquet:
    """Blur each channel of every volume.

    Args:
        table: the volumes.
        sigma: the Gaussian's standard deviation, in voxels.
    """
    from scipy.ndimage import gaussian_filter

    def blurred(batch):
        return gaussian_filter(batch.volumes, sigma, axes=(1, 2, 3))

    return write_volumes(ctx, like=table, batches=blurred)


@blur.preview
def _(look: CheckContext) -> Preview:
    table = look.inputs.get("table") or Preview(kind="VolumeDelta")
    return Preview(kind="VolumeParquet", spec=look.made_of(table.spec), columns=table.columns)
