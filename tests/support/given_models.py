"""A node that gives a model which a test has made, loaded as `my_nodes/given_models.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from voxelflow import Look, PathIn, Preview, TaskContext, TrainedModel, node


@node("GivenModel", version=1, category="Probes", anywhere="only names a folder")
def given_model(*, folder: Annotated[str, PathIn("folder")], ctx: TaskContext) -> TrainedModel:
    """The model whose reference lies in the folder as `reference.json`."""
    return TrainedModel.model_validate_json((Path(folder) / "reference.json").read_bytes())


@given_model.preview
def _(look: Look) -> Preview:
    return Preview(kind="TrainedModel")
