"""`EvaluateModel`: how good the predictions of a model are, where volumes have labels."""

from __future__ import annotations

from typing import Annotated

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Predictions, Preview, Report
from engine.declare.node import node
from engine.declare.parameters import Advanced, Range
from engine.declare.progress import enter_phase
from engine.errors import UsageError
from engine.text import plural


@node(
    "EvaluateModel",
    version=1,
    category="Evaluation",
    icon="chart-spline",
    keywords=("auc", "roc", "accuracy", "f1", "precision", "recall", "confusion matrix", "calibration", "metrics"),
    imports=("nodes.evaluation.report", "matplotlib.figure"),
    needs=("matplotlib",),
    anywhere="reads one small table",
)
def evaluate_model(
    predictions: Predictions,
    validation: Predictions | None = None,
    *,
    calibration_bins: Annotated[int, Range(2, 1000), Advanced()] = 10,
    ctx: TaskContext,
) -> Report:
    """Compare predictions with the volumes' own labels.

    Writes a page with the ROC curve, the confusion matrix, the calibration, figures of each class and
    the surest mistakes, and the same figures as JSON. `auc` is that of class 1 where there are two
    classes, else the mean of each class against all others; precision, recall and f1 are means over
    the classes. It says how unevenly the classes are filled (`imbalance`, the largest over the smallest), and what
    share the answer "always the largest" would get right (`majority_share`). Of a regression it gives mae, rmse, the
    mean error and r2. Volumes without a label are counted and left out.

    With predictions of a validation split each class gets the threshold with the best f1 there, and the page has the
    figures of the judged volumes at these thresholds. Thresholds are never chosen on the volumes that are judged.

    Args:
        predictions: what BatchPredict made of volumes with labels, best those of a test split.
        validation: predictions of other volumes by the same model, on which thresholds are chosen.
        calibration_bins: bins of probability in which the share of right answers is compared.
    """
    from nodes.evaluation.figures import ClassEvaluation, NumberEvaluation
    from nodes.evaluation.report import FIGURES, PAGE, Evaluation, write_report

    evaluation: Evaluation
    enter_phase("Reading the predictions")
    if predictions.classes:
        evaluation = ClassEvaluation.of(predictions, calibration_bins, validation)
    elif validation is not None:
        raise UsageError("a regression has no thresholds", hint="Remove the wire into `validation`.")
    else:
        evaluation = NumberEvaluation.of(predictions)
    for remark in evaluation.remarks():
        ctx.warn(remark)
    if left_out := evaluation.tally.not_finite:
        ctx.warn(f"left out: {plural(left_out, 'volumes')} with scores that are not finite")
    enter_phase("Writing the page")
    figures, plots = write_report(evaluation, ctx.out)
    ctx.facts(**figures)
    for plot in plots:
        ctx.artifact("plot", plot)
    for name in (PAGE, FIGURES):
        ctx.artifact("file", ctx.out / name)
    return Report(uri=str(ctx.out / PAGE), figures=figures)


@evaluate_model.preview
def _preview(look: CheckContext) -> Preview:
    return Preview(kind="Report")
