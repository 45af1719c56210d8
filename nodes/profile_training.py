"""`ProfileTraining`: what a training step costs at each batch size, before a training is paid for.

Its problems: VF530 nothing to measure; VF501, VF502 and VF504 as `TrainResNet3D` tells them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.context import TaskContext
from engine.datasets import Dataset, Preview, Report, VolumeDelta, VolumeFiles, VolumeParquet
from engine.node import Look, node
from engine.parameters import Advanced, Range, Unit
from nodes.loaders import LoaderName
from nodes.train_resnet3d import check_input, train_resnet3d
from nodes.training.resnet3d import Depth

if TYPE_CHECKING:
    from nodes.profiling.measurements import Wanted
    from nodes.training.workers.barrier import BarrierGroup
    from nodes.training.workers.folder import GroupFolder
    from nodes.training.workers.group import Starter
    from nodes.training.workers.local import LocalGroup


@node("ProfileTraining", version=1, category="Training", imports=("nodes.training.workers.group",), uses_all_cores=True)
def profile_training(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    *,
    depth: Annotated[Depth, Unit("layers")] = 18,
    batch_sizes: Annotated[tuple[int, ...], Range(1, 65_536), Unit("volumes")] = (1, 2, 4, 8, 16, 32, 64),
    workers: Annotated[tuple[int, ...], Range(1, 64)] = (1,),
    optimizer: Literal["adam", "sgd"] = "adam",
    loader: LoaderName = "arrow",
    mixed_precision: bool = False,
    jit: bool = False,
    deterministic: bool = True,
    steps: Annotated[int, Range(1, 150), Unit("steps"), Advanced()] = 10,
    warmup: Annotated[int, Range(0, 50), Unit("steps"), Advanced()] = 2,
    ctx: TaskContext,
) -> Report:
    """Measure rate, memory and the parts of a step for each batch size, and recommend one.

    Each row is measured by training for some steps as TrainResNet3D does, in a process of its own: a size
    that does not fit into memory is a row that says so, and larger ones are then left out. Nothing is learned or kept.
    The report has the table (CSV and JSON too), a picture, and the batch size to take: the smallest
    within 5% of the best rate. A profile tells about the machine that it was made on, which it names.

    Args:
        data: the volumes that a training would get.
        depth: layers of the network.
        batch_sizes: the sizes to measure, over all workers.
        workers: numbers of TensorFlow processes that share every batch; each is measured with each size.
        optimizer: Adam keeps two more values for each weight than the gradient, momentum one.
        loader: what reads the volumes, as in TrainResNet3D.
        mixed_precision: compute in bfloat16.
        jit: compile with XLA, where a worker is alone.
        deterministic: as in TrainResNet3D; it may cost speed on GPUs.
        steps: measured steps for a row.
        warmup: steps before them, in which TensorFlow compiles and caches fill.
    """
    from nodes.profiling.measurements import program
    from nodes.training.workers.local import LocalGroup

    wanted = _wanted(
        {
            "depth": depth,
            "batch_sizes": batch_sizes,
            "workers": workers,
            "optimizer": optimizer,
            "loader": loader,
            "mixed_precision": mixed_precision,
            "jit": jit,
            "deterministic": deterministic,
            "steps": steps,
            "warmup": warmup,
        }
    )

    def start(folder: GroupFolder, ranks: int) -> LocalGroup:
        return LocalGroup(folder, ranks, program=program(wanted), cores=ctx.resources.cores)

    return _profile(data, wanted, ctx, start)


@profile_training.on("spark")
def _on_spark(data: VolumeDelta | VolumeParquet | VolumeFiles, *, ctx: TaskContext, **parameters: Any) -> Report:
    """The same with each worker on an executor, also when it is only one."""
    from nodes.profiling.measurements import program
    from nodes.training.workers.barrier import BarrierGroup

    values = {parameter.name: parameter.default for parameter in profile_training.parameters} | parameters
    wanted = _wanted(values)

    def start(folder: GroupFolder, ranks: int) -> BarrierGroup:
        return BarrierGroup(folder, ranks, program=program(wanted), ctx=ctx)

    return _profile(data, wanted, ctx, start)


def _wanted(values: dict[str, Any]) -> Wanted:
    """What to measure; all that a training has besides stands at its defaults, without validation or checkpoints."""
    from nodes.profiling.measurements import Wanted
    from nodes.training.settings import Manner, Settings

    training = {parameter.name: parameter.default for parameter in train_resnet3d.parameters}
    own = ("depth", "optimizer", "loader", "mixed_precision", "jit", "deterministic")
    training |= {name: values[name] for name in own}
    training |= {"epochs": 1_000_000, "validation_share": 0.0, "checkpoint_every_s": 1_000_000_000, "workers": 1}
    settings: dict[str, Any] = {field.name: training.get(field.name) for field in fields(Settings)}
    manner: dict[str, Any] = {field.name: training.get(field.name) for field in fields(Manner)}
    return Wanted(
        settings=Settings(**settings),
        manner=Manner(**manner),
        batch_sizes=tuple(values["batch_sizes"]),
        workers=tuple(values["workers"]),
        steps=values["steps"],
        warmup=values["warmup"],
    )


def _profile(data: Dataset, wanted: Wanted, ctx: TaskContext, start: Starter) -> Report:
    from nodes.profiling.measurements import measure_all
    from nodes.profiling.report import CSV, JSON, PAGE, PLOT, write_report

    table = measure_all(data, wanted, ctx, start)
    settings = wanted.settings
    what = f"ResNet-{settings.depth}, {settings.optimizer}, loader {settings.loader}, {data.uri}"
    figures = write_report(table, what, ctx.out)
    ctx.commit_point("profile:report-written")
    ctx.facts(**figures)
    if (ctx.out / PLOT).exists():
        ctx.artifact("plot", ctx.out / PLOT)
    ctx.artifact("table", ctx.out / CSV)
    ctx.artifact("file", ctx.out / JSON)
    ctx.artifact("file", ctx.out / PAGE)
    return Report(uri=str(ctx.out / PAGE), figures=figures)


@profile_training.preview
def _preview(look: Look) -> Preview:
    if (data := look.inputs.get("data")) is not None:
        check_input(look, "data", data)
    for name in ("batch_sizes", "workers"):
        if not look.params[name]:
            look.problem("VF530", "nothing to measure is given", hint="Give at least one number.", parameter=name)
    return Preview(kind="Report")
