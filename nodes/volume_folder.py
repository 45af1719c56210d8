"""`VolumeFolder`: a folder of `.npy` volumes as the beginning of a pipeline.

Its problems: VF401 no volume in the folder; VF402 every sampled file is bad; VF403 some are;
VF404 the sampled volumes differ in shape or dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from engine.context import TaskContext
from engine.datasets import Preview, VolumeFiles, VolumeSpec
from engine.errors import DataError
from engine.node import Look, node
from engine.parameters import PathIn

_TOLD = 3
"""Bad files that a scan names."""


@node(
    "VolumeFolder",
    version=1,
    category="Sources",
    imports=("numpy", "pyarrow.compute"),
    uses_all_cores=False,
    anywhere="only names files",
)
def volume_folder(
    *,
    folder: Annotated[str, PathIn("folder", "**/*.npy", "labels.csv", "labels.parquet")],
    ctx: TaskContext,
) -> VolumeFiles:
    """Take the `.npy` volumes of a folder and its sub-folders.

    Every file is one volume: voxels first, channels last, e.g. 30 x 30 x 10 x 10. Shape and dtype are
    those of most files in a sample of 256, evenly spread over the sorted listing. A `labels.csv` or
    `labels.parquet` in the folder is found by NumpyToParquet.

    Args:
        folder: folder with the volumes, or a place in object storage (az://container/folder,
            s3://bucket/folder); hidden files and folders are left out.
    """
    from engine import manifest
    from nodes.conversion.npy_files import sample_headers, spread
    from nodes.conversion.volume_listing import volumes_of

    volumes = volumes_of(manifest.read(ctx.inputs_found["folder"]))
    count = len(volumes)
    if count == 0:
        raise DataError(f"there is no .npy file in {folder}", hint="Choose the folder with the volumes.")
    path = ctx.out / "volumes.arrow"
    manifest.write(volumes, path)
    sample = sample_headers(folder, volumes["path"].take(spread(count)).to_pylist())
    return VolumeFiles(
        uri=folder, manifest=str(path), count=count, bytes=manifest.total_bytes(volumes), spec=sample.majority
    )


@volume_folder.scan
def _scan(look: Look) -> Mapping[str, Any]:
    from nodes.conversion.npy_files import sample_headers
    from nodes.conversion.volume_sources import label_table_sizes

    found = look.paths["folder"]
    sample = sample_headers(found.path, [name for name in found.sample if name.endswith(".npy")])
    majority = sample.majority
    tables = label_table_sizes(found.path)
    return {
        "looked": sample.looked,
        "spec": majority.model_dump(mode="json") if majority else None,
        "differing": sum(sample.specs.values()) - max(sample.specs.values(), default=0),
        "bad": len(sample.refused),
        "examples": [f"{name} {refused.message}" for name, refused in sample.refused[:_TOLD]],
        "label_tables": len(tables),
        "label_table_bytes": sum(tables),
    }


@volume_folder.preview
def _preview(look: Look) -> Preview:
    found, facts = look.paths.get("folder"), look.facts
    # Without a listing nothing is known yet: a document that is only validated touches no folder.
    if found is None or not found.exists or not found.manifest:
        return Preview(kind="VolumeFiles", uri=str(look.params.get("folder") or "") or None)
    count = found.count - facts.get("label_tables", 0)
    if count == 0:
        look.problem(
            "VF401",
            f"there is no .npy file in {found.path}",
            hint="Choose the folder with the volumes.",
            parameter="folder",
        )
    if "looked" in facts:
        _tell(look, facts)
    return Preview(
        kind="VolumeFiles",
        uri=found.path,
        count=count,
        bytes=found.bytes - facts.get("label_table_bytes", 0),
        spec=VolumeSpec.model_validate(facts["spec"]) if facts.get("spec") else None,
        sample=tuple(name for name in found.sample if name.endswith(".npy")),
    )


def _tell(look: Look, facts: Mapping[str, Any]) -> None:
    looked, bad = facts["looked"], facts["bad"]
    examples = "; ".join(facts["examples"])
    if bad and bad == looked:
        look.problem(
            "VF402",
            f"none of {looked} sampled files is a volume, for example {examples}",
            hint="Were they written with numpy.save and copied whole?",
            parameter="folder",
        )
    elif bad:
        look.problem(
            "VF403",
            f"{bad} of {looked} sampled files cannot be read as volumes: {examples}",
            hint="They will be listed and left out; max_bad_files of NumpyToParquet says how many may be.",
            parameter="folder",
            severity="warning",
        )
    if facts["differing"]:
        spec = VolumeSpec.model_validate(facts["spec"])
        look.problem(
            "VF404",
            f"{facts['differing']} of {looked} sampled volumes are not {spec.describe()} like most",
            hint="They will be listed and left out; max_bad_files of NumpyToParquet says how many may be.",
            parameter="folder",
            severity="warning",
        )
