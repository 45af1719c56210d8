"""The work of `TrainResNet3D` in one process: prepare the data, build the model, train, publish.

Of several workers (`nodes.training.workers`) each does the work of `carry_out` on its part of every batch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from engine.context import TaskContext
from engine.datasets import Dataset, TrainedModel
from nodes.training.augmentation import Augmentation, augmented
from nodes.training.checkpoints import Checkpoint, Checkpoints, room_in
from nodes.training.devices import jit_pays, local_strategy, mixed_precision_pays
from nodes.training.evaluation import evaluate
from nodes.training.learner import Learner, set_weights
from nodes.training.learning_rate import Schedule
from nodes.training.model_ends import volume_shape
from nodes.training.own_model import build_own_model
from nodes.training.preparation import Prepared, prepare
from nodes.training.resnet3d import build_resnet3d
from nodes.training.settings import Manner, Settings
from nodes.training.tensorflow_setup import configure, keras, tf
from nodes.training.trained_model import (
    CONFUSION,
    CONFUSION_PLOT,
    CURVES,
    DESCRIPTION,
    HISTORY,
    MLFLOW_MODEL,
    publish,
)
from nodes.training.training_loop import Training, train
from nodes.training.weights_digest import weights_digest


def train_and_publish(
    data: Dataset,
    validation: Dataset | None,
    settings: Settings,
    manner: Manner,
    ctx: TaskContext,
    *,
    test: Dataset | None = None,
) -> TrainedModel:
    """Do all of the node's work in this process. Raises `DataError` for data that cannot be trained on."""
    for problem in configure(cores=ctx.resources.cores, deterministic=manner.deterministic, seed=settings.seed):
        ctx.warn(problem)
    with prepare(data, validation, settings, ctx, test=test) as prepared:
        checkpoints = prepared.checkpoints(ctx, manner)
        begin = prepared.begin(checkpoints, ctx)
        trained = carry_out(prepared, begin, checkpoints, manner, ctx)
    assert trained is not None
    return trained


def carry_out(
    prepared: Prepared,
    begin: Checkpoint,
    checkpoints: Checkpoints,
    manner: Manner,
    ctx: TaskContext,
    strategy: tf.distribute.Strategy | None = None,
) -> TrainedModel | None:
    """Train from `begin` and publish the model; None for a worker that does not lead.

    TensorFlow must be configured. `strategy` joins the workers of a team.
    """
    strategy = strategy or local_strategy(prepared.settings.batch_size, ctx.warn)
    settings, several = prepared.settings, strategy.num_replicas_in_sync > 1
    begin = replace(begin, mixed_precision=_precision(settings, begin))
    with strategy.scope():
        model, optimizer = _build(prepared, begin, synchronized=several), _optimizer(settings)
    jit = jit_pays(deterministic=manner.deterministic) if manner.jit is None else manner.jit
    weights = prepared.classes.balanced_weights() if settings.class_weights == "balanced" else None
    learner = Learner(
        model,
        optimizer,
        jit=jit and not several,
        strategy=strategy,
        class_weights=weights,
        objective=prepared.objective,
    )
    training = Training(
        learner=learner,
        rows=augmented(prepared.loader, Augmentation.of(settings), begin, threads=ctx.resources.cores),
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
        objective=prepared.objective,
    )
    if prepared.team.leads:
        _tell(ctx, model, begin, prepared, replicas=strategy.num_replicas_in_sync)
    final = train(training, begin, checkpoints, ctx)
    if not prepared.team.leads:
        return None
    ctx.commit_point("train:before-save")
    best = checkpoints.best(final) if settings.keep == "best" else None
    if settings.keep == "best" and best is None:
        ctx.warn(f"no epoch has a {settings.best_by}, so the last one is published")
    chosen = best or final
    if several:
        # Saved as one process would have made it: without layers that ask for others.
        model = _build(prepared, begin, synchronized=False)
        learner = Learner(model, keras.optimizers.SGD(), objective=prepared.objective)
    set_weights(model, chosen.arrays)
    metrics, confusion = dict(chosen.history[-1]), {"validation": chosen.confusion}
    if prepared.test is not None:
        rows = prepared.test.reading.batch_size
        tested = evaluate(
            learner, prepared.test, classes=len(prepared.classes), rows=rows, label="test", objective=prepared.objective
        )
        figures = {f"test_{name}": value for name, value in tested.figures.items()}
        ctx.metrics(len(chosen.history), **figures)
        metrics, confusion = metrics | figures, confusion | {"test": tested.confusion}
    spec = prepared.rows.source.spec.model_copy(update={"classes": prepared.classes.names})
    with room_in(ctx.out):
        published = publish(
            ctx.out,
            model,
            final,
            checkpoints.path_of(final),
            spec=spec,
            description=_description(prepared, begin, epoch=len(chosen.history)),
            metrics=metrics,
            confusion={title: matrix for title, matrix in confusion.items() if matrix},
            best=checkpoints.best_path(final) if best else None,
        )
    ctx.commit_point("train:after-save")
    ctx.facts(weights=weights_digest(model))
    ctx.artifact("model", ctx.out / MLFLOW_MODEL, _name(settings))
    for name in (CURVES, CONFUSION_PLOT):
        if (ctx.out / name).exists():
            ctx.artifact("plot", ctx.out / name)
    for name in (DESCRIPTION, HISTORY, CONFUSION):
        if (ctx.out / name).exists():
            ctx.artifact("file", ctx.out / name)
    return published


