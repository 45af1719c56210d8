"""`TrainResNet3D`: a 3-D ResNet from a table of labelled volumes.

Its problems: VF501 volumes of this shape do not fit; VF502 the loader does not read this input; VF503 too
few volumes for a batch; VF504 no volume has a label; VF505 more steps wanted than an epoch has; VF506
nothing is held back for validation; VF507 the validation volumes are of another kind; VF508 the workers do
not share a batch evenly; VF509 jit has no effect with several workers; VF510 something is to be decided by
validation volumes, and there are none; VF520 volumes of this shape cannot be turned; VF521 the labels of a regression
name classes; VF522 the own model cannot be used; VF523 a parameter is for classes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.context import TaskContext
from engine.datasets import Preview, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet
from engine.errors import UsageError
from engine.node import Look, node
from engine.parameters import Advanced, Extendable, PathIn, Policy, Range, Unit
from nodes.loaders import READS, LoaderName
from nodes.training.history import Judge
from nodes.training.objective import Task
from nodes.training.resnet3d import Depth, Stem, Width, parameter_count
from nodes.training.settings import Flips, cannot_turn

if TYPE_CHECKING:
    from nodes.training.workers.barrier import BarrierGroup
    from nodes.training.workers.folder import GroupFolder
    from nodes.training.workers.local import LocalGroup


@node(
    "TrainResNet3D",
    version=1,
    category="Training",
    imports=("nodes.training.tensorflow_setup", "nodes.training.mlflow_model"),
    uses_all_cores=True,
    saves_on_request=True,
)
def train_resnet3d(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    validation: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    test: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    *,
    depth: Annotated[Depth, Unit("layers")] = 18,
    task: Task = "classification",
    stem: Stem = "standard",
    width: Annotated[Width, Unit("filters")] = 64,
    model_file: Annotated[str | None, PathIn("file"), Advanced()] = None,
    flips: Flips = "none",
    quarter_turns: bool = False,
    intensity: Annotated[float, Range(0, 0.9)] = 0.0,
    noise: Annotated[float, Range(0, 10)] = 0.0,
    epochs: Annotated[int, Range(1, 100_000), Extendable()] = 5,
    batch_size: Annotated[int, Range(1, 65_536), Unit("volumes")] = 32,
    steps_per_epoch: Annotated[int, Range(0)] = 0,
    learning_rate: Annotated[float, Range(1e-9, 10)] = 3e-4,
    optimizer: Literal["adam", "sgd"] = "adam",
    schedule: Literal["cosine", "constant", "plateau"] = "cosine",
    decay_epochs: Annotated[int, Range(1, 100_000), Unit("epochs"), Advanced()] = 20,
    warmup_steps: Annotated[int, Range(0, 1_000_000), Unit("steps"), Advanced()] = 20,
    validation_share: Annotated[float, Range(0, 0.9)] = 0.2,
    seed: int = 0,
    loader: LoaderName = "arrow",
    workers: Annotated[int, Range(1, 64), Policy()] = 1,
    classes: Annotated[int, Range(0, 10_000), Advanced()] = 0,
    mixed_precision: Annotated[bool | None, Advanced()] = None,
    jit: Annotated[bool | None, Policy(), Advanced()] = None,
    deterministic: Annotated[bool, Policy(), Advanced()] = True,
    checkpoint_every_s: Annotated[int, Range(0), Unit("s"), Policy(), Advanced()] = 120,
    checkpoint_every_steps: Annotated[int, Range(0), Unit("steps"), Policy(), Advanced()] = 0,
    keep_checkpoints: Annotated[int, Range(1, 1_000), Policy(), Advanced()] = 2,
    keep: Literal["last", "best"] = "last",
    best_by: Annotated[Judge, Advanced()] = "val_loss",
    early_stopping_epochs: Annotated[int, Range(0, 100_000), Unit("epochs")] = 0,
    plateau_factor: Annotated[float, Range(0.001, 0.999), Advanced()] = 0.5,
    plateau_patience: Annotated[int, Range(1, 100_000), Unit("epochs"), Advanced()] = 5,
    class_weights: Literal["none", "balanced"] = "none",
    ctx: TaskContext,
) -> TrainedModel:
    """Train a 3-D ResNet to tell the classes of volumes apart, or a number for each.

    The model normalises its input itself, with the mean and deviation of each channel of the
    training volumes, and is saved as a plain Keras file. Figures for each epoch: `loss` and `accuracy`, and the same,
    `auc` (area under the ROC curve) and `f1` of the validation volumes as `val_...`; how many volumes a second, and
    the seconds spent waiting for data, computing, checkpointing and evaluating; `test_...` at the end. For steps:
    `step_loss`, `step_accuracy` and `learning_rate`. `auc` and `f1` are means over the classes. A
    regression has `mae` and `rmse`, in the labels' units, in their place; its loss is the squared error as a share of
    the labels' variance.
    Volumes without a label are left out and counted. A killed training goes on at the next volume; more
    epochs than an earlier result continue from it, because nothing else depends on their number:
    the cosine has its own length, `decay_epochs`, and stays at a hundredth of the rate afterwards.
    One process shares its batches among all of the machine's GPUs.

    Args:
        data: the volumes to train on.
        validation: volumes to validate on; without it a share of the data is held back.
        test: volumes to test the published model with, once, at the end.
        depth: layers of the network; more are slower and need more volumes.
        task: classification, or regression for labels that are any numbers.
        stem: standard quarters the volume before the first stage, which suits large ones: 30x30x10 voxels end
            as one. small keeps it whole: 30x30x10 end as 4x4x2, for some 20 times the work at the same width.
        width: filters of the first stage; later ones have 2, 4 and 8 times as many. Half of them make a quarter
            of the parameters; 16 make up for the work of the small stem.
        model_file: a Keras model of your own instead of the ResNet: a file in a trusted workspace's my_models/
            with a function build(shape, outputs).
        flips: axes along which a training volume is mirrored, each in half of the epochs.
        quarter_turns: turn training volumes by 0 to 3 quarters in the X-Y plane.
        intensity: stretch each channel of a training volume by up to this share, and shift it by up to so
            many of the channel's deviations. Try 0.1.
        noise: add Gaussian noise of so many deviations to each training volume. Try 0.1.
        epochs: passes over the training volumes.
        batch_size: volumes in a step. A smaller one needs less memory.
        steps_per_epoch: end an epoch after so many steps; 0 for all.
        learning_rate: the highest rate. Try a third of it when the loss jumps.
        optimizer: Adam, or stochastic gradient descent with Nesterov momentum 0.9.
        schedule: cosine falls from the rate to a hundredth of it, constant stays, plateau lowers it whenever the
            validation loss has stopped falling.
        decay_epochs: the epochs over which the cosine falls. It stands apart from the number of
            epochs, so that a training can be made longer.
        warmup_steps: steps over which the rate rises at first.
        validation_share: part of the volumes held back for validation, chosen by the hash of their
            id, so that a volume stays on its side when others are added.
        seed: decides initial weights and the order of volumes.
        loader: arrow reads tables fastest; petastorm is the package of that name; npy reads a
            folder's files one by one, for comparison.
        workers: TensorFlow processes that share every batch, on this machine or on Spark's
            executors. What is learned stays the same; the batch size must be a multiple of it.
        classes: number of classes; 0 takes it from the class names or labels.
        mixed_precision: compute in bfloat16. Faster on recent GPUs, slower on most CPUs; without a value
            that decides, before the first step.
        jit: compile with XLA. Often faster on GPUs, much slower on CPUs; without a value it is used on GPUs
            when deterministic is false.
        deterministic: equal runs give equal weights, bit for bit. May cost speed on GPUs.
        checkpoint_every_s: least time between two checkpoints within an epoch.
        checkpoint_every_steps: a checkpoint after every so many steps, too; 0 for by time only.
        keep_checkpoints: how many of the newest checkpoints stay while the training runs.
        keep: publish the model as it is after the last epoch, or after the best.
        best_by: which figure of the validation volumes tells the best epoch.
        early_stopping_epochs: end when the validation loss has had no new low for so many epochs; 0 for never.
        plateau_factor: with the schedule plateau, what the rate is multiplied by, down to a hundredth of it.
        plateau_patience: with the schedule plateau, epochs without a new low of the validation loss before that.
        class_weights: balanced lets all classes count alike in the training loss, however many volumes they have.
    """
    from nodes.training.own_model import read_model_file
    from nodes.training.settings import Manner, Settings

    settings = Settings(
        depth=depth,
        task=task,
        stem=stem,
        width=width,
        model_file=read_model_file(model_file) if model_file else None,
        flips=flips,
        quarter_turns=quarter_turns,
        intensity=intensity,
        noise=noise,
        epochs=epochs,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        learning_rate=learning_rate,
        optimizer=optimizer,
        schedule=schedule,
        decay_epochs=decay_epochs,
        warmup_steps=warmup_steps,
        validation_share=validation_share,
        seed=seed,
        loader=loader,
        classes=classes,
        mixed_precision=mixed_precision,
        plateau_factor=plateau_factor,
        plateau_patience=plateau_patience,
        early_stopping_epochs=early_stopping_epochs,
        class_weights=class_weights,
        keep=keep,
        best_by=best_by,
    )
    manner = Manner(
        workers=workers,
        jit=jit,
        deterministic=deterministic,
        checkpoint_every_s=checkpoint_every_s,
        checkpoint_every_steps=checkpoint_every_steps,
        keep_checkpoints=keep_checkpoints,
    )
    from nodes.training.workers import group

    if workers == 1:
        from nodes.training.session import train_and_publish

        group.hand_on_leftovers(ctx)
        return train_and_publish(data, validation, settings, manner, ctx, test=test)
    from nodes.training.workers.local import LocalGroup

    def start(folder: GroupFolder, ranks: int) -> LocalGroup:
        return LocalGroup(folder, ranks, program=group.PROGRAM, cores=ctx.resources.cores)

    return group.train_with_workers(data, validation, settings, manner, ctx, start, test=test)


@train_resnet3d.on("spark")
def _on_spark(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    validation: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    test: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    *,
    ctx: TaskContext,
    **parameters: Any,
) -> TrainedModel:
    """The same with each worker on an executor, also when it is only one."""
    from nodes.training.own_model import read_model_file
    from nodes.training.settings import Manner, Settings
    from nodes.training.workers import group
    from nodes.training.workers.barrier import BarrierGroup

    values = {parameter.name: parameter.default for parameter in train_resnet3d.parameters} | parameters
    values["model_file"] = read_model_file(values["model_file"]) if values["model_file"] else None
    settings = Settings(**{field.name: values[field.name] for field in fields(Settings)})
    manner = Manner(**{field.name: values[field.name] for field in fields(Manner)})

    def start(folder: GroupFolder, ranks: int) -> BarrierGroup:
        return BarrierGroup(folder, ranks, program=group.PROGRAM, ctx=ctx)

    return group.train_with_workers(data, validation, settings, manner, ctx, start, test=test)


@train_resnet3d.scan
def _scan(look: Look) -> Mapping[str, Any]:
    """Whether the own model's file may run; nothing of it is run here."""
    from nodes.training.own_model import read_model_file

    try:
        if look.params["model_file"]:
            read_model_file(look.params["model_file"])
    except UsageError as exc:
        return {"model_file": [exc.message, exc.hint]}
    return {}


