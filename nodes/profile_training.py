"""`ProfileTraining`: what a training step costs at each batch size, before a training is paid for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, Report, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.node import node
from engine.diagnostics.rule import Rule
from engine.profiles.dynamic_allocation import on_fixed_executors
from nodes.profiling.settings import ProfileParameters
from nodes.train_resnet3d import check_input, check_jit
from nodes.training.label_checks import check_labels, check_numbering
from nodes.training.rules import FormsDiffer

# What `label_checks` reports: the rules of a node type are those in the namespace of its module.
from nodes.training.rules import LabelIsNoClass as LabelIsNoClass
from nodes.training.rules import LabelsDoNotFit as LabelsDoNotFit
from nodes.training.rules import OneLabelOnly as OneLabelOnly

if TYPE_CHECKING:
    from nodes.profiling.measurements import StartFor
    from nodes.profiling.worker import Plan
    from nodes.training.workers.group import Starter


@node(
    "ProfileTraining",
    version=1,
    category="Training",
    icon="gauge",
    keywords=("benchmark", "batch size", "memory", "speed", "throughput", "gpu"),
    imports=("nodes.training.workers.group",),
    needs=("tensorflow", "matplotlib"),
    uses_all_cores=True,
)
def profile_training(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    other: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    *,
    parameters: ProfileParameters,
    ctx: TaskContext,
) -> Report:
    """Measure rate, memory and the parts of a step for each batch size, and recommend one.

    Each row is measured by training for some steps as TrainResNet3D does, in a process of its own: a size
    that does not fit into memory is a row that says so, and larger ones are then left out. Nothing is learned or kept.
    The report has the table (CSV and JSON too), a picture, the efficiency of several workers, and the batch size to
    take: the smallest within 5% of the best rate. With the volumes in another form it also says how long an epoch of
    each takes, read from empty caches: what a table saves over many small files. A profile holds for the machine that
    it was made on, which it names.

    Args:
        data: the volumes that a training would get.
        other: the same volumes in another form, such as the files that the table was made of.
    """
    from nodes.training.workers.local import LocalGroup

    def start_for(plan: Plan) -> Starter:
        return partial(LocalGroup, program=_program(plan), cores=ctx.resources.cores)

    return _profile(data, other, parameters, ctx, start_for)


@profile_training.on("spark")
@on_fixed_executors
def _on_spark(
    data: VolumeDelta | VolumeParquet | VolumeFiles,
    other: VolumeDelta | VolumeParquet | VolumeFiles | None = None,
    *,
    parameters: ProfileParameters,
    ctx: TaskContext,
) -> Report:
    """The same with each worker on an executor, also when it is only one."""
    from nodes.training.workers.barrier import BarrierGroup

    def start_for(plan: Plan) -> Starter:
        return partial(BarrierGroup, program=_program(plan), ctx=ctx)

    return _profile(data, other, parameters, ctx, start_for)


def _program(plan: Plan) -> tuple[str, ...]:
    from nodes.profiling.measurements import program

    return program(plan)


def _profile(
    data: Dataset, other: Dataset | None, parameters: ProfileParameters, ctx: TaskContext, start_for: StartFor
) -> Report:
    from nodes.profiling.measurements import measure_all
    from nodes.profiling.report import CSV, JSON, PAGE, PLOT, write_report

    table = measure_all(data, parameters, ctx, start_for, other)
    what = f"ResNet-{parameters.depth}, {parameters.optimizer}, loader {parameters.loader}, {data.uri}"
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
def _preview(look: CheckContext) -> Preview:
    if (data := look.inputs.get("data")) is not None:
        check_input(look, "data", data)
        check_labels(look, "data", data)
        check_numbering(look, data, None)
        other = look.inputs.get("other")
        if other is not None and data.spec and other.spec:
            one, two = data.spec, other.spec
            if (one.shape, one.dtype) != (two.shape, two.dtype):
                look.report(
                    FormsDiffer,
                    f"the other volumes are {two.describe()}, those of data {one.describe()}",
                    hint="Wire the same volumes in another form, such as the files that the table was made of.",
                    port="other",
                )
    for name in ("batch_sizes", "workers"):
        if not look.params[name]:
            look.report(
                NothingToMeasure, "nothing to measure is given", hint="Give at least one number.", parameter=name
            )
    if workers := look.params["workers"]:
        check_jit(look, alone=1 in workers)
    return Preview(kind="Report")


# --- what it reports before a run ----------------------------------------------------------------


class NothingToMeasure(Rule):
    """The list of batch sizes or the list of workers is empty, so there is no training step to measure.

    What to do: give both at least one number, for example 16, 32, 64 and 1.
    """

    code = "VF530"
    severity = "error"
    title = "nothing to measure"
