"""The work of `TrainResNet3D` in one process: prepare the data, build the model, train, publish.

Of several workers (`nodes.training.workers`) each does the work of `carry_out` on its part of every batch.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, TrainedModel
from engine.declare.progress import current_phases, enter_phase
from engine.text import plural
from nodes.training.architecture import volume_shape
from nodes.training.augmentation import Augmentation, augmented
from nodes.training.checkpoints import Checkpoint, Checkpoints, space_in
from nodes.training.evaluation import evaluate
from nodes.training.history import Schedule
from nodes.training.learner import Framework, Learner, LearnerSpec, starting
from nodes.training.loop import EVALUATION, Training, train
from nodes.training.preparation import Prepared, prepare
from nodes.training.rows import grouping
from nodes.training.settings import Settings
from nodes.training.trained_model import (
    CONFUSION,
    CONFUSION_PLOT,
    CURVES,
    DESCRIPTION,
    HISTORY,
    MLFLOW_MODEL,
    publish,
)
from nodes.training.usable_values import checked


def train_and_publish(
    data: Dataset,
    validation: Dataset | None,
    settings: Settings,
    ctx: TaskContext,
    framework: Framework,
    *,
    test: Dataset | None = None,
) -> TrainedModel:
    """Do all of the node's work in this process. Raises `DataError` for data that cannot be trained on."""
    with current_phases().reporting():
        enter_phase(starting(framework))
        framework.load()
        for problem in framework.set_up(
            cores=ctx.resources.cores, deterministic=settings.deterministic, seed=settings.seed
        ):
            ctx.warn(problem)
        enter_phase("Opening the data")
        with prepare(data, validation, settings, ctx, test=test) as prepared:
            checkpoints = prepared.checkpoints(ctx)
            begin = prepared.begin(checkpoints, ctx)
            trained = carry_out(prepared, begin, checkpoints, ctx, framework)
    assert trained is not None
    return trained


def carry_out(
    prepared: Prepared, begin: Checkpoint, checkpoints: Checkpoints, ctx: TaskContext, framework: Framework
) -> TrainedModel | None:
    """Train from `begin` and publish the model; None for a worker that does not lead.

    `framework` must be set up, and have joined the workers of a team.
    """
    settings = prepared.settings
    begin = replace(begin, mixed_precision=_precision(settings, begin, framework))
    spec = LearnerSpec(
        settings=settings,
        shape=prepared.rows.source.spec.shape,
        classes=len(prepared.classes),
        target=prepared.target,
        mean=begin.mean,
        variance=begin.variance,
        mixed_precision=bool(begin.mixed_precision),
        class_weights=prepared.classes.balanced_weights() if settings.class_weights == "balanced" else None,
    )
    enter_phase("Building the model")
    learner = framework.learner(spec, ctx.warn)
    training = Training(
        learner=learner,
        rows=augmented(checked(prepared.loader), Augmentation.of(settings), begin, threads=ctx.resources.cores),
        validation=prepared.validation,
        epochs=settings.epochs,
        schedule=Schedule(
            settings.schedule,
            settings.learning_rate,
            settings.warmup_steps,
            settings.decay_epochs * prepared.loader.steps,
            settings.plateau_factor,
            settings.plateau_patience,
        ),
        classes=len(prepared.classes),
        patience=settings.early_stopping_epochs,
        keep_best=settings.best_by if settings.keep == "best" else None,
        team=prepared.team,
        target=prepared.target,
        tested=len(prepared.test) if prepared.test is not None else 0,
    )
    if prepared.team.leads:
        _report_start(ctx, learner, begin, prepared, framework.device())
    final = train(training, begin, checkpoints, ctx)
    return _publish(prepared, final, learner, checkpoints, ctx) if prepared.team.leads else None


def _publish(
    prepared: Prepared, final: Checkpoint, learner: Learner, checkpoints: Checkpoints, ctx: TaskContext
) -> TrainedModel:
    """Choose the weights, test with them, write the folder of the model, and report all of it."""
    settings, phases = prepared.settings, current_phases()
    ctx.commit_point("train:before-save")
    phases.enter("Saving the model")
    best = checkpoints.best(final) if settings.keep == "best" else None
    if settings.keep == "best" and best is None:
        ctx.warn(f"no epoch has a {settings.best_by}, so the last one is published")
    chosen = best or final
    learner = learner.single()
    learner.set_weights(chosen.arrays)
    metrics, confusion = dict(chosen.history[-1]), {"validation": chosen.confusion}
    roc = {"validation": chosen.roc}
    if prepared.test is not None:
        rows, classes = prepared.test.reading.batch_size, len(prepared.classes)
        phases.enter("Testing the model", EVALUATION, phases.done(EVALUATION))
        tested = evaluate(learner, prepared.test, classes=classes, rows=rows, label="test", target=prepared.target)
        figures = {f"test_{name}": value for name, value in tested.figures.items()}
        ctx.metrics(len(chosen.history), **figures)
        metrics, confusion = metrics | figures, confusion | {"test": tested.confusion}
        roc |= {"test": tested.roc}
        phases.enter("Saving the model")
    spec = prepared.rows.source.spec.model_copy(update={"classes": prepared.classes.names})
    with space_in(ctx.out):
        published = publish(
            ctx.out,
            learner,
            final,
            checkpoints.path_of(final),
            spec=spec,
            description=described(prepared, final, epoch=len(chosen.history)),
            metrics=metrics,
            confusion={title: matrix for title, matrix in confusion.items() if matrix},
            roc={title: curves for title, curves in roc.items() if curves},
            best=checkpoints.best_path(final) if best else None,
        )
    ctx.commit_point("train:after-save")
    ctx.facts(weights=learner.digest())
    model = settings.own_model.name if settings.own_model is not None else f"resnet3d-{settings.depth}"
    if (ctx.out / MLFLOW_MODEL).exists():
        ctx.artifact("model", ctx.out / MLFLOW_MODEL, model)
    for plot in (CURVES, CONFUSION_PLOT):
        if (ctx.out / plot).exists():
            ctx.artifact("plot", ctx.out / plot)
    for file in (DESCRIPTION, HISTORY, CONFUSION):
        if (ctx.out / file).exists():
            ctx.artifact("file", ctx.out / file)
    return published


