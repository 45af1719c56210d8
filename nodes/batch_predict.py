"""`BatchPredict`: what a trained model says of every volume of a table.

Its problems: VF540 the volumes do not fit the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from engine.context import TaskContext
from engine.datasets import Dataset, Predictions, Preview, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet
from engine.node import Look, node
from engine.parameters import Advanced, Policy, Range, Unit


@node(
    "BatchPredict",
    version=1,
    category="Use",
    imports=("nodes.prediction.session", "nodes.prediction.predictor"),
    uses_all_cores=True,
)
def batch_predict(
    model: TrainedModel,
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    *,
    batch_size: Annotated[int, Range(1, 65_536), Unit("volumes")] = 32,
    rows_per_part: Annotated[int, Range(1, 10_000_000), Unit("volumes"), Policy(), Advanced()] = 4096,
    ctx: TaskContext,
) -> Predictions:
    """Give every volume the probability of each class.

    The result is a Delta table with a row a volume: its id, the scores of all classes, its own label
    where it has one (by the model's class numbers), the likeliest class with its name, and the
    SHA-256 of the model. Volumes without a label are predicted too. Rows come in by one commit; a
    killed prediction goes on after the last part that was done. Latency (p50, p95, p99, of batches
    and of volumes) and throughput are among the run's figures and in latency.json.

    Args:
        model: the model to ask.
        data: the volumes, of the shape that the model was trained on. A folder of files is read one
            by one, which is slower.
        batch_size: volumes that the model sees at once. A smaller one needs less memory.
        rows_per_part: volumes between two places to go on from; rounded up to whole batches.
    """
    from nodes.prediction.session import predict

    return predict(model, data, batch_size=batch_size, rows_per_part=rows_per_part, ctx=ctx)


@batch_predict.on("spark")
def _on_spark(
    model: TrainedModel,
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    *,
    batch_size: int,
    rows_per_part: int,
    ctx: TaskContext,
) -> Predictions:
    """The same table, its parts made by TensorFlow processes on the executors."""
    from nodes.prediction.session import predict
    from nodes.spark.predict_parts import predict_on_spark

    return predict(model, data, batch_size=batch_size, rows_per_part=rows_per_part, ctx=ctx, make=predict_on_spark)


@batch_predict.preview
def _preview(look: Look) -> Preview:
    model, data = look.inputs.get("model"), look.inputs.get("data")
    if model and data and model.spec and data.spec and model.spec.shape != data.spec.shape:
        theirs, ours = ("x".join(map(str, spec.shape)) for spec in (data.spec, model.spec))
        look.problem(
            "VF540",
            f"the volumes are {theirs}, the model takes {ours}",
            hint="Predict volumes of the shape that the model was trained on.",
            port="data",
        )
    # A reference counts its table's rows before any selection: how many are predicted is known afterwards.
    return Preview(kind="Predictions")


@batch_predict.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.prediction.predictions_table import problem_with

    return problem_with(outputs)
