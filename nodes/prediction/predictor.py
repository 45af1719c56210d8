"""A trained model at work: volumes in, scores out. Importing this imports TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, UsageError
from nodes.loaders.into_tensorflow import tensor_of
from nodes.prediction.model_card import ModelCard
from nodes.training.tensorflow_setup import keras, tf


class Predictor:
    """The model of `card`, which sees batches of one size only: one graph, and the same scores in every batch.

    It is loaded in Keras' safe mode: no pickle and no code from the file. `training.tensorflow_setup.configure`
    must have been called. Raises `DataError` when the file cannot be loaded or has other outputs.
    """

    def __init__(self, card: ModelCard, batch_size: int) -> None:
        self._card, self._batch_size = card, batch_size
        try:
            self._model = keras.saving.load_model(card.file, compile=False, safe_mode=True)
        except (ValueError, TypeError, OSError, KeyError) as exc:
            reason = next(iter(str(exc).splitlines()), type(exc).__name__)
            raise DataError(
                f"{card.file} cannot be loaded: {reason}",
                hint="It must be a Keras model of built-in layers, without a Lambda. Train it again.",
            ) from exc
        outputs = int(self._model.output_shape[-1])
        if outputs != card.scores and not (outputs == 1 and card.scores == 2):
            raise DataError(
                f"{card.file} gives {outputs} figures for a volume, its description tells of {card.scores}",
                hint="The model's file and its description do not belong together. Train it again.",
            )
        signature = tf.TensorSpec((batch_size, *card.shape), tf.float32)
        self._graph = tf.function(self._call, input_signature=[signature], autograph=False)

    def warm_up(self) -> None:
        """Trace and place everything, so that the first batch takes as long as any other."""
        self.scores(np.zeros((1, *self._card.shape), np.float32))

    def scores(self, volumes: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 (n, *shape) with n up to the batch size -> float32 (n, scores): of each class its probability.

        Raises `UsageError` when the device has too little memory for a batch.
        """
        count = len(volumes)
        if count < self._batch_size:
            full = np.zeros((self._batch_size, *self._card.shape), np.float32)
            full[:count] = volumes
            volumes = full
        try:
            out: NDArray[np.float32] = self._graph(tensor_of(volumes)).numpy()[:count]
        except tf.errors.ResourceExhaustedError as exc:
            raise UsageError(
                f"the device has too little memory for a batch of {self._batch_size} volumes",
                hint="Choose a smaller batch size.",
                parameter="batch_size",
            ) from exc
        if self._card.scores == 2 and out.shape[1] == 1:
            # One sigmoid is the probability of class 1.
            return np.concatenate([1 - out, out], axis=1)
        return out

    def _call(self, volumes: Any) -> Any:
        return tf.cast(self._model(volumes, training=False), tf.float32)
