"""`TrainResNet3D`: a 3-D ResNet from a table of labelled volumes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, TrainedModel, VolumeDelta, VolumeFiles, VolumeParquet, words_of
from engine.declare.node import node
from engine.declare.workload import TrainingWork
from engine.errors import UsageError
from engine.profiles.dynamic_allocation import on_fixed_executors
from engine.storage.files import other_size
from engine.text import plural
from nodes.conversion.commas import WITH_POINT, number_with_comma
from nodes.loaders import READS
from nodes.splitting.groups import group_column
from nodes.splitting.missing_labels import ClassMissing as ClassMissing  # which `label_checks` reports
from nodes.training.architecture import parameter_count
from nodes.training.label_checks import check_labels, check_names, check_numbering, check_parts, count_parts_by_label
from nodes.training.rules import (
    BadFilesStop,
    BatchMayNotBeFilled,
    BatchNotFilled,
    BatchNotShared,
    CannotTurn,
    ChangedDifferently,
    ClassesInRegression,
    EpochTooShort,
    ForClassesOnly,
    FormsDiffer,
    GroupsMayBeParted,
    JitHasNoEffect,
    JitIsSlow,
    LoaderDoesNotRead,
    NoSuchGroup,
    NothingHeldBack,
    NothingToJudgeBy,
    NothingToLearn,
    OwnModelNotUsable,
    ShapeDoesNotFit,
    TargetsWithCommas,
    TransformedEachEpoch,
)

# What `label_checks` reports: the rules of a node type are those in the namespace of its module.
from nodes.training.rules import LabelIsNoClass as LabelIsNoClass
from nodes.training.rules import LabelsDoNotFit as LabelsDoNotFit
from nodes.training.rules import OneLabelOnly as OneLabelOnly
from nodes.training.rules import UnknownToTraining as UnknownToTraining
from nodes.training.settings import TrainParameters, cannot_turn
from nodes.transforms.remaining import same_way, told_apart


@node(
    "TrainResNet3D",
    version=1,
    category="Training",
    icon="brain-circuit",
    keywords=(
        "fit",
        "learn",
        "classify",
        "regression",
        "neural network",
        "cnn",
        "deep learning",
        "tensorflow",
        "keras",
        "gpu",
        "augmentation",
        "normalize",
        "fine tuning",
    ),
    imports=("nodes.tensorflow_keras.runtime", "nodes.tensorflow_keras.mlflow_model"),
    needs=("tensorflow", "matplotlib", "mlflow"),
    uses_all_cores=True,
    saves_on_request=True,
)
def train_resnet3d(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    validation: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    test: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    *,
    parameters: TrainParameters,
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
        validation: volumes to validate on; without it a share of the data is held back. Classes go by their names.
        test: volumes to test the published model with, once, at the end.
    """
    from nodes.training.idle_gpus import warning_of_idle_gpus
    from nodes.training.settings import Settings
    from nodes.training.workers import group, worker

    settings, ctx = Settings.of(parameters), warning_of_idle_gpus(ctx)
    if settings.workers == 1:
        from nodes.training.learner import framework_named
        from nodes.training.session import train_and_publish

        group.pass_on_leftovers(ctx)
        return train_and_publish(data, validation, settings, ctx, framework_named("keras"), test=test)
    from nodes.training.workers.local import LocalGroup

    start = partial(LocalGroup, program=worker.PROGRAM, cores=ctx.resources.cores)
    return group.train_with_workers(data, validation, settings, ctx, start, test=test)


@train_resnet3d.on("spark")
@on_fixed_executors
def _on_spark(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    validation: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    test: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    *,
    parameters: TrainParameters,
    ctx: TaskContext,
) -> TrainedModel:
    """The same with each worker on an executor, also when it is only one."""
    from nodes.training.idle_gpus import warning_of_idle_gpus
    from nodes.training.settings import Settings
    from nodes.training.workers import group, worker
    from nodes.training.workers.barrier import BarrierGroup, gpus_of_a_task

    ctx = warning_of_idle_gpus(ctx, lambda: gpus_of_a_task(ctx.spark.sparkContext, ctx.resources.gpus))
    start = partial(BarrierGroup, program=worker.PROGRAM, ctx=ctx)
    return group.train_with_workers(data, validation, Settings.of(parameters), ctx, start, test=test)


