"""Constraints that Spark made: honoured on both backends, and read as Spark reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from constraint_expressions import CERTAIN, ROWS
from delta.tables import DeltaTable as DeltaBuilder
from delta_tables import SPEC, dataset_of, ids, read_by_deltalake, rows_of, write_shard
from deltalake import Schema
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from spark_nodes import on_spark, rows_by_duckdb, rows_by_spark, spark_context
from volumes import rows_by_polars, rows_by_pyarrow

from engine.errors import DataError, UnsupportedTable
from nodes.parquet_to_delta import parquet_to_delta
from nodes.spark.constraint_check import count_on_spark
from nodes.spark.session import settings
from nodes.table.commit import table_properties
from nodes.table.constraint_sql import parse
from nodes.table.constraint_values import holds
from nodes.table.constraints import Constraint, NewRows
from nodes.table.snapshot import open_table
from nodes.volume_file.layout import schema

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_we_evaluate_as_spark_does(spark_local: SparkSession, tmp_path: Path, ansi: str) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    (rows,) = ROWS.to_batches()
    with settings(spark_context(spark_local, tmp_path), {"spark.sql.ansi.enabled": ansi}):
        frame = spark_local.read.parquet(str(tmp_path / "rows.parquet"))
        asked = [f"coalesce({expression}, false) AS c{n}" for n, expression in enumerate(CERTAIN)]
        answers = frame.selectExpr(*asked).collect()
    for number, expression in enumerate(CERTAIN):
        theirs = [bool(row[number]) for row in answers]
        assert holds(parse(expression, ROWS.column_names), rows).to_pylist() == theirs, expression


@pytest.mark.parametrize("expression", ["no_such_function(id)", "CAST(id AS INT) > 0"])
def test_what_spark_cannot_evaluate_is_refused(spark_local: SparkSession, tmp_path: Path, expression: str) -> None:
    part = write_shard(tmp_path, ids(1, 3))
    new = NewRows([tmp_path / part.path], part.rows, ())
    ctx = spark_context(spark_local, tmp_path)
    with pytest.raises(UnsupportedTable, match=f"Spark .* its constraint odd .{re.escape(expression)}"):
        count_on_spark([Constraint("its constraint odd", expression)], new, Schema.from_arrow(schema(SPEC)), ctx)


def test_constraints_made_by_spark_hold_on_both_backends(spark_local: SparkSession, tmp_path: Path) -> None:
    # A path with signs that mean something to Spark.
    folder = tmp_path / "p [1] k=2"
    bad, good = (dataset_of(folder, [write_shard(folder, some)]) for some in (ids(6, 9), ids(8, 6)))
    ctx = spark_context(spark_local, tmp_path)
    uri = str(tmp_path / "table")
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in table_properties(SPEC, in_place=False).items())
    spark_local.sql(
        f"CREATE TABLE delta.`{uri}` (id STRING NOT NULL, label FLOAT NOT NULL, volume BINARY) USING DELTA"
        f" TBLPROPERTIES ({properties})"
    )
    spark_local.sql(f"ALTER TABLE delta.`{uri}` ADD CONSTRAINT known CHECK (label <= 1 AND id RLIKE '^vol-')")
    said = r"of 9 new rows: NOT NULL of the column label .* in 2 rows, .*vol-00007; .* known .* in 2 rows"
    with pytest.raises(DataError, match=said):
        on_spark(parquet_to_delta, bad, ctx=ctx, table=uri)
    with pytest.raises(UnsupportedTable, match=r"constraint known .* is not certain here"):
        parquet_to_delta(bad, ctx=ctx, table=uri)
    assert open_table(uri).files == ()
    full = on_spark(parquet_to_delta, good, ctx=ctx, table=uri)
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert read(full.uri) == rows_of(ids(8, 6)), read
    assert rows_by_spark(spark_local, uri) == rows_of(ids(8, 6))
    assert spark_local.sql(f"SELECT * FROM delta.`{uri}` WHERE label IS NULL OR NOT id RLIKE '^vol-'").count() == 0


def test_invariants_and_generated_columns_hold_on_spark(spark_local: SparkSession, tmp_path: Path) -> None:
    """What only columns say, in a table that Delta's own builder makes; embedded does not know the cast."""
    bad, good = (dataset_of(tmp_path / "p", [write_shard(tmp_path / "p", some)]) for some in (ids(6, 9), ids(8, 2)))
    ctx = spark_context(spark_local, tmp_path)
    uri = str(tmp_path / "table")
    invariant = {"delta.invariants": json.dumps({"expression": {"expression": "id < 'vol-00010'"}})}
    builder = DeltaBuilder.create(spark_local).location(uri)
    builder = builder.addColumns(StructType([StructField("id", StringType(), metadata=invariant)]))
    formula = "CAST(CAST(substring(id, 5) AS INT) % 2 AS FLOAT)"
    builder = builder.addColumn("label", "FLOAT", generatedAlwaysAs=formula).addColumn("volume", "BINARY")
    for name, value in table_properties(SPEC, in_place=False).items():
        builder = builder.property(name, value)
    builder.execute()
    said = (
        rf"of 9 new rows: the generated column label \(`label` <=> \({re.escape(formula)}\)\) .* in 2 rows,"
        r" .*vol-00007; the invariant of the column id .* in 5 rows, .*vol-00010"
    )
    with pytest.raises(DataError, match=said):
        on_spark(parquet_to_delta, bad, ctx=ctx, table=uri)
    with pytest.raises(UnsupportedTable, match=r"the generated column label .* is not certain here"):
        parquet_to_delta(good, ctx=ctx, table=uri)
    assert open_table(uri).files == ()
    on_spark(parquet_to_delta, good, ctx=ctx, table=uri)
    assert read_by_deltalake(uri) == rows_by_spark(spark_local, uri) == rows_of(ids(8, 2))
