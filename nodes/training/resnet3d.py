"""The 3-D ResNet v2 (pre-activation) with depths 18, 34, 50, 101 and 152, in built-in Keras 3 layers only.

A saved model therefore loads anywhere, in Keras' safe mode and without Voxelflow. The layout is that
of "Identity Mappings in Deep Residual Networks" (He et al. 2016), carried over to three dimensions:
stem 7x7x7 / 2 with batch norm, ReLU and 3x3x3 / 2 max pooling; four stages of 64, 128, 256 and 512
filters; a final batch norm and ReLU; one average pool over what is left of the volume. Projection
shortcuts are 1x1x1 convolutions without batch norm, only where the shape changes. Every convolution has
a bias, which gives depth 18 on (30, 30, 10, 10) its 33,368,897 parameters.

The standard stem is made for images of 224 pixels: 30x30x10 voxels are 8x8x3 behind it, and 1x1x1 in the last
stage. The small one is that of the same papers' networks for images of 32 pixels, 3x3x3 / 1 without pooling,
and leaves 4x4x2. A width other than 64 is the number of filters of the first stage; later stages have 2, 4 and 8
times as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nodes.training.model_ends import EXACT, LOGITS, Target, answer, output_count, volume_input, volume_shape

if TYPE_CHECKING:
    import keras

Depth = Literal[18, 34, 50, 101, 152]
"""Layers with weights on the main path."""

Stem = Literal["standard", "small"]
"""What a volume goes through before the first stage."""

Width = Literal[16, 32, 64, 128]
"""Filters of the stem and of the first stage."""

_STAGES = (1, 2, 4, 8)
"""Filters of each stage, as multiples of the width."""
_STEM_SIZE: dict[Stem, int] = {"standard": 7, "small": 3}
_BATCH_NORM: dict[str, Any] = {"momentum": 0.9, "epsilon": 1e-5}
# Momentum 0.9 as in the ResNet papers: with Keras' 0.99 the moving statistics still carry a third of
# their initial values after 100 steps, and a short run validates badly however well it has learned.


class _Design(NamedTuple):
    blocks: tuple[int, int, int, int]
    bottleneck: bool


_DESIGNS: dict[int, _Design] = {
    18: _Design((2, 2, 2, 2), False),
    34: _Design((3, 4, 6, 3), False),
    50: _Design((3, 4, 6, 3), True),
    101: _Design((3, 4, 23, 3), True),
    152: _Design((3, 8, 36, 3), True),
}


def build_resnet3d(
    shape: Sequence[int],
    *,
    depth: Depth = 18,
    stem: Stem = "standard",
    width: Width = 64,
    classes: int = 2,
    target: Target | None = None,
    mean: Sequence[float] | None = None,
    variance: Sequence[float] | None = None,
    synchronized: bool = False,
    mixed_precision: bool = False,
) -> keras.Model:
    """A classifier of volumes, or with a `target` a regression; see `model_ends` for what goes in and comes out.

    `shape` is (X, Y, Z, C), or (X, Y, Z) for volumes of one channel. `synchronized` joins the batch statistics of
    all replicas; `mixed_precision` computes the backbone in bfloat16, with float32 weights, input and output. Raises
    `UsageError` for another rank of shape or fewer than two classes.
    """
    volume, units = volume_shape(shape), output_count(classes, target)
    from keras import layers

    inputs, x = volume_input(shape, mean, variance)
    features = backbone(
        volume, depth=depth, stem=stem, width=width, synchronized=synchronized, mixed_precision=mixed_precision
    )
    x = layers.Flatten(name="features", **EXACT)(features(x))
    logits = layers.Dense(units, name=LOGITS, **EXACT)(x)
    return answer(inputs, logits, target, name=f"resnet3d_{depth}")


def backbone(
    volume: tuple[int, int, int, int],
    *,
    depth: Depth = 18,
    stem: Stem = "standard",
    width: Width = 64,
    synchronized: bool = False,
    mixed_precision: bool = False,
) -> keras.Model:
    """The feature extractor: (None, X, Y, Z, C) -> (None, 1, 1, 1, 8 * width), or 32 * width from depth 50 on."""
    import keras
    from keras import layers

    settings: dict[str, Any] = {"dtype": "mixed_bfloat16" if mixed_precision else "float32"}

    def norm_relu(x: Any) -> Any:
        x = layers.BatchNormalization(synchronized=synchronized, **_BATCH_NORM, **settings)(x)
        return layers.ReLU(**settings)(x)

    def conv(x: Any, filters: int, size: int, stride: int = 1) -> Any:
        return layers.Conv3D(filters, size, stride, "same", kernel_initializer="he_normal", **settings)(x)

    def block(x: Any, filters: int, stride: int, first: bool) -> Any:
        # The very first block follows the stem's own batch norm and ReLU and does not repeat them.
        y = x if first else norm_relu(x)
        if design.bottleneck:
            y = conv(y, filters, 1, stride)
            y = conv(norm_relu(y), filters, 3)
            y = conv(norm_relu(y), 4 * filters, 1)
        else:
            y = conv(y, filters, 3, stride)
            y = conv(norm_relu(y), filters, 3)
        if stride > 1 or x.shape[-1] != y.shape[-1]:
            x = conv(x, int(y.shape[-1]), 1, stride)
        return layers.Add(**settings)([x, y])

    design = _DESIGNS[depth]
    inputs = keras.Input(volume)
    x = norm_relu(conv(inputs, width, _STEM_SIZE[stem], 2 if stem == "standard" else 1))
    if stem == "standard":
        x = layers.MaxPooling3D(3, 2, "same", **settings)(x)
    for stage, (factor, blocks) in enumerate(zip(_STAGES, design.blocks, strict=True)):
        for number in range(blocks):
            x = block(x, factor * width, stride=2 if stage and not number else 1, first=not stage and not number)
    x = norm_relu(x)
    x = layers.AveragePooling3D(tuple(x.shape[1:4]), **settings)(x)
    return keras.Model(inputs, x, name="backbone")


def parameter_count(
    shape: Sequence[int], *, depth: Depth = 18, stem: Stem = "standard", width: Width = 64, classes: int = 2
) -> int:
    """Parameters of the model, by arithmetic: what a preview tells without importing TensorFlow.

    A regression has as many as a classifier of two classes.
    """

    def conv(inputs: int, outputs: int, size: int) -> int:
        return (inputs * size**3 + 1) * outputs

    design = _DESIGNS[depth]
    total = conv(volume_shape(shape)[3], width, _STEM_SIZE[stem]) + 4 * width
    before: int = width
    for stage, (factor, blocks) in enumerate(zip(_STAGES, design.blocks, strict=True)):
        filters = factor * width
        out = 4 * filters if design.bottleneck else filters
        for number in range(blocks):
            total += 0 if not stage and not number else 4 * before
            if design.bottleneck:
                total += conv(before, filters, 1) + conv(filters, filters, 3) + conv(filters, out, 1) + 8 * filters
            else:
                total += conv(before, filters, 3) + 4 * filters + conv(filters, filters, 3)
            if (stage and not number) or before != out:
                total += conv(before, out, 1)
            before = out
    units = output_count(classes)
    return total + 4 * before + (before + 1) * units
