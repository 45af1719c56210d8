"""Rows that break a table's constraints, counted by Spark: whose language the constraints are written in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from deltalake import Schema
from pyspark import errors
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from engine.declare.context import TaskContext
from engine.errors import StaleInput, UnsupportedTable
from engine.spark.failures import spark_error
from nodes.spark.session import rows
from nodes.table.constraints import TEXT_TYPE, Constraint, NewRows, Violations

_VALUES = (
    errors.AnalysisException,
    errors.ArithmeticException,
    errors.DateTimeException,
    errors.IllegalArgumentException,
    errors.NumberFormatException,
    errors.SparkRuntimeException,
)
"""What Spark raises when an expression cannot be computed for some row; when it dies it raises others."""


def count_on_spark(
    constraints: Sequence[Constraint], new: NewRows, columns: Schema, ctx: TaskContext
) -> list[Violations]:
    """One pass over the columns that the conditions name, on the executors."""
    # Names in a path are meant as they are written.
    reader = ctx.spark.read.schema(_struct(columns)).option("__globPaths__", "false")
    frame = reader.parquet(*map(str, new.paths))
    broken = [_broken(frame, constraint) for constraint in constraints]
    figures = [sql.count_if(b) for b in broken] + [sql.min(sql.when(b, sql.col("id"))) for b in broken]
    try:
        (found,) = rows(ctx, lambda: frame.agg(sql.count(sql.lit(1)), *figures), "checking constraints")
    except _VALUES as exc:
        names = " and ".join(map(str, constraints))
        raise _undecided(f"Spark cannot evaluate {names}: {spark_error(exc).message}") from exc
    if found[0] != new.rows:
        raise StaleInput(f"Spark reads {found[0]:,} new rows, not {new.rows:,}", hint="Run the node before again.")
    counts, examples = found[1 : 1 + len(broken)], found[1 + len(broken) :]
    return [Violations(count, example or "") for count, example in zip(counts, examples, strict=True)]


def _broken(frame: DataFrame, constraint: Constraint) -> Column:
    """Whether a row breaks it: Delta takes NULL for no as well."""
    try:
        broken = ~sql.coalesce(sql.expr(constraint.expression), sql.lit(False))
        # Names and types are looked up here, so that the message names the constraint.
        frame.select(broken).schema  # noqa: B018
    except errors.AnalysisException as exc:
        raise _undecided(f"Spark does not understand {constraint}: {spark_error(exc).message}") from exc
    return broken


def _struct(columns: Schema) -> StructType:
    """The table's columns, all nullable: what the rows really hold is the question."""
    struct: dict[str, Any] = json.loads(columns.to_json())
    for field in struct["fields"]:
        field["nullable"] = True
        field["metadata"].pop(TEXT_TYPE, None)
    return StructType.fromJson(struct)


def _undecided(message: str) -> UnsupportedTable:
    return UnsupportedTable(message, hint="Drop that constraint, or choose another table.")