@train_resnet3d.preview
def _preview(look: Look) -> Preview:
    data = look.inputs.get("data") or Preview(kind="VolumeDelta")
    validation = look.inputs.get("validation")
    for port, preview in (("data", data), ("validation", validation), ("test", look.inputs.get("test"))):
        if preview is None:
            continue
        check_input(look, port, preview)
        if data.spec and preview.spec and _form(data) != _form(preview):
            look.problem(
                "VF507",
                f"the {port} volumes are {preview.spec.describe()}, the others {data.spec.describe()}",
                hint="Use volumes of the same shape and type.",
                port=port,
            )
    share = 0.0 if validation is not None else look.params["validation_share"]
    if validation is None and share == 0:
        _check_judged(look)
        look.problem(
            "VF506",
            "nothing is held back for validation, so nobody will know what the model has learned",
            hint="Set validation_share, for example to 0.2.",
            parameter="validation_share",
            severity="warning",
        )
    _check_counts(look, data, share)
    _check_workers(look)
    _check_model(look, data)
    if data.spec is None:
        return Preview(kind="TrainedModel")
    if look.params["model_file"]:
        return Preview(kind="TrainedModel", spec=data.spec)
    try:
        count = parameter_count(
            data.spec.shape,
            depth=look.params["depth"],
            stem=look.params["stem"],
            width=look.params["width"],
            classes=_class_count(look, data),
        )
    except UsageError:
        return Preview(kind="TrainedModel", spec=data.spec)
    # The model, and the state to go on from: weights again and the optimizer's one or two of each; the best weights.
    copies = 2 + (2 if look.params["optimizer"] == "adam" else 1) + (look.params["keep"] == "best")
    return Preview(kind="TrainedModel", spec=data.spec, bytes=4 * count * copies)


