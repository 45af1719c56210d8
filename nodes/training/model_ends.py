"""Both ends of every model: what brings a volume in, and what makes an answer of the network's last numbers.

In between lies the network itself (`resnet3d`, or a person's own in `own_model`). Both ends are float32 whatever it
computes in: data in its own units and probabilities need more than bfloat16's three digits. They are built-in
Keras layers, so that a saved model loads anywhere, in Keras' safe mode and without Voxelflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import UsageError

if TYPE_CHECKING:
    import keras

LOGITS = "logits"
"""Name of the layer before the last: training reads its output, which keeps the loss exact."""

EXACT: dict[str, Any] = {"dtype": "float32"}


class Target(NamedTuple):
    """The numbers that a regression learns to tell: their mean and deviation over the training rows."""

    mean: float
    deviation: float


def output_count(classes: int, target: Target | None = None) -> int:
    """Numbers that the network gives for a volume: one for two classes or a regression, else one a class."""
    if target is not None:
        return 1
    if classes < 2:
        raise UsageError(f"a classifier needs at least two classes, not {classes}", parameter="classes")
    return 1 if classes == 2 else classes


def volume_input(
    shape: Sequence[int], mean: Sequence[float] | None = None, variance: Sequence[float] | None = None
) -> tuple[Any, Any]:
    """The input, float32 (None, *shape) in the data's own units, and what the network gets: (None, X, Y, Z, C).

    `mean` and `variance`, one value a channel, normalise it (they are constants, not weights).
    """
    import keras
    from keras import layers

    volume = volume_shape(shape)
    inputs = keras.Input(tuple(shape), dtype="float32", name="volume")
    x = inputs
    if len(shape) == 3:
        x = layers.Reshape(volume, name="one_channel", **EXACT)(x)
    if mean is not None and variance is not None:
        x = layers.Normalization(-1, list(mean), list(variance), name="normalization", **EXACT)(x)
    return inputs, x


def answer(inputs: Any, logits: Any, target: Target | None, *, name: str) -> keras.Model:
    """The model that ends in the answer to `logits`, the output of the layer `LOGITS`.

    One logit ends in a sigmoid, the probability of class 1, shape (None, 1); more in a softmax, shape
    (None, classes). With a `target` the logit counts deviations from its mean, and the model gives the number in
    the labels' own units, shape (None, 1).
    """
    import keras
    from keras import layers

    if target is not None:
        outputs = layers.Rescaling(target.deviation, target.mean, name="prediction", **EXACT)(logits)
    else:
        kind = "sigmoid" if logits.shape[-1] == 1 else "softmax"
        outputs = layers.Activation(kind, name="probability", **EXACT)(logits)
    return keras.Model(inputs, outputs, name=name)


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
