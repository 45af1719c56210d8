"""A trained model as a folder in MLflow's format, which a tracker can log without importing TensorFlow."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before the import: a training must not talk to anybody.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations inside MLflow are not ours to fix
    import mlflow.keras
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

import numpy as np
from numpy.typing import NDArray

from engine.storage.files import flush_many
from engine.storage.hard_link import link_or_copy
from nodes.tensorflow_keras import served_model
from nodes.transforms import steps


class _Saved:
    """Stands for the model where MLflow would save it: the file is there already."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def save(self, path: str) -> None:
        link_or_copy(self._path, Path(path), "link")


_MOST_EXAMPLE = 2_000_000
"""Values of a volume that is stored as an example: it is JSON, five bytes a value."""


def write_mlflow_model(model: Path, folder: Path, *, shape: Sequence[int], metadata: Mapping[str, Any]) -> None:
    """Make `folder` an MLflow model of the `.keras` file `model`. An old folder is replaced.

    `mlflow.keras` and `mlflow.tensorflow` give the Keras model; `mlflow.pyfunc` gives `served_model.ServedModel`: raw
    volumes of any numbers in, class names and probabilities out. Its signature has no inputs, because MLflow would
    refuse other numbers than those that it names.
    """
    classes = [str(name) for name in metadata.get("class_names", ())]
    chain = [dict(each) for each in metadata.get("transforms", ())]
    names: list[ColSpec | TensorSpec] = [
        ColSpec("string", "class"),
        *(ColSpec("float", f"probability {name}") for name in classes),
    ]
    named = Schema(names if classes else [ColSpec("float", "value")])
    asked = (
        [ParamSpec("spacing", "double", [0.0, 0.0, 0.0], (-1,))]
        if any(each["parameters"].get("spacing") for each in chain)
        else []
    )
    if any(each["name"] == steps.Orient.name for each in chain):
        asked.append(ParamSpec(steps.ORIENTATION, "string", ""))
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()  # MLflow does so itself, but for an example too late
    mlflow.keras.save_model(
        _Saved(model),
        str(partial),
        # MLflow wants inputs here.
        signature=ModelSignature(inputs=Schema([TensorSpec(np.dtype(np.float32), (-1, *shape))]), outputs=named),
        input_example=_example(shape, chain),
        # Given, because MLflow would start a process that loads the model to find them out.
        pip_requirements=[f"{name}=={version(name)}" for name in ("keras", "tensorflow", "numpy", "pandas")],
        metadata=dict(metadata),
    )
    signature = ModelSignature(outputs=named, params=ParamSchema(asked)) if asked else ModelSignature(outputs=named)
    _serve(partial, signature, {"class_names": classes, "shape": list(shape), "transforms": chain})
    shutil.rmtree(folder, ignore_errors=True)
    flush_many([*partial.rglob("*"), partial])
    partial.replace(folder)
    flush_many([folder.parent])


def _serve(folder: Path, signature: ModelSignature, described: Mapping[str, Any]) -> None:
    """Let `mlflow.pyfunc` load the model with what comes before and after it, and `mlflow.tensorflow` at all."""
    (folder / "data" / served_model.DESCRIPTION).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    code = folder / "code"
    (code / served_model.TRANSFORMS).mkdir(parents=True)
    # Read, not copied as files: on a Spark executor both lie in a zip.
    (code / "voxelflow_model.py").write_text(inspect.getsource(served_model), encoding="utf-8")
    for source in resources.files(steps).iterdir():
        if source.name.endswith(".py"):
            (code / served_model.TRANSFORMS / source.name).write_text(source.read_text("utf-8"), encoding="utf-8")
    saved = Model.load(str(folder))
    saved.signature = signature
    # Without them mlflow.tensorflow looks for a file in the HDF5 format of earlier versions.
    saved.flavors["keras"].update(keras_module="keras", save_format="keras", model_type="keras")
    saved.flavors["python_function"].update(loader_module="voxelflow_model", code="code", data="data")
    saved.save(str(folder / "MLmodel"))


def _example(shape: Sequence[int], chain: Sequence[Mapping[str, Any]]) -> NDArray[np.float32] | None:
    """A raw volume, where one of the model's own shape is one and it is not too large to be stored as text."""
    try:
        form = steps.form_after(steps.load_steps(chain), tuple(shape), "float32")
    except steps.Unfit:
        return None
    if form is None or form[0] != tuple(shape) or np.prod(shape) > _MOST_EXAMPLE:
        return None
    return np.zeros((1, *shape), np.float32)
