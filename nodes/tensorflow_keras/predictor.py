"""A trained model at work: volumes in, scores out. Importing this imports TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.tensorflow_keras.batches import tensor_of
from nodes.tensorflow_keras.models import LOGITS
from nodes.tensorflow_keras.runtime import enough_memory, keras, tf
from nodes.training.learner import Predictor


class KerasPredictor(Predictor):
    """The model in `file`: one graph for batches of one size, and so the same scores in every batch.

    It is loaded in Keras' safe mode: no pickle and no code from the file. `runtime.configure` must have been called.
    Raises `DataError` when the file cannot be loaded or has other outputs than `scores`.
    """

    def __init__(self, file: Path, shape: Sequence[int], scores: int, batch_size: int) -> None:
        self._shape, self._scores, self._batch_size = tuple(shape), scores, batch_size
        try:
            self._model = keras.saving.load_model(file, compile=False, safe_mode=True)
        except (ValueError, TypeError, OSError, KeyError) as exc:
            reason = next(iter(str(exc).splitlines()), type(exc).__name__)
            raise DataError(
                f"{file} cannot be loaded: {reason}",
                hint="It must be a Keras model of built-in layers, without a Lambda. Train it again.",
            ) from exc
        outputs = int(self._model.output_shape[-1])
        if outputs != scores and not (outputs == 1 and scores == 2):
            raise DataError(
                f"{file} gives {outputs} figures for a volume, its description says {scores}",
                hint="The model's file and its description do not belong together. Train it again.",
            )
        self._of_two = outputs == 1 and scores == 2
        names = [layer.name for layer in self._model.layers]
        if self._of_two and names[-2:-1] == [LOGITS]:
            # Those of `models.answer`, which end in a sigmoid.
            logits = self._model.get_layer(LOGITS).output
            self._model = keras.Model(self._model.input, [self._model.output, logits])
        signature = tf.TensorSpec((batch_size, *shape), tf.float32)
        self._graph = tf.function(self._call, input_signature=[signature], autograph=False)

    def warm_up(self) -> None:
        self.scores(np.zeros((1, *self._shape), np.float32))

    def scores(self, volumes: NDArray[np.float32]) -> NDArray[np.float32]:
        count = len(volumes)
        if count < self._batch_size:
            full = np.zeros((self._batch_size, *self._shape), np.float32)
            full[:count] = volumes
            volumes = full
        with enough_memory(self._batch_size, "batch size"):
            out: NDArray[np.float32] = self._graph(tensor_of(volumes)).numpy()[:count]
        return out

    def _call(self, volumes: Any) -> Any:
        out = self._model(volumes, training=False)
        if not self._of_two:
            return tf.cast(out, tf.float32)
        # One sigmoid is the probability of class 1. That of class 0, where it is small, is exact from the logit alone.
        one, zero = (out[0], tf.sigmoid(-out[1])) if isinstance(out, list | tuple) else (out, 1 - out)
        return tf.cast(tf.concat([zero, one], axis=1), tf.float32)
