"""The layout of the 3-D ResNet v2 (pre-activation), by arithmetic and without a framework.

It is that of "Identity Mappings in Deep Residual Networks" (He et al. 2016), carried over to three dimensions: stem
7x7x7 / 2 with batch norm, ReLU and 3x3x3 / 2 max pooling; four stages of 64, 128, 256 and 512 filters; a final batch
norm and ReLU; one average pool over what is left of the volume. Projection shortcuts are 1x1x1 convolutions without
batch norm, only where the shape changes. Every convolution has a bias, which gives depth 18 on (30, 30, 10, 10) its
33,368,897 parameters.

The standard stem is made for images of 224 pixels: 30x30x10 voxels are 8x8x3 after it, and 1x1x1 in the last stage.
The small one is that of the same papers' networks for images of 32 pixels, 3x3x3 / 1 without pooling, and leaves 4x4x2.
A width other than 64 is the number of filters of the first stage; later stages have 2, 4 and 8 times as many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from engine.errors import UsageError
from nodes.training.labels import Target

Depth = Literal[18, 34, 50, 101, 152]
"""Layers with weights on the main path."""

Stem = Literal["standard", "small"]
"""What a volume goes through before the first stage."""

Width = Literal[16, 32, 64, 128]
"""Filters of the stem and of the first stage."""

STAGES = (1, 2, 4, 8)
"""Filters of each stage, as multiples of the width."""
STEM_SIZE: dict[Stem, int] = {"standard": 7, "small": 3}
"""Edge of the first convolution's kernel, in voxels."""


class Layout(NamedTuple):
    """Blocks of each stage, and whether a block is a bottleneck of three convolutions, or of two."""

    blocks: tuple[int, int, int, int]
    bottleneck: bool


LAYOUTS: dict[int, Layout] = {
    18: Layout((2, 2, 2, 2), False),
    34: Layout((3, 4, 6, 3), False),
    50: Layout((3, 4, 6, 3), True),
    101: Layout((3, 4, 23, 3), True),
    152: Layout((3, 8, 36, 3), True),
}


def volume_shape(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """(X, Y, Z, C) of a volume; one of three axes has a single channel. Raises `UsageError` otherwise."""
    if len(shape) not in (3, 4) or min(shape) < 1:
        text = "x".join(map(str, shape))
        raise UsageError(
            f"volumes of shape {text} do not fit a 3-D network",
            hint="Use volumes with three axes (X, Y, Z) or four (X, Y, Z, channels).",
        )
    x, y, z, *channels = shape
    return (x, y, z, channels[0] if channels else 1)


def output_count(classes: int, target: Target | None = None) -> int:
    """Numbers that the network gives for a volume: one for two classes or a regression, else one a class."""
    if target is not None:
        return 1
    if classes < 2:
        raise UsageError(
            f"a classifier needs at least two classes, not {classes}", hint="Choose 2 or more.", parameter="classes"
        )
    return 1 if classes == 2 else classes


class Layer(NamedTuple):
    """A layer with weights on its way: a convolution, or the batch norm and ReLU after one (`size` 0)."""

    inputs: int
    """Channels of what comes in; `outputs` of what goes out."""
    outputs: int
    size: int
    """Edge of the kernel, in voxels; 0 of a batch norm."""
    takes: tuple[int, int, int]
    """Voxels of what comes in along X, Y and Z; `gives` of what goes out."""
    gives: tuple[int, int, int]

    @property
    def parameters(self) -> int:
        """Weights, with the two moving statistics of a batch norm."""
        return (self.inputs * self.size**3 + 1) * self.outputs if self.size else 4 * self.outputs

    @property
    def multiply_adds(self) -> int:
        """Of one volume, as they are usually counted: with what the zeros around a volume are multiplied by."""
        return math.prod(self.gives) * self.outputs * self.inputs * self.size**3

    @property
    def values(self) -> int:
        """What it gives for one volume."""
        return math.prod(self.gives) * self.outputs


def resnet_layers(
    shape: Sequence[int], *, depth: Depth = 18, stem: Stem = "standard", width: Width = 64
) -> Iterator[Layer]:
    """The layers with weights in the order of the work, without the last dense one. Raises `UsageError` for a shape."""
    design = LAYOUTS[depth]
    *grid, channels = volume_shape(shape)
    at = (grid[0], grid[1], grid[2])

    def halved(voxels: tuple[int, int, int]) -> tuple[int, int, int]:
        return (-(-voxels[0] // 2), -(-voxels[1] // 2), -(-voxels[2] // 2))

    def norm(count: int) -> Layer:
        return Layer(count, count, 0, at, at)

    after = halved(at) if stem == "standard" else at
    yield Layer(channels, width, STEM_SIZE[stem], at, after)
    at = after
    yield norm(width)
    if stem == "standard":
        at = halved(at)  # the pooling
    before: int = width
    for stage, (factor, blocks) in enumerate(zip(STAGES, design.blocks, strict=True)):
        filters = factor * width
        out = 4 * filters if design.bottleneck else filters
        for number in range(blocks):
            comes, at_first = at, not stage and not number
            after = halved(at) if stage and not number else at
            if not at_first:
                yield norm(before)
            sizes: tuple[tuple[int, int, int], ...] = ((before, filters, 1), (filters, filters, 3), (filters, out, 1))
            if not design.bottleneck:
                sizes = ((before, filters, 3), (filters, filters, 3))
            for place, (inputs, outputs, size) in enumerate(sizes):
                if place:
                    yield norm(inputs)
                yield Layer(inputs, outputs, size, at, after)
                at = after
            if after != comes or (stage and not number) or before != out:
                yield Layer(before, out, 1, comes, after)
            before = out
    yield norm(before)


def parameter_count(
    shape: Sequence[int], *, depth: Depth = 18, stem: Stem = "standard", width: Width = 64, classes: int = 2
) -> int:
    """Parameters of the model, by arithmetic: for a preview, without importing a framework.

    A regression has as many as a classifier of two classes.
    """
    layers = list(resnet_layers(shape, depth=depth, stem=stem, width=width))
    return sum(layer.parameters for layer in layers) + (layers[-1].outputs + 1) * output_count(classes)
