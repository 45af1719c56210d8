"""What may go into a table: the checks before anything is committed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.exceptions import DeltaError
from deltalake.schema import Field

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeParquet, VolumeSpec
from engine.errors import DataError, StaleInput, UsageError, first_line
from engine.storage.place import Place
from engine.text import plural
from nodes.table import DeletedRows, Existing, Mode
from nodes.table.constraints import Count, NewRows, refuse_violations
from nodes.table.features import not_of_volumes
from nodes.table.ledger import source_of
from nodes.table.provenance import OLDER_SOURCE, ids_in
from nodes.table.snapshot import TableFile, TableVersion, is_table, local_folder
from nodes.table.staging import left_by_conversions
from nodes.transforms.remaining import same_way, told_apart
from nodes.volume_file.footer import read_footer
from nodes.volume_file.parts import Part

REQUIRED = ("id", "label", "volume")
Located = tuple[Place, TableFile]
"""A file with the place that its path is relative to."""


@dataclass(frozen=True)
class Wanted:
    """What the table should hold afterwards."""

    dataset: VolumeParquet
    spec: VolumeSpec
    parts: tuple[Part, ...]
    mode: Mode
    existing: Existing
    deleted_rows: DeletedRows = "leave_out"
    earlier_folders: tuple[str, ...] = ()
    """Where the dataset lay before its workspace was moved."""

    @property
    def folder(self) -> Path:
        """The folder of the parts."""
        return local_folder(self.dataset.uri)


class SpecDiffers(DataError):
    """The table holds volumes of another shape, dtype or classes, or to which something else was done."""


class TypesDiffer(SpecDiffers):
    """A column has another type in the table."""


@dataclass(frozen=True)
class PartColumns:
    """How the columns of parts differ from those of their table.

    `joining` are those that the table does not have yet, `lacking` those that some part does not have, `optional` those
    that may have nulls in some part.
    """

    joining: Mapping[str, Field]
    lacking: frozenset[str]
    optional: frozenset[str]


def refuse_other_folder(place: Place, wanted: Wanted) -> None:
    """Raise `UsageError` rather than make a table in a folder with somebody's files; `DataError` without volumes."""
    if not wanted.parts:
        raise DataError(f"{wanted.dataset.uri} has no volumes to make a table of", hint="Check the step before.")
    folder = place.local_folder
    if wanted.mode == "in_place" and folder is None:
        raise UsageError(
            "a table in place lies in the Parquet folder, not in a folder of its own",
            hint="Leave the table's folder empty, or choose mode link.",
            parameter="table",
        )
    if wanted.mode == "in_place" or is_table(place):
        return
    # A conversion that was killed while it published left names here that it still has aside.
    ours = left_by_conversions(folder) if folder is not None else set()
    names = (name for name in place.names() if not name.startswith(("_", ".")))
    if stranger := next((name for name in names if name not in ours), None):
        raise UsageError(
            f"the folder {place} is neither a Delta table nor empty (it holds {stranger})",
            hint="Choose another folder for the table.",
            parameter="table",
        )


def refuse_other_table(table: TableVersion, wanted: Wanted) -> None:
    """Raise `SpecDiffers` for volumes of another form, `DataError` where a table would begin to share its files.

    Raises `UsageError` for a second dataset in an object store's table that an earlier version made: that version
    would take out the rows of one of them.
    """
    there, here = table.spec, wanted.spec
    differing = [n for n in ("shape", "dtype", "classes") if getattr(there, n) != getattr(here, n)]
    said = [[f"{n} {getattr(spec, n)}" for n in differing] for spec in (there, here)]
    if not same_way(there.transforms, here.transforms, own_numbers=True):
        ways = told_apart(there.transforms, here.transforms, own_numbers=True)
        said = [[*each, f"transforms {way or 'none'}"] for each, way in zip(said, ways, strict=True)]
    if any(said):
        theirs, ours = map(", ".join, said)
        raise SpecDiffers(
            f"the table {table.place} holds volumes of {theirs}; these have {ours}",
            hint="Choose another place for the table.",
            parameter="table",
        )
    if wanted.mode == "in_place" and not table.in_place:
        raise DataError(
            f"the table {table.place} was not made in place by this node",
            hint="Use mode link or copy.",
            parameter="mode",
        )
    sources: list[str | None] = [
        source_of(folder, table.place) for folder in (wanted.dataset.uri, *wanted.earlier_folders)
    ]
    if OLDER_SOURCE in table.properties and table.properties[OLDER_SOURCE] not in sources:
        raise UsageError(
            f"the table {table.place} was filled from another dataset",
            hint="A table that an earlier version of Voxelflow made in object storage takes one dataset. Choose another"
            " place for the table.",
            parameter="table",
        )


