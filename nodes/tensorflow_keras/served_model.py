"""What `mlflow.pyfunc.load_model` gives: raw volumes in, class names and probabilities out.

A copy of this file and of the folder `nodes.transforms.steps` lies in each model in MLflow's format, as
`voxelflow_model` and `voxelflow_transforms`: so a model is served where Voxelflow is not installed. It may import
neither the engine nor the nodes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

DESCRIPTION = "voxelflow.json"
TRUST = "VOXELFLOW_TRUST_TRANSFORMS"
"""Set to 1, the model may run the functions of their own that its makers changed the volumes with."""
TRANSFORMS = "voxelflow_transforms"
LARGEST = 1e18
"""Values beyond it have no square in float32, so no answer: as in `nodes.training.usable_values`."""
_BATCH = 16
"""Volumes that the model computes at once."""


class ServedModel:
    """A model with the transforms that its volumes went through before it was trained."""

    def __init__(self, folder: Path) -> None:
        """Raises `ValueError` for a model whose volumes a whole node made, `PermissionError` for functions to trust."""
        described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        self._classes: tuple[str, ...] = tuple(described["class_names"])
        self._shape = tuple(described["shape"])
        chain: Sequence[Mapping[str, Any]] = described["transforms"]
        if nodes := [each["words"] for each in chain if each["name"] == "node"]:
            raise ValueError(
                f"the model was trained on volumes that went through the node {' and '.join(nodes)}, which it cannot"
                " repeat, so it has no answer to raw volumes. mlflow.keras.load_model gives the network alone, for"
                " volumes that went through the same nodes; BatchPredict of Voxelflow predicts a table of them."
            )
        own = [each["parameters"]["file"] for each in chain if each["name"] == "function"]
        if own and os.environ.get(TRUST) != "1":
            raise PermissionError(
                f"the model changes volumes with functions of its maker's own ({', '.join(own)}), which were not run."
                f" Read them in {folder / DESCRIPTION}; to run them, set the environment variable {TRUST} to 1."
            )
        self._transforms = _transforms() if chain else None
        self._steps = self._transforms.load_steps(chain) if self._transforms else ()
        import keras

        self._model = keras.saving.load_model(folder / "model.keras", compile=False, safe_mode=True)

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """A data frame with a row for each volume: its class and a probability for each class, or its value.

        `model_input` is an array (n, X, Y, Z, channels) of any numbers, or a list of arrays whose shapes may differ;
        volumes are raw, as they were before the transforms. `params["spacing"]` has millimetres a voxel (X, Y, Z) of
        all of them, where they are resampled to a spacing; `params["orientation"]` says where their axes point, such
        as LAS, where they are turned. Raises `ValueError` for volumes that do not fit.
        """
        import pandas as pd

        spacing = [float(each) for each in (params or {}).get("spacing", ())]
        row: dict[str, Any] = {}
        if any(spacing):  # without one MLflow gives zeros
            if len(spacing) != 3 or not all(0 < each < float("inf") for each in spacing):
                raise ValueError(f"spacing is {spacing}: give millimetres a voxel along X, Y and Z, as [1.0, 1.0, 2.5]")
            row = dict(zip(("spacing_x", "spacing_y", "spacing_z"), spacing, strict=True))
        row |= {"orientation": given} if (given := str((params or {}).get("orientation", ""))) else {}
        volumes = next(iter(model_input.values())) if isinstance(model_input, Mapping) else model_input
        found = [
            self._scores(np.stack([self._volume(v, row) for v in volumes[start : start + _BATCH]]))
            for start in range(0, len(volumes), _BATCH)
        ]
        empty = np.empty((0, len(self._classes) or 1), np.float32)
        scores: np.ndarray[Any, Any] = np.concatenate(found) if found else empty
        if not self._classes:
            return pd.DataFrame({"value": scores[:, 0]})
        if scores.shape[1] == 1 and len(self._classes) == 2:
            # One sigmoid is the probability of class 1.
            scores = np.concatenate([1 - scores, scores], axis=1)
        # Values far from those of the training give scores that are not finite, and no class.
        known = np.isfinite(scores).all(axis=1)
        likeliest = [self._classes[place] for place in scores.argmax(axis=1)]
        names = [name if sure else None for name, sure in zip(likeliest, known, strict=True)]
        columns = {f"probability {name}": scores[:, place] for place, name in enumerate(self._classes)}
        return pd.DataFrame({"class": pd.Series(names, dtype=object), **columns})

    def _scores(self, volumes: Any) -> Any:
        """Scores (n, outputs) of volumes (n, ...), NaN for those with values that are not finite, or too large."""
        scores = np.asarray(self._model(volumes, training=False), np.float32).copy()
        # The network need not show them: max pooling drops NaN.
        flat = volumes.reshape(len(volumes), -1)
        scores[~((flat.max(axis=1) <= LARGEST) & (flat.min(axis=1) >= -LARGEST))] = np.nan
        return scores

    def _volume(self, given: Any, row: Mapping[str, Any]) -> Any:
        volume = np.asarray(given)
        if self._transforms is not None:
            try:
                volume, _ = self._transforms.apply_steps(self._steps, volume, row)
            except self._transforms.Unfit as exc:
                hint = ' Give params={"spacing": [x, y, z]} in millimetres.' if "spacing" in str(exc) else ""
                if "axes point" in str(exc):
                    hint = ' Give params={"orientation": "LAS"}, or where else they point.'
                raise ValueError(f"a volume of {volume.shape} {exc}.{hint}") from exc
        if volume.shape != self._shape:
            raise ValueError(f"the model takes volumes of {self._shape}, this one is {volume.shape}")
        return volume.astype(np.float32)


def _transforms() -> Any:
    """The package beside this file. Its name is not used twice: another model's may be another version of it."""
    place = Path(__file__).with_name(TRANSFORMS) / "__init__.py"
    name = f"{TRANSFORMS}_{uuid4().hex}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    # Its own files, and its dataclasses, look their package up there.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_pyfunc(path: str) -> ServedModel:
    """Called by MLflow with the folder of the model's files."""
    return ServedModel(Path(path))
