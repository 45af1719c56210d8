"""The constraints of a Delta table, and whether rows that are about to come in break them.

A table may demand NOT NULL, CHECK (`delta.constraints.NAME`), column invariants, generated columns and lengths of
texts. Delta leaves it to the writer to keep them, and readers rely on that: of a NOT NULL column Spark answers
`IS NULL` without looking. As in Delta, a condition is broken where it is false or NULL.

Only new rows are checked, before anything is written. What must be true of every row is known from the footers (a
required column has no nulls) and by the counts of labels where those do; else the columns that a condition names are
read, a batch at a time. So a table without constraints costs nothing.

Conditions are Spark's SQL. On Spark it evaluates them itself (`nodes.spark.constraint_check`); here
`nodes.table.constraint_values` does, and what it does not know for sure is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.schema import Field

from engine.declare.context import TaskContext
from engine.errors import DataError, UnsupportedTable, first_line
from engine.text import plural
from nodes.table.constraint_sql import Expression, Uncertain, columns_in, parse
from nodes.table.constraint_values import holds
from nodes.table.features import is_append_only
from nodes.volume_file.fatal_footer import refuse_fatal

CHECK = "delta.constraints."
"""How the properties of a table begin that are CHECK constraints."""
_INVARIANT = "delta.invariants"
_GENERATED = "delta.generationExpression"
_IDENTITY = "delta.identity."
TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATIONS = "__COLLATIONS"
_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Constraint:
    """A condition that must be true of each row. `title` names it, `remedy` is SQL that takes it from the table."""

    title: str
    expression: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.title} ({self.expression})"


@dataclass(frozen=True)
class Violations:
    """How many rows break a constraint, and the id of one of them."""

    rows: int = 0
    example: str = ""


@dataclass(frozen=True)
class NewRows:
    """Parquet files whose rows come into a table, and those of their columns that may have nulls."""

    paths: Sequence[Path]
    rows: int
    optional: Collection[str]


Count = Callable[[Sequence[Constraint], NewRows, Schema, TaskContext], list[Violations]]
"""Who counts the rows that break each constraint. Raises `UnsupportedTable` for one that it cannot evaluate."""


def refuse_violations(
    root: object, columns: Schema, properties: Mapping[str, str | None], new: NewRows, ctx: TaskContext, count: Count
) -> None:
    """Raise `DataError` when new rows break a constraint of the table at `root`, with these columns and properties.

    Raises `UnsupportedTable` when a constraint cannot be evaluated, or Delta has to make the values of a column.
    """
    constraints = constraints_of(root, columns, properties, new)
    if not constraints:
        return
    try:
        found = count(constraints, new, columns, ctx)
    except UnsupportedTable as exc:
        raise UnsupportedTable(
            f"the table {root} cannot be filled: {exc.message}", hint=exc.hint, parameter="table"
        ) from exc
    broken = [(c, v) for c, v in zip(constraints, found, strict=True) if v.rows]
    if broken:
        counts = "; ".join(f"{c} is broken in {plural(v.rows, 'rows')}, for example {v.example}" for c, v in broken)
        remedies = " ".join(c.remedy for c, _ in broken if c.remedy)
        raise DataError(
            f"the table {root} takes none of {plural(new.rows, 'new rows')}: {counts}. Nothing was added",
            hint="Correct the data (labels: in the label file), choose another table"
            + (f", or drop what forbids them, in Spark: {remedies}" if remedies else "."),
            parameter="table",
        )


def refuse_removals(root: object, properties: Mapping[str, str | None], files: int) -> None:
    """Raise `DataError` when so many files must leave a table that only takes rows."""
    if files and is_append_only(properties):
        raise DataError(
            f"the table {root} only takes new rows (its property delta.appendOnly is true), but {files:,} of its files"
            " hold rows that changed or vanished",
            hint=f"Choose another table, or allow it, in Spark: ALTER TABLE delta.{quoted(str(root))} SET TBLPROPERTIES"
            " ('delta.appendOnly' = 'false').",
            parameter="table",
        )


def refuse_rewriting(root: object, properties: Mapping[str, str | None]) -> None:
    """Raise `UnsupportedTable` when rows of the table may not be copied to other files by us."""
    if (properties.get("delta.enableRowTracking") or "false").lower() == "true":
        table = f"delta.{quoted(str(root))}"
        raise UnsupportedTable(
            f"the table {root} keeps an id for each row (its property delta.enableRowTracking is true), which rows that"
            " are copied to other files would lose",
            hint=f"Let Delta itself do it, in Spark: OPTIMIZE {table}. Or give the ids up: ALTER TABLE {table} SET"
            " TBLPROPERTIES ('delta.enableRowTracking' = 'false').",
            parameter="table",
        )


def constraints_of(
    root: object, columns: Schema, properties: Mapping[str, str | None], new: NewRows
) -> list[Constraint]:
    """What the new rows must be checked for. Raises `UnsupportedTable` for a column whose values only Delta gives."""
    table = f"ALTER TABLE delta.{quoted(str(root))}"
    found: list[Constraint] = []
    for field in columns.fields:
        found += _of_column(field, table, new.optional)
    found += [
        Constraint(f"the invariant of the column {path}", expression) for path, expression in _invariants(columns, root)
    ]
    for key, value in sorted(properties.items()):
        if key.lower().startswith(CHECK) and value:
            name = key[len(CHECK) :]
            found.append(Constraint(f"its constraint {name}", value, f"{table} DROP CONSTRAINT {quoted(name)};"))
    return found


def _of_column(field: Field, table: str, optional: Collection[str]) -> Iterator[Constraint]:
    name, metadata = field.name, field.metadata
    if any(key.startswith(_IDENTITY) for key in metadata):
        raise UnsupportedTable(
            f"the column {name} of the table is an identity column, whose values only Delta gives",
            hint="Choose another table, or one without that column.",
            parameter="table",
        )
    if not field.nullable and name in optional:
        remedy = f"{table} ALTER COLUMN {quoted(name)} DROP NOT NULL;"
        yield Constraint(f"NOT NULL of the column {name}", f"{quoted(name)} IS NOT NULL", remedy)
    if formula := metadata.get(_GENERATED):
        yield Constraint(f"the generated column {name}", f"{quoted(name)} <=> ({formula})")
    if declared := metadata.get(TEXT_TYPE):
        limit = re.fullmatch(r"varchar\((\d+)\)", str(declared), re.IGNORECASE)
        if limit is None:
            raise UnsupportedTable(
                f"the column {name} of the table is declared {declared}, which Spark pads",
                hint="Choose another table, or make that column a STRING.",
                parameter="table",
            )
        condition = f"{quoted(name)} IS NULL OR char_length({quoted(name)}) <= {limit[1]}"
        yield Constraint(f"the type {declared} of the column {name}", condition)


def _invariants(columns: Schema, root: object) -> list[tuple[str, str]]:
    if _INVARIANT not in columns.to_json():
        return []
    try:
        return [(str(path), str(expression)) for path, expression in columns.invariants]
    except Exception as exc:  # what delta-rs raises has no type of its own
        raise UnsupportedTable(
            f"the table {root} has an invariant that cannot be read: {exc}", hint="Choose another table."
        ) from exc


def quoted(name: str) -> str:
    """The name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def count_here(constraints: Sequence[Constraint], new: NewRows, columns: Schema, ctx: TaskContext) -> list[Violations]:
    """Count by reading the columns that the conditions name, a batch at a time."""
    expressions = [_parsed(c, columns) for c in constraints]
    found = [Violations()] * len(constraints)
    names = {"id"}.union(*(columns_in(e) for e in expressions))
    for path in new.paths:
        ctx.check_cancelled()
        for rows in _batches(path, names, columns):
            for place, expression in enumerate(expressions):
                try:
                    good = holds(expression, rows)
                except (Uncertain, pa.ArrowException) as exc:
                    raise _undecided(constraints[place], exc) from exc
                if bad := rows.num_rows - good.true_count:
                    before = found[place]
                    example = before.example or str(rows["id"][pc.index(good, False).as_py()].as_py())
                    found[place] = Violations(before.rows + bad, example)
    return found