def columns_of(wanted: Wanted, part: Part) -> Schema:
    """The part's columns in Delta's types. Raises `DataError` when it cannot be read or Delta lacks a type."""
    return _delta_columns(_footer(wanted, part).schema_arrow, wanted.folder / part.path)


def _footer(wanted: Wanted, part: Part) -> pq.ParquetFile:
    path = wanted.folder / part.path
    try:
        size, footer, _ = read_footer(path)
    except (OSError, pa.ArrowException) as exc:
        hint = "If the file is damaged, `voxelflow verify` of its folder lists all damage and says what to do."
        raise DataError(f"{path} cannot be read: {first_line(exc)}", hint=hint) from exc
    if size != part.bytes:
        raise StaleInput(
            f"{path} is not the file it was: {plural(size, 'bytes')}, not {part.bytes:,}", hint="Run it again."
        )
    return footer


def _delta_columns(found: pa.Schema, path: Path) -> Schema:
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in found]
    if unsigned := next((f for f in fields if pa.types.is_unsigned_integer(f.type)), None):
        raise DataError(
            f"{path}: Delta has no type for the column {unsigned.name} ({unsigned.type})",
            hint="Leave that column out, or make its numbers signed.",
        )
    if unfit := next((f for f in fields if not _is_stored(f)), None):
        raise DataError(
            f"{path}: Delta has no type for the column {unfit.name} ({unfit.type})",
            hint="Leave that column out, change its type (times of a day to text, dates with times to microseconds, in"
            " UTC or without a zone), or convert the files with ConvertTable.",
        )
    try:
        return Schema.from_arrow(pa.schema(fields))
    except (DeltaError, ValueError) as exc:
        raise DataError(f"{path}: {exc}", hint="Leave that column out, or change its type.") from exc


def _is_stored(field: pa.Field) -> bool:
    """Whether Delta has a type for the column: none that needs timestampNanos, of which no version can be opened."""
    try:
        kind = str(Schema.from_arrow(pa.schema([field])).fields[0].type)
    except Exception:  # delta-rs raises no class of its own here
        return False
    return "timestamp_nanos" not in kind


def compare_for_new_table(place: Place, wanted: Wanted) -> PartColumns | None:
    """How the parts' columns differ from those of a new table, the first part's; None where a table is at `place`.

    Raises as `compare_columns` does, before the table is there: one that is made of columns that it cannot hold would
    stay, and refuse the corrected files.
    """
    if is_table(place):
        return None
    first = wanted.parts[0]
    columns = columns_of(wanted, first)
    if problem := not_of_volumes(columns):
        raise DataError(
            f"{wanted.folder / first.path} has {problem}",
            hint="Give the files such a column, or convert them with ConvertTable.",
        )
    return compare_columns(columns, place, wanted, wanted.parts)


