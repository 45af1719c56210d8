"""ConvertTable: tables that Spark wrote, and the same parts on Spark as embedded, byte for byte."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from npy_folders import context, reasons, rows
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType, IntegerType, StringType, StructField, StructType

from engine.declare.datasets import VolumeParquet
from nodes.convert_table import convert_table

VOLUME = ArrayType(ArrayType(ArrayType(FloatType())))
SCHEMA = StructType(
    [
        StructField("path", StringType()),
        StructField("label", StringType()),
        StructField("depth", IntegerType()),
        StructField("array", VOLUME),
    ]
)


def _content(dataset: VolumeParquet) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(dataset.uri).iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [[], ["label"]])
def test_a_table_that_spark_wrote_is_converted_here_and_by_spark(
    spark_local: SparkSession, tmp_path: Path, partitions: list[str]
) -> None:
    random = np.random.default_rng(0)
    volumes = {f"v{n:02d}": random.random((20, 20, 16)).astype(np.float32) for n in range(60)}
    written = [(name, "ab"[n % 2], n, volume.tolist()) for n, (name, volume) in enumerate(volumes.items())]
    written.append(("v99", "a", 99, [[[1.0], [2.0, 3.0]]]))
    frame = spark_local.createDataFrame(written, SCHEMA).coalesce(1)
    frame.write.format("delta").partitionBy(*partitions).save(str(tmp_path / "table"))
    given: dict[str, Any] = {p.name: p.default for p in convert_table.parameters if not p.required}
    given |= {"table": str(tmp_path / "table"), "target_file_mb": 1, "max_bad_rows": 1}
    here = convert_table(**given, ctx=context(tmp_path / "here", "it"))
    ctx = dataclasses.replace(context(tmp_path / "there", "it"), open_spark=lambda: spark_local)
    there = convert_table.backends["spark"](**given, ctx=ctx)
    assert {name: data for name, (_, data) in rows(here).items()} == {n: v.tobytes() for n, v in volumes.items()}
    assert [rows(here)[name][0] for name in ("v00", "v01")] == [0.0, 1.0]
    assert len(_content(here)) == 2
    assert _content(here) == _content(there)
    assert reasons(here) == reasons(there)
    assert list(reasons(here).values()) == ["shape"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_what_spark_deleted_and_renamed(spark_local: SparkSession, tmp_path: Path, mode: str) -> None:
    """By deletion vectors and column mapping: rows are left out, columns have the names that Spark shows."""
    random = np.random.default_rng(0)
    volumes = {f"v{n:02d}": random.random((4, 3, 2)).astype(np.float32) for n in range(20)}
    written = [(name, "ab"[n % 2], n, volume.tolist()) for n, (name, volume) in enumerate(volumes.items())]
    table = f"delta.`{tmp_path / 'table'}`"
    frame = spark_local.createDataFrame(written, SCHEMA).coalesce(1)
    options = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": "true"}
    frame.write.format("delta").options(**options).save(str(tmp_path / "table"))
    spark_local.sql(f"DELETE FROM {table} WHERE path IN ('v00', 'v07', 'v08')")
    if mode != "none":
        # What the files have under a name is not what the table has.
        spark_local.sql(f"ALTER TABLE {table} RENAME COLUMN depth TO class")
        spark_local.sql(f"ALTER TABLE {table} RENAME COLUMN label TO depth")
        spark_local.sql(f"ALTER TABLE {table} RENAME COLUMN class TO label")
    spark_local.sql(f"ALTER TABLE {table} ADD COLUMN age int")
    more = [("v98", 7, "c", volumes["v00"].tolist(), 98)]
    names = "path string, label int, depth string, array array<array<array<float>>>, age int"
    if mode == "none":
        more, names = (
            [("v98", "c", 7, volumes["v00"].tolist(), 98)],
            names.replace("label int, depth string", "label string, depth int"),
        )
    spark_local.createDataFrame(more, names).write.format("delta").mode("append").save(str(tmp_path / "table"))
    given: dict[str, Any] = {p.name: p.default for p in convert_table.parameters if not p.required}
    given |= {"table": str(tmp_path / "table"), "target_file_mb": 1}
    here = convert_table(**given, ctx=context(tmp_path / "here", "it"))
    ctx = dataclasses.replace(context(tmp_path / "there", "it"), open_spark=lambda: spark_local)
    there = convert_table.backends["spark"](**given, ctx=ctx)
    assert _content(here) == _content(there)
    assert reasons(here) == {}
    found = pa.concat_tables(pq.read_table(path) for path in Path(here.uri).iterdir())
    expected = spark_local.sql(f"SELECT path, depth, age FROM {table}").collect()
    assert len(expected) == 18
    assert {(r["id"], r["depth"], r["age"]) for r in found.to_pylist()} == set(map(tuple, expected))
    volumes["v98"] = volumes["v00"]
    assert {r["id"]: r["volume"] for r in found.to_pylist()} == {
        r["path"]: volumes[r["path"]].tobytes() for r in expected
    }
    assert here.spec is not None
    assert here.spec.classes == (("a", "b", "c") if mode == "none" else ())
