"""The work of `TrainResNet3D`: open the data, build the model, train, publish."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.context import TaskContext
from engine.datasets import Dataset, TrainedModel
from nodes.loaders import LoaderName
from nodes.loaders.interface import LoaderState, Reading
from nodes.training.checkpoints import Checkpoint, Checkpoints, Torn, read
from nodes.training.class_labels import Classes, find_classes
from nodes.training.learner import Learner
from nodes.training.learning_rate import Schedule, ScheduleName
from nodes.training.normalisation import measure
from nodes.training.resnet3d import Depth, build_resnet3d, volume_shape
from nodes.training.tensorflow_setup import configure, keras
from nodes.training.trained_model import CURVES, DESCRIPTION, HISTORY, MLFLOW_MODEL, STATE, publish
from nodes.training.training_loop import Training, train
from nodes.training.training_rows import Part, open_parts


@dataclass(frozen=True)
class Settings:
    """What decides the result. All but `epochs` must be equal for one training to continue another."""

    depth: Depth
    epochs: int
    batch_size: int
    steps_per_epoch: int
    learning_rate: float
    optimizer: Literal["adam", "sgd"]
    schedule: ScheduleName
    decay_epochs: int
    warmup_steps: int
    validation_share: float
    seed: int
    loader: LoaderName
    classes: int
    mixed_precision: bool


def train_and_publish(
    data: Dataset,
    validation: Dataset | None,
    settings: Settings,
    ctx: TaskContext,
    *,
    jit: bool,
    deterministic: bool,
    checkpoint_every_s: float,
) -> TrainedModel:
    """Do all of the node's work. Raises `DataError` for data that cannot be trained on."""
    for problem in configure(cores=ctx.resources.cores, deterministic=deterministic, seed=settings.seed):
        ctx.warn(problem)
    with open_parts(data, validation, loader=settings.loader, share=settings.validation_share, ctx=ctx) as (
        rows,
        held_back,
    ):
        classes = find_classes(
            rows.labels,
            held_back.labels if held_back else np.empty(0, np.float32),
            classes=settings.classes,
            names=rows.source.spec.classes,
            where=data.uri,
        )
        for remark in classes.remarks():
            ctx.warn(remark)
        loader = rows.source.loader(rows.rows, _reading(settings, training=True))
        if settings.steps_per_epoch > loader.steps:
            ctx.warn(f"an epoch has {loader.steps:,} steps, fewer than the {settings.steps_per_epoch:,} wanted")
        identity = _identity(settings, classes, rows, held_back)
        checkpoints = Checkpoints(ctx.scratch, identity, every_s=checkpoint_every_s, commit_point=ctx.commit_point)
        begin = checkpoints.newest() or _shorter(ctx, identity) or _first(rows, settings, ctx)
        model = build_resnet3d(
            rows.source.spec.shape,
            depth=settings.depth,
            classes=len(classes),
            mean=begin.mean,
            variance=begin.variance,
            mixed_precision=settings.mixed_precision,
        )
        training = Training(
            learner=Learner(model, _optimizer(settings), jit=jit),
            rows=loader,
            validation=held_back.source.loader(held_back.rows, _reading(settings, training=False))
            if held_back
            else None,
            epochs=settings.epochs,
            schedule=Schedule(
                settings.schedule,
                settings.learning_rate,
                settings.warmup_steps,
                settings.decay_epochs * loader.steps,
            ),
        )
        _tell(ctx, model, begin, training, classes, rows, held_back)
        final = train(training, begin, checkpoints, ctx)
        description = _description(settings, data, validation, classes, training, begin, rows, held_back)
        ctx.commit_point("train:before-save")
        spec = rows.source.spec.model_copy(update={"classes": classes.names})
        trained = publish(ctx.out, model, final, checkpoints.path_of(final), spec=spec, description=description)
        ctx.commit_point("train:after-save")
    ctx.artifact("model", ctx.out / MLFLOW_MODEL, f"resnet3d-{settings.depth}")
    ctx.artifact("plot", ctx.out / CURVES)
    ctx.artifact("file", ctx.out / DESCRIPTION)
    ctx.artifact("file", ctx.out / HISTORY)
    return trained


