"""One training step and one evaluation step, on one device or several.

The step is our own because Keras 3's `fit` does not run under MultiWorkerMirroredStrategy. A batch is
this process' part of the global one: it is split over the strategy's replicas in this process, each
computes the sum of its losses over the size of the global batch, and `optimizer.apply` adds up the
gradients of all replicas of all processes (an all-reduce before it would count them twice).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, UsageError
from nodes.loaders.interface import Batch
from nodes.loaders.into_tensorflow import tensor_of
from nodes.training.checkpoints import Arrays
from nodes.training.model_ends import LOGITS
from nodes.training.objective import CLASSIFICATION, Objective
from nodes.training.running_sums import Sums
from nodes.training.tensorflow_setup import keras, tf


@dataclass(frozen=True)
class Evaluated:
    """A batch in inference mode: its sums, and the logits (n, columns) and labels (n,) of its rows, those of all
    processes in the order of the global batch."""

    sums: Sums
    logits: NDArray[np.float32]
    labels: NDArray[np.float32]


class Learner:
    """A model that `model_ends` has made, with its optimizer and what it is to learn.

    `strategy` is the one the model was built under (default: the current one, a single device). It
    may have several replicas in this process, and replicas in other processes: then all of them take
    the same steps at the same time, and every `Sums` is over the rows of all. `class_weights`, one a class, multiply
    the losses of training, not those of evaluation.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        *,
        jit: bool = False,
        strategy: tf.distribute.Strategy | None = None,
        class_weights: Sequence[float] | None = None,
        objective: Objective = CLASSIFICATION,
    ) -> None:
        self.model, self.optimizer, self.objective = model, optimizer, objective
        self._class_weights = class_weights
        self.strategy = strategy or tf.distribute.get_strategy()
        # The loss is taken from the logits: from rounded probabilities it would be inexact near 0 and 1.
        self._logits = keras.Model(model.input, model.get_layer(LOGITS).output)
        with self.strategy.scope():
            optimizer.build(model.trainable_variables)
        self._train = tf.function(self._train_replicas, jit_compile=jit, autograph=False)
        self._evaluate = tf.function(self._evaluate_replicas, autograph=False)

    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        """One optimizer step; the sums are over the `global_rows` of all processes' batches, before the step.

        Raises `UsageError` when the device has too little memory for the batch, or no repeatable form of an
        operation.
        """
        self.optimizer.learning_rate = learning_rate
        share = tf.constant(1 / global_rows, tf.float32)
        try:
            loss, right = self._train(self._spread(batch.volumes), self._spread(batch.labels), share)
        except tf.errors.ResourceExhaustedError as exc:
            raise UsageError(
                f"the device has too little memory for a batch of {len(batch.rows)} volumes",
                hint="Choose a smaller batch size or depth.",
                parameter="batch_size",
            ) from exc
        except tf.errors.UnimplementedError as exc:
            raise UsageError(
                f"the device cannot do an operation as it is wanted: {str(exc).splitlines()[0]}",
                hint="Set deterministic to false, or jit to false if it is on.",
                parameter="deterministic",
            ) from exc
        return Sums(float(loss), float(right), global_rows)

    def evaluate(self, batch: Batch, *, rows: int) -> Evaluated:
        """Inference mode. A batch of fewer than `rows` is filled up: one shape, one graph.

        A process whose part of a last batch is empty takes part all the same.
        """
        replicas = self.strategy.num_replicas_in_sync
        here = len(self.strategy.extended.worker_devices) if replicas > 1 else 1
        missing = -(-rows // here) * here - len(batch.rows)
        weights = np.ones(len(batch.rows) + missing, np.float32)
        volumes, labels = batch.volumes, batch.labels
        if missing:
            weights[-missing:] = 0
            volumes = np.concatenate([volumes, np.zeros((missing, *volumes.shape[1:]), np.float32)])
            labels = np.concatenate([labels, np.zeros(missing, np.float32)])
        loss, right, told = self._evaluate(self._spread(volumes), self._spread(labels), self._spread(weights))
        table = np.asarray(told)
        table = table[table[:, -1] == 1]
        return Evaluated(Sums(float(loss), float(right), len(table)), table[:, :-2], table[:, -2])

    def arrays(self) -> Arrays:
        """All weights and optimizer variables by name: what a checkpoint keeps."""
        return {name: np.array(keras.ops.convert_to_numpy(value)) for name, value in self._variables().items()}

    def restore(self, arrays: Arrays) -> None:
        """Set all variables. Raises `DataError` when they are not this model's."""
        variables = self._variables()
        if variables.keys() != arrays.keys() or any(
            tuple(variable.shape) != arrays[name].shape for name, variable in variables.items()
        ):
            raise DataError("the training state is that of another model", hint="Run the node afresh.")
        with self.strategy.scope():
            for name, variable in variables.items():
                variable.assign(arrays[name])

    def _variables(self) -> dict[str, Any]:
        weights = {_weight(i): variable for i, variable in enumerate(self.model.variables)}
        return weights | {f"optimizer-{i:04d}": variable for i, variable in enumerate(self.optimizer.variables)}

    def _spread(self, array: NDArray[np.float32]) -> Any:
        if self.strategy.num_replicas_in_sync == 1:
            return tensor_of(array)
        # Called once for each replica of this process, in order.
        parts = iter(np.array_split(array, len(self.strategy.extended.worker_devices)))
        return self.strategy.experimental_distribute_values_from_function(
            lambda place: tf.convert_to_tensor(next(parts))
        )

    def _train_replicas(self, volumes: Any, labels: Any, share: Any) -> tuple[Any, ...]:
        return self._sum(self.strategy.run(self._train_step, args=(volumes, labels, share)))

    def _evaluate_replicas(self, volumes: Any, labels: Any, weights: Any) -> tuple[Any, ...]:
        return self._sum(self.strategy.run(self._evaluate_step, args=(volumes, labels, weights)))

    def _sum(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None) for part in parts)

    def _train_step(self, volumes: Any, labels: Any, share: Any) -> tuple[Any, Any]:
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            logits = self._logits(volumes, training=True)
            losses = self.objective.losses(labels, logits)
            if self._class_weights is not None:
                losses *= tf.gather(tf.constant(self._class_weights, tf.float32), tf.cast(labels, tf.int32))
            loss = tf.reduce_sum(losses)
            shared = loss * share
        self.optimizer.apply(tape.gradient(shared, variables), variables)
        return loss, tf.reduce_sum(self.objective.scores(labels, logits))

    def _evaluate_step(self, volumes: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
        logits = self._logits(volumes, training=False)
        losses, right = self.objective.losses(labels, logits), self.objective.scores(labels, logits)
        told = tf.concat([tf.cast(logits, tf.float32), labels[:, tf.newaxis], weights[:, tf.newaxis]], axis=1)
        return tf.reduce_sum(losses * weights), tf.reduce_sum(right * weights), self._in_its_place(told)

    def _in_its_place(self, rows: Any) -> Any:
        """The rows (n, columns) of one replica among zeros for those of the others, so that a sum puts all together."""
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return rows
        number, (count, columns) = tf.distribute.get_replica_context().replica_id_in_sync_group, rows.shape
        padded = tf.pad(rows, [[number * count, (replicas - 1 - number) * count], [0, 0]])
        return tf.ensure_shape(padded, (replicas * count, columns))


def set_weights(model: keras.Model, arrays: Arrays) -> None:
    """Give a model the weights of a checkpoint, which may have been another one's of the same layers."""
    for number, variable in enumerate(model.variables):
        variable.assign(arrays[_weight(number)])


def _weight(number: int) -> str:
    return f"weight-{number:04d}"
