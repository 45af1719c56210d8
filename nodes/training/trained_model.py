"""The folder of a trained model: what is in it and how it is published.

    model.keras            the model with its input normalisation; loads with Keras alone, in safe mode
    model.json             input, classes, parameters, normalisation, hyperparameters, data, versions
    history.json           the figures of each epoch
    curves.png             loss and accuracy over the epochs
    confusion.json, .png   labels and answers counted, of the validation and the test volumes
    mlflow_model/          the same model in MLflow's format (`mlflow.keras`, `mlflow.pyfunc`)
    training_state.npz     weights and optimizer (`checkpoints`): from here a longer training goes on
    best_state.npz         the weights of the best epoch, where they are kept

Each file appears whole or not at all; `model.json` comes last.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.datasets import TrainedModel, VolumeSpec
from nodes.confusion_plot import draw_confusion
from nodes.durable_files import flush, place
from nodes.training.checkpoints import Checkpoint
from nodes.training.learning_curves import draw_curves
from nodes.training.scores import Confusion

if TYPE_CHECKING:
    import keras

MODEL, DESCRIPTION, HISTORY, CURVES = "model.keras", "model.json", "history.json", "curves.png"
MLFLOW_MODEL, STATE, BEST = "mlflow_model", "training_state.npz", "best_state.npz"
CONFUSION, CONFUSION_PLOT = "confusion.json", "confusion.png"


def publish(
    folder: Path,
    model: keras.Model,
    final: Checkpoint,
    state: Path,
    *,
    spec: VolumeSpec,
    description: Mapping[str, Any],
    metrics: Mapping[str, float],
    confusion: Mapping[str, Confusion],
    best: Path | None = None,
) -> TrainedModel:
    """Write all files of a trained model; doing it again gives the same.

    `state` is the file of `final`, `best` that of the best epoch; `metrics` are the figures of what `model` is, and
    `confusion` the matrices of its answers by what they were about.
    """
    from nodes.training.mlflow_model import write_mlflow_model

    # Keras wants the ending; a leading dot hides the half-written file.
    partial = folder / f".partial-{MODEL}"
    model.save(partial)
    _appear(partial, folder / MODEL)
    for source, name in ((state, STATE), (best, BEST)):
        if source is not None:
            partial = folder / f".partial-{name}"
            partial.unlink(missing_ok=True)
            place(source, partial, "link")
            _appear(partial, folder / name)
    partial = folder / f".partial-{CURVES}"
    draw_curves(final.history, partial)
    _appear(partial, folder / CURVES)
    if confusion:
        _write_json(folder / CONFUSION, {"classes": spec.classes, "rows": "label", "columns": "predicted", **confusion})
        partial = folder / f".partial-{CONFUSION_PLOT}"
        draw_confusion(confusion, spec.classes, partial)
        _appear(partial, folder / CONFUSION_PLOT)
    _write_json(folder / HISTORY, [dict(figures) for figures in final.history])
    described = describe(model) | dict(description)
    outputs = int(model.output_shape[-1])
    metadata = {key: described[key] for key in ("task", "architecture", "depth", "class_names", "input")}
    write_mlflow_model(folder / MODEL, folder / MLFLOW_MODEL, shape=spec.shape, outputs=outputs, metadata=metadata)
    _write_json(folder / DESCRIPTION, described)
    return TrainedModel(
        uri=str(folder),
        spec=spec,
        metrics=dict(metrics),
        parameters=described["parameters"]["total"],
        bytes=sum((folder / name).stat().st_size for name in (MODEL, STATE, BEST) if (folder / name).exists()),
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