def _parsed(constraint: Constraint, columns: Schema) -> Expression:
    try:
        expression = parse(constraint.expression, [f.name for f in columns.fields])
        named = columns_in(expression)
        if odd := next((f.name for f in columns.fields if f.name in named and _COLLATIONS in f.metadata), None):
            raise Uncertain(f"the column {odd} compares by a collation")
        return expression
    except Uncertain as exc:
        raise _undecided(constraint, exc) from exc


def _undecided(constraint: Constraint, why: Exception) -> UnsupportedTable:
    return UnsupportedTable(
        f"whether the new rows break {constraint} is not certain here: {why}",
        hint="On a Spark profile ParquetToDelta lets Spark check it. Or choose another table"
        + (f", or drop it, in Spark: {constraint.remedy}" if constraint.remedy else "."),
    )


def _batches(path: Path, names: Collection[str], columns: Schema) -> Iterator[pa.RecordBatch]:
    """The file's rows in these columns; one that the file lacks is null in every row."""
    try:
        with pq.ParquetFile(path, memory_map=True, pre_buffer=False, page_checksum_verification=True) as file:
            there = [n for n in file.schema_arrow.names if n in names]
            refuse_fatal(file.metadata)
            for batch in file.iter_batches(_batch_rows(file.metadata, names), columns=there, use_threads=False):
                lacking = [n for n in names if n not in there]
                arrays = [*batch.columns, *(pa.nulls(batch.num_rows) for _ in lacking)]
                yield pa.record_batch(arrays, names=[*batch.schema.names, *lacking])
    except (OSError, UnicodeDecodeError, pa.ArrowException) as exc:  # the second: of a damaged column's name
        hint = "If the file is damaged, `voxelflow verify` of its folder lists all damage and says what to do."
        raise DataError(f"{path} cannot be read: {first_line(exc)}", hint=hint) from exc


def _batch_rows(metadata: Any, names: Collection[str]) -> int:
    if not metadata.num_rows:
        return _BATCH_ROWS
    size, rows = 0, int(metadata.num_rows)
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        chunks = (group.column(i) for i in range(group.num_columns))
        size += sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in names)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