@train_resnet3d.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    """The large files have as many bytes as the reference says, also of models without a list of all sizes."""
    for model in outputs.values():
        assert isinstance(model, TrainedModel)
        folder = Path(model.uri)
        if not (folder / "model.keras").is_file():
            return f"{folder / 'model.keras'} is gone"
        found = [folder / name for name in ("model.keras", "training_state.npz", "best_state.npz")]
        size = sum(path.stat().st_size for path in found if path.is_file())
        if size != model.bytes:
            return f"{', '.join(path.name for path in found)} in {folder}: {other_size(size, model.bytes)} in all"
    return ""


@train_resnet3d.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """How the labels are parted, and whether the own model's file may run; nothing of it is run here."""
    from nodes.training.model_file import read_model_file

    labels = count_parts_by_label(look)
    found: dict[str, Any] = {"labels": labels} if labels else {}
    try:
        if look.params["model_file"]:
            read_model_file(look.params["model_file"])
    except UsageError as exc:
        found["model_file"] = [exc.message, exc.hint]
    return found


@train_resnet3d.preview
def _preview(look: CheckContext) -> Preview:
    data = look.inputs.get("data") or Preview(kind="VolumeDelta")
    validation = look.inputs.get("validation")
    for port, preview in (("data", data), ("validation", validation), ("test", look.inputs.get("test"))):
        if preview is None:
            continue
        check_input(look, port, preview)
        check_labels(look, port, preview)
        if port != "data":
            check_names(look, port, data, preview)
        if data.spec and preview.spec and _form(data) != _form(preview):
            look.report(
                FormsDiffer,
                f"the {port} volumes are {preview.spec.describe()}, the others {data.spec.describe()}",
                hint="Use volumes of the same shape and type.",
                port=port,
            )
        if data.spec and preview.spec and not same_way(data.spec.transforms, preview.spec.transforms):
            ways = [way or "nothing" for way in told_apart(preview.spec.transforms, data.spec.transforms)]
            look.report(
                ChangedDifferently,
                f"the {port} volumes went through {ways[0]}, the others through {ways[1]}",
                hint="Put the same TransformVolumes before each of them.",
                port=port,
            )
    check_numbering(look, data, validation)
    check_parts(look, data, validation)
    _check_repeated(look, data)
    share = 0.0 if validation is not None else look.params["validation_share"]
    if validation is None and share == 0:
        _check_judged(look)
        look.report(
            NothingHeldBack,
            "nothing is held back for validation, so nobody will know what the model has learned",
            hint="Set validation_share, for example to 0.2.",
            parameter="validation_share",
        )
    if share and look.params["validation_group"]:
        _check_group(look, data)
    elif share and not data.grouped_by:
        _check_groups(look, data)
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


@train_resnet3d.workload
def _workload(look: CheckContext) -> TrainingWork | None:
    from nodes.training.workload import training_work

    return training_work(look)


def _class_count(look: CheckContext, data: Preview) -> int:
    """As far as it is known. A regression has the head of two classes."""
    assert data.spec is not None
    if look.params["task"] == "regression":
        return 2
    return max(2, look.params["classes"] or len(data.spec.classes))


def _check_judged(look: CheckContext) -> None:
    """What cannot be decided without validation volumes."""
    asked = {"keep": "best", "schedule": "plateau"}
    wanted = [name for name, value in asked.items() if look.params[name] == value]
    wanted += ["early_stopping_epochs"] if look.params["early_stopping_epochs"] else []
    for name in wanted:
        look.report(
            NothingToJudgeBy,
            f"{name} is decided by validation volumes, and there are none",
            hint="Raise validation_share, or wire labelled volumes to validation.",
            parameter=name,
        )