def _class_count(look: Look, data: Preview) -> int:
    """As far as it is known. A regression has the head of two classes."""
    assert data.spec is not None
    if look.params["task"] == "regression":
        return 2
    return max(2, look.params["classes"] or len(data.spec.classes))


def _check_judged(look: Look) -> None:
    """What cannot be decided without validation volumes."""
    asked = {"keep": "best", "schedule": "plateau"}
    wanted = [name for name, value in asked.items() if look.params[name] == value]
    wanted += ["early_stopping_epochs"] if look.params["early_stopping_epochs"] else []
    for name in wanted:
        look.problem(
            "VF510",
            f"{name} is decided by validation volumes, and there are none",
            hint="Raise validation_share, or wire labelled volumes to validation.",
            parameter=name,
        )


def _form(preview: Preview) -> tuple[object, ...]:
    assert preview.spec is not None
    return preview.spec.shape, preview.spec.dtype


def check_input(look: Look, port: str, preview: Preview) -> None:
    loader = look.params["loader"]
    if preview.kind not in READS[loader]:
        fitting = [name for name, kinds in READS.items() if preview.kind in kinds]
        look.problem(
            "VF502",
            f"the {loader} loader does not read {preview.kind}",
            hint=f"Wire {' or '.join(READS[loader])}, or choose the loader {' or '.join(fitting)}.",
            parameter="loader",
        )
    if preview.spec is not None and len(preview.spec.shape) not in (3, 4):
        look.problem(
            "VF501",
            f"volumes of {preview.spec.describe()} do not fit a 3-D network",
            hint="They need three axes (X, Y, Z) or four (X, Y, Z, channels).",
            port=port,
        )
    if preview.labelled == 0 and preview.count:
        look.problem(
            "VF504",
            "no volume has a label, so there is nothing to learn",
            hint="Give NumpyToParquet a label table, or folders or file names that tell the class.",
            port=port,
        )


