"""`ParquetToDelta`: a Delta table that owns its files, made of Parquet files without copying their bytes.

Its problems: VF431 a folder is given for a table in place; VF432 the table holds other volumes;
VF433 the table cannot be used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.context import TaskContext
from engine.datasets import Dataset, Preview, VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError, UsageError
from engine.node import Look, node
from engine.parameters import Advanced, PathOut
from engine.storage import is_url

_IN_PLACE = "a table in place lies in the Parquet folder, not in a folder of its own"

if TYPE_CHECKING:
    from nodes.delta.delta_table import TableVersion
    from nodes.delta.ingest_checks import Existing, Mode, Wanted


# pyarrow looks for pandas when it is first given a list: better while the node before is at work.
@node("ParquetToDelta", version=1, category="Storage", imports=("pandas", "nodes.delta.table_ingest"))
def parquet_to_delta(
    parquet: VolumeParquet,
    *,
    table: Annotated[str, PathOut("folder")] = "",
    mode: Literal["link", "copy", "in_place"] = "link",
    existing: Annotated[Literal["keep", "replace"], Advanced()] = "keep",
    ctx: TaskContext,
) -> VolumeDelta:
    """Make a Delta table of Parquet files, or bring it up to date.

    Files that are in the table already cost nothing; new ones are added, those that vanished from
    the Parquet dataset are taken out. Each change is one version of the table.

    Args:
        parquet: the files of the table.
        table: folder of the table, or a place in object storage (az://container/folder,
            s3://bucket/folder) to which its files are uploaded; empty for one that Voxelflow looks after.
        mode: link gives the table its own names for the same bytes (a copy where the disk cannot
            link), copy writes them again, in_place makes the Parquet folder itself the table. In
            object storage link and copy are the same.
        existing: what happens to rows that came into the table from elsewhere. keep leaves them, replace
            takes them out.
    """
    from nodes.delta.table_ingest import ingest

    return _table_of(parquet, table, mode, existing, ctx, ingest)


@parquet_to_delta.on("spark")
def _on_spark(parquet: VolumeParquet, *, table: str, mode: Mode, existing: Existing, ctx: TaskContext) -> VolumeDelta:
    """A new table is made by Delta itself; what follows is the same ledger and the same commits."""
    from nodes.delta.table_ingest import ingest
    from nodes.spark.convert_to_delta import convert_to_delta

    return _table_of(parquet, table, mode, existing, ctx, partial(ingest, make=convert_to_delta))


def _table_of(
    parquet: VolumeParquet,
    table: str,
    mode: Mode,
    existing: Existing,
    ctx: TaskContext,
    ingest: Callable[[Path, Wanted, TaskContext], TableVersion],
) -> VolumeDelta:
    from nodes.delta.ingest_checks import SpecDiffers, Wanted
    from nodes.volume_parts import read_parts

    parts = read_parts(parquet).parts
    spec = _spec(parquet)
    wanted = Wanted(parquet, spec, parts, mode, existing)
    if is_url(table):
        return _remote_table_of(table, wanted, ctx)
    if mode == "in_place":
        root = Path(parquet.uri)
        if table and _folder(table) != root.absolute():
            raise UsageError(
                f"the table cannot lie at {table} and in place at {root}",
                hint="Leave the table's folder empty for mode in_place.",
                parameter="table",
            )
    else:
        root = _folder(table) if table else ctx.shared / "table"
    try:
        made = ingest(root, wanted, ctx)
    except SpecDiffers:
        if table or mode == "in_place":
            raise
        # A table of our own whose volumes have another shape or other classes now: a new one beside it.
        root = ctx.shared / f"table-{hashlib.blake2b(spec.model_dump_json().encode(), digest_size=4).hexdigest()}"
        made = ingest(root, wanted, ctx)
    out = made.reference(str(root))
    ctx.facts(version=out.version, files=out.files, volumes=out.count, bytes=out.bytes)
    return out


def _remote_table_of(table: str, wanted: Wanted, ctx: TaskContext) -> VolumeDelta:
    from engine.storage.objects import RemotePath
    from nodes.delta.remote_ingest import ingest_remote

    if wanted.mode == "in_place":
        raise UsageError(_IN_PLACE, hint="Leave the table's folder empty, or choose mode link.", parameter="table")
    out = ingest_remote(RemotePath.at(table), wanted, ctx).reference()
    ctx.facts(version=out.version, files=out.files, volumes=out.count, bytes=out.bytes)
    return out


@parquet_to_delta.preview
def _preview(look: Look) -> Preview:
    given = look.inputs.get("parquet", Preview(kind="VolumeParquet"))
    place = look.params["table"] or None
    if place and look.params["mode"] == "in_place":
        look.problem(
            "VF431",
            _IN_PLACE,
            hint="Leave the table's folder empty, or choose mode link.",
            parameter="table",
        )
    if "problem" in look.facts:
        look.problem("VF433", look.facts["problem"], hint=look.facts["hint"], parameter="table")
    there = VolumeSpec.model_validate(look.facts["spec"]) if "spec" in look.facts else None
    # Classes are known for sure only after the conversion.
    if there and given.spec and (there.shape, there.dtype) != (given.spec.shape, given.spec.dtype):
        look.problem(
            "VF432",
            f"the table {place} holds volumes of {there.describe()}, these are {given.spec.describe()}",
            hint="Choose another folder for the table.",
            parameter="table",
        )
    known = {} if place is None else {"count": None, "bytes": None, "labelled": None}
    return given.model_copy(update={"kind": "VolumeDelta", "uri": place, "sample": ()} | known)


@parquet_to_delta.scan
def _scan(look: Look) -> Mapping[str, Any]:
    """What a table that stands at the chosen folder holds."""
    from nodes.delta.delta_table import is_table, open_table

    place = look.params["table"]
    if is_url(place):
        return _scan_remote(place)
    if not place or not is_table(_folder(place)):
        return {}
    try:
        return {"spec": open_table(_folder(place)).spec.model_dump(mode="json")}
    except DataError as exc:
        return {"problem": exc.message, "hint": exc.hint}


def _scan_remote(place: str) -> Mapping[str, Any]:
    from engine.storage.objects import RemotePath
    from nodes.delta.remote_table import is_remote_table, open_remote

    root = RemotePath.at(place)
    try:
        return {"spec": open_remote(root).spec.model_dump(mode="json")} if is_remote_table(root) else {}
    except DataError as exc:
        return {"problem": exc.message, "hint": exc.hint}


@parquet_to_delta.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.delta.delta_check import problem_with

    return problem_with(outputs, for_change)


def _folder(text: str) -> Path:
    from nodes.delta.delta_table import local_folder

    return local_folder(text).expanduser().absolute()


def _spec(parquet: VolumeParquet) -> VolumeSpec:
    if parquet.spec is None:
        raise DataError(
            f"the shape of the volumes in {parquet.uri} is not known", hint="Make them with NumpyToParquet."
        )
    return parquet.spec
