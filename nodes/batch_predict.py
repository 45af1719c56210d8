"""`BatchPredict`: what a trained model says of every volume of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import (
    Dataset,
    Predictions,
    Preview,
    TrainedModel,
    VolumeDelta,
    VolumeFiles,
    VolumeParquet,
    VolumeSpec,
)
from engine.declare.node import node
from engine.declare.parameters import Advanced, Policy, Range, Unit
from engine.diagnostics.rule import Rule


@dataclass(frozen=True)
class PredictParameters:
    """The parameters of BatchPredict.

    Attributes:
        batch_size: volumes that the model sees at once. A smaller one needs less memory.
        rows_per_part: volumes between two places to go on from; rounded up to whole batches.
    """

    batch_size: Annotated[int, Range(1, 65_536), Unit("volumes")] = 32
    rows_per_part: Annotated[int, Range(1, 10_000_000), Unit("volumes"), Policy(), Advanced()] = 4096


@node(
    "BatchPredict",
    version=2,
    category="Evaluation",
    icon="target",
    keywords=("inference", "score", "classify", "apply model", "probabilities"),
    imports=("nodes.prediction.session", "nodes.tensorflow_keras.predictor"),
    needs=("tensorflow",),
    uses_all_cores=True,
)
def batch_predict(
    model: TrainedModel,
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    *,
    parameters: PredictParameters,
    ctx: TaskContext,
) -> Predictions:
    """Give every volume the probability of each class.

    The result is a Delta table with a row for each volume: its id, the scores of all classes, its own label
    where it has one (by the model's class numbers), the likeliest class with its name, and the
    SHA-256 of the model. Volumes without a label are predicted too; those with values that are not finite, or beyond
    1e18, get NaN and no class. Rows come in by one commit; a killed prediction goes on after the last part that was
    done. Latency (p50, p95, p99, of batches and of volumes) and throughput are among the run's figures and in
    latency.json.

    Args:
        model: the model to ask.
        data: the volumes, of the shape that the model was trained on. A folder of files is read one
            by one, which is slower.
    """
    from nodes.prediction.parts import Division
    from nodes.prediction.session import predict

    return predict(model, data, Division.of(parameters.batch_size, parameters.rows_per_part), ctx)


@batch_predict.on("spark")
def _on_spark(
    model: TrainedModel,
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    *,
    parameters: PredictParameters,
    ctx: TaskContext,
) -> Predictions:
    """The same table, its parts made by TensorFlow processes on the executors."""
    from nodes.prediction.parts import Division
    from nodes.prediction.session import predict
    from nodes.spark.delta_transactions import DeltaTransactions
    from nodes.spark.predict_parts import predict_on_spark

    division = Division.of(parameters.batch_size, parameters.rows_per_part)
    return predict(model, data, division, ctx, predict_on_spark, DeltaTransactions(ctx))


@batch_predict.preview
def _preview(look: CheckContext) -> Preview:
    model, data = look.inputs.get("model"), look.inputs.get("data")
    shape = None
    if model and data and model.spec and data.spec:
        raw = data.kind == "VolumeFiles" and not data.spec.transforms
        shape = _shape_for(look, model.spec, data.spec, raw=raw)
    if shape is not None and model is not None and model.spec is not None and model.spec.shape != shape:
        theirs, ours = ("x".join(map(str, each)) for each in (shape, model.spec.shape))
        look.report(
            ShapeOfOtherVolumes,
            f"the volumes are {theirs}, the model takes {ours}",
            hint="Predict volumes of the shape that the model was trained on.",
            port="data",
        )
    # A reference counts its table's rows before any selection: how many are predicted is known afterwards.
    return Preview(kind="Predictions")


def _shape_for(look: CheckContext, model: VolumeSpec, data: VolumeSpec, *, raw: bool) -> tuple[int, ...] | None:
    """The shape of the data's volumes as the model gets them; None: it is not known."""
    from engine.declare.node_step import node_of
    from nodes.transforms.remaining import PREPARE, nodes_in, remaining, went_another_way

    missing = remaining(model.transforms, data.transforms)
    if missing is None:
        look.report(
            WentAnotherWay,
            went_another_way(model.transforms, data.transforms),
            hint="Wire volumes before they are transformed: BatchPredict does to them what the model's went through.",
            port="data",
        )
    if not missing:
        return data.shape
    if any(map(node_of, missing)):
        # Of a table that an own node will make its preview may not say all; what files are is known.
        if raw:
            look.report(
                NotThroughTheNode,
                f"the model's volumes went through {nodes_in(missing)}, and files did not",
                hint=PREPARE,
                port="data",
            )
        return None
    from nodes.transforms.steps import Unfit, form_after, load_steps

    try:
        form = form_after(load_steps([each.model_dump() for each in missing]), data.shape, data.dtype)
    except Unfit:
        return None  # volumes of differing shapes or spacings: a sample is looked at when it runs
    return form[0] if form is not None else None


@batch_predict.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.prediction.predictions_table import problem_with

    return problem_with(outputs)


# --- what it reports before a run ----------------------------------------------------------------


class ShapeOfOtherVolumes(Rule):
    """The model was trained on volumes of another shape. It takes that shape alone.

    What to do: wire the model that was trained on such volumes, or predict volumes of the model's shape.
    """

    code = "VF540"
    severity = "error"
    title = "volumes that do not fit the model"


class WentAnotherWay(Rule):
    """The model was trained on volumes that went through transforms, and these went through others, or through these in
    another order. BatchPredict does what is missing, where the data has gone a part of the model's way; here it cannot.

    What to do: wire volumes before any transform, or a table that was made through the same ones. Ignore it where both
    ways come to the same.
    """

    code = "VF542"
    severity = "warning"
    title = "data that went another way than the model's"


class NotThroughTheNode(Rule):
    """The model was trained on volumes that a node with code of its own had made, such as a filter that was written
    with `write_volumes`. A model includes the steps of TransformVolumes, and not what a node does, so its answers to
    files as they are would be wrong.

    What to do: wire the table that the same nodes make of the new files.
    """

    code = "VF543"
    severity = "error"
    title = "files that did not go through the model's nodes"
