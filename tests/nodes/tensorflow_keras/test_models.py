"""The ResNet's layout by arithmetic, the networks that are built of it, and a person's own between the same ends."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_models import readme_model

from engine.errors import UsageError
from nodes.training.architecture import output_count, parameter_count, resnet_layers, volume_shape
from nodes.training.labels import Target
from nodes.training.model_file import ModelFile


@pytest.mark.parametrize(
    ("shape", "out"),
    [((30, 30, 10, 10), (30, 30, 10, 10)), ((8, 9, 7), (8, 9, 7, 1)), ((16, 16, 8, 2), (16, 16, 8, 2))],
)
def test_shapes(shape: tuple[int, ...], out: tuple[int, ...]) -> None:
    assert volume_shape(shape) == out


@pytest.mark.parametrize("shape", [(8,), (8, 8), (8, 8, 8, 1, 1), (8, 0, 8)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="do not fit"):
        volume_shape(shape)


def test_the_count_by_arithmetic() -> None:
    assert parameter_count((30, 30, 10, 10)) == 33_368_897


PUBLISHED: dict[int, tuple[tuple[tuple[int, ...], ...], tuple[int, int, int, int], int]] = {
    # Kernel sizes of a block's convolutions with their filters in the first stage as multiples of 64; how often it
    # comes in each stage (He et al. 2015, table 1); parameters of the 2-D network for 1,000 classes (torchvision).
    18: (((3, 1), (3, 1)), (2, 2, 2, 2), 11_689_512),
    34: (((3, 1), (3, 1)), (3, 4, 6, 3), 21_797_672),
    50: (((1, 1), (3, 1), (1, 4)), (3, 4, 6, 3), 25_557_032),
    101: (((1, 1), (3, 1), (1, 4)), (3, 4, 23, 3), 44_549_160),
    152: (((1, 1), (3, 1), (1, 4)), (3, 8, 36, 3), 60_192_808),
}


def published_convolutions(depth: int, channels: int, stem: int, width: int) -> list[tuple[int, int, int, bool]]:
    """Kernel size, inputs and outputs of every convolution of the table, and whether it is a shortcut."""
    block, repeats, _ = PUBLISHED[depth]
    found = [(stem, channels, width, False)]
    inside = width
    for stage, count in enumerate(repeats):
        for number in range(count):
            outside = inside
            for size, factor in block:
                found.append((size, inside, factor * width * 2**stage, False))
                inside = factor * width * 2**stage
            if number == 0 and outside != inside:
                found.append((1, outside, inside, True))
    return found


@pytest.mark.parametrize("depth", PUBLISHED)
def test_the_layouts_are_the_published_ones(depth: Any) -> None:
    """The table gives the published counts in 2-D, with a batch norm behind each convolution, and ours in 3-D."""
    flat = published_convolutions(depth, 3, 7, 64)
    # The layers that have given the networks their names, with the classifier.
    assert sum(not shortcut for *_, shortcut in flat) + 1 == depth
    out = flat[-1][2] if depth == 18 or depth == 34 else 2048
    assert sum(size**2 * a * b + 2 * b for size, a, b, _ in flat) + (out + 1) * 1000 == PUBLISHED[depth][2]
    for (stem, size), width, classes in product((("standard", 7), ("small", 3)), (16, 32, 64, 128), (2, 5)):
        volume = published_convolutions(depth, 4, size, width)
        last, units = out * width // 64, 1 if classes == 2 else classes
        # A bias on every convolution; a batch norm in front of all but the stem, the block behind it and shortcuts,
        # one behind the stem and one at the end. The first convolution of the first block has none.
        main = [inputs for _, inputs, _, shortcut in volume if not shortcut][2:]
        counted = sum(kernel**3 * a * b + b for kernel, a, b, _ in volume)
        counted += 4 * (sum(main) + width + last) + (last + 1) * units
        assert parameter_count((9, 8, 7, 4), depth=depth, stem=stem, width=width, classes=classes) == counted  # type: ignore[arg-type]


def test_one_class_is_refused() -> None:
    with pytest.raises(UsageError, match="at least two classes"):
        output_count(1)


@pytest.fixture(scope="module")
def models() -> Any:
    from nodes.tensorflow_keras import models

    return models


@pytest.fixture
def unweighted(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of zeros: drawing a hundred million weights takes longer than building the network."""
    zeros = models.keras.initializers.Zeros()
    monkeypatch.setattr(
        models.keras.initializers.VarianceScaling, "__call__", lambda _, shape, dtype=None: zeros(shape, dtype)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("unweighted")
def test_the_reference_counts(models: Any) -> None:
    model = models.build_resnet3d((30, 30, 10, 10), mean=[0.5] * 10, variance=[2.0] * 10)
    trainable = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    assert model.count_params() == 33_368_897
    assert trainable == 33_361_089
    assert model.count_params() - trainable == 7_808
    backbone = model.get_layer("backbone")
    assert backbone.count_params() == 33_368_384
    assert backbone.output_shape == (None, 1, 1, 1, 512)
    assert model.get_layer("features").output.shape == (None, 512)
    assert model.get_layer("logits").count_params() == 513


@pytest.mark.slow
@pytest.mark.usefixtures("unweighted")
@pytest.mark.parametrize(
    ("depth", "shape", "classes"),
    [
        (18, (16, 16, 8, 2), 3),
        (34, (8, 8, 8), 2),
        (50, (9, 5, 3, 4), 5),
        (101, (8, 8, 8, 1), 2),
        (152, (8, 8, 8, 1), 4),
    ],
)
def test_every_depth_has_the_foreseen_count(models: Any, depth: Any, shape: tuple[int, ...], classes: int) -> None:
    model = models.build_resnet3d(shape, depth=depth, classes=classes)
    assert model.count_params() == parameter_count(shape, depth=depth, classes=classes)
    assert model.output_shape == (None, 1 if classes == 2 else classes)
    assert model.get_layer("backbone").output_shape == (None, 1, 1, 1, 512 if depth < 50 else 2048)


@pytest.mark.slow
@pytest.mark.usefixtures("unweighted")
@pytest.mark.parametrize(
    ("stem", "depth", "width", "left"),
    [
        ("standard", 18, 16, [(15, 15, 5), (8, 8, 3), (4, 4, 2), (2, 2, 1), (1, 1, 1)]),
        ("small", 18, 16, [(30, 30, 10), (15, 15, 5), (8, 8, 3), (4, 4, 2)]),
        ("small", 34, 32, [(30, 30, 10), (15, 15, 5), (8, 8, 3), (4, 4, 2)]),
        ("small", 50, 16, [(30, 30, 10), (15, 15, 5), (8, 8, 3), (4, 4, 2)]),
    ],
)
def test_what_is_left_of_a_small_volume(models: Any, stem: Any, depth: Any, width: Any, left: list[Any]) -> None:
    """The sizes that a volume of 30x30x10 goes through, and filters that double with each stage."""
    shape = (30, 30, 10, 3)
    model = models.build_resnet3d(shape, depth=depth, stem=stem, width=width, classes=3)
    backbone = model.get_layer("backbone")
    sizes = [tuple(layer.output.shape[1:4]) for layer in backbone.layers[1:-1]]
    assert list(dict.fromkeys(sizes)) == left
    features = 8 * width * (4 if depth == 50 else 1)
    assert backbone.layers[-2].output.shape[-1] == backbone.output_shape[-1] == features
    assert backbone.output_shape[1:4] == (1, 1, 1)
    assert model.count_params() == parameter_count(shape, depth=depth, stem=stem, width=width, classes=3)
    convolutions = [layer for layer in backbone.layers if isinstance(layer, models.keras.layers.Conv3D)]
    table = published_convolutions(depth, 3, 7 if stem == "standard" else 3, width)
    built = [(layer.kernel_size[0], layer.kernel.shape[-2], layer.filters) for layer in convolutions]
    assert sorted(built) == sorted((size, a, b) for size, a, b, _ in table)
    # The arithmetic that a step's time is predicted from.
    taken = [math.prod(layer.output.shape[1:]) * math.prod(layer.kernel.shape[:-1]) for layer in convolutions]
    foreseen = [layer for layer in resnet_layers(shape, depth=depth, stem=stem, width=width) if layer.size]
    assert sorted(layer.multiply_adds for layer in foreseen) == sorted(taken)
    assert sorted(layer.values for layer in foreseen) == sorted(math.prod(c.output.shape[1:]) for c in convolutions)


@pytest.mark.slow
def test_a_regression_answers_in_the_labels_units(models: Any) -> None:
    model = models.build_resnet3d((8, 8, 8), width=16, target=Target(50.0, 4.0))
    assert model.count_params() == parameter_count((8, 8, 8), width=16)
    volumes = np.random.default_rng(0).standard_normal((5, 8, 8, 8), np.float32)
    logits = np.asarray(models.keras.Model(model.input, model.get_layer("logits").output)(volumes))
    assert np.asarray(model(volumes)) == pytest.approx(50 + 4 * logits, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mixed_precision", [False, True])
def test_the_model_normalises_and_answers_in_float32(models: Any, mixed_precision: bool) -> None:
    form: dict[str, Any] = {"classes": 3, "width": 16, "mixed_precision": mixed_precision}
    models.keras.utils.set_random_seed(1)
    model = models.build_resnet3d((8, 8, 8), mean=[1e6], variance=[4.0], **form)
    plain = models.build_resnet3d((8, 8, 8), **form)
    plain.set_weights(model.get_weights())
    standard = np.random.default_rng(0).integers(-3, 4, (2, 8, 8, 8)).astype(np.float32)
    raw = (standard * 2 + 1e6).astype(np.float32)
    answers = np.asarray(model(raw))
    assert answers.dtype == np.float32
    assert answers.sum(axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert answers == pytest.approx(np.asarray(plain(standard)), abs=1e-5)


SHAPE = (6, 6, 5, 2)
BROKEN = [
    ("import keras\n1 / 0\ndef build(shape, outputs): ...", "net.py, line 2: ZeroDivisionError: division by zero"),
    ("def build(shape, outputs):\n    return helper()\ndef helper():\n    exit(3)", "net.py, line 4: SystemExit: 3"),
    ("def build(shape, outputs):\n    return 3", "build gave int"),
    ("def build(shape): ...", "TypeError"),
    (
        "import keras\ndef build(shape, outputs):\n"
        "    return keras.Sequential([keras.Input(shape), keras.layers.Dense(outputs)])",
        "gives (None, 6, 6, 5, 3)",
    ),
    (
        "import keras\ndef build(shape, outputs):\n"
        "    return keras.Sequential([keras.Input((9,)), keras.layers.Dense(outputs)])",
        "takes (None, 9)",
    ),
    (
        "import keras\ndef build(shape, outputs):\n"
        "    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(outputs)])",
        "one input and one output",
    ),
    (
        "import keras\ndef build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    x = keras.layers.Flatten()(i)\n"
        "    return keras.Model(i, keras.layers.Dense(outputs, activation='softmax')(x))",
        "ends in softmax",
    ),
    (
        "import keras\nclass Mine(keras.layers.Layer):\n    def call(self, x): return x\n"
        "def build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    return keras.Model(i, keras.layers.Dense(outputs)(keras.layers.Flatten()(Mine()(i))))",
        "with Mine, which Keras does not bring",
    ),
    (
        "import keras\ndef build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    x = keras.layers.Lambda(lambda x: 2 * x)(keras.layers.Flatten()(i))\n"
        "    return keras.Model(i, keras.layers.Dense(outputs)(x))",
        "with Lambda",
    ),
    (
        "import keras\ndef twice(x): return 2 * x\ndef build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    return keras.Model(i, keras.layers.Dense(outputs, activation=twice)(keras.layers.Flatten()(i)))",
        "with twice",
    ),
]


@pytest.mark.slow
def test_models_that_do_not_fit_are_refused_with_file_and_line(models: Any) -> None:

    for text, said in BROKEN:
        with pytest.raises(UsageError) as caught:
            models.build_own_model(ModelFile("/w/my_models/net.py", text), SHAPE, classes=3)
        assert said in caught.value.message, caught.value.message
        assert caught.value.message.startswith("/w/my_models/net.py")
        assert caught.value.hint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, when it saves
@pytest.mark.parametrize(("classes", "target", "outputs"), [(2, None, 1), (4, None, 4), (0, Target(3.0, 2.0), 1)])
def test_it_gets_the_ends_of_every_model(models: Any, tmp_path: Path, classes: int, target: Any, outputs: int) -> None:
    file = ModelFile("/w/my_models/net.py", readme_model())
    model = models.build_own_model(
        file, SHAPE, classes=classes, target=target, mean=(1.0, 2.0), variance=(4.0, 9.0), mixed_precision=outputs == 4
    )
    model.save(tmp_path / "model.keras")
    loaded = models.keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    volumes = np.random.default_rng(0).standard_normal((3, *SHAPE), np.float32)
    answers = np.asarray(loaded(volumes))
    assert answers.dtype == np.float32
    assert answers.shape == (3, outputs)
    assert np.array_equal(answers, np.asarray(model(volumes)))
    assert models.keras.config.dtype_policy().name == "float32"
    if outputs > 1:
        assert answers.sum(axis=1) == pytest.approx([1] * 3, abs=1e-6)


@pytest.mark.slow
def test_batch_norm_is_joined_over_replicas(models: Any) -> None:

    file = ModelFile("/w/my_models/net.py", readme_model())
    for synchronized in (False, True):
        model = models.build_own_model(file, SHAPE, synchronized=synchronized)
        norms = [layer for layer in model._flatten_layers() if type(layer).__name__ == "BatchNormalization"]
        assert [layer.synchronized for layer in norms] == [synchronized]
