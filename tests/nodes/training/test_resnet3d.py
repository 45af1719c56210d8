from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import UsageError
from nodes.training.resnet3d import parameter_count, volume_shape


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


def test_one_class_is_refused() -> None:
    from nodes.training.resnet3d import build_resnet3d

    with pytest.raises(UsageError, match="at least two classes"):
        build_resnet3d((8, 8, 8), classes=1)


@pytest.fixture(scope="module")
def keras() -> Any:
    from nodes.training import tensorflow_setup

    return tensorflow_setup.keras


@pytest.mark.slow
def test_the_reference_counts(keras: Any) -> None:
    from nodes.training.resnet3d import build_resnet3d

    model = build_resnet3d((30, 30, 10, 10), mean=[0.5] * 10, variance=[2.0] * 10)
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
def test_every_depth_has_the_foreseen_count(keras: Any, depth: Any, shape: tuple[int, ...], classes: int) -> None:
    from nodes.training.resnet3d import build_resnet3d

    model = build_resnet3d(shape, depth=depth, classes=classes)
    assert model.count_params() == parameter_count(shape, depth=depth, classes=classes)
    assert model.output_shape == (None, 1 if classes == 2 else classes)
    assert model.get_layer("backbone").output_shape == (None, 1, 1, 1, 512 if depth < 50 else 2048)


@pytest.mark.slow
@pytest.mark.parametrize("mixed_precision", [False, True])
def test_the_model_normalises_and_answers_in_float32(keras: Any, mixed_precision: bool) -> None:
    from nodes.training.resnet3d import build_resnet3d

    keras.utils.set_random_seed(1)
    model = build_resnet3d((8, 8, 8), classes=3, mean=[1e6], variance=[4.0], mixed_precision=mixed_precision)
    keras.utils.set_random_seed(1)
    plain = build_resnet3d((8, 8, 8), classes=3, mixed_precision=mixed_precision)
    plain.set_weights(model.get_weights())
    standard = np.random.default_rng(0).integers(-3, 4, (2, 8, 8, 8)).astype(np.float32)
    raw = (standard * 2 + 1e6).astype(np.float32)
    answers = np.asarray(model(raw))
    assert answers.dtype == np.float32
    assert answers.sum(axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert answers == pytest.approx(np.asarray(plain(standard)), abs=1e-5)
