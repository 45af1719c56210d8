"""The Keras learner keeps the contract of every learner: with batch norm, and with dropout's random state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from own_models import readme_model

from nodes.tensorflow_keras.framework import KerasFramework
from nodes.testing.learner import LearnerConformance
from nodes.training.learner import Framework, LearnerSpec
from nodes.training.model_file import ModelFile


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, of its own variables
class TestKerasLearner(LearnerConformance):
    def framework(self) -> Framework:
        framework = KerasFramework()
        framework.load()
        framework.set_up(cores=2, deterministic=False, seed=0)
        return framework

    def spec(self, shape: Sequence[int] = (4, 4, 3, 2)) -> LearnerSpec:
        spec = super().spec(shape)
        return replace(
            spec, settings=replace(spec.settings, own_model=ModelFile("/w/my_models/net.py", readme_model()))
        )
