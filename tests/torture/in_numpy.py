"""Softmax regression in NumPy in the place of Keras, for processes that import this before they train or predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy_learner

from nodes.training.learner import FRAMEWORKS

HERE = "tests.torture.in_numpy"


class KerasInName(numpy_learner.NumpyLearner):
    """With the name of the model's file that TrainResNet3D looks for."""

    model_file = "model.keras"

    def save(self, folder: Path, **options: Any) -> None:
        """With a folder that MLflow's registry takes, though it could not load it."""
        super().save(folder, **options)
        packed = folder / "mlflow_model"
        packed.mkdir(exist_ok=True)
        (packed / "MLmodel").write_text("artifact_path: model\nflavors:\n  python_function:\n    loader_module: none\n")


class InNumpy(numpy_learner.NumpyFramework):
    def learner(self, spec: Any, warn: Any) -> Any:
        return KerasInName(spec, self._seed)


FRAMEWORKS["keras"] = FRAMEWORKS["numpy"] = f"{HERE}:InNumpy"
# Processes import what the nodes name ahead of time; TensorFlow is not needed here.
sys.modules["nodes.tensorflow_keras"] = None  # type: ignore[assignment]