def _check_counts(look: Look, data: Preview, share: float) -> None:
    """Too few volumes for a batch, or for the steps that are wanted. With a held-back share, by expectation."""
    count = data.labelled if data.labelled is not None else data.count
    if not count:
        return
    batch, steps = look.params["batch_size"], look.params["steps_per_epoch"]
    training = int(count * (1 - share))
    if training < batch:
        look.problem(
            "VF503",
            f"about {training:,} volumes to train on do not fill one batch of {batch:,}",
            hint="Choose a smaller batch size, or give more labelled volumes.",
            parameter="batch_size",
            # A held-back share is decided by hashes: so near to a batch nobody can tell.
            severity="error" if count < batch or training < batch * 0.8 else "warning",
        )
    elif steps > training // batch:
        look.problem(
            "VF505",
            f"an epoch has about {training // batch:,} steps, fewer than the {steps:,} that are wanted",
            hint="Raise the number of epochs instead; 0 takes all steps.",
            parameter="steps_per_epoch",
            severity="warning",
        )


def _check_workers(look: Look) -> None:
    batch, workers = look.params["batch_size"], look.params["workers"]
    if batch % workers:
        fitting = [size for size in (batch // workers * workers, (batch // workers + 1) * workers) if size]
        look.problem(
            "VF508",
            f"{workers} workers cannot share a batch of {batch:,} volumes evenly",
            hint=f"Set batch_size to {' or '.join(map(str, fitting))}, or choose another number of workers.",
            parameter="workers",
        )
    if workers > 1 and look.params["jit"]:
        look.problem(
            "VF509",
            "XLA cannot compile a step that several workers share, so jit has no effect",
            hint="Set jit to false, or workers to 1.",
            parameter="jit",
            severity="warning",
        )


def _check_model(look: Look, data: Preview) -> None:
    shape = data.spec.shape if data.spec is not None else ()
    if look.params["quarter_turns"] and len(shape) in (3, 4) and (problem := cannot_turn(shape)):
        look.problem(
            "VF520",
            problem,
            hint="Set quarter_turns to false; flips fit every shape.",
            parameter="quarter_turns",
        )
    if look.params["task"] == "regression" and data.spec is not None and data.spec.classes:
        look.problem(
            "VF521",
            "the labels name classes, and a regression would learn their numbers",
            hint="Set task to classification, or give NumpyToParquet labels that are numbers.",
            parameter="task",
            severity="warning",
        )
    if look.params["task"] == "regression":
        best_by = look.params["keep"] == "best" and look.params["best_by"] != "val_loss"
        for name, wanted in (("class_weights", look.params["class_weights"] != "none"), ("best_by", best_by)):
            if wanted:
                look.problem(
                    "VF523",
                    f"{name} is for classes, and a regression has none",
                    hint="Leave it as it was, or set task to classification.",
                    parameter=name,
                )
    if "model_file" in look.facts:
        message, hint = look.facts["model_file"]
        look.problem("VF522", message, hint=hint, parameter="model_file")