def _precision(settings: Settings, begin: Checkpoint, framework: Framework) -> bool:
    """What was decided before the first step stays, whatever device the training continues on."""
    if begin.mixed_precision is not None:
        return begin.mixed_precision
    return framework.mixed_precision_pays() if settings.mixed_precision is None else settings.mixed_precision


def _report_start(ctx: TaskContext, learner: Learner, begin: Checkpoint, prepared: Prepared, device: str) -> None:
    rows, held_out, parameters = prepared.rows, prepared.held_out, learner.describe()["parameters"]
    ctx.facts(
        parameters=parameters["total"],
        trainable_parameters=parameters["trainable"],
        **_answer_facts(prepared),
        training_volumes=len(rows.rows),
        validation_volumes=len(held_out.rows) if held_out else 0,
        test_volumes=len(prepared.test) if prepared.test else 0,
        unlabelled_volumes=rows.source.unlabelled,
        loader=rows.source.name,
        read_path=rows.source.read_path,
        steps_per_epoch=prepared.loader.steps,
        device=device,
        replicas=learner.replicas,
        mixed_precision=bool(begin.mixed_precision),
        input_mean=json.dumps([round(value, 6) for value in begin.mean]),
        input_variance=json.dumps([round(value, 6) for value in begin.variance]),
    )
    if begin.arrays:
        ctx.info(f"going on after epoch {begin.state.epoch}, step {begin.state.step}")
    if rows.source.unlabelled:
        ctx.info(f"left out: {plural(rows.source.unlabelled, 'volumes')} without a label")


def _answer_facts(prepared: Prepared) -> dict[str, Any]:
    classes, target = prepared.classes, prepared.target
    if target is not None:
        return {"label_mean": round(target.mean, 6), "label_deviation": round(target.deviation, 6)}
    parts = {"class_counts": classes.counts}
    if prepared.held_out is not None:
        parts["validation_class_counts"] = classes.counted(prepared.held_out.labels)
    return {"classes": len(classes)} | {
        name: json.dumps(dict(zip(classes.names, counts, strict=True)), ensure_ascii=False)
        for name, counts in parts.items()
    }


def described(prepared: Prepared, begin: Checkpoint, *, epoch: int) -> dict[str, Any]:
    """What `model.json` says beyond the model itself."""
    rows, held_out, classes, settings = prepared.rows, prepared.held_out, prepared.classes, prepared.settings
    spec = rows.source.spec
    own = settings.own_model
    return {
        "task": settings.task,
        "architecture": f"own model {own.name}" if own is not None else "3-D ResNet v2",
        "depth": settings.depth if own is None else None,
        "input": {"shape": list(spec.shape), "channels": volume_shape(spec.shape)[3], "stored_as": spec.dtype},
        # What was done to the volumes before: whoever predicts with the model does it to others.
        **({"transforms": [each.model_dump(mode="json") for each in spec.transforms]} if spec.transforms else {}),
        "output": _output(prepared),
        "classes": len(classes),
        "class_names": list(classes.names),
        "labels": prepared.target._asdict() if prepared.target is not None else None,
        # The classes whose numbers a regression has learned; none where its labels are numbers.
        **({"label_names": list(spec.classes)} if prepared.target is not None else {}),
        "normalisation": {"mean": list(begin.mean), "variance": list(begin.variance)},
        "epoch": epoch,
        "training": settings.deciding()
        | {
            "mixed_precision": begin.mixed_precision,
            "volumes": len(rows.rows),
            "validation_volumes": len(held_out.rows) if held_out else 0,
            "test_volumes": len(prepared.test) if prepared.test else 0,
            "unlabelled_volumes": rows.source.unlabelled,
            "class_counts": list(classes.counts),
            "steps_in_an_epoch": prepared.loader.steps,
        },
        "data": prepared.data.model_dump(mode="json"),
        "validation": prepared.validation_data.model_dump(mode="json") if prepared.validation_data else None,
        "test": prepared.test_data.model_dump(mode="json") if prepared.test_data else None,
        **({"held_back_by": list(by)} if (by := _held_back_by(prepared)) else {}),
    }


def _held_back_by(prepared: Prepared) -> tuple[str, ...]:
    """The columns whose groups are whole in what is held back for validation."""
    if prepared.validation_data is not None:
        return ()
    return grouping(prepared.data, prepared.settings.validation_group)


def _output(prepared: Prepared) -> str:
    if prepared.target is not None:
        return "the number in the labels' units, shape (n, 1)"
    classes = len(prepared.classes)
    return "probability of class 1, shape (n, 1)" if classes == 2 else f"probabilities, shape (n, {classes})"
