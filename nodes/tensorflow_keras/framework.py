"""TensorFlow and Keras as the `Framework` that trains and predicts. Importing this imports neither."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.training.learner import ALONE, Framework, Learner, LearnerSpec, Predictor, Team

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


class KerasFramework(Framework):
    """Models of Keras 3 on TensorFlow, on all GPUs of this process or the workers that it has joined."""

    title = "TensorFlow"

    def __init__(self) -> None:
        self._strategy: tf.distribute.Strategy | None = None

    def load(self) -> None:
        import nodes.tensorflow_keras.runtime  # noqa: F401 - sets the environment first

    def set_up(self, *, cores: int, deterministic: bool, seed: int, team: Team = ALONE) -> list[str]:
        from nodes.tensorflow_keras.runtime import configure

        return configure(cores=cores, deterministic=deterministic, seed=seed, team=team)

    def join(self, addresses: Sequence[str], rank: int, warn: Callable[[str], None]) -> None:
        from nodes.tensorflow_keras.runtime import join_workers

        self._strategy = join_workers(addresses, rank, warn)

    def share_devices(self, addresses: Sequence[str], rank: int) -> None:
        from nodes.tensorflow_keras.runtime import share_devices

        share_devices(addresses, rank)

    def mixed_precision_pays(self) -> bool:
        from nodes.tensorflow_keras.runtime import mixed_precision_pays

        return mixed_precision_pays()

    def learner(self, spec: LearnerSpec, warn: Callable[[str], None]) -> Learner:
        from nodes.tensorflow_keras.learner import KerasLearner
        from nodes.tensorflow_keras.runtime import jit_pays, local_strategy

        settings = spec.settings
        strategy = self._strategy or local_strategy(settings.batch_size, warn)
        several = strategy.num_replicas_in_sync > 1
        with strategy.scope():
            model, optimizer = _build(spec, synchronized=several), _optimizer(spec, several=several)
        jit = jit_pays(deterministic=settings.deterministic) if settings.jit is None else settings.jit
        return KerasLearner(
            model,
            optimizer,
            jit=jit and not several,
            strategy=strategy,
            class_weights=spec.class_weights,
            target=spec.target,
            rebuild=lambda: _build(spec, synchronized=False),
        )

    def predictor(self, file: Path, shape: Sequence[int], scores: int, batch_size: int) -> Predictor:
        from nodes.tensorflow_keras.predictor import KerasPredictor

        return KerasPredictor(file, shape, scores, batch_size)

    def lost_workers(self, exc: BaseException) -> bool:
        if "tensorflow" not in sys.modules:
            return False
        from nodes.tensorflow_keras.runtime import tf

        errors = tf.errors
        return isinstance(
            exc, errors.UnavailableError | errors.AbortedError | errors.CancelledError | errors.DeadlineExceededError
        )

    def device_memory(self) -> int:
        from nodes.tensorflow_keras.runtime import device_memory

        return device_memory()

    def device(self) -> str:
        from nodes.tensorflow_keras.runtime import device_name

        return device_name()


def _build(spec: LearnerSpec, *, synchronized: bool) -> keras.Model:
    from nodes.tensorflow_keras import models

    settings = spec.settings
    both: dict[str, Any] = {
        "classes": spec.classes,
        "target": spec.target,
        "mean": spec.mean,
        "variance": spec.variance,
        "synchronized": synchronized,
        "mixed_precision": spec.mixed_precision,
    }
    if settings.own_model is not None:
        return models.build_own_model(settings.own_model, spec.shape, **both)
    return models.build_resnet3d(spec.shape, depth=settings.depth, stem=settings.stem, width=settings.width, **both)


def _optimizer(spec: LearnerSpec, *, several: bool) -> keras.optimizers.Optimizer:
    from nodes.tensorflow_keras.optimizers import FusedAdam
    from nodes.tensorflow_keras.runtime import keras

    if spec.settings.optimizer == "adam":
        # Keras' own adds up the gradients of several replicas.
        return (keras.optimizers.Adam if several else FusedAdam)(spec.settings.learning_rate)
    return keras.optimizers.SGD(spec.settings.learning_rate, momentum=0.9, nesterov=True)
