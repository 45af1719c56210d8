"""A node whose model MLflow's registry takes, without TensorFlow; loaded as `my_nodes/registered_nodes.py`."""

from __future__ import annotations

import json

from voxelflow import TaskContext, TrainedModel, VolumeSpec, node


@node("Registrable", version=1, category="Probes")
def registrable(*, auc: float = 0.75, ctx: TaskContext) -> TrainedModel:
    """Write the files that a registration reads: description, weights, and a folder in MLflow's format."""
    (ctx.out / "model.keras").write_bytes(f"weights {auc}".encode())
    described = {"class_names": ["a", "b"], "input": {"shape": [4, 4, 4]}}
    (ctx.out / "model.json").write_text(json.dumps(described))
    (ctx.out / "history.json").write_text(json.dumps([{"val_auc": auc}]))
    folder = ctx.out / "mlflow_model"
    folder.mkdir(exist_ok=True)
    (folder / "MLmodel").write_text("flavors: {python_function: {loader_module: mlflow.pyfunc}}\nmodel_uuid: m1\n")
    spec = VolumeSpec(shape=(4, 4, 4), dtype="float32", classes=("a", "b"))
    return TrainedModel(uri=str(ctx.out), spec=spec, metrics={"val_auc": auc, "val_loss": 0.4})
