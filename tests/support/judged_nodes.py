"""A node that makes a model and what it says of a table, without training one; loaded as `my_nodes/judged_nodes.py`."""

from __future__ import annotations

import json
import zipfile
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from voxelflow import Predictions, TaskContext, TrainedModel, VolumeDelta, VolumeSpec, node

CLASSES = ("0", "1")


class Judged(NamedTuple):
    model: TrainedModel
    predictions: Predictions


@node("Judge", version=1, category="Probes")
def judge(data: VolumeDelta, *, ctx: TaskContext) -> Judged:
    """Say class 1 of all volumes, the surer the later they come; the model has one layer and was trained twice."""
    rows = DeltaTable(data.uri).to_pyarrow_dataset().to_table(["id", "label"]).sort_by("id").to_pydict()
    ones = [0.5 + 0.041 * (at + 1) for at in range(len(rows["id"]))]
    said = pa.table(
        {
            "id": rows["id"],
            "scores": pa.array([[1 - one, one] for one in ones], pa.list_(pa.float32())),
            "label": pa.array(rows["label"], pa.float32()),
            "predicted": pa.array([1] * len(ones), pa.int32()),
            "class": ["1"] * len(ones),
            "model": ["m"] * len(ones),
        }
    )
    write_deltalake(str(ctx.out / "predictions"), said)
    assert data.spec is not None
    model = ctx.out / "model"
    model.mkdir(exist_ok=True)
    history = [{"loss": 1.0, "val_loss": 1.1}, {"loss": 0.5, "val_loss": 0.7}]
    (model / "history.json").write_text(json.dumps(history))
    wrong, right = (rows["label"].count(float(label)) for label in CLASSES)
    matrix = {"classes": CLASSES, "validation": [[0, wrong], [0, right]]}
    (model / "confusion.json").write_text(json.dumps(matrix))
    rates = {"classes": CLASSES, "false_positive_rates": [0.0, 0.5, 1.0], "validation": [[0.2, 0.9, 1.0]]}
    (model / "roc.json").write_text(json.dumps(rates))
    channels = data.spec.shape[-1]
    described = {
        "input": {"shape": data.spec.shape},
        "normalisation": {"mean": [0.0] * channels, "variance": [1.0] * channels},
        "epoch": 2,
        "training": {"seed": 0, "loader": "arrow", "validation_share": 0.0, "flips": "X"},
        "data": data.model_dump(mode="json"),
        "validation": None,
    }
    (model / "model.json").write_text(json.dumps(described))
    layer = {
        "class_name": "Conv3D",
        "config": {"name": "conv", "filters": 4, "kernel_size": [3, 3, 3], "use_bias": False},
        "build_config": {"input_shape": [None, *data.spec.shape]},
    }
    with zipfile.ZipFile(model / "model.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({"config": {"layers": [layer]}}))
    spec = VolumeSpec(shape=data.spec.shape, dtype=data.spec.dtype, classes=CLASSES)
    return Judged(
        TrainedModel(uri=str(model), spec=spec, metrics={"val_accuracy": right / len(ones)}),
        Predictions(
            uri=str(ctx.out / "predictions"), count=len(ones), bytes=0, version=0, model="m", files=1,
            labelled=len(ones), classes=CLASSES,
        ),
    )  # fmt: skip