def _precision(settings: Settings, begin: Checkpoint) -> bool:
    """What was decided before the first step stays, whatever device the training goes on with."""
    if begin.mixed_precision is not None:
        return begin.mixed_precision
    return mixed_precision_pays() if settings.mixed_precision is None else settings.mixed_precision


def _build(prepared: Prepared, begin: Checkpoint, *, synchronized: bool) -> keras.Model:
    settings, shape = prepared.settings, prepared.rows.source.spec.shape
    both: dict[str, Any] = {
        "classes": len(prepared.classes),
        "target": prepared.target,
        "mean": begin.mean,
        "variance": begin.variance,
        "synchronized": synchronized,
        "mixed_precision": bool(begin.mixed_precision),
    }
    if settings.model_file is not None:
        return build_own_model(settings.model_file, shape, **both)
    return build_resnet3d(shape, depth=settings.depth, stem=settings.stem, width=settings.width, **both)


def _name(settings: Settings) -> str:
    """What the model is called where it is logged."""
    return settings.model_file.name if settings.model_file is not None else f"resnet3d-{settings.depth}"


def _optimizer(settings: Settings) -> keras.optimizers.Optimizer:
    if settings.optimizer == "adam":
        return keras.optimizers.Adam(settings.learning_rate)
    return keras.optimizers.SGD(settings.learning_rate, momentum=0.9, nesterov=True)


def _tell(ctx: TaskContext, model: keras.Model, begin: Checkpoint, prepared: Prepared, *, replicas: int) -> None:
    rows, held_back = prepared.rows, prepared.held_back
    trainable = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    ctx.facts(
        parameters=model.count_params(),
        trainable_parameters=trainable,
        **_answer_facts(prepared),
        training_volumes=len(rows.rows),
        validation_volumes=len(held_back.rows) if held_back else 0,
        test_volumes=len(prepared.test) if prepared.test else 0,
        unlabelled_volumes=rows.source.unlabelled,
        loader=rows.source.name,
        read_path=rows.source.read_path,
        steps_per_epoch=prepared.loader.steps,
        replicas=replicas,
        mixed_precision=bool(begin.mixed_precision),
        input_mean=json.dumps([round(value, 6) for value in begin.mean]),
        input_variance=json.dumps([round(value, 6) for value in begin.variance]),
    )
    if begin.arrays:
        ctx.info(f"going on after epoch {begin.state.epoch}, step {begin.state.step}")
    if rows.source.unlabelled:
        ctx.info(f"{rows.source.unlabelled:,} volumes have no label and are left out")


def _answer_facts(prepared: Prepared) -> dict[str, Any]:
    classes, target = prepared.classes, prepared.target
    if target is not None:
        return {"label_mean": round(target.mean, 6), "label_deviation": round(target.deviation, 6)}
    counts = dict(zip(classes.names, classes.counts, strict=True))
    return {"classes": len(classes), "class_counts": json.dumps(counts, ensure_ascii=False)}


def _description(prepared: Prepared, begin: Checkpoint, *, epoch: int) -> dict[str, Any]:
    """What `model.json` tells beyond the model itself."""
    rows, held_back, classes, settings = prepared.rows, prepared.held_back, prepared.classes, prepared.settings
    spec = rows.source.spec
    own = settings.model_file
    return {
        "task": settings.task,
        "architecture": f"own model {own.name}" if own is not None else "3-D ResNet v2",
        "depth": settings.depth if own is None else None,
        "input": {"shape": list(spec.shape), "channels": volume_shape(spec.shape)[3], "stored_as": spec.dtype},
        "output": _output(prepared),
        "classes": len(classes),
        "class_names": list(classes.names),
        "labels": prepared.target._asdict() if prepared.target is not None else None,
        "normalisation": {"mean": list(begin.mean), "variance": list(begin.variance)},
        "epoch": epoch,
        "training": asdict(settings)
        | {
            "mixed_precision": begin.mixed_precision,
            "volumes": len(rows.rows),
            "validation_volumes": len(held_back.rows) if held_back else 0,
            "test_volumes": len(prepared.test) if prepared.test else 0,
            "unlabelled_volumes": rows.source.unlabelled,
            "class_counts": list(classes.counts),
            "steps_in_an_epoch": prepared.loader.steps,
        },
        "data": prepared.data.model_dump(mode="json"),
        "validation": prepared.validation_data.model_dump(mode="json") if prepared.validation_data else None,
        "test": prepared.test_data.model_dump(mode="json") if prepared.test_data else None,
    }


def _output(prepared: Prepared) -> str:
    if prepared.target is not None:
        return "the number in the labels' units, shape (n, 1)"
    classes = len(prepared.classes)
    return "probability of class 1, shape (n, 1)" if classes == 2 else f"probabilities, shape (n, {classes})"
