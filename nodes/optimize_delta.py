"""`OptimizeDelta`: a table's many small files become few large ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, VolumeDelta
from engine.declare.node import node
from engine.declare.parameters import Advanced, Help, Range, Unit
from engine.errors import UsageError
from engine.text import plural
from nodes.volume_file.parameters import MB, TARGET_FILE_MB, TargetFileMB

if TYPE_CHECKING:
    from nodes.table.commit import Committer
    from nodes.table.compaction import Target
    from nodes.table.snapshot import TableVersion


@dataclass(frozen=True)
class OptimizeParameters:
    """The parameters of OptimizeDelta.

    Attributes:
        min_fill: files smaller than this share of the target are rewritten; larger ones stay.
        rewrite_layout: also write files again that are compressed, have a dictionary or huge row
            groups, so that training reads them at full speed.
        vacuum: delete files that neither this table's newest version nor any result, training or
            other reference known to this workspace needs.
        vacuum_keep_hours: with vacuum, also keep what was part of the table within these hours, for
            readers that this workspace does not know.
    """

    target_file_mb: Annotated[TargetFileMB, Help("size of the files that come out.")] = TARGET_FILE_MB
    min_fill: Annotated[float, Range(0.05, 1), Advanced()] = 0.75
    rewrite_layout: Annotated[bool, Advanced()] = False
    vacuum: bool = False
    vacuum_keep_hours: Annotated[float, Range(0), Unit("h"), Advanced()] = 0

    @property
    def target(self) -> Target:
        """What the files should be like afterwards."""
        from nodes.table.compaction import Target

        return Target(self.target_file_mb * MB, self.min_fill, self.rewrite_layout)


# pyarrow looks for pandas when it is first given a list: better while the node before is at work.
@node(
    "OptimizeDelta",
    version=1,
    category="Tables",
    icon="shrink",
    keywords=("compact", "vacuum", "small files", "clean up"),
    imports=("engine.processes.pyarrow_without_pandas", "nodes.table.compaction"),
    mutates="table",
)
def optimize_delta(
    table: VolumeDelta,
    *,
    parameters: OptimizeParameters,
    ctx: TaskContext,
) -> VolumeDelta:
    """Compact a Delta table's small files into few large ones.

    Rows stay as they are, and older versions stay readable until vacuum deletes files that nothing
    refers to any more.

    Args:
        table: the table to compact.
    """
    from nodes.table.compaction import compact

    _refuse_remote_vacuum(table, parameters)
    return _finish(table, compact(table, parameters.target, ctx), parameters, ctx)


@optimize_delta.on("spark")
def _on_spark(table: VolumeDelta, *, parameters: OptimizeParameters, ctx: TaskContext) -> VolumeDelta:
    """The same compaction with the files written by Spark tasks; somebody else's table by Delta's own OPTIMIZE.

    A table outside of a local folder is compacted as on the embedded backend.
    """
    from nodes.spark.delta_optimize import compact_on_spark
    from nodes.spark.delta_transactions import DeltaTransactions

    _refuse_remote_vacuum(table, parameters)
    return _finish(table, compact_on_spark(table, parameters.target, ctx), parameters, ctx, DeltaTransactions(ctx))


def _refuse_remote_vacuum(table: VolumeDelta, parameters: OptimizeParameters) -> None:
    if not parameters.vacuum:
        return
    from engine.storage.find_place import place_at

    place = place_at(table.uri)
    if place.local_folder is not None:
        return
    by_hand = " DeltaTable.vacuum of the package deltalake deletes what is old enough."
    raise UsageError(
        f"the table {place} is not vacuumed: outside of a local folder its readers are not known",
        hint="Set vacuum to false." + (by_hand if place.delta_rs_address is not None else ""),
        parameter="vacuum",
    )


def _finish(
    table: VolumeDelta,
    done: TableVersion,
    parameters: OptimizeParameters,
    ctx: TaskContext,
    committer: Committer | None = None,
) -> VolumeDelta:
    if parameters.vacuum:
        from nodes.table.vacuum import vacuum

        freed = vacuum(table.uri, (table.version, done.version), parameters.vacuum_keep_hours, ctx, committer)
        older = f"; {freed.kept} stay for older versions that something refers to" if freed.kept else ""
        ctx.info(f"vacuum deleted {plural(freed.files, 'files')}, {freed.bytes / 1e6:.1f} MB{older}")
        ctx.facts(vacuumed_files=freed.files, vacuumed_bytes=freed.bytes)
    out = done.reference(table.uri, table.selections, known=(table.version, table.data_version))
    selected = table.selected if out.data_version == table.data_version else None
    out = out.model_copy(update={"selected": selected, "grouped_before": table.grouped_before})
    ctx.facts(version=out.version, files_before=table.files, files=out.files, bytes=out.bytes)
    return out


@optimize_delta.preview
def _preview(look: CheckContext) -> Preview:
    return look.inputs.get("table", Preview(kind="VolumeDelta"))


@optimize_delta.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.table.check import problem_with

    return problem_with(outputs, for_change)
