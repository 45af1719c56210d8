"""`DeltaTable`: a Delta table of volumes that exists already, where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, VolumeDelta
from engine.declare.node import node
from engine.declare.parameters import PathIn, Range
from engine.diagnostics.rule import Rule

if TYPE_CHECKING:
    from nodes.table.snapshot import TableFile


@node(
    "DeltaTable",
    version=1,
    category="Sources",
    icon="table-2",
    keywords=("existing table", "databricks", "spark", "lakehouse"),
    imports=("engine.processes.pyarrow_without_pandas", "deltalake", "nodes.table.snapshot"),
    uses_all_cores=False,
    anywhere="only names files",
)
def delta_table(
    *,
    table: Annotated[str, PathIn("folder", identify="nodes.table.existing:identity", holds="Delta logs")],
    version: Annotated[int | None, Range(0)] = None,
    ctx: TaskContext,
) -> VolumeDelta:
    """Take a Delta table of volumes that is there already, from another workspace or another program.

    Nothing is copied, and this node writes nothing; OptimizeDelta downstream changes the table. A table of volumes has
    the columns id (text), label (a 32-bit number), volume (the array's bytes, C order, little-endian) and any others,
    and the table properties voxelflow.shape, e.g. [30, 30, 10, 2], and voxelflow.dtype, e.g. float32. The node runs
    again when the table has other rows than before; a compaction changes none.

    Args:
        table: folder of the table, or its place in object storage.
        version: version to take; empty takes the newest.
    """
    from nodes.table.snapshot import open_table

    found = open_table(table, version).reference(table)
    ctx.facts(version=found.version, files=found.files)
    return found


@delta_table.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    from engine.errors import VoxelflowError
    from nodes.table.snapshot import open_table

    try:
        found = open_table(look.paths["table"].path, look.params["version"])
    except VoxelflowError as exc:
        return {"problem": exc.message, "hint": exc.hint}
    labels, complete = _labels_at_ends(found.files)
    return {
        "table": found.reference(look.paths["table"].path).model_dump(mode="json"),
        "labels": labels,
        "labels_complete": complete,
    }


def _labels_at_ends(files: Sequence[TableFile]) -> tuple[list[float], bool]:
    """The least and the greatest labels of the files by the log's statistics, and whether these are all labels."""
    import numpy as np

    from nodes.conversion.label_values import different

    labelled = [file for file in files if file.labelled]
    ends = [end for file in labelled for end in (file.label_min, file.label_max)]
    known = np.array([end for end in ends if end is not None], np.float32)
    return different(known), None not in ends and all(file.label_min == file.label_max for file in labelled)


@delta_table.preview
def _preview(look: CheckContext) -> Preview:
    if "problem" in look.facts:
        look.report(NoVolumeTable, look.facts["problem"], hint=look.facts["hint"], parameter="table")
    if "table" in look.facts:
        found = VolumeDelta.model_validate(look.facts["table"])
        labels = {"labels": tuple(look.facts["labels"]), "labels_complete": look.facts["labels_complete"]}
        return Preview.of(found).model_copy(update={"dataset": found, **labels})
    return Preview(kind="VolumeDelta", uri=str(look.params.get("table") or "") or None)


@delta_table.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.table.check import problem_with

    return problem_with(outputs, for_change)


# --- what it reports before a run ----------------------------------------------------------------


class NoVolumeTable(Rule):
    """The folder that the node DeltaTable is given holds no table of volumes that can be read. The message has the
    reason: there is no table, the version is gone, its properties do not say the volumes' shape and dtype, or it has a
    feature that is not read.

    What to do: choose another table or version, or set the properties `voxelflow.shape` and `voxelflow.dtype` of one
    whose column `volume` has the bytes of arrays. ConvertTable converts other tables: nested lists, petastorm's arrays.
    """

    code = "VF560"
    severity = "error"
    title = "a table that is none of volumes"
