"""`VolumeFolder`: a folder of volumes as the beginning of a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, VolumeFiles, VolumeSpec
from engine.declare.node import node
from engine.declare.parameters import Added, Advanced, PathIn
from engine.diagnostics.rule import Rule
from engine.diagnostics.rules import PackageMissing
from engine.errors import DataError, MissingPackage
from engine.extras import missing, missing_text
from nodes.conversion.formats import NPY, Reading, format_named, formats
from nodes.conversion.formats import format_problems as left_out_plugins  # noqa: F401 - see engine.catalog

if TYPE_CHECKING:
    import pyarrow as pa

# Three endings are compared faster than one pattern with [nN][pP][yY], and nobody writes the others.
VOLUME_FILES = ("**/*.npy", "**/*.NPY", "**/*.Npy")
_EXAMPLES = 3
"""Bad files that a scan names."""
_SAMPLED = 64
"""Headers that a scan reads."""
_SAMPLED_BYTES = 32 << 20
"""What a scan copies of files in object storage to read their headers; larger ones are not looked at."""
_MOST_COLLECTED = 2_000
"""Files of volumes of several files each that a scan puts together: it takes some milliseconds for each."""
FormatName = Literal[
    "auto", "npy", "nifti", "dicom", "nrrd", "metaimage", "tiff", "hdf5", "zarr", "segy", "matlab", "npz"
]


@node(
    "VolumeFolder",
    version=1,
    category="Sources",
    icon="folder-input",
    keywords=(
        "numpy",
        "npy",
        "files",
        "import",
        "load",
        "read",
        "nifti",
        "dicom",
        "tiff",
        "hdf5",
        "zarr",
        "nrrd",
        "matlab",
        "seismic",
        "segy",
    ),
    imports=("engine.processes.pyarrow_without_pandas", "numpy", "pyarrow.compute"),
    uses_all_cores=False,
    anywhere="only names files",
)
def volume_folder(
    *,
    folder: Annotated[
        str,
        PathIn(
            "folder",
            *VOLUME_FILES,
            "labels.csv",
            "labels.parquet",
            kinds="nodes.conversion.formats:file_kinds",
            kind_parameter="format",
            holds="volumes",
        ),
    ],
    format: Annotated[FormatName, Added()] = "auto",
    dataset: Annotated[str, Added(), Advanced()] = "",
    ctx: TaskContext,
) -> VolumeFiles:
    """Take the volumes of a folder and its sub-folders: NumPy, NIfTI, DICOM, TIFF and more.

    Every file is one volume: axes X, Y, Z, then channels, e.g. 30 x 30 x 10 x 10. Shape and dtype are
    those of most files in a sample of 256, evenly spread over the sorted listing. A `labels.csv` or
    `labels.parquet` in the folder is found by NumpyToParquet.

    The ending may also be in capitals. Links to files and to sub-folders are followed, each folder once. A link whose
    target is missing, as git-annex and DVC leave them, and what is no regular file, counts as a file that cannot be
    read.

    Args:
        folder: folder with the volumes, or a place in object storage (az://container/folder,
            s3://bucket/folder, gs://bucket/folder), from which volumes of one file each are read (no DICOM series,
            NRRD, MetaImage, Zarr); hidden files and folders are left out.
        format: which files to take. Auto takes .npy files where there are any, else those of the format that most
            files have. With dicom also files without an ending, as archives and CDs name them.
        dataset: which array of each file is the volume, by its name or path in the file, for formats that hold
            several (.npz, HDF5, MATLAB, Zarr). Empty takes the only one. For SEG-Y the bytes of the inline and
            crossline numbers in the trace headers, where they are not at their usual places: 189,193.
    """
    from engine.storage import manifest
    from nodes.conversion.npy_files import spread
    from nodes.conversion.volume_sources import refuse_url, sample_headers, volumes_of

    listing = manifest.read(ctx.inputs_found["folder"])
    reading = _reading(format, dataset, listing["path"])
    refuse_url(folder, reading)
    volumes = volumes_of(listing, folder, reading)
    count = len(volumes)
    if count == 0:
        raise DataError(f"there are no volumes in {folder}", hint="Choose the folder with the volumes.")
    path = ctx.out / "volumes.arrow"
    manifest.write(volumes, path)
    sample = sample_headers(folder, volumes["path"].take(spread(count)).to_pylist(), reading)
    for summary in sample.summaries[:_EXAMPLES]:
        ctx.info(summary)
    if sample.remarks:
        ctx.warn(_remarks(sample.remarks))
    return VolumeFiles(
        uri=folder,
        manifest=str(path),
        count=count,
        bytes=manifest.total_bytes(volumes),
        spec=sample.majority,
        format=reading.format,
        dataset=reading.dataset,
    )


def _reading(chosen: str, dataset: str, paths: pa.ChunkedArray) -> Reading:
    """How the listed files are read. The listing has those of one format, which "auto" finds again by their endings."""
    if chosen != "auto":
        return NPY if chosen == "npy" else Reading(chosen, dataset)
    import pyarrow.compute as pc

    from nodes.conversion.volume_sources import is_volume

    counts = {name: pc.sum(is_volume(paths, Reading(name))).as_py() or 0 for name in ("npy", *formats())}
    best = "npy" if counts["npy"] else max(counts, key=lambda name: counts[name])
    return NPY if not counts[best] or best == "npy" else Reading(best, dataset)


@volume_folder.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    from engine.storage import manifest
    from nodes.conversion.npy_files import spread
    from nodes.conversion.volume_sources import label_table_sizes, sample_headers, volumes_of

    found = look.paths["folder"]
    tables = label_table_sizes(found.path)
    facts = {"label_tables": len(tables), "label_table_bytes": sum(tables)}
    reading = Reading(found.file_kind or "npy", look.params.get("dataset", "") if found.file_kind else "")
    if reading == NPY:
        names = [name for name in found.sample if name.lower().endswith(".npy")]
    else:
        described = format_named(reading.format)
        if absent := missing(described.modules):
            return facts | {"absent": missing_text(f"reading {described.title} volumes", absent)}
        if described.collect and found.count > _MOST_COLLECTED:
            return facts | {"uncounted": True}
        listing = volumes_of(manifest.read(found.manifest), found.path, reading)
        names = listing["path"].take(spread(len(listing), _SAMPLED)).to_pylist()
        facts |= {"count": len(listing), "names": names}
    try:
        sample = sample_headers(found.path, names, reading, _SAMPLED_BYTES)
    except MissingPackage as exc:  # what decompresses some of the files
        return facts | {"absent": (exc.message, exc.hint)}
    majority = sample.majority
    return facts | {
        "looked": sample.looked,
        "spec": majority.model_dump(mode="json") if majority else None,
        "differing": sum(sample.specs.values()) - max(sample.specs.values(), default=0),
        "bad": len(sample.refused),
        "reasons": [reason for reason, _ in Counter(refused.reason for _, refused in sample.refused).most_common()],
        "examples": [f"{name} {refused.message}" for name, refused in sample.refused[:_EXAMPLES]],
        "remarks": _remarks(sample.remarks),
        "orientations": dict(sample.orientations),
    }


def _remarks(found: Sequence[str]) -> str:
    """Some of them in a sentence, "" for none."""
    more = f"; and {len(found) - _EXAMPLES} more" if len(found) > _EXAMPLES else ""
    return "; ".join(found[:_EXAMPLES]) + more


@volume_folder.preview
def _preview(look: CheckContext) -> Preview:
    found, facts = look.paths.get("folder"), look.facts
    # Without a listing nothing is known yet: a document that is only validated touches no folder.
    if found is None or not found.exists or not found.manifest:
        return Preview(kind="VolumeFiles", uri=str(look.params.get("folder") or "") or None)
    kind = found.file_kind or "npy"
    if "absent" in facts:
        message, hint = facts["absent"]
        look.report(PackageMissing, f"{message} ({found.content})", hint=hint, parameter="folder")
    count = facts.get("count", found.count - facts.get("label_tables", 0))
    # Without any file at all, that nothing matches is reported already.
    if count == 0 and found.count:
        look.report(
            NoVolumes,
            f"there are no volumes in {found.path} ({found.content})",
            hint="Choose the folder with the volumes.",
            parameter="folder",
        )
    if "looked" in facts:
        _report_sample(look, facts)
    if "absent" in facts or "uncounted" in facts:
        return Preview(kind="VolumeFiles", uri=found.path)
    size = found.bytes - facts.get("label_table_bytes", 0)
    spec = VolumeSpec.model_validate(facts["spec"]) if facts.get("spec") else None
    there = VolumeFiles(
        uri=found.path,
        manifest=found.manifest,
        count=count,
        bytes=size,
        spec=spec,
        format=kind,
        dataset=look.params.get("dataset", "") if kind != "npy" else "",
    )
    sample = facts.get("names", [name for name in found.sample if name.lower().endswith(".npy")])
    return Preview(
        kind="VolumeFiles",
        uri=found.path,
        count=count,
        bytes=size,
        spec=spec,
        sample=tuple(sample),
        columns=() if kind == "npy" else tuple(name for name, _ in format_named(kind).columns),
        refused=facts.get("bad", 0) + facts.get("differing", 0),
        orientations=facts.get("orientations", {}),
        dataset=there if count and spec is not None else None,
    )


def _advice(reasons: Sequence[str]) -> str:
    """What to do about files that were refused for these reasons, the commonest first."""
    from nodes.conversion.quarantine import ADVICE

    return " ".join(dict.fromkeys(ADVICE.get(reason, ADVICE["format"]) for reason in reasons[:_EXAMPLES]))


def _report_sample(look: CheckContext, facts: Mapping[str, Any]) -> None:
    looked, bad = facts["looked"], facts["bad"]
    examples = "; ".join(facts["examples"])
    if facts["remarks"]:
        look.report(
            OddVolumes,
            facts["remarks"],
            hint="They are read all the same; look whether that is what you expect.",
            parameter="folder",
        )
    if bad and bad == looked:
        look.report(
            AllSampledBad,
            f"none of {looked} sampled files is a volume, for example {examples}",
            hint=_advice(facts["reasons"]),
            parameter="folder",
        )
    elif bad:
        look.report(
            SomeSampledBad,
            f"{bad} of {looked} sampled files cannot be read as volumes: {examples}",
            hint=f"{_advice(facts['reasons'])} Else they will be listed and left out; max_bad_files of NumpyToParquet"
            " says how many may be.",
            parameter="folder",
        )
    if facts["differing"]:
        spec = VolumeSpec.model_validate(facts["spec"])
        look.report(
            SampledFormsDiffer,
            f"only {looked - bad - facts['differing']} of {looked} sampled volumes are {spec.describe()}, the commonest"
            f" shape; a table takes the other {facts['differing']} only once they have it, too",
            hint="TransformVolumes after the folder makes them one shape; CutVolumes cuts volumes of any shape.",
            parameter="folder",
        )


# --- what it reports before a run ----------------------------------------------------------------


class NoVolumes(Rule):
    """The folder has files that could belong to it, like a label table, but no volume.

    What to do: choose the folder with the volumes; sub-folders are looked into. From object storage volumes of one file
    each are read.
    """

    code = "VF401"
    severity = "error"
    title = "a folder without volumes"


class AllSampledBad(Rule):
    """A sample of the folder's files was opened, and none of them is a volume that can be converted. The rest
    is likely to be the same, so a run would only fill the quarantine.

    What to do: check how the files were made: `numpy.save` writes `.npy` files, and a copy that was cut short does not
    read. Arrays of Python objects are refused. Of files with several arrays the parameter `dataset` names one.
    """

    code = "VF402"
    severity = "error"
    title = "a folder whose sampled files are all bad"


class SomeSampledBad(Rule):
    """Some of the sampled files cannot be read as volumes. Bad files are left out, with the reason in
    quarantine.csv, and the run stops when they are more than `max_bad_files` of NumpyToParquet (0 by default).

    What to do: repair or remove the files, or raise `max_bad_files` if you can do without them.
    """

    code = "VF403"
    severity = "warning"
    title = "sampled files that cannot be read"


class SampledFormsDiffer(Rule):
    """All volumes of a table have the same shape and dtype. Without a node between that changes them, those that differ
    from most are left out, with the reason in quarantine.csv, and the run stops when they are more than
    `max_bad_files` of NumpyToParquet.

    What to do: nothing where CutVolumes follows. Else put TransformVolumes after the folder, which resamples, crops or
    pads all of them to one shape and dtype; put the others into a pipeline of their own, or raise `max_bad_files` if
    you can do without them.
    """

    code = "VF404"
    severity = "info"
    title = "sampled volumes that differ in shape or dtype"


class OddVolumes(Rule):
    """Sampled volumes can be read, and their files say or lack something that is easily overlooked: a survey without
    some of its inlines or traces, which become NaN; a scan that lies so oblique that no letters say where its axes
    point to, or that does not say where it lies; numbered files of one slice each, which are not put together.

    What to do: nothing where you know of it. Else export the survey again, resample the scan to straight axes, or
    store the slices of a volume in one file: `tifffile.imwrite("scan.tif", np.stack(slices))`.
    """

    code = "VF405"
    severity = "warning"
    title = "sampled volumes with something odd"
