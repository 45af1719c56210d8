"""`ParquetToDelta`: a Delta table that owns its files, made of Parquet files without copying their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, VolumeDelta, VolumeParquet, VolumeSpec
from engine.declare.node import node
from engine.declare.parameters import Added, Advanced, PathOut
from engine.diagnostics.rule import Rule
from engine.errors import DataError, UsageError
from nodes.table import DeletedRows, Existing, Mode

if TYPE_CHECKING:
    from engine.storage.place import Place
    from nodes.table.ingest_checks import Wanted
    from nodes.table.snapshot import TableVersion

    Ingest = Callable[[Place, Wanted, TaskContext], TableVersion]


@dataclass(frozen=True)
class TableParameters:
    """The parameters of ParquetToDelta.

    Attributes:
        table: folder of the table, or a place in object storage (az://container/folder,
            s3://bucket/folder, gs://bucket/folder) to which its files are uploaded; empty for one
            that Voxelflow looks after.
        mode: link gives the table its own names for the same bytes (a copy where the disk cannot
            link), copy writes them again, in_place makes the Parquet folder itself the table. In
            object storage link and copy are the same.
        existing: what happens to rows that came into the table from elsewhere. keep leaves them, replace
            takes them out.
        deleted_rows: what happens to rows of these files that other programs deleted from the table, by
            a DELETE, an overwrite or a return to an older version. leave_out leaves them out, restore
            brings them back. With existing set to replace, restore fills the table again.
    """

    table: Annotated[str, PathOut("folder")] = ""
    mode: Mode = "link"
    existing: Annotated[Existing, Advanced()] = "keep"
    deleted_rows: Annotated[DeletedRows, Advanced(), Added()] = "leave_out"


# pyarrow looks for pandas when it is first given a list: better while the node before is at work.
@node(
    "ParquetToDelta",
    version=1,
    category="Tables",
    icon="database",
    keywords=("delta lake", "ingest", "import", "append", "merge", "upsert"),
    imports=("engine.processes.pyarrow_without_pandas", "nodes.table.ingest"),
)
def parquet_to_delta(
    parquet: VolumeParquet,
    *,
    parameters: TableParameters,
    ctx: TaskContext,
) -> VolumeDelta:
    """Make a Delta table of Parquet files, or bring it up to date.

    Files that are in the table already cost nothing; new ones are added, those that vanished from
    the Parquet dataset are taken out. Each change is one version of the table. Rows that break a constraint of
    the table (NOT NULL, CHECK, invariants, generated columns) are refused before anything is added. A column that the
    table does not have yet joins it, and is null in its older rows; one that has another type there is refused.

    What other programs deleted from the table stays deleted, be it some rows, a file or all of it; a
    Parquet file that is new, or that changed since, comes. The log says how many rows are left out.

    Args:
        parquet: the files of the table.
    """
    from nodes.table.ingest import ingest

    return _table_of(parquet, parameters, ctx, ingest)


@parquet_to_delta.on("spark")
def _on_spark(parquet: VolumeParquet, *, parameters: TableParameters, ctx: TaskContext) -> VolumeDelta:
    """The same table and ledger; a new one is made by Delta itself, and every commit is one of its transactions."""
    from nodes.spark.constraint_check import count_on_spark
    from nodes.spark.convert_to_delta import convert_to_delta
    from nodes.spark.delta_transactions import DeltaTransactions
    from nodes.table.ingest import ingest

    on_spark = partial(ingest, make=convert_to_delta, count=count_on_spark, committer=DeltaTransactions(ctx))
    return _table_of(parquet, parameters, ctx, on_spark)


def _table_of(parquet: VolumeParquet, parameters: TableParameters, ctx: TaskContext, ingest: Ingest) -> VolumeDelta:
    from engine.storage.find_place import place_at
    from engine.storage.local_place import LocalPlace
    from nodes.table.ingest_checks import SpecDiffers, Wanted
    from nodes.volume_file.parts import read_parts

    parts = read_parts(parquet).parts
    if parquet.spec is None:
        raise DataError(
            f"the shape of the volumes in {parquet.uri} is not known", hint="Make them with NumpyToParquet."
        )
    table, mode = parameters.table, parameters.mode
    earlier = tuple(ctx.earlier_places(parquet.uri, table or str(ctx.shared)))
    wanted = Wanted(parquet, parquet.spec, parts, mode, parameters.existing, parameters.deleted_rows, earlier)
    place = place_at(table or _own_table(ctx.shared)).absolute()
    if mode == "in_place" and place.local_folder is not None:
        folder = Path(parquet.uri)
        if table and place.local_folder != folder.absolute():
            raise UsageError(
                f"the table cannot lie at {table} and in place at {folder}",
                hint="Leave the table's folder empty for mode in_place.",
                parameter="table",
            )
        place = LocalPlace(folder)
    # A table of our own whose volumes have another shape, other classes or types of columns now: a new one beside it.
    forms = iter(()) if table or mode == "in_place" else _forms(wanted)
    while True:
        try:
            made = ingest(place, wanted, ctx)
            break
        except SpecDiffers:
            if (text := next(forms, None)) is None:
                raise
            form = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
            place = LocalPlace(ctx.shared / f"table-{form}")
    out = made.reference(str(place)).model_copy(update={"grouped_before": parquet.grouped_by})
    ctx.facts(version=out.version, files=out.files, volumes=out.count, bytes=out.bytes)
    return out


def _forms(wanted: Wanted) -> Iterator[str]:
    """What makes a table of our own another one: the form of its volumes, and then the types of its columns too."""
    from nodes.table.ingest_checks import columns_of

    spec = wanted.spec.model_dump_json()
    yield spec
    yield spec + columns_of(wanted, wanted.parts[0]).to_json()


@parquet_to_delta.preview
def _preview(look: CheckContext) -> Preview:
    given = look.inputs.get("parquet", Preview(kind="VolumeParquet"))
    place = look.params["table"] or None
    if place and look.params["mode"] == "in_place":
        look.report(
            FolderForTableInPlace,
            "a table in place lies in the Parquet folder, not in a folder of its own",
            hint="Leave the table's folder empty, or choose mode link.",
            parameter="table",
        )
    if "problem" in look.facts:
        look.report(TableNotUsable, look.facts["problem"], hint=look.facts["hint"], parameter="table")
    there = VolumeSpec.model_validate(look.facts["spec"]) if "spec" in look.facts else None
    # Classes are known for sure only after the conversion.
    if there and given.spec and (there.shape, there.dtype) != (given.spec.shape, given.spec.dtype):
        look.report(
            TableHoldsOthers,
            f"the table {place} holds volumes of {there.describe()}, these are {given.spec.describe()}",
            hint="Choose another folder for the table.",
            parameter="table",
        )
    known = (
        {}
        if place is None
        else {
            "count": None,
            "selected": None,
            "bytes": None,
            "labelled": None,
            "labels_complete": False,
            "columns": None,
        }
    )
    return given.model_copy(update={"kind": "VolumeDelta", "uri": place, "sample": ()} | known)


@parquet_to_delta.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """What a table at the chosen place holds."""
    if not look.params["table"]:
        return {}  # without loading what reads tables: every look at a pipeline comes here
    from engine.storage.find_place import place_at
    from nodes.table.snapshot import is_table, open_table

    try:
        place = place_at(look.params["table"]).absolute()
        return {"spec": open_table(place).spec.model_dump(mode="json")} if is_table(place) else {}
    except DataError as exc:
        return {"problem": exc.message, "hint": exc.hint}


@parquet_to_delta.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.table.check import problem_with

    return problem_with(outputs, for_change)


@parquet_to_delta.writes
def _writes(inputs: Mapping[str, Dataset], params: Mapping[str, Any], shared: Path) -> str:
    return inputs["parquet"].uri if params["mode"] == "in_place" else params["table"] or str(_own_table(shared))


def _own_table(shared: Path) -> Path:
    """The table that Voxelflow looks after."""
    return shared / "table"


# --- what it reports before a run ----------------------------------------------------------------


class FolderForTableInPlace(Rule):
    """With the mode in_place the folder of the Parquet files becomes the table. A folder in `table` contradicts it.

    What to do: clear `table`, or set `mode` to link, which gives the table files of its own without copying bytes.
    """

    code = "VF431"
    severity = "error"
    title = "a folder for a table in place"


class TableHoldsOthers(Rule):
    """The folder has a table already, whose volumes have another shape or dtype than the new ones. A table holds
    one form.

    What to do: choose another folder in `table`, or leave it empty for one that Voxelflow looks after.
    """

    code = "VF432"
    severity = "error"
    title = "a table of other volumes"


class TableNotUsable(Rule):
    """The table at the chosen place cannot be read or cannot be written safely: it is damaged, is not a table of
    volumes, or uses a Delta feature that is not supported. It is refused rather than read wrongly.

    What to do: what the message says, or choose another folder in `table`.
    """

    code = "VF433"
    severity = "error"
    title = "a table that cannot be used"