def _reading(settings: Settings, *, training: bool) -> Reading:
    steps = settings.steps_per_epoch if training else 0
    return Reading(settings.batch_size, seed=settings.seed, training=training, steps=steps)


def _identity(settings: Settings, classes: Classes, rows: Part, held_back: Part | None) -> str:
    """Hash of all that must be equal for a training state to be gone on from."""
    fixed = {name: value for name, value in asdict(settings).items() if name != "epochs"}
    digest = hashlib.blake2b(json.dumps([fixed, len(classes), rows.source.order_identity]).encode(), digest_size=16)
    digest.update(rows.rows.tobytes())
    if held_back is not None:
        digest.update(held_back.source.rows.identity().encode() + held_back.rows.tobytes())
    return digest.hexdigest()


def _shorter(ctx: TaskContext, identity: str) -> Checkpoint | None:
    """The state of a finished training of fewer epochs."""
    result = ctx.extends.get("out")
    if result is None:
        return None
    try:
        return read(Path(result.uri) / STATE, identity)
    except Torn as exc:
        ctx.warn(f"the shorter training cannot be continued, this one begins anew ({exc})")
        return None


def _first(rows: Part, settings: Settings, ctx: TaskContext) -> Checkpoint:
    """Where a new training begins."""
    measured = measure(rows.source, rows.rows)
    if measured.constant:
        channels = ", ".join(map(str, measured.constant[:10]))
        ctx.warn(f"channels without any spread among {measured.rows:,} volumes: {channels}")
    return Checkpoint(LoaderState(settings.seed), {}, measured.mean, measured.variance)


def _optimizer(settings: Settings) -> keras.optimizers.Optimizer:
    if settings.optimizer == "adam":
        return keras.optimizers.Adam(settings.learning_rate)
    return keras.optimizers.SGD(settings.learning_rate, momentum=0.9, nesterov=True)


def _tell(
    ctx: TaskContext,
    model: keras.Model,
    begin: Checkpoint,
    training: Training,
    classes: Classes,
    rows: Part,
    held_back: Part | None,
) -> None:
    trainable = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    ctx.facts(
        parameters=model.count_params(),
        trainable_parameters=trainable,
        classes=len(classes),
        class_counts=json.dumps(dict(zip(classes.names, classes.counts, strict=True)), ensure_ascii=False),
        training_volumes=len(rows.rows),
        validation_volumes=len(held_back.rows) if held_back else 0,
        unlabelled_volumes=rows.source.unlabelled,
        steps_per_epoch=training.rows.steps,
        input_mean=json.dumps([round(value, 6) for value in begin.mean]),
        input_variance=json.dumps([round(value, 6) for value in begin.variance]),
    )
    if begin.arrays:
        ctx.info(f"going on after epoch {begin.state.epoch}, step {begin.state.step}")
    if rows.source.unlabelled:
        ctx.info(f"{rows.source.unlabelled:,} volumes have no label and are left out")


def _description(
    settings: Settings,
    data: Dataset,
    validation: Dataset | None,
    classes: Classes,
    training: Training,
    begin: Checkpoint,
    rows: Part,
    held_back: Part | None,
) -> dict[str, Any]:
    """What `model.json` tells beyond the model itself."""
    spec = rows.source.spec
    two = len(classes) == 2
    return {
        "architecture": "3-D ResNet v2",
        "depth": settings.depth,
        "input": {"shape": list(spec.shape), "channels": volume_shape(spec.shape)[3], "stored_as": spec.dtype},
        "output": "probability of class 1, shape (n, 1)" if two else f"probabilities, shape (n, {len(classes)})",
        "classes": len(classes),
        "class_names": list(classes.names),
        "normalisation": {"mean": list(begin.mean), "variance": list(begin.variance)},
        "training": asdict(settings)
        | {
            "volumes": len(rows.rows),
            "validation_volumes": len(held_back.rows) if held_back else 0,
            "unlabelled_volumes": rows.source.unlabelled,
            "class_counts": list(classes.counts),
            "steps_in_an_epoch": training.rows.steps,
        },
        "data": data.model_dump(mode="json"),
        "validation": validation.model_dump(mode="json") if validation is not None else None,
    }