def _form(preview: Preview) -> tuple[object, ...]:
    assert preview.spec is not None
    return preview.spec.shape, preview.spec.dtype


def check_input(look: CheckContext, port: str, preview: Preview) -> None:
    """Report what is wrong with a dataset to train on: its kind, its shape, or that nothing is labelled."""
    loader = look.params["loader"]
    if preview.kind not in READS[loader]:
        fitting = [name for name, kinds in READS.items() if preview.kind in kinds]
        look.report(
            LoaderDoesNotRead,
            f"the {loader} loader does not read {preview.kind}",
            hint=f"Wire {' or '.join(READS[loader])}, or choose the loader {' or '.join(fitting)}.",
            parameter="loader",
        )
    elif preview.kind == "VolumeFiles" and preview.refused:
        look.report(
            BadFilesStop,
            f"of the sampled files {preview.refused:,} cannot be read, or differ from most in shape or type;"
            " a training from files ends at the first one",
            hint="Convert the folder: NumpyToParquet sets bad files aside. TransformVolumes makes shapes the same.",
            port=port,
        )
    if preview.spec is not None and len(preview.spec.shape) not in (3, 4):
        look.report(
            ShapeDoesNotFit,
            f"volumes of {preview.spec.describe()} do not fit a 3-D network",
            hint="They need three axes (X, Y, Z) or four (X, Y, Z, channels).",
            port=port,
        )
    if preview.labelled == 0 and preview.count:
        look.report(
            NothingToLearn,
            "no volume has a label, so there is nothing to learn",
            hint="Give NumpyToParquet a label table, or folders or file names that tell the class.",
            port=port,
        )


def _check_group(look: CheckContext, data: Preview) -> None:
    """Report a column to hold back by that the data lacks."""
    name, files = look.params["validation_group"], data.kind == "VolumeFiles" and bool(data.sample)
    there = () if files else data.columns  # what the headers of files say no loader reads
    if there is None or name in ("id", "label", *there):
        return
    look.report(
        NoSuchGroup,
        f"the data has no column {name}; it has {', '.join(there) or 'none besides id and label'}",
        hint="Make a table of the files, with NumpyToParquet and ParquetToDelta, which has the columns of the label"
        " file."
        if files
        else "Choose a column that the label file has.",
        parameter="validation_group",
    )


def _check_groups(look: CheckContext, data: Preview) -> None:
    """Report that what is held back one by one may part volumes that belong together."""
    if data.groups_lost:
        name = ", ".join(data.groups_lost)
        why = f"the split kept each {name} together, which the data has no column of any more"
        hint = (
            "Let SplitDataset make the validation part, too, and wire it to validation; or let NumpyToParquet carry"
            " the columns."
        )
    elif name := group_column(data.columns or ()):
        why, hint = f"the data has a column {name}", f"Set validation_group to {name}."
        if data.kind == "VolumeFiles" and data.sample:  # what the headers of files say, and no loader reads
            hint = f"Make a table of them, with NumpyToParquet and ParquetToDelta, and set validation_group to {name}."
    else:
        return
    look.report(
        GroupsMayBeParted,
        f"volumes are held back one by one, and {why}: those of one {name} may be on both sides, which flatters the"
        " figures",
        hint=hint,
        parameter="validation_group",
    )


def _check_repeated(look: CheckContext, data: Preview) -> None:
    """Report transforms that are done to each volume in each epoch."""
    steps = data.spec.transforms if data.spec is not None else ()
    if data.kind == "VolumeFiles" and steps and look.params["epochs"] > 1:
        look.report(
            TransformedEachEpoch,
            f"each volume is transformed again ({words_of(steps)}) in each of {look.params['epochs']:,} epochs",
            hint="Store what comes out once: NumpyToParquet and ParquetToDelta after the transforms, loader arrow.",
            port="data",
        )


