"""`CrossValidation`: mean and deviation of the figures of several trainings, each validated on another fold."""

from __future__ import annotations

import math

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, Report, TrainedModel
from engine.declare.node import node
from engine.diagnostics.rule import Rule


@node(
    "CrossValidation",
    version=1,
    category="Training",
    icon="sigma",
    keywords=("k-fold", "folds", "mean", "standard deviation", "spread"),
    anywhere="reads the figures of models",
)
def cross_validation(
    fold_1: TrainedModel,
    fold_2: TrainedModel,
    fold_3: TrainedModel | None = None,
    fold_4: TrainedModel | None = None,
    fold_5: TrainedModel | None = None,
    fold_6: TrainedModel | None = None,
    fold_7: TrainedModel | None = None,
    fold_8: TrainedModel | None = None,
    fold_9: TrainedModel | None = None,
    fold_10: TrainedModel | None = None,
    *,
    ctx: TaskContext,
) -> Report:
    """Mean and deviation of the figures of two to ten trainings.

    Each is to be trained and validated on another fold of the same data: SplitDataset with `folds` 5 and `fold` 1 to 5,
    say. The deviation is that of a sample (n - 1): how much a figure changes with the volumes that it is measured on.
    A figure counts when all trainings have it. The page has each fold beside the mean; the report's figures are the
    means by their own names, and the deviations as `..._std`.

    Args:
        fold_1: the model that is validated on the first fold.
        fold_2: the same of the second fold.
        fold_3: the same of the third fold.
        fold_4: the same of the fourth fold.
        fold_5: the same of the fifth fold.
        fold_6: the same of the sixth fold.
        fold_7: the same of the seventh fold.
        fold_8: the same of the eighth fold.
        fold_9: the same of the ninth fold.
        fold_10: the same of the tenth fold.
    """
    from nodes.evaluation.folds import fold_figures, write_fold_report

    given = (fold_1, fold_2, fold_3, fold_4, fold_5, fold_6, fold_7, fold_8, fold_9, fold_10)
    models = {f"fold {number}": model for number, model in enumerate(given, 1) if model is not None}
    if len({model.uri for model in models.values()}) < len(models):
        ctx.warn("one model is wired to several folds: it counts several times, and the deviation is too small")
    for name, model in models.items():
        if odd := [figure for figure, value in model.metrics.items() if not math.isfinite(value)]:
            ctx.warn(f"{', '.join(odd)} of {name} is not a number: without a mean")
    found = fold_figures({name: model.metrics for name, model in models.items()})
    page = write_fold_report(found, ctx.out)
    figures = found.figures()
    ctx.info(found.headline())
    ctx.facts(**figures)
    ctx.artifact("file", page)
    return Report(uri=str(page), figures=figures)


@cross_validation.preview
def _preview(look: CheckContext) -> Preview:
    specs = {(model.spec.shape, model.spec.dtype) for model in look.inputs.values() if model is not None and model.spec}
    if len(specs) > 1:
        look.report(
            FoldsDiffer,
            "the models were trained on volumes of different shapes",
            hint="Wire trainings on folds of one table.",
            port="fold_1",
        )
    return Preview(kind="Report")


# --- what it reports before a run ----------------------------------------------------------------


class FoldsDiffer(Rule):
    """The models take volumes of different shapes or dtypes, so they cannot be folds of the same data, and the mean of
    their figures says nothing.

    What to do: split one table by SplitDataset with `folds`, train on each, and wire these models.
    """

    code = "VF531"
    severity = "error"
    title = "folds of different data"
