"""What the folder of a trained model tells without loading it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import DataError

_CHUNK = 1 << 20
_MEND = "Give the folder of a model that TrainResNet3D made."


@dataclass(frozen=True)
class ModelCard:
    """`shape` is that of one volume, without the batch; `classes` names the classes, none for a regression."""

    file: Path
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    task: Literal["classification", "regression"] = "classification"

    @property
    def scores(self) -> int:
        """How many figures the model gives for a volume."""
        return len(self.classes) or 1

    def digest(self) -> str:
        """SHA-256 of the model's file: which version of the model it is."""
        out = hashlib.sha256()
        with self.file.open("rb") as source:
            while chunk := source.read(_CHUNK):
                out.update(chunk)
        return out.hexdigest()


def read_card(folder: Path) -> ModelCard:
    """The card of a folder that a training made, or of one in MLflow's format. Raises `DataError`."""
    try:
        if (folder / "model.json").is_file():
            description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            return _card(folder / "model.keras", description)
        if (folder / "MLmodel").is_file():
            from mlflow.models import Model

            return _card(folder / "data" / "model.keras", Model.load(str(folder)).metadata or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(f"the description of the model in {folder} cannot be read: {exc}", hint=_MEND) from exc
    raise DataError(f"there is no model in {folder}", hint=_MEND)


def _card(file: Path, description: Mapping[str, Any]) -> ModelCard:
    if not file.is_file():
        raise DataError(f"the model's file {file} is gone", hint="Train the model again.")
    # Absent in descriptions of the first format.
    task = description.get("task", "classification")
    if task not in ("classification", "regression"):
        raise DataError(f"{file} is a model for {task}, which is not known", hint="Update Voxelflow.")
    names = () if task == "regression" else tuple(map(str, description["class_names"]))
    return ModelCard(file, tuple(map(int, description["input"]["shape"])), names, task)