def _check_counts(look: CheckContext, data: Preview, share: float) -> None:
    """Too few volumes for a batch, or for the steps that are wanted. With a held-back share, by expectation."""
    count = data.labelled_held if data.labelled is not None else data.held
    if not count:
        return
    most = (data.labelled if data.labelled is not None else data.count) or 0
    counted = data.selected is None or data.selected_exactly
    batch, steps = look.params["batch_size"], look.params["steps_per_epoch"]
    training = int(count * (1 - share))
    if training < batch:
        # A held-back share is decided by hashes: so near to a batch it is not known. Of a part that nobody counted
        # even less is: it may have a few large groups.
        surely = (count < batch or training < batch * 0.8) if counted else most < batch
        look.report(
            BatchNotFilled if surely else BatchMayNotBeFilled,
            f"about {plural(training, 'volumes')} to train on: too few to fill one batch of {batch:,}",
            hint="Choose a smaller batch size, or give more labelled volumes.",
            parameter="batch_size",
        )
    elif steps > training // batch:
        look.report(
            EpochTooShort,
            f"an epoch has about {plural(training // batch, 'steps')}, fewer than the {steps:,} that are wanted",
            hint="Raise the number of epochs instead; 0 takes all steps.",
            parameter="steps_per_epoch",
        )


def _check_workers(look: CheckContext) -> None:
    batch, workers = look.params["batch_size"], look.params["workers"]
    if batch % workers:
        fitting = [size for size in (batch // workers * workers, (batch // workers + 1) * workers) if size]
        look.report(
            BatchNotShared,
            f"{workers} workers cannot share a batch of {batch:,} volumes evenly",
            hint=f"Set batch_size to {' or '.join(map(str, fitting))}, or choose another number of workers.",
            parameter="workers",
        )
    check_jit(look, alone=workers == 1)


def check_jit(look: CheckContext, *, alone: bool) -> None:
    """Report where XLA has no effect or can be slow. `alone`: a step may be computed by one worker."""
    if not look.params["jit"]:
        return
    if not alone:
        look.report(
            JitHasNoEffect,
            "XLA cannot compile a step that several workers share, so jit has no effect",
            hint="Set jit to false, or workers to 1.",
            parameter="jit",
        )
    elif look.params["deterministic"]:
        look.report(
            JitIsSlow,
            "on a GPU, XLA can take a hundred times as long for a step whose results must be repeatable",
            hint="Set jit or deterministic to false.",
            parameter="jit",
        )


def _check_model(look: CheckContext, data: Preview) -> None:
    shape = data.spec.shape if data.spec is not None else ()
    if look.params["quarter_turns"] and len(shape) in (3, 4) and (problem := cannot_turn(shape)):
        look.report(
            CannotTurn,
            problem,
            hint="Set quarter_turns to false; flips fit every shape.",
            parameter="quarter_turns",
        )
    named = data.spec.classes if look.params["task"] == "regression" and data.spec is not None else ()
    if example := number_with_comma(named):
        look.report(
            TargetsWithCommas,
            f"the labels are numbers with commas, such as {example}, and were taken for names of classes: a regression"
            " would learn 0, 1, 2 ... in the order of the names",
            hint=f"{WITH_POINT} in the label table, and convert again.",
            parameter="task",
        )
    elif named:
        look.report(
            ClassesInRegression,
            "the labels name classes, and a regression would learn their numbers",
            hint="Set task to classification, or give NumpyToParquet labels that are numbers.",
            parameter="task",
        )
    if look.params["task"] == "regression":
        best_by = look.params["keep"] == "best" and look.params["best_by"] != "val_loss"
        for name, wanted in (("class_weights", look.params["class_weights"] != "none"), ("best_by", best_by)):
            if wanted:
                look.report(
                    ForClassesOnly,
                    f"{name} is for classes, and a regression has none",
                    hint="Leave it as it was, or set task to classification.",
                    parameter=name,
                )
    if "model_file" in look.facts:
        message, hint = look.facts["model_file"]
        look.report(OwnModelNotUsable, message, hint=hint, parameter="model_file")
