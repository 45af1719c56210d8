from __future__ import annotations

import numpy as np
import pytest

from engine.errors import DataError
from nodes.training.model_ends import Target
from nodes.training.number_labels import find_target
from nodes.training.objective import CLASSIFICATION, Regression
from nodes.training.running_sums import Sums


def find(training: list[float], validation: list[float]) -> Target:
    return find_target(np.array(training, np.float32), np.array(validation, np.float32), where="the table")


def test_mean_and_deviation_of_the_training_labels() -> None:
    assert find([-2.5, 1.5], [1000]) == Target(-0.5, 2.0)


@pytest.mark.parametrize(
    ("training", "validation", "told"),
    [([1, 1], [2], "only the label 1"), ([], [1], "no labels"), ([1, 2], [np.inf], "not finite")],
)
def test_labels_that_teach_nothing(training: list[float], validation: list[float], told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        find(training, validation)
    assert caught.value.hint


def test_figures() -> None:
    assert CLASSIFICATION.figures(Sums(2.0, 3.0, 4)) == {"loss": 0.5, "accuracy": 0.75}
    figures = Regression(Target(100.0, 10.0)).figures(Sums(2.0, 2.4, 8))
    assert figures == pytest.approx({"loss": 0.25, "mae": 3.0, "rmse": 5.0})


@pytest.mark.slow
def test_losses_are_counted_in_deviations() -> None:
    from nodes.training.tensorflow_setup import tf

    objective = Regression(Target(100.0, 10.0))
    labels, logits = tf.constant([100.0, 120.0]), tf.constant([[0.5], [-1.0]])
    assert objective.losses(labels, logits).numpy() == pytest.approx([0.25, 9])
    assert objective.scores(labels, logits).numpy() == pytest.approx([0.5, 3])
