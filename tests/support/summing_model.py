"""A Keras model that adds up the voxels of a 4x4x4 volume, as a folder in MLflow's format."""

from __future__ import annotations


def save_summing_model(folder: str) -> None:
    """To be called in a process that has TensorFlow."""
    import keras
    import mlflow.keras
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    model = keras.Sequential([keras.Input((4, 4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(1)])
    model.layers[-1].set_weights([np.ones((64, 1), "float32"), np.zeros(1, "float32")])
    # Unnamed: with a name pyfunc hands the model a dict, which Keras refuses.
    signature = ModelSignature(
        Schema([TensorSpec(np.dtype("float32"), (-1, 4, 4, 4, 1))]),
        Schema([TensorSpec(np.dtype("float32"), (-1, 1))]),
    )
    mlflow.keras.save_model(model, folder, signature=signature, pip_requirements=["keras"])
