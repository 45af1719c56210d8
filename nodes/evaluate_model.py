"""`EvaluateModel`: how good the predictions of a model are, where volumes have labels."""

from __future__ import annotations

from typing import Annotated

from engine.context import TaskContext
from engine.datasets import Predictions, Preview, Report
from engine.node import Look, node
from engine.parameters import Advanced, Range


@node(
    "EvaluateModel",
    version=1,
    category="Use",
    imports=("nodes.evaluation.evaluation_report", "matplotlib.figure"),
    anywhere="reads one small table",
)
def evaluate_model(
    predictions: Predictions,
    *,
    calibration_bins: Annotated[int, Range(2, 1000), Advanced()] = 10,
    ctx: TaskContext,
) -> Report:
    """Compare predictions with the volumes' own labels.

    Writes a page with the ROC curve, the confusion matrix, the calibration, figures of each class and
    the surest mistakes, and the same figures as JSON. `auc` is that of class 1 where there are two
    classes, else the mean of each class against all others; precision, recall and f1 are means over
    the classes. Of a regression it tells mae, rmse, the mean error and r2. Volumes without a label
    are counted and left out.

    Args:
        predictions: what BatchPredict made of volumes with labels, best those of a test split.
        calibration_bins: bins of probability in which the share of right answers is compared.
    """
    from nodes.evaluation.class_evaluation import ClassEvaluation
    from nodes.evaluation.evaluation_report import FIGURES, PAGE, Evaluation, write_report
    from nodes.evaluation.number_evaluation import NumberEvaluation

    evaluation: Evaluation
    if predictions.classes:
        evaluation = ClassEvaluation.of(predictions, calibration_bins)
    else:
        evaluation = NumberEvaluation.of(predictions)
    if left_out := evaluation.tally.not_finite:
        ctx.warn(f"{left_out:,} volumes have scores that are not finite and are left out")
    figures, plots = write_report(evaluation, ctx.out)
    ctx.facts(**figures)
    for plot in plots:
        ctx.artifact("plot", plot)
    for name in (PAGE, FIGURES):
        ctx.artifact("file", ctx.out / name)
    return Report(uri=str(ctx.out / PAGE), figures=figures)


@evaluate_model.preview
def _preview(look: Look) -> Preview:
    return Preview(kind="Report")
