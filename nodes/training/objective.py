"""What a training makes small, and how it tells a person how good it is: for classes, and for numbers.

`losses` and `scores` are TensorFlow, row by row on what the layer `model_ends.LOGITS` gives; `figures` makes of
their sums what is shown. Importing this imports no TensorFlow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from nodes.training.model_ends import Target
from nodes.training.running_sums import Sums

Task = Literal["classification", "regression"]


class Objective(Protocol):
    """One kind of learning."""

    def losses(self, labels: Any, logits: Any) -> Any:
        """The loss of each row, (n,) float32: of labels (n,) and logits (n, outputs)."""

    def scores(self, labels: Any, logits: Any) -> Any:
        """What `Sums.right` adds up, (n,) float32."""

    def figures(self, sums: Sums) -> dict[str, float]:
        """The figures of the rows that were added up, by name."""


class Classification:
    """Cross-entropy, and the share of right answers as `accuracy`. One logit stands for two classes."""

    def losses(self, labels: Any, logits: Any) -> Any:
        from nodes.training.tensorflow_setup import tf

        if logits.shape[-1] == 1:
            return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits[:, 0])
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, tf.int32), logits=logits)

    def scores(self, labels: Any, logits: Any) -> Any:
        """1 where the likelier class is the label, else 0."""
        from nodes.training.tensorflow_setup import tf

        if logits.shape[-1] == 1:
            said = tf.cast(logits[:, 0] > 0, tf.float32)
        else:
            said = tf.cast(tf.argmax(logits, axis=-1), tf.float32)
        return tf.cast(said == labels, tf.float32)

    def figures(self, sums: Sums) -> dict[str, float]:
        return {"loss": sums.loss / sums.rows, "accuracy": sums.right / sums.rows}


CLASSIFICATION = Classification()


@dataclass(frozen=True)
class Regression:
    """Squared error, counted in deviations of the training labels, so that the same learning rates fit any unit.

    `loss` is therefore 1 for a model that always says the mean, 0 for a perfect one. `mae`, the mean
    absolute error, and `rmse`, the root of the mean squared one, are in the labels' own units.
    """

    target: Target

    def losses(self, labels: Any, logits: Any) -> Any:
        from nodes.training.tensorflow_setup import tf

        return tf.square((labels - self.target.mean) / self.target.deviation - logits[:, 0])

    def scores(self, labels: Any, logits: Any) -> Any:
        """The absolute error, in deviations."""
        from nodes.training.tensorflow_setup import tf

        return tf.abs((labels - self.target.mean) / self.target.deviation - logits[:, 0])

    def figures(self, sums: Sums) -> dict[str, float]:
        deviation, loss = self.target.deviation, sums.loss / sums.rows
        return {
            "loss": loss,
            "mae": deviation * sums.right / sums.rows,
            "rmse": deviation * math.sqrt(loss),
        }