def compare_columns(columns: Schema, root: object, wanted: Wanted, parts: Iterable[Part]) -> PartColumns:
    """Compare the parts' columns with those of the table at `root`, where a column that a part lacks is null.

    Raises `TypesDiffer` for a column that has another type, or is written in another case; `DataError` for a part
    without id, label or volume, or with a type that Delta lacks.
    """
    there = types_of(columns)
    joining: dict[str, Field] = {}
    lacking: set[str] = set()
    optional: set[str] = set()
    spelled = {name.lower(): name for name in there}
    before: pa.Schema | None = None
    for part in parts:
        found = _footer(wanted, part).schema_arrow
        if before is not None and found.equals(before):
            # As the one before: what Delta makes of it is known.
            continue
        before = found
        here = _delta_columns(found, wanted.folder / part.path)
        types = types_of(here)
        for name, kind in types.items():
            if there.setdefault(name, kind) != kind or spelled.setdefault(name.lower(), name) != name:
                other = spelled[name.lower()]
                raise TypesDiffer(
                    f"column {name} of {part.path} is {kind}, in the table {root}"
                    f" {'it' if other == name else other} is {there[other]}",
                    hint="Choose another folder for the table, or convert all files again with the same label file.",
                )
        if missing := next((name for name in REQUIRED if name not in types), None):
            raise DataError(
                f"{part.path} has no column {missing}, which the table {root} has",
                hint="Convert all files again.",
            )
        known = {f.name for f in columns.fields}
        joining |= {f.name: Field(f.name, f.type, nullable=True) for f in here.fields if f.name not in known}
        lacking |= known - types.keys()
        optional |= {field.name for field in found if field.nullable}
    return PartColumns(joining, frozenset(lacking), frozenset(optional | lacking))


def refuse_broken_constraints(
    table: TableVersion,
    wanted: Wanted,
    parts: Sequence[Part],
    optional: frozenset[str],
    count: Count,
    ctx: TaskContext,
) -> None:
    """Raise `DataError` when rows of the parts break a constraint of the table (`nodes.table.constraints`).

    `optional` are the columns that may have nulls in some part.
    """
    if all(part.labelled == part.rows for part in parts):
        optional = optional - {"label"}
    paths = [wanted.folder / part.path for part in parts]
    new = NewRows(paths, sum(part.rows for part in parts), optional)
    refuse_violations(table.place, table.columns, table.properties, new, ctx, count)


def types_of(columns: Schema) -> dict[str, str]:
    """Delta's types by column: what must be the same in all files of a table."""
    return {f.name: str(f.type) for f in columns.fields}


def refuse_changed_in_place(table: TableVersion, added: Iterable[TableFile]) -> None:
    """Raise `DataError` when a file that comes has the path of one that is there."""
    active = {f.path for f in table.files}
    if changed := next((f.path for f in added if f.path in active), None):
        raise DataError(
            f"{changed} changed, but it is itself a file of the table {table.place}, whose files must not change",
            hint="Use mode link or copy for Parquet files that change.",
            parameter="mode",
        )


def refuse_common_ids(table: TableVersion, new: Sequence[Located], present: Sequence[Located]) -> None:
    """Raise `DataError` when new rows are among those of other sources, which stay in the table.

    Reads only files whose ranges of ids meet; memory: the ids of these files.
    """
    ours = _meeting(new, present)
    theirs = _meeting(present, ours)
    if not ours or not theirs:
        return
    ids = _ids(ours)
    if len(common := pc.filter(ids, pc.is_in(ids, value_set=_ids(theirs)))):
        raise DataError(
            f"the table {table.place} already holds the volume {common[0].as_py()} from another source",
            hint="Choose another folder for the table, or set existing to replace.",
            parameter="existing",
        )


def _meeting(files: Sequence[Located], others: Sequence[Located]) -> list[Located]:
    """The files whose range of ids meets that of one of the others."""
    ranges = sorted((f.id_min, f.id_max) for _, f in others)
    starts = [low for low, _ in ranges]
    # The furthest end among the ranges that begin up to each one.
    ends = list(accumulate((high for _, high in ranges), max))
    out = []
    for place, file in files:
        before = bisect_right(starts, file.id_max)
        if before and ends[before - 1] >= file.id_min:
            out.append((place, file))
    return out


def _ids(files: Sequence[Located]) -> pa.Array:
    return pa.concat_arrays([ids_in(place, file.path, file.bytes) for place, file in files])
