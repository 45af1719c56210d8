"""`TransformVolumes`: volumes resampled, cropped, clipped, normalised while they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import (
    Preview,
    Transform,
    VolumeDelta,
    VolumeFiles,
    VolumeParquet,
    VolumeSpec,
    words_of,
)
from engine.declare.node import node
from engine.diagnostics.rule import Rule
from engine.errors import UsageError
from nodes.conversion.formats import AFFINE, GEOMETRY, SURVEY
from nodes.transforms.parameters import TransformParameters

if TYPE_CHECKING:
    from nodes.loaders.volume_statistics import AddVolumes

_SAMPLED = 64
"""Headers that a scan reads."""
_SAMPLED_BYTES = 32 << 20
"""What a scan copies of files in object storage to read their headers."""
_EXAMPLES = 3


@node(
    "TransformVolumes",
    version=1,
    category="Conversion",
    icon="contrast",
    keywords=(
        "resample",
        "resize",
        "spacing",
        "crop",
        "pad",
        "clip",
        "window",
        "normalise",
        "normalize",
        "standardize",
        "z-score",
        "channels",
        "transpose",
        "cast",
        "preprocessing",
        "own function",
    ),
    imports=("engine.processes.pyarrow_without_pandas", "numpy", "pyarrow.parquet"),
    uses_all_cores=False,
)
def transform_volumes(
    volumes: VolumeFiles | VolumeDelta | VolumeParquet,
    *,
    parameters: TransformParameters,
    ctx: TaskContext,
) -> VolumeFiles:
    """Resample, crop, clip and normalise volumes while they are read; volumes of differing shapes become one shape.

    Nothing is copied: whoever reads the volumes applies the steps, NumpyToParquet when it makes a table of them,
    TrainResNet3D when it trains on them, the viewer when it shows them. The steps are done in the order of the
    parameters; for another order wire several of these nodes. What was done is kept with tables and models, and
    BatchPredict and `voxelflow predict` do the same to other volumes before they are predicted.

    Spacing, orientation and affine of medical formats follow the voxels. A volume to which a step cannot be applied is
    quarantined by NumpyToParquet with the reason. Rows of a table keep their ids, labels and columns.

    Args:
        volumes: the volumes; of a table the rows that a split holds.
    """
    from nodes.loaders.volume_statistics import read_here

    return _transformed(volumes, parameters, ctx, lambda _: read_here)


@transform_volumes.on("spark")
def _on_spark(
    volumes: VolumeFiles | VolumeDelta | VolumeParquet, *, parameters: TransformParameters, ctx: TaskContext
) -> VolumeFiles:
    """The same: what is measured once is measured by Spark tasks."""
    from nodes.spark.measure_volumes import MeasureOnSpark

    return _transformed(volumes, parameters, ctx, MeasureOnSpark)


@transform_volumes.revision
def _version(params: Mapping[str, Any]) -> int:
    """Others since an infinity stays one, percentiles that lie close together are told apart, and a function sees where
    the voxels lie that it is given: steps of a node before may have moved them, too. Since 3 the least and the largest
    value are told apart, too."""
    kind, once = params.get("normalise"), params.get("statistics", "volume") != "volume"
    if once and kind == "percentiles" and (params.get("low_percentile"), params.get("high_percentile")) == (0, 100):
        return 3
    hid_infinities = kind == "percentiles" or (kind == "min-max" and not once)
    return 2 if hid_infinities or (once and params.get("clip_percentiles")) or params.get("function") else 1


def _transformed(
    volumes: VolumeFiles | VolumeDelta | VolumeParquet,
    parameters: TransformParameters,
    ctx: TaskContext,
    adding: Callable[[VolumeFiles], AddVolumes],
) -> VolumeFiles:
    from engine.storage import manifest
    from nodes.loaders.chained_volumes import rows_as_files, with_transforms

    for parameter, problem in parameters.problems():
        raise UsageError(f"{parameter} {problem}", hint="Correct it.", parameter=parameter)
    chain = parameters.chain(_source(parameters))
    listing = ctx.out / "volumes.arrow"
    if parameters.statistics != "volume":
        chain = _measured(volumes, chain, ctx, adding)
    if not isinstance(volumes, VolumeFiles):
        return with_transforms(rows_as_files(volumes, listing), chain)
    # A listing of its own, so that the result stays when that of the node before is freed.
    manifest.write(manifest.read(volumes.manifest), listing)
    return with_transforms(volumes.model_copy(update={"manifest": str(listing)}), chain)


def _measured(
    volumes: VolumeFiles | VolumeDelta | VolumeParquet,
    chain: tuple[Transform, ...],
    ctx: TaskContext,
    adding: Callable[[VolumeFiles], AddVolumes],
) -> tuple[Transform, ...]:
    """The chain with the figures of its steps that are measured once, each over what the steps before it make."""
    from nodes.conversion.whole_volumes import steps_of
    from nodes.loaders.chained_volumes import rows_as_files
    from nodes.loaders.shared_statistics import measured_once
    from nodes.transforms.parameters import transform_of
    from nodes.transforms.steps import Measured

    if not isinstance(volumes, VolumeFiles):
        # The whole table: the parts of a split are changed alike.
        whole = volumes.model_copy(update={"selections": ()}) if isinstance(volumes, VolumeDelta) else volumes
        volumes = rows_as_files(whole, ctx.scratch / "measured.arrow")
    out: tuple[Transform, ...] = ()
    for each, step in zip(chain, steps_of(chain), strict=True):
        if isinstance(step, Measured):
            before = volumes.model_copy(update={"transforms": (*volumes.transforms, *out)})
            step = measured_once(step, before, ctx, adding)
            ctx.info(f"measured: {step.words()}" + (f", {len(step.sources)} of them" if step.by_source else ""))
            out += (transform_of(step),)
        else:
            out += (each,)
    return out


def _source(parameters: TransformParameters) -> str:
    """The text of the person's own function. Raises `UsageError` when it may not run."""
    if not parameters.function:
        return ""
    from nodes.transforms.function_file import read_function

    return read_function(parameters.function)


