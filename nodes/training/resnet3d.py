"""The 3-D ResNet v2 (pre-activation) with depths 18, 34, 50, 101 and 152, in built-in Keras 3 layers only.

A saved model therefore loads anywhere, in Keras' safe mode and without Voxelflow. The layout is that
of "Identity Mappings in Deep Residual Networks" (He et al. 2016), carried over to three dimensions:
stem 7x7x7 / 2 with batch norm, ReLU and 3x3x3 / 2 max pooling; four stages of 64, 128, 256 and 512
filters; a final batch norm and ReLU; one average pool over what is left of the volume. Projection
shortcuts are 1x1x1 convolutions without batch norm, only where the shape changes. Every convolution has
a bias, which gives depth 18 on (30, 30, 10, 10) its 33,368,897 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from engine.errors import UsageError

if TYPE_CHECKING:
    import keras

Depth = Literal[18, 34, 50, 101, 152]
"""Layers with weights on the main path."""

LOGITS = "logits"
"""Name of the last layer before the activation: training reads its output, which keeps the loss exact."""

_FILTERS = (64, 128, 256, 512)
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
    classes: int = 2,
    mean: Sequence[float] | None = None,
    variance: Sequence[float] | None = None,
    synchronized: bool = False,
    mixed_precision: bool = False,
) -> keras.Model:
    """A classifier of volumes.

    `shape` is (X, Y, Z, C), or (X, Y, Z) for volumes of one channel; the input is float32
    (None, *shape) in the data's own units. `mean` and `variance`, one value a channel, normalise it
    inside the model (they are constants, not weights). Two classes end in one sigmoid, the
    probability of class 1, shape (None, 1); more in a softmax, shape (None, classes).
    `synchronized` joins the batch statistics of all replicas; `mixed_precision` computes the
    backbone in bfloat16, with float32 weights, input and output. Raises `UsageError` for another
    rank of shape or fewer than two classes.
    """
    volume = volume_shape(shape)
    if classes < 2:
        raise UsageError(f"a classifier needs at least two classes, not {classes}", parameter="classes")
    import keras
    from keras import layers

    # Input and head are float32 whatever the backbone is: data in its own units and probabilities
    # need more than bfloat16's three digits.
    exact: dict[str, Any] = {"dtype": "float32"}
    inputs = keras.Input(tuple(shape), dtype="float32", name="volume")
    x = inputs
    if len(shape) == 3:
        x = layers.Reshape(volume, name="one_channel", **exact)(x)
    if mean is not None and variance is not None:
        x = layers.Normalization(-1, list(mean), list(variance), name="normalization", **exact)(x)
    features = backbone(volume, depth=depth, synchronized=synchronized, mixed_precision=mixed_precision)
    x = layers.Flatten(name="features", **exact)(features(x))
    x = layers.Dense(1 if classes == 2 else classes, name=LOGITS, **exact)(x)
    outputs = layers.Activation("sigmoid" if classes == 2 else "softmax", name="probability", **exact)(x)
    return keras.Model(inputs, outputs, name=f"resnet3d_{depth}")


def backbone(
    volume: tuple[int, int, int, int], *, depth: Depth = 18, synchronized: bool = False, mixed_precision: bool = False
) -> keras.Model:
    """The feature extractor: (None, X, Y, Z, C) -> (None, 1, 1, 1, 512), or 2048 from depth 50 on."""
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
    x = layers.MaxPooling3D(3, 2, "same", **settings)(norm_relu(conv(inputs, 64, 7, 2)))
    for stage, (filters, blocks) in enumerate(zip(_FILTERS, design.blocks, strict=True)):
        for number in range(blocks):
            x = block(x, filters, stride=2 if stage and not number else 1, first=not stage and not number)
    x = norm_relu(x)
    x = layers.AveragePooling3D(tuple(x.shape[1:4]), **settings)(x)
    return keras.Model(inputs, x, name="backbone")


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


def parameter_count(shape: Sequence[int], *, depth: Depth = 18, classes: int = 2) -> int:
    """Parameters of the model, by arithmetic: what a preview tells without importing TensorFlow."""

    def conv(inputs: int, outputs: int, size: int) -> int:
        return (inputs * size**3 + 1) * outputs

    design = _DESIGNS[depth]
    total = conv(volume_shape(shape)[3], 64, 7) + 4 * 64
    width = 64
    for stage, (filters, blocks) in enumerate(zip(_FILTERS, design.blocks, strict=True)):
        out = 4 * filters if design.bottleneck else filters
        for number in range(blocks):
            total += 0 if not stage and not number else 4 * width
            if design.bottleneck:
                total += conv(width, filters, 1) + conv(filters, filters, 3) + conv(filters, out, 1) + 8 * filters
            else:
                total += conv(width, filters, 3) + 4 * filters + conv(filters, filters, 3)
            if (stage and not number) or width != out:
                total += conv(width, out, 1)
            width = out
    units = 1 if classes == 2 else classes
    return total + 4 * width + (width + 1) * units
