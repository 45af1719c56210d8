"""A trained model as a folder in MLflow's format, which a tracker can log without importing TensorFlow."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Before the import: a training must not talk to anybody.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations inside MLflow are not ours to mend
    import mlflow.keras
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

import numpy as np

from nodes.durable_files import place


class _Saved:
    """Stands for the model where MLflow would save it: the file is there already."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def save(self, path: str) -> None:
        place(self._path, Path(path), "link")


def write_mlflow_model(
    model: Path, folder: Path, *, shape: Sequence[int], outputs: int, metadata: Mapping[str, Any]
) -> None:
    """Make `folder` an MLflow model (flavours keras and python_function) of the `.keras` file `model`.

    Its signature: float32 (-1, *shape) in, float32 (-1, outputs) out. An old folder is replaced.
    """
    import keras
    import tensorflow as tf

    signature = ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(np.float32), (-1, *shape))]),
        outputs=Schema([TensorSpec(np.dtype(np.float32), (-1, outputs))]),
    )
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    mlflow.keras.save_model(
        _Saved(model),
        str(partial),
        signature=signature,
        # Given, because MLflow would start a process that loads the model to find them out.
        pip_requirements=[f"keras=={keras.__version__}", f"tensorflow=={tf.__version__}", f"numpy=={np.__version__}"],
        metadata=dict(metadata),
    )
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
