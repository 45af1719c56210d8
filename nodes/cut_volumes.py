"""`CutVolumes`: large volumes into patches of one size, labelled, straight into Parquet files of the right size."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, VolumeFiles, VolumeParquet, VolumeSpec, words_of
from engine.declare.node import node
from engine.errors import DataError, MissingPackage
from engine.text import number, plural
from nodes.conversion.commas import WITH_POINT
from nodes.conversion.rules import ColumnChanged, NumbersWithCommas
from nodes.cutting.cut_parameters import CutParameters, keep_rates, name_pattern, steps_of
from nodes.cutting.rules import (
    BadCutParameter,
    CutAfterTransforms,
    CutParameterNotUsed,
    FilesDoNotFit,
    FilesOfNoVolume,
    NothingKept,
    PatchTooLarge,
    TableDoesNotMatch,
    TableNotUsed,
    VolumesCannotBeCut,
    VolumesLeftOut,
    VolumesTooSmall,
    VolumesWithoutLabels,
)

if TYPE_CHECKING:
    from nodes.cutting.cubes import Cube
    from nodes.cutting.cut import Survey
    from nodes.cutting.known_of_volumes import KnownOfVolumes

_MOST_FILES = 50_000
"""Files of a folder that a scan puts together to volumes."""
_LOOKED = 32
"""Volumes whose headers a scan reads."""
_SAMPLED = 4
"""Volumes of which a scan labels patches."""
_PATCHES = 500
_LABELS = 20
_MOST_LABEL_BYTES = 64 << 20
"""Volumes of labels that must be read whole are not read by a scan when they are larger."""
_NAMED = 3
_ROW_BYTES = 140


@node(
    "CutVolumes",
    version=1,
    category="Conversion",
    icon="scissors",
    keywords=("patches", "crop", "tile", "slice", "window", "cube", "seismic", "segy", "facies", "horizon", "stride"),
    imports=("engine.processes.pyarrow_without_pandas", "nodes.cutting.cut"),
)
def cut_volumes(files: VolumeFiles, *, parameters: CutParameters, ctx: TaskContext) -> VolumeParquet:
    """Cut large volumes into many patches of one size, with labels and places, in few Parquet files.

    A volume is a file, or several that are its channels. It may be larger than memory: SEG-Y, `.npy`, Zarr, HDF5, and
    uncompressed NIfTI and TIFF are read a slab at a time, each slab once; other formats are read whole. A patch has
    the axes X, Y, Z and channels. Its columns `source`, `x`, `y`, `z` are the volume's name and the patch's first
    voxel, by which SplitDataset keeps patches that overlap together (by blocks, column x,y,z); inline, crossline and
    time, or spacing and affine, are those of that voxel. What columns_file says of a volume (patient, age) all its
    patches have as columns. Found patches are always those converted, quarantined and left out by keep. When the
    folder grows, only the new volumes are cut; what a killed run had finished is not made again.

    Args:
        files: the volumes, and volumes of labels among them if there are any.
    """
    from nodes.cutting.cut import cut_files

    return cut_files(files, parameters, ctx)


@cut_volumes.on("spark")
def _on_spark(files: VolumeFiles, *, parameters: CutParameters, ctx: TaskContext) -> VolumeParquet:
    """The same parts and hashes, made by Spark tasks."""
    from nodes.cutting.cut import cut_files
    from nodes.spark.hash_sources import hash_on_spark
    from nodes.spark.make_chunks import on_spark

    return cut_files(files, parameters, ctx, on_spark, hash_on_spark)


@cut_volumes.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """Read some headers, and label some patches."""
    given = look.inputs.get("files")
    files = given.dataset if given is not None else None
    if not isinstance(files, VolumeFiles) or files.count > _MOST_FILES or files.transforms:
        return {}
    parameters = CutParameters(**look.params)
    if any(_problems(parameters)):
        return {}
    from engine.storage import manifest
    from nodes.conversion.labels import LABEL_TABLES
    from nodes.conversion.npy_files import spread
    from nodes.conversion.volume_sources import reading_of, volumes_of
    from nodes.cutting.cubes import find_cubes, left_out, said_left_out
    from nodes.cutting.cut import refuse_remote, survey
    from nodes.cutting.known_of_volumes import known_of_volumes

    try:
        refuse_remote(files)
        listing = volumes_of(manifest.read(files.manifest), files.uri, reading_of(files))
        cubes = find_cubes(listing, parameters)
        looked = [cubes[place] for place in spread(len(cubes), _LOOKED)]
        found = survey(files.uri, looked, reading_of(files), parameters)
        labels = _sample_labels(files, looked, found, parameters)
        known = known_of_volumes(cubes, reading_of(files), parameters)
    except MissingPackage:
        return {}
    except DataError as exc:
        return {"problem": exc.message, "hint": exc.hint, "parameter": exc.parameter or ""}
    except OSError:
        return {}
    unused = left_out(listing, cubes, parameters)
    beside = json.loads((listing.schema.metadata or {}).get(LABEL_TABLES, b"[]"))
    return (
        _facts(cubes, looked, found, parameters)
        | labels
        | {"left_out": said_left_out(unused) if unused else ""}
        | {"tables_beside": [table["path"] for table in beside]}
        | _of_table(known, len(cubes), parameters)
    )


def _of_table(known: KnownOfVolumes, volumes: int, parameters: CutParameters) -> dict[str, Any]:
    from nodes.cutting.cut import said_not_matched

    table = parameters.columns_file
    return {
        "columns": known.columns.column_names,
        "remarks": list(known.remarks),
        "commas": known.commas,
        "not_matched": said_not_matched(known, volumes, os.path.basename(table)) if table else "",
    }


def _facts(cubes: list[Cube], looked: list[Cube], found: Survey, parameters: CutParameters) -> dict[str, Any]:
    from nodes.cutting.grid import PatchGrid

    steps = steps_of(parameters.size, parameters.stride)
    counts = {
        name: len(PatchGrid(known.shape[:3], steps, parameters.edges != "drop")) for name, known in found.known.items()
    }
    spec = found.spec(steps)
    return {
        "volumes": len(cubes),
        "looked": len(looked),
        "patches": sum(counts.values()),
        "too_small": [
            f"{name} ({'x'.join(map(str, found.known[name].shape[:3]))})" for name, count in counts.items() if not count
        ],
        "refused": [f"{name} {why.message}" for name, why in found.refused.items()],
        "spec": spec.model_dump(mode="json") if spec is not None else None,
        "unlabelled_volumes": [cube.name for cube in cubes if cube.labels is None],
    }


def _sample_labels(files: VolumeFiles, looked: list[Cube], found: Survey, parameters: CutParameters) -> dict[str, Any]:
    """How many of some patches have each label, and the share of them that is kept."""
    import numpy as np

    from nodes.conversion.npy_files import spread
    from nodes.conversion.volume_sources import reading_of
    from nodes.cutting.cut import label_patches, positions_of
    from nodes.cutting.grid import PatchGrid
    from nodes.cutting.patch_labels import LabelRule
    from nodes.cutting.patches import ids_of

    if parameters.labels == "none" and not parameters.keep:
        return {}
    rule = LabelRule.of(parameters)
    steps = steps_of(parameters.size, parameters.stride)
    counts: dict[str, int] = {}
    kept = labelled = 0
    values, known_cubes = set[float](), [cube for cube in looked if cube.name in found.known]
    complete = len(known_cubes) <= _SAMPLED
    for cube in known_cubes[:_SAMPLED]:
        known = found.known[cube.name]
        grid = PatchGrid(known.shape[:3], steps, parameters.edges != "drop")
        if not len(grid):
            continue
        positions = positions_of(grid, known)
        complete = complete and len(positions) <= _PATCHES
        positions = positions[spread(len(positions), _PATCHES)]
        labels = label_patches(files.uri, reading_of(files), rule, cube, known, grid, positions, _MOST_LABEL_BYTES)
        if labels is None:
            complete = False
            continue
        for name, count in rule.names(labels).items():
            counts[name] = counts.get(name, 0) + count
        labelled += len(labels)
        stay = rule.keep(labels, ids_of(cube.name, positions))
        kept += int(np.count_nonzero(stay))
        values.update(labels[stay & ~np.isnan(labels)].tolist())
    return {
        "labelled": labelled,
        "classes": counts,
        "kept": kept,
        "class_names": list(rule.classes),
        "labels": sorted(values)[:_LABELS],
        "labels_complete": complete and len(values) <= _LABELS,
    }


@cut_volumes.preview
def _preview(look: CheckContext) -> Preview:
    parameters, facts = CutParameters(**look.params), look.facts
    for problem in _problems(parameters):
        look.report(BadCutParameter, problem.message, hint=problem.hint, parameter=problem.parameter)
    _check_unused(look, parameters)
    if steps := _transforms(look):
        look.report(
            CutAfterTransforms,
            f"the volumes have transforms ({steps}), and patches are cut from the files as they are",
            hint="Cut first, and wire TransformVolumes after CutVolumes.",
            port="files",
        )
        return Preview(kind="VolumeParquet")
    if "problem" in facts:
        look.report(FilesDoNotFit, facts["problem"], hint=facts["hint"], parameter=facts["parameter"] or None)
    if "volumes" not in facts:
        return Preview(kind="VolumeParquet")
    _check_volumes(look, parameters, facts)
    if facts["left_out"]:
        look.report(
            FilesOfNoVolume,
            facts["left_out"],
            hint="They are not cut. Correct channels_from or label_volume if they should be.",
            parameter="channels_from" if parameters.channels_from else "label_volume",
        )
    _check_table(look, parameters, facts)
    spec = VolumeSpec.model_validate(facts["spec"]) if facts["spec"] else None
    if spec is not None and facts.get("class_names"):
        spec = spec.model_copy(update={"classes": tuple(facts["class_names"])})
    readable = facts["looked"] - len(facts["refused"])
    patches = facts["patches"]
    if facts["looked"] < facts["volumes"] and readable:
        patches = round(patches * facts["volumes"] / facts["looked"])
    share = facts["kept"] / facts["labelled"] if facts.get("labelled") else 1.0
    exact = facts["looked"] == facts["volumes"] and not parameters.keep and not facts["refused"]
    estimate = round(patches * share)
    figures: dict[str, float | int | str] = {} if exact else {"patches, about": estimate}
    for name, count in facts.get("classes", {}).items():
        figures[f"{name}, share"] = round(count / facts["labelled"], 3)
    return Preview(
        kind="VolumeParquet",
        count=patches if exact else None,
        bytes=estimate * (spec.volume_bytes + _ROW_BYTES) if spec is not None else None,
        spec=spec,
        labelled=0 if parameters.labels == "none" else None,
        labels=tuple(facts.get("labels", ())),
        labels_complete=facts["looked"] == facts["volumes"] and facts.get("labels_complete", False),
        columns=_columns(look),
        sources=facts["volumes"],
        figures=figures,
    )


def _transforms(look: CheckContext) -> str:
    """What is done to the volumes while they are read, in words; empty where nothing is."""
    given = look.inputs.get("files")
    if given is None:
        return ""
    if isinstance(given.dataset, VolumeFiles):
        return words_of(given.dataset.transforms)
    return words_of(given.spec.transforms) if given.spec is not None else ""


def _columns(look: CheckContext) -> tuple[str, ...] | None:
    files = look.inputs["files"].dataset
    if not isinstance(files, VolumeFiles):
        return None
    from nodes.conversion.volume_sources import reading_of
    from nodes.cutting.patches import columns_of

    own = columns_of(reading_of(files), hashes=look.params["hash_sources"]).names
    return (*own, *look.facts["columns"])


def _problems(parameters: CutParameters) -> Iterator[DataError]:
    """What is wrong with the parameters alone."""
    checks: list[Callable[[], object]] = [lambda: steps_of(parameters.size, parameters.stride)]
    if parameters.channels_from:
        checks.append(lambda: name_pattern(parameters.channels_from, "channels_from", parameters.names_of_channels))
    if parameters.label_volume:
        checks.append(lambda: name_pattern(parameters.label_volume, "label_volume"))
    checks.append(lambda: keep_rates(parameters.keep))
    for check in checks:
        try:
            check()
        except DataError as exc:
            yield exc
    needed = {"volume": "label_volume", "horizon": "label_file", "polygon": "label_file"}.get(parameters.labels)
    if needed and not getattr(parameters, needed):
        yield DataError(
            f"labels come from a {parameters.labels}, and nothing says which file has them",
            hint="Write for example {cube}_labels.nii.gz." if needed == "label_volume" else "Choose the text file.",
            parameter=needed,
        )


def _check_unused(look: CheckContext, parameters: CutParameters) -> None:
    by_file = parameters.labels in ("horizon", "polygon")
    unused = {
        "label_file": not by_file,
        "within": not by_file,
        "class_names": parameters.labels != "volume",
    }
    for name, is_unused in unused.items():
        if is_unused and getattr(parameters, name):
            look.report(
                CutParameterNotUsed,
                f"is not used: labels come from {'nothing' if parameters.labels == 'none' else parameters.labels}",
                hint="Clear it, or choose another source of labels.",
                parameter=name,
            )


def _check_table(look: CheckContext, parameters: CutParameters, facts: Mapping[str, Any]) -> None:
    """Report what is to say of the table of the volumes' columns."""
    if (beside := facts["tables_beside"]) and not parameters.columns_file:
        look.report(
            TableNotUsed,
            f"{beside[0]} lies beside the volumes, and its columns do not come into the table",
            hint="Name it in columns_file if you need them, for example to split by patient.",
            parameter="columns_file",
        )
    if facts["not_matched"]:
        look.report(
            TableDoesNotMatch,
            facts["not_matched"],
            hint="Name each volume as its file is named, with its folders; the columns of the others are empty.",
            parameter="columns_file",
        )
    for remark in facts["remarks"]:
        look.report(
            ColumnChanged, remark, hint="Rename or correct it in the table, if that matters.", parameter="columns_file"
        )
    for name, example in facts["commas"].items():
        look.report(
            NumbersWithCommas,
            f"the values of the column {name} are numbers with commas, such as {example}: they stay text",
            hint=f"{WITH_POINT}.",
            parameter="columns_file",
        )