@transform_volumes.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """What a sample of the files is like after the steps. A function of one's own runs only when it is trusted."""
    parameters = TransformParameters(**look.params)
    given = look.inputs.get("volumes")
    if any(parameters.problems()):
        return {}
    try:
        chain = parameters.chain(_source(parameters))
    except UsageError as exc:
        return {"function": [exc.message, exc.hint]}
    facts: dict[str, Any] = {"chain": [each.model_dump(mode="json") for each in chain]}
    there = given.dataset if given is not None else None
    if given is None or not isinstance(there, VolumeFiles) or not given.sample:
        return facts
    from nodes.conversion.volume_sources import reading_of
    from nodes.conversion.whole_volumes import sample_whole

    # What is measured once has the same form as what each volume would be normalised by.
    stand_in = replace(parameters, statistics="volume").chain(_source(parameters))
    made = there.model_copy(update={"transforms": (*there.transforms, *stand_in)})
    names = given.sample[:: max(1, len(given.sample) // _SAMPLED)][:_SAMPLED]
    sample = sample_whole(there.uri, names, reading_of(made), _SAMPLED_BYTES)
    if not sample.looked:
        return facts
    return facts | {
        "looked": sample.looked,
        "spec": sample.majority.model_dump(mode="json") if sample.majority else None,
        "forms": [f"{'x'.join(map(str, shape))} {dtype}" for (shape, dtype), _ in sample.specs.most_common(_EXAMPLES)],
        "differing": sum(sample.specs.values()) - max(sample.specs.values(), default=0),
        "bad": len(sample.refused),
        # Files that cannot be read at all are for the node before to report.
        "unfit": [f"{name} {refused.message}" for name, refused in sample.refused if refused.reason == "transform"],
        "largest": sample.largest_bytes,
        "orientations": dict(sample.orientations),
    }


@transform_volumes.preview
def _preview(look: CheckContext) -> Preview:
    parameters, facts = TransformParameters(**look.params), look.facts
    given = look.inputs.get("volumes") or Preview(kind="VolumeFiles")
    out = Preview(kind="VolumeFiles", uri=given.uri, labels=given.labels).model_copy(update=_counts(given))
    if problems := list(parameters.problems()):
        for parameter, problem in problems:
            look.report(ParametersContradict, problem, hint="Correct it.", parameter=parameter)
        return out
    if "function" in facts:
        message, hint = facts["function"]
        look.report(OwnFunctionNotUsable, message, hint=hint, parameter="function")
        return out
    chain = tuple(map(Transform.model_validate, facts["chain"])) if "chain" in facts else parameters.chain()
    if not chain:
        look.report(NothingToDo, "no step is chosen, so the volumes stay as they are", hint="Choose a step.")
    done = given.spec.transforms if given.spec is not None else ()
    spec = _spec_of_sample(look) if "looked" in facts else _spec_alone(look, given, chain)
    if spec is not None:
        classes = given.spec.classes if given.spec is not None else ()
        spec = spec.model_copy(update={"transforms": (*done, *chain), "classes": classes})
    there = given.dataset
    if isinstance(there, VolumeFiles) and spec is not None:
        steps = (*there.transforms, *chain)
        there = there.model_copy(update={"transforms": steps, "spec": spec, "largest_bytes": facts.get("largest", 0)})
    return out.model_copy(
        update={
            "bytes": given.bytes,
            "spec": spec,
            "sample": given.sample,
            "labels_complete": given.labels_complete,
            "columns": given.columns,
            **_groups(given),
            "refused": facts.get("bad", 0) + facts.get("differing", 0),
            "orientations": facts.get("orientations", {}),
            "does": words_of(chain),
            "dataset": there if isinstance(there, VolumeFiles) and spec is not None else None,
        }
    )


def _counts(given: Preview) -> dict[str, int | None]:
    """Of a part of a table only its rows come out; they stay a part while nobody has counted them."""
    if given.selected is None or not given.selected_exactly:
        return {"count": given.count, "selected": given.selected, "labelled": given.labelled}
    # How many of the part have a label is certain only where all have one, or none.
    return {"count": given.held, "labelled": given.labelled_held if given.labelled in (0, given.count) else None}


def _groups(given: Preview) -> dict[str, tuple[str, ...]]:
    """What a split went by: lost where it is a place in space, which the transforms change, so that rows lack it."""
    lines = {name for name, _ in SURVEY} - {name for name, _ in AFFINE}
    moving = {name for name, _ in GEOMETRY} | (lines if lines <= {*(given.columns or ())} else set())
    if given.kind != "VolumeFiles" and moving & {*given.grouped_by}:
        return {"grouped_by": (), "groups_lost": given.grouped_by}
    return {"grouped_by": given.grouped_by, "groups_lost": given.groups_lost}


def _spec_of_sample(look: CheckContext) -> VolumeSpec | None:
    """Shape and dtype of most of the sampled volumes; what differs is reported."""
    facts = look.facts
    looked, bad, differing = facts["looked"], len(facts["unfit"]), facts["differing"]
    examples = "; ".join(facts["unfit"][:_EXAMPLES])
    if bad:
        look.report(
            NoneCanBeTransformed if bad == looked else SomeCannotBeTransformed,
            f"{'none' if bad == looked else bad} of {looked} sampled volumes can{'' if bad == looked else 'not'} be"
            f" transformed: {examples}",
            hint="Change the step that does not fit, or the volumes."
            if bad == looked
            else "They will be listed and left out; max_bad_files of NumpyToParquet says how many may be.",
            port="volumes",
        )
    if differing:
        look.report(
            FormsStillDiffer,
            f"of {looked} sampled volumes {differing} end{'s' if differing == 1 else ''} with another shape or type"
            f" than most ({', '.join(facts['forms'])})",
            hint="A table takes one shape. Set size, or shape instead of spacing, and dtype.",
            parameter="size",
        )
    return VolumeSpec.model_validate(facts["spec"]) if facts["spec"] else None


def _spec_alone(look: CheckContext, given: Preview, chain: tuple[Transform, ...]) -> VolumeSpec | None:
    """What follows from the shape and dtype that go in, where that is so; volumes may differ in their spacing."""
    if given.spec is None:
        return None
    from nodes.transforms.steps import SPACING, Unfit, form_after, load_steps

    steps = load_steps([each.model_dump(mode="json") for each in chain])
    known = given.columns is None or set(SPACING) <= set(given.columns)
    found = []
    try:
        for length in (1.0, 3.0):
            row = dict.fromkeys(SPACING, length) if known else {}
            found.append(form_after(steps, given.spec.shape, given.spec.dtype, row))
    except Unfit as exc:
        look.report(
            NoneCanBeTransformed, f"no volume can be transformed: each {exc}", hint="Change the step.", port="volumes"
        )
        return None
    if found[0] is None or found[0] != found[1]:
        return None
    return VolumeSpec(shape=found[0][0], dtype=found[0][1])


# --- what it reports before a run ----------------------------------------------------------------


class ParametersContradict(Rule):
    """A parameter of TransformVolumes has the wrong number of values, or says the opposite of another: a spacing and a
    shape to resample to, limits of which the lower one is higher, or axes that are not named once each.

    What to do: what the message says. A step that you do not need is left empty.
    """

    code = "VF471"
    severity = "error"
    title = "steps that contradict each other"


class NothingToDo(Rule):
    """TransformVolumes has no step, so the volumes go through it as they are.

    What to do: choose a step, such as `size` to crop, or take the node out.
    """

    code = "VF472"
    severity = "warning"
    title = "a transform without a step"


class NoneCanBeTransformed(Rule):
    """A step cannot be applied to any of the volumes that were looked at: they say no spacing, have no such channel, or
    fewer axes, or the person's own function fails. The message has the reason.

    What to do: change that step. Volumes of `.npy` files say no spacing: resample them to a `shape`.
    """

    code = "VF473"
    severity = "error"
    title = "volumes that cannot be transformed"


class SomeCannotBeTransformed(Rule):
    """A step cannot be applied to some of the sampled volumes. NumpyToParquet lists them with their reason and leaves
    them out; the run stops when they are more than its `max_bad_files`.

    What to do: correct or remove these files, change the step, or raise `max_bad_files`.
    """

    code = "VF474"
    severity = "warning"
    title = "some volumes that cannot be transformed"


class FormsStillDiffer(Rule):
    """The sampled volumes have different shapes or types after the steps, and a table takes one. Volumes resampled to
    a spacing keep their size in millimetres, so their shapes differ as their sizes do.

    What to do: crop or pad them to a `size` as well, or resample to a `shape`; set `dtype` for types that differ.
    """

    code = "VF475"
    severity = "error"
    title = "volumes that end with different shapes"


class OwnFunctionNotUsable(Rule):
    """The file in `function` cannot be used: it does not exist, is not in a trusted workspace's `my_transforms/`, has
    a syntax error, or has no function `transform(volume, row)`.

    What to do: correct what the message names. nodes/README.md has an example under "Transforms of your own".
    """

    code = "VF476"
    severity = "error"
    title = "a transform file that cannot be used"
