"""What may go into a table: the checks before anything is committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.exceptions import DeltaError

from engine.datasets import VolumeParquet, VolumeSpec
from engine.errors import DataError, StaleInput, UsageError
from nodes.delta.delta_table import TableFile, TableVersion, is_table, local_folder
from nodes.delta.footers import read_footer
from nodes.delta.id_overlap import Located, first_common_id
from nodes.delta.table_staging import left_by_conversions
from nodes.volume_parts import Part

Mode = Literal["link", "copy", "in_place"]
Existing = Literal["keep", "replace"]


@dataclass(frozen=True)
class Wanted:
    """What the table should hold afterwards."""

    dataset: VolumeParquet
    spec: VolumeSpec
    parts: tuple[Part, ...]
    mode: Mode
    existing: Existing

    @property
    def folder(self) -> Path:
        return local_folder(self.dataset.uri)


class SpecDiffers(DataError):
    """The table holds volumes of another shape, dtype or classes."""


def refuse_other_folder(root: Path, wanted: Wanted) -> None:
    """A folder with somebody's files in it does not become a table."""
    if not wanted.parts:
        raise DataError(f"{wanted.dataset.uri} has no volumes to make a table of", hint="Check the step before.")
    if wanted.mode == "in_place" or is_table(root) or not root.exists():
        return
    # A conversion that was killed while it published left names here that it still has aside.
    ours = left_by_conversions(root)
    names = (p.name for p in root.iterdir() if not p.name.startswith(("_", ".")))
    if stranger := next((name for name in names if name not in ours), None):
        raise UsageError(
            f"the folder {root} is neither a Delta table nor empty (it holds {stranger})",
            hint="Choose another folder for the table.",
            parameter="table",
        )


def refuse_other_spec(root: object, there: VolumeSpec, wanted: Wanted) -> None:
    """Raise `SpecDiffers` when the table at `root` holds volumes of another form."""
    if there == wanted.spec:
        return
    differing = [n for n in ("shape", "dtype", "classes") if getattr(there, n) != getattr(wanted.spec, n)]
    theirs, ours = (", ".join(f"{n} {getattr(s, n)}" for n in differing) for s in (there, wanted.spec))
    raise SpecDiffers(
        f"the table {root} holds volumes of {theirs}; these have {ours}",
        hint="Choose another place for the table.",
        parameter="table",
    )


def refuse_other_table(table: TableVersion, wanted: Wanted) -> None:
    """Volumes of another form do not fit, and a table not made in place must not share its files from now on."""
    refuse_other_spec(table.root, table.spec, wanted)
    if wanted.mode == "in_place" and not table.in_place:
        raise DataError(
            f"the table {table.root} was not made in place by this node",
            hint="Use mode link or copy.",
            parameter="mode",
        )


def columns_of(wanted: Wanted, part: Part) -> Schema:
    """The part's columns in Delta's types. Raises `DataError` when it cannot be read or Delta lacks a type."""
    return _delta_columns(_footer(wanted, part).schema_arrow, wanted.folder / part.path)


def _footer(wanted: Wanted, part: Part) -> pq.ParquetFile:
    path = wanted.folder / part.path
    try:
        size, footer = read_footer(path)
    except (OSError, pa.ArrowException) as exc:
        raise DataError(f"{path} cannot be read: {exc}", hint="Run the node that made it again.") from exc
    if size != part.bytes:
        raise StaleInput(f"{path} is not the file it was: {size} bytes, not {part.bytes}", hint="Run it again.")
    return footer


def _delta_columns(found: pa.Schema, path: Path) -> Schema:
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in found]
    if unsigned := next((f for f in fields if pa.types.is_unsigned_integer(f.type)), None):
        raise DataError(
            f"{path}: Delta has no type for the column {unsigned.name} ({unsigned.type})",
            hint="Leave that column out, or make its numbers signed.",
        )
    try:
        return Schema.from_arrow(pa.schema(fields))
    except (DeltaError, ValueError) as exc:
        raise DataError(f"{path}: {exc}", hint="Leave that column out, or change its type.") from exc


def refuse_other_columns(columns: Schema, root: object, wanted: Wanted, parts: Iterable[Part]) -> None:
    """Every part has the `columns` of the table at `root`."""
    there = types_of(columns)
    fitting: pa.Schema | None = None
    for part in parts:
        found = _footer(wanted, part).schema_arrow
        if fitting is not None and found.equals(fitting):
            # As the one before: what Delta makes of it is known.
            continue
        here = types_of(_delta_columns(found, wanted.folder / part.path))
        if there != here:
            name = next(n for n in {**there, **here} if there.get(n) != here.get(n))
            raise DataError(
                f"column {name} of {part.path} is {here.get(name, 'missing')}, in the table {root} it is"
                f" {there.get(name, 'missing')}",
                hint="Choose another folder for the table, or convert all files again with the same label file.",
            )
        fitting = found


def types_of(columns: Schema) -> dict[str, str]:
    """Delta's types by column: what must be the same in all files of a table."""
    return {f.name: str(f.type) for f in columns.fields}


def refuse_changed_in_place(table: TableVersion, added: Iterable[TableFile]) -> None:
    active = {f.path for f in table.files}
    if changed := next((f.path for f in added if f.path in active), None):
        raise DataError(
            f"{changed} changed, but it is itself a file of the table {table.root}, whose files must not change",
            hint="Use mode link or copy for Parquet files that change.",
            parameter="mode",
        )


def refuse_common_ids(table: TableVersion, new: Sequence[Located], present: Sequence[Located]) -> None:
    """Rows of other sources stay in the table: none of the new rows may be among them."""
    if (common := first_common_id(new, present)) is not None:
        raise DataError(
            f"the table {table.root} already holds the volume {common} from another source",
            hint="Choose another folder for the table, or set existing to replace.",
            parameter="existing",
        )
