"""`TrainResNet3D` with softmax regression in NumPy in place of Keras: it trains and predicts, in a second.

monkeypatch.setitem(FRAMEWORKS, "keras", STAND_IN)
"""

from __future__ import annotations

from collections.abc import Callable

from numpy_learner import NumpyFramework, NumpyLearner

from nodes.training.learner import Learner, LearnerSpec

STAND_IN = "keras_stand_in:_Framework"


class _Learner(NumpyLearner):
    """The name of the model's file is the one that the node looks for."""

    model_file = "model.keras"


class _Framework(NumpyFramework):
    def learner(self, spec: LearnerSpec, warn: Callable[[str], None]) -> Learner:
        return _Learner(spec, self._seed)
