"""The Keras models: a ResNet, or a person's own network, between two ends that all have in common.

The ends bring a volume in and make an answer of the network's last numbers. They are float32 whatever the network
computes in: data in its own units and probabilities need more than bfloat16's three digits. All layers are built into
Keras, so that a saved model loads anywhere, in Keras' safe mode and without Voxelflow.
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any

from nodes.tensorflow_keras.runtime import keras
from nodes.training.architecture import (
    LAYOUTS,
    STAGES,
    STEM_SIZE,
    Depth,
    Stem,
    Width,
    output_count,
    volume_shape,
)
from nodes.training.labels import Target
from nodes.training.model_file import EXAMPLE, FUNCTION, ModelFile, unusable

layers = keras.layers
LOGITS = "logits"
"""Name of the layer before the last: training reads its output, which keeps the loss exact."""
_EXACT: dict[str, Any] = {"dtype": "float32"}
_BATCH_NORM: dict[str, Any] = {"momentum": 0.9, "epsilon": 1e-5}
# Momentum 0.9 as in the ResNet papers: with Keras' 0.99 the moving statistics still carry a third of
# their initial values after 100 steps, and a short run validates badly however well it has learned.


def volume_input(
    shape: Sequence[int], mean: Sequence[float] | None = None, variance: Sequence[float] | None = None
) -> tuple[Any, Any]:
    """The input, float32 (None, *shape) in the data's own units, and what the network gets: (None, X, Y, Z, C).

    `mean` and `variance`, one value per channel, normalise it (they are constants, not weights).
    """
    volume = volume_shape(shape)
    inputs = keras.Input(tuple(shape), dtype="float32", name="volume")
    x = inputs
    if len(shape) == 3:
        x = layers.Reshape(volume, name="one_channel", **_EXACT)(x)
    if mean is not None and variance is not None:
        x = layers.Normalization(-1, list(mean), list(variance), name="normalization", **_EXACT)(x)
    return inputs, x


def answer(inputs: Any, logits: Any, target: Target | None, *, name: str) -> keras.Model:
    """The model that ends in the answer to `logits`, the output of the layer `LOGITS`.

    One logit ends in a sigmoid, the probability of class 1, shape (None, 1); more in a softmax, shape
    (None, classes). With a `target` the logit counts deviations from its mean, and the model gives the number in
    the labels' own units, shape (None, 1).
    """
    if target is not None:
        outputs = layers.Rescaling(target.deviation, target.mean, name="prediction", **_EXACT)(logits)
    else:
        kind = "sigmoid" if logits.shape[-1] == 1 else "softmax"
        outputs = layers.Activation(kind, name="probability", **_EXACT)(logits)
    return keras.Model(inputs, outputs, name=name)


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
    """A classifier of volumes, or with a `target` a regression; `volume_input` and `answer` are its ends.

    `shape` is (X, Y, Z, C), or (X, Y, Z) for volumes of one channel. `synchronized` joins the batch statistics of
    all replicas; `mixed_precision` computes the backbone in bfloat16, with float32 weights, input and output. Raises
    `UsageError` for another rank of shape or fewer than two classes.
    """
    volume, units = volume_shape(shape), output_count(classes, target)

    inputs, x = volume_input(shape, mean, variance)
    features = backbone(
        volume, depth=depth, stem=stem, width=width, synchronized=synchronized, mixed_precision=mixed_precision
    )
    x = layers.Flatten(name="features", **_EXACT)(features(x))
    logits = layers.Dense(units, name=LOGITS, **_EXACT)(x)
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

    design = LAYOUTS[depth]
    inputs = keras.Input(volume)
    x = norm_relu(conv(inputs, width, STEM_SIZE[stem], 2 if stem == "standard" else 1))
    if stem == "standard":
        x = layers.MaxPooling3D(3, 2, "same", **settings)(x)
    for stage, (factor, blocks) in enumerate(zip(STAGES, design.blocks, strict=True)):
        for number in range(blocks):
            x = block(x, factor * width, stride=2 if stage and not number else 1, first=not stage and not number)
    x = norm_relu(x)
    x = layers.AveragePooling3D(tuple(x.shape[1:4]), **settings)(x)
    return keras.Model(inputs, x, name="backbone")


def build_own_model(
    file: ModelFile,
    shape: Sequence[int],
    *,
    classes: int = 2,
    target: Target | None = None,
    mean: Sequence[float] | None = None,
    variance: Sequence[float] | None = None,
    synchronized: bool = False,
    mixed_precision: bool = False,
) -> keras.Model:
    """The model of the file between both ends; the arguments are those of `build_resnet3d`.

    Raises `UsageError`, naming file and line, for a file that raises, and for a model that does not keep the contract.
    """
    volume, outputs = volume_shape(shape), output_count(classes, target)
    policy = keras.config.dtype_policy()
    try:
        # What the layers of the file compute in, unless they say otherwise.
        keras.config.set_dtype_policy("mixed_bfloat16" if mixed_precision else "float32")
        network = _run(file, lambda: _function(file)(volume, outputs))
    finally:
        keras.config.set_dtype_policy(policy)
    _check(file, network, volume, outputs)
    for layer in network._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.synchronized = synchronized
    inputs, x = volume_input(shape, mean, variance)
    logits = layers.Activation("linear", name=LOGITS, **_EXACT)(network(x))
    return answer(inputs, logits, target, name=f"own_{file.name}")


def _function(file: ModelFile) -> Callable[[tuple[int, ...], int], Any]:
    module = types.ModuleType(f"own_model_{file.name}")
    module.__file__ = file.path
    exec(compile(file.text, file.path, "exec"), module.__dict__)
    function: Callable[[tuple[int, ...], int], Any] = getattr(module, FUNCTION)
    return function


def _run(file: ModelFile, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Exception, SystemExit) as exc:  # a person's file may raise anything
        lines = [frame.lineno for frame in traceback.extract_tb(exc.__traceback__) if frame.filename == file.path]
        where = f"{file.path}, line {lines[-1]}" if lines else file.path
        reason = next(iter(str(exc).splitlines()), "")
        raise unusable(
            f"{where}: {type(exc).__name__}: {reason}", "Correct the file. The log has the traceback."
        ) from exc


def _check(file: ModelFile, network: Any, volume: tuple[int, int, int, int], outputs: int) -> None:

    if not isinstance(network, keras.Model):
        raise unusable(f"{file.path}: {FUNCTION} gave {type(network).__name__}, not a keras.Model", EXAMPLE)
    foreign = _not_loadable(file, network)
    if foreign:
        raise unusable(
            f"{file.path}: a saved model cannot be loaded with {foreign}, which Keras does not bring",
            "Use built-in layers (other than Lambda) in a keras.Model(inputs, outputs) or keras.Sequential.",
        )
    if not network.built or len(network.inputs) != 1 or len(network.outputs) != 1:
        raise unusable(
            f"{file.path}: the model must have one input and one output", f"Begin with keras.Input. {EXAMPLE}"
        )
    takes, gives = tuple(network.inputs[0].shape), tuple(network.outputs[0].shape)
    fits = len(takes) == 5 and all(a in (None, b) for a, b in zip(takes[1:], volume, strict=True))
    if not fits or gives != (None, outputs):
        raise unusable(
            f"{file.path}: the model takes {takes} and gives {gives}, where (None, *shape), here {(None, *volume)},"
            f" and (None, outputs), here {(None, outputs)}, are wanted",
            "Use both arguments of build; end in a Dense layer of `outputs` without an activation.",
        )
    last = network.layers[-1]
    ending = type(last).__name__ if isinstance(last, keras.layers.Softmax) else _activation(last)
    if ending in ("Softmax", "softmax", "sigmoid"):
        raise unusable(
            f"{file.path}: the model ends in {ending}, and would be trained on the probabilities of probabilities",
            "Leave the last activation out: it is added to every model.",
        )


def _activation(layer: Any) -> str:
    return getattr(getattr(layer, "activation", None), "__name__", "")


def _not_loadable(file: ModelFile, network: Any) -> str:
    """Name of the first layer or function that safe mode refuses, or that only the file knows; else empty."""
    waiting = [_run(file, lambda: keras.saving.serialize_keras_object(network))]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            name, module = found.get("class_name"), found.get("module") or "keras"
            if name in ("Lambda", "__lambda__") or module.partition(".")[0] != "keras":
                config = found.get("config")
                return config if isinstance(config, str) else str(name)
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
    return ""