def _check_volumes(look: CheckContext, parameters: CutParameters, facts: Mapping[str, Any]) -> None:
    looked = facts["looked"]
    sampled = "" if looked == facts["volumes"] else " looked at"
    if refused := facts["refused"]:
        leave_out = parameters.bad_volumes != "stop" and len(refused) < looked
        look.report(
            VolumesLeftOut if leave_out else VolumesCannotBeCut,
            f"{plural(len(refused), 'volumes')} of {looked}{sampled} cannot be cut: {'; '.join(refused[:_NAMED])}",
            hint="They will be listed and left out."
            if leave_out
            else "Repair or remove them, or let bad_volumes leave them out.",
            parameter="bad_volumes",
        )
    if small := facts["too_small"]:
        size = "x".join(map(str, parameters.size))
        if len(small) == looked - len(facts["refused"]):
            look.report(
                PatchTooLarge,
                f"a patch of {size} voxels does not fit into any volume{sampled}, for example {small[0]}",
                hint="Choose a smaller size, or fill beyond the edges.",
                parameter="size",
            )
        else:
            look.report(
                VolumesTooSmall,
                f"a patch of {size} voxels does not fit into {plural(len(small), 'volumes')} of {looked}{sampled}:"
                f" {', '.join(small[:_NAMED])}",
                hint="They give no patches. Choose a smaller size, or fill beyond the edges.",
                parameter="size",
            )
    if parameters.labels == "volume" and (without := facts["unlabelled_volumes"]):
        look.report(
            VolumesWithoutLabels,
            f"{len(without)} of {plural(facts['volumes'], 'volumes')} without labels: {', '.join(without[:_NAMED])}",
            hint="Their patches have no label; keep unlabelled=0 leaves them out.",
            parameter="label_volume",
        )
    classes = facts.get("classes", {})
    if facts.get("labelled") and not facts["kept"]:
        look.report(
            NothingKept,
            f"of {number(facts['labelled'])} sampled patches ({', '.join(classes)}) none is kept",
            hint="Keep a larger share of some class.",
            parameter="keep",
        )
