"""Nodes that give what a test has made, loaded as `my_nodes/given_models.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from voxelflow import Look, PathIn, Predictions, Preview, TrainedModel, node


@node("GivenModel", version=1, category="Probes")
def given_model(*, folder: Annotated[str, PathIn("folder")]) -> TrainedModel:
    """The model whose reference lies in the folder as `reference.json`."""
    return TrainedModel.model_validate_json((Path(folder) / "reference.json").read_bytes())


@given_model.preview
def _(look: Look) -> Preview:
    return Preview(kind="TrainedModel")


@node("GivenPredictions", version=1, category="Probes")
def given_predictions(*, file: Annotated[str, PathIn("file")]) -> Predictions:
    """The predictions whose reference is in the file."""
    return Predictions.model_validate_json(Path(file).read_bytes())


@given_predictions.preview
def _(look: Look) -> Preview:
    return Preview(kind="Predictions")
