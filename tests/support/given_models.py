"""Nodes that give what a test has made, loaded as `my_nodes/given_models.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from voxelflow import (
    CheckContext,
    PathIn,
    Predictions,
    Preview,
    TaskContext,
    TrainedModel,
    VolumeDelta,
    VolumeFiles,
    node,
)


@node("GivenModel", version=1, category="Probes")
def given_model(*, folder: Annotated[str, PathIn("folder")]) -> TrainedModel:
    """The model whose reference lies in the folder as `reference.json`."""
    return TrainedModel.model_validate_json((Path(folder) / "reference.json").read_bytes())


@given_model.preview
def _(look: CheckContext) -> Preview:
    return Preview(kind="TrainedModel")


@node("GivenPredictions", version=1, category="Probes")
def given_predictions(*, file: Annotated[str, PathIn("file")]) -> Predictions:
    """The predictions whose reference is in the file."""
    return Predictions.model_validate_json(Path(file).read_bytes())


@given_predictions.preview
def _(look: CheckContext) -> Preview:
    return Preview(kind="Predictions")


@node("GivenTraining", version=1, category="Probes")
def given_training(
    data: VolumeFiles | VolumeDelta,
    *,
    folder: Annotated[str, PathIn("folder")],
    loader: str = "npy",
    waiting_s: float = 3.0,
    batch_size: int = 8,
    epochs: int = 3,
    ctx: TaskContext,
) -> TrainedModel:
    """The same model, reported as if it were trained: a second of computing in each epoch, and the time of waiting."""
    ctx.facts(loader=loader, device="CPU", training_volumes=data.count)
    for epoch in range(1, epochs + 1):
        ctx.metrics(epoch, step_loss=1 / epoch)
        ctx.metrics(epoch, loss=1 / epoch)
        ctx.metrics(
            epoch, epoch_seconds_data=waiting_s, epoch_seconds_compute=1.0, samples_per_second=8 / (1 + waiting_s)
        )
    return TrainedModel.model_validate_json((Path(folder) / "reference.json").read_bytes())
