"""The folder of a trained model: what is in it and how it is published.

    model.keras            the model with its input normalisation; loads with Keras alone, in safe mode (other
                           frameworks: a file of their own)
    model.json             input, classes, figures, parameters, normalisation, hyperparameters, data, versions
    history.json           the figures of each epoch
    curves.png             loss and accuracy over the epochs
    confusion.json, .png   labels and answers counted, of the validation and the test volumes
    roc.json               ROC curves of both, where the model tells classes apart
    mlflow_model/          the same model in MLflow's format (`mlflow.keras`, `mlflow.pyfunc`)
    training_state.npz     weights and optimizer (`checkpoints`): from here a longer training goes on
    best_state.npz         the weights of the best epoch, where they are kept

Each file appears whole or not at all; `model.json` comes last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.storage.files import whole_file, write_whole
from engine.storage.hard_link import link_or_copy
from nodes.reporting.plots import draw_confusion, draw_curves
from nodes.training.checkpoints import Checkpoint
from nodes.training.evaluation import ROC_FALSE_RATES, Confusion, Roc
from nodes.training.learner import Learner

DESCRIPTION, HISTORY, CURVES = "model.json", "history.json", "curves.png"
MLFLOW_MODEL, STATE, BEST = "mlflow_model", "training_state.npz", "best_state.npz"
CONFUSION, CONFUSION_PLOT, ROC = "confusion.json", "confusion.png", "roc.json"


def publish(
    folder: Path,
    learner: Learner,
    final: Checkpoint,
    state: Path,
    *,
    spec: VolumeSpec,
    description: Mapping[str, Any],
    metrics: Mapping[str, float],
    confusion: Mapping[str, Confusion],
    roc: Mapping[str, Roc],
    best: Path | None = None,
) -> TrainedModel:
    """Write all files of a trained model; doing it again gives the same.

    `state` is the file of `final`, `best` that of the best epoch; `metrics` are the figures of the weights that
    `learner` has, `confusion` and `roc` their confusion matrices and ROC curves by the name of the data.
    """
    description = {**description, "metrics": _finite(metrics)}
    kept = ("task", "architecture", "depth", "class_names", "label_names", "input", "transforms", "metrics")
    published = {key: description[key] for key in kept if key in description}
    learner.save(folder, shape=spec.shape, metadata=published)
    for source, name in ((state, STATE), (best, BEST)):
        if source is not None:
            with whole_file(folder / name, durable=True) as temporary:
                link_or_copy(source, temporary, "link")
    with whole_file(folder / CURVES, durable=True) as temporary:
        draw_curves(final.history, temporary)
    if confusion:
        _write_json(folder / CONFUSION, {"classes": spec.classes, "rows": "label", "columns": "predicted", **confusion})
        with whole_file(folder / CONFUSION_PLOT, durable=True) as temporary:
            draw_confusion(confusion, spec.classes, temporary)
    if roc:
        _write_json(folder / ROC, {"classes": spec.classes, "false_positive_rates": ROC_FALSE_RATES, **roc})
    _write_json(folder / HISTORY, [_finite(figures) for figures in final.history])
    described = learner.describe() | description
    _write_json(folder / DESCRIPTION, described)
    files = (learner.model_file, STATE, BEST)
    return TrainedModel(
        uri=str(folder),
        spec=spec,
        metrics=dict(metrics),
        parameters=described["parameters"]["total"],
        bytes=sum((folder / name).stat().st_size for name in files if (folder / name).exists()),
    )


def figures_in(folder: Path, described: Mapping[str, Any]) -> dict[str, float]:
    """The finite figures of the model in a folder, whose `DESCRIPTION` is `described`.

    Those of earlier releases have them in the history alone, without those of the test.
    """
    figures = described.get("metrics")
    if figures is None and (folder / HISTORY).is_file():
        history = json.loads((folder / HISTORY).read_text(encoding="utf-8"))
        epoch = described.get("epoch") or len(history)
        figures = history[epoch - 1] if 0 < epoch <= len(history) else {}
    return {name: float(value) for name, value in (figures or {}).items() if value is not None}


def _finite(figures: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no infinite number."""
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", durable=True)
