"""The folder of a trained model: what is in it and how it is published.

    model.keras            the model with its input normalisation; loads with Keras alone, in safe mode
    model.json             input, classes, parameters, normalisation, hyperparameters, data, versions
    history.json           the figures of each epoch
    curves.png             loss and accuracy over the epochs
    mlflow_model/          the same model in MLflow's format (`mlflow.keras`, `mlflow.pyfunc`)
    training_state.npz     weights and optimizer (`checkpoints`): from here a longer training goes on

Each file appears whole or not at all; `model.json` comes last.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.datasets import TrainedModel, VolumeSpec
from nodes.durable_files import flush, place
from nodes.training.checkpoints import Checkpoint
from nodes.training.learning_curves import draw_curves

if TYPE_CHECKING:
    import keras

MODEL, DESCRIPTION, HISTORY, CURVES = "model.keras", "model.json", "history.json", "curves.png"
MLFLOW_MODEL, STATE = "mlflow_model", "training_state.npz"


def publish(
    folder: Path,
    model: keras.Model,
    final: Checkpoint,
    state: Path,
    *,
    spec: VolumeSpec,
    description: Mapping[str, Any],
) -> TrainedModel:
    """Write all files of a trained model; doing it again gives the same. `state` is the file of `final`."""
    from nodes.training.mlflow_model import write_mlflow_model

    # Keras wants the ending; a leading dot hides the half-written file.
    partial = folder / f".partial-{MODEL}"
    model.save(partial)
    _appear(partial, folder / MODEL)
    partial = folder / f".partial-{STATE}"
    partial.unlink(missing_ok=True)
    place(state, partial, "link")
    _appear(partial, folder / STATE)
    partial = folder / f".partial-{CURVES}"
    draw_curves(final.history, partial)
    _appear(partial, folder / CURVES)
    _write_json(folder / HISTORY, [dict(figures) for figures in final.history])
    described = describe(model) | dict(description)
    outputs = int(model.output_shape[-1])
    metadata = {key: described[key] for key in ("task", "architecture", "depth", "class_names", "input")}
    write_mlflow_model(folder / MODEL, folder / MLFLOW_MODEL, shape=spec.shape, outputs=outputs, metadata=metadata)
    _write_json(folder / DESCRIPTION, described)
    return TrainedModel(
        uri=str(folder),
        spec=spec,
        metrics=dict(final.history[-1]),
        parameters=described["parameters"]["total"],
        bytes=sum((folder / name).stat().st_size for name in (MODEL, STATE)),
    )


def describe(model: keras.Model) -> dict[str, Any]:
    """Counts and versions of a model."""
    import keras
    import numpy as np
    import tensorflow as tf

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


def _write_json(path: Path, value: Any) -> None:
    partial = path.with_name(f".partial-{path.name}")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _appear(partial, path)


def _appear(partial: Path, path: Path) -> None:
    flush([partial])
    partial.replace(path)
    # Renaming one link of a file to another link of it does nothing, not even remove the first.
    partial.unlink(missing_ok=True)
    flush([path.parent])
