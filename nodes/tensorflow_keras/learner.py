"""The Keras learner: one training step and one evaluation step, on one device or several.

The step is our own because Keras 3's `fit` does not run under MultiWorkerMirroredStrategy. A batch is
this process' part of the global one: it is split over the strategy's replicas in this process, each
computes the sum of its losses over the size of the global batch, and `optimizer.apply` adds up the
gradients of all replicas of all processes (an all-reduce before it would count them twice).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, UsageError
from engine.storage.files import whole_file
from nodes.loaders.interface import Batch
from nodes.tensorflow_keras.batches import tensor_of
from nodes.tensorflow_keras.models import LOGITS
from nodes.tensorflow_keras.runtime import enough_memory, keras, tf
from nodes.training.labels import Target
from nodes.training.learner import WEIGHT, Arrays, Evaluated, Learner, Sums
from nodes.training.trained_model import MLFLOW_MODEL


class KerasLearner(Learner):
    """A model that `models` has made, with its optimizer; a regression when there is a `target`.

    `strategy` is the one the model was built under (default: the current one, a single device). It may have several
    replicas in this process, and replicas in other processes. `rebuild` makes the model anew for `single`.
    """

    model_file = "model.keras"

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        *,
        jit: bool = False,
        strategy: tf.distribute.Strategy | None = None,
        class_weights: Sequence[float] | None = None,
        target: Target | None = None,
        rebuild: Callable[[], keras.Model] | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self._target, self._class_weights, self._rebuild = target, class_weights, rebuild
        self.strategy = strategy or tf.distribute.get_strategy()
        self.replicas = self.strategy.num_replicas_in_sync
        # The loss is taken from the logits: from rounded probabilities it would be inexact near 0 and 1.
        self._logits = keras.Model(model.input, model.get_layer(LOGITS).output)
        with self.strategy.scope():
            optimizer.build(model.trainable_variables)
        self._train = tf.function(self._train_replicas, jit_compile=jit, autograph=False)
        self._evaluate = tf.function(self._evaluate_replicas, autograph=False)

    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        """See `Learner`. Raises `UsageError` also when the device has no repeatable form of an operation."""
        self.optimizer.learning_rate = learning_rate
        share = tf.constant(1 / global_rows, tf.float32)
        try:
            with enough_memory(len(batch.rows), "batch size or depth"):
                loss, right = self._train(self._spread(batch.volumes), self._spread(batch.labels), share)
        except tf.errors.UnimplementedError as exc:
            raise UsageError(
                f"the device cannot do an operation as it is wanted: {str(exc).splitlines()[0]}",
                hint="Set deterministic to false, or jit to false if it is on.",
                parameter="deterministic",
            ) from exc
        return Sums(float(loss), float(right), global_rows)

    def evaluate(self, batch: Batch, *, rows: int) -> Evaluated:
        """See `Learner`. A batch of fewer than `rows` is filled up: one shape, one graph."""
        here = len(self.strategy.extended.worker_devices) if self.replicas > 1 else 1
        missing = -(-rows // here) * here - len(batch.rows)
        weights = np.ones(len(batch.rows) + missing, np.float32)
        volumes, labels = batch.volumes, batch.labels
        if missing:
            weights[-missing:] = 0
            volumes = np.concatenate([volumes, np.zeros((missing, *volumes.shape[1:]), np.float32)])
            labels = np.concatenate([labels, np.zeros(missing, np.float32)])
        loss, right, rows_seen = self._evaluate(self._spread(volumes), self._spread(labels), self._spread(weights))
        table = np.asarray(rows_seen)
        table = table[table[:, -1] == 1]
        return Evaluated(Sums(float(loss), float(right), len(table)), table[:, :-2], table[:, -2])

    def arrays(self) -> Arrays:
        return {name: np.array(keras.ops.convert_to_numpy(value)) for name, value in self._variables().items()}

    def restore(self, arrays: Arrays) -> None:
        self._assign(self._variables(), arrays)

    def set_weights(self, arrays: Arrays) -> None:
        weights = {name: array for name, array in arrays.items() if name.startswith(WEIGHT)}
        self._assign(self._weights(), weights)

    def single(self) -> Learner:
        """As one process would have made it: without layers that ask for other replicas."""
        if self.replicas == 1 or self._rebuild is None:
            return self
        return KerasLearner(self._rebuild(), keras.optimizers.SGD(), target=self._target)

    def describe(self) -> dict[str, Any]:
        model = self.model
        trainable = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
        total = model.count_params()
        return {
            "format": 1,
            "parameters": {"total": total, "trainable": trainable, "non_trainable": total - trainable},
            "software": {
                "keras": keras.__version__,
                "tensorflow": tf.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }

    def save(self, folder: Path, *, shape: Sequence[int], metadata: Mapping[str, Any]) -> None:
        """Write `model.keras`, and the same as a folder in MLflow's format, which links to it."""
        from nodes.tensorflow_keras.mlflow_model import write_mlflow_model

        # Keras goes by the ending.
        with whole_file(folder / self.model_file, durable=True, ending=".keras") as temporary:
            self.model.save(temporary)
        write_mlflow_model(folder / self.model_file, folder / MLFLOW_MODEL, shape=shape, metadata=metadata)

    def _weights(self) -> dict[str, Any]:
        return {f"{WEIGHT}{i:04d}": variable for i, variable in enumerate(self.model.variables)}

    def _variables(self) -> dict[str, Any]:
        return self._weights() | {f"optimizer-{i:04d}": v for i, v in enumerate(self.optimizer.variables)}

    def _assign(self, variables: Mapping[str, Any], arrays: Arrays) -> None:
        if variables.keys() != arrays.keys() or any(
            tuple(variable.shape) != arrays[name].shape for name, variable in variables.items()
        ):
            raise DataError("the training state is that of another model", hint="Run the node afresh.")
        with self.strategy.scope():
            for name, variable in variables.items():
                variable.assign(arrays[name])

    def _spread(self, array: NDArray[np.float32]) -> Any:
        if self.replicas == 1:
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
            losses = losses_of(labels, logits, self._target)
            if self._class_weights is not None:
                losses *= tf.gather(tf.constant(self._class_weights, tf.float32), tf.cast(labels, tf.int32))
            loss = tf.reduce_sum(losses)
            shared = loss * share
        self.optimizer.apply(tape.gradient(shared, variables), variables)
        return loss, tf.reduce_sum(scores_of(labels, logits, self._target))

    def _evaluate_step(self, volumes: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
        logits = self._logits(volumes, training=False)
        losses, right = losses_of(labels, logits, self._target), scores_of(labels, logits, self._target)
        rows = tf.concat([tf.cast(logits, tf.float32), labels[:, tf.newaxis], weights[:, tf.newaxis]], axis=1)
        return tf.reduce_sum(losses * weights), tf.reduce_sum(right * weights), self._in_place(rows)

    def _in_place(self, rows: Any) -> Any:
        """The rows (n, columns) of one replica among zeros for those of the others, so that a sum puts all together."""
        replicas = self.replicas
        if replicas == 1:
            return rows
        number, (count, columns) = tf.distribute.get_replica_context().replica_id_in_sync_group, rows.shape
        padded = tf.pad(rows, [[number * count, (replicas - 1 - number) * count], [0, 0]])
        return tf.ensure_shape(padded, (replicas * count, columns))


def losses_of(labels: Any, logits: Any, target: Target | None) -> Any:
    """The loss of each row, float32 (n,), of labels (n,) and logits (n, outputs).

    Cross-entropy, where one logit stands for two classes; with a `target` the squared error in deviations of the
    training labels, so that the same learning rates fit any unit.
    """
    if target is not None:
        return tf.square(_deviations(labels, target) - logits[:, 0])
    if logits.shape[-1] == 1:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits[:, 0])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, tf.int32), logits=logits)


def scores_of(labels: Any, logits: Any, target: Target | None) -> Any:
    """What `Sums.right` adds up, float32 (n,): 1 where the likelier class is the label; the absolute error."""
    if target is not None:
        return tf.abs(_deviations(labels, target) - logits[:, 0])
    if logits.shape[-1] == 1:
        predicted = tf.cast(logits[:, 0] > 0, tf.float32)
    else:
        predicted = tf.cast(tf.argmax(logits, axis=-1), tf.float32)
    return tf.cast(predicted == labels, tf.float32)


def _deviations(labels: Any, target: Target) -> Any:
    return (labels - target.mean) / target.deviation
