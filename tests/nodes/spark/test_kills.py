"""The driver killed at each commit point of the Spark variants, then done again by either backend: nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta_tables import context, dataset_of, ids, read_by_deltalake, rows_of, shards
from npy_folders import make_volumes, numbered, rows, take
from pyspark.sql import SparkSession
from spark_nodes import finish_driver, on_spark, rows_by_spark, spark_context, start_driver, was_killed

from engine.declare.datasets import VolumeDelta, VolumeParquet
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import is_table, open_table
from nodes.volume_file.parts import read_parts

pytestmark = pytest.mark.slow


def again(node: Any, backend: str, session: SparkSession, base: Path, name: str, dataset: Any, **params: Any) -> Any:
    if backend == "spark":
        return on_spark(node, dataset, ctx=spark_context(session, base, name), **params)
    return node(dataset, **params, ctx=context(base, name))


def exactly(session: SparkSession, uri: str, volume_ids: list[str]) -> None:
    assert read_by_deltalake(uri) == rows_of(volume_ids)
    assert rows_by_spark(session, uri) == rows_of(volume_ids)


@pytest.mark.parametrize(
    ("point", "backend"),
    [
        ("parquet:part-renamed#2", "embedded"),
        ("parquet:before-manifest", "spark"),
        ("parquet:after-manifest", "embedded"),
    ],
)
def test_a_conversion(spark_local: SparkSession, tmp_path: Path, point: str, backend: str) -> None:
    root = tmp_path / "in"
    volumes = make_volumes(root, numbered(40), (25, 25, 10, 4))
    files = take(root, tmp_path / "listing")
    assert was_killed(start_driver(spark_local, tmp_path, "NumpyToParquet", files, "n", point, target_file_mb=1))
    shared = context(tmp_path, "n").shared
    published = context(tmp_path, "n").out / "parts.json"
    assert published.exists() == (point == "parquet:after-manifest")
    done = again(numpy_to_parquet, backend, spark_local, tmp_path, "n", files, target_file_mb=1)
    assert isinstance(done, VolumeParquet)
    assert {name: content for name, (_, content) in rows(done).items()} == {n: v.tobytes() for n, v in volumes.items()}
    assert {p.name for p in (shared / "parts").iterdir()} == {p.path for p in read_parts(done).parts}
    assert list(shared.glob(".making-*")) == []


@pytest.mark.parametrize(
    ("point", "backend"),
    [
        ("delta:before-ledger", "spark"),
        ("delta:file-linked#2", "embedded"),
        ("delta:before-commit", "spark"),
        ("delta:after-commit", "embedded"),
    ],
)
def test_a_new_table(spark_local: SparkSession, tmp_path: Path, point: str, backend: str) -> None:
    dataset = shards(tmp_path / "p", 3, 4, 5)
    assert was_killed(start_driver(spark_local, tmp_path, "ParquetToDelta", dataset, "t", point))
    root = context(tmp_path, "t").shared / "table"
    assert is_table(root) == (point == "delta:after-commit")
    done = again(parquet_to_delta, backend, spark_local, tmp_path, "t", dataset)
    exactly(spark_local, done.uri, ids(0, 12))
    assert not list((root / "_voxelflow").glob("convert-*"))
    # And everything is known: a shard comes out again.
    less = parquet_to_delta(dataset_of(tmp_path / "p", list(read_parts(dataset).parts[1:])), ctx=context(tmp_path, "t"))
    exactly(spark_local, less.uri, ids(3, 9))


@pytest.mark.parametrize(("point", "backend"), [("delta:before-commit", "embedded"), ("delta:after-commit", "spark")])
def test_more_rows(spark_local: SparkSession, tmp_path: Path, point: str, backend: str) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path, "t"))
    grown = shards(tmp_path / "p", 3, 4, 5)
    assert was_killed(start_driver(spark_local, tmp_path, "ParquetToDelta", grown, "t", point))
    exactly(spark_local, table.uri, ids(0, 12 if point == "delta:after-commit" else 7))
    done = again(parquet_to_delta, backend, spark_local, tmp_path, "t", grown)
    exactly(spark_local, done.uri, ids(0, 12))
    assert done.version == table.version + 1
    less = parquet_to_delta(dataset_of(tmp_path / "p", list(read_parts(grown).parts[1:])), ctx=context(tmp_path, "t"))
    exactly(spark_local, less.uri, ids(3, 9))


@pytest.mark.parametrize(
    ("point", "backend"),
    [
        ("optimize:file-written", "embedded"),
        ("optimize:before-commit", "spark"),
        ("optimize:after-commit", "spark"),
    ],
)
def test_a_compaction(spark_local: SparkSession, tmp_path: Path, point: str, backend: str) -> None:
    dataset = shards(tmp_path / "p", *[5] * 12)
    table = parquet_to_delta(dataset, ctx=context(tmp_path, "t"))
    assert was_killed(start_driver(spark_local, tmp_path, "OptimizeDelta", table, "o", point))
    exactly(spark_local, table.uri, ids(0, 60))
    assert len(open_table(table.uri).files) == (1 if point == "optimize:after-commit" else 12)
    written = {p.name: p.stat().st_ino for p in Path(table.uri).glob("rewritten-*.parquet")}
    done = again(optimize_delta, backend, spark_local, tmp_path, "o", table)
    assert (done.files, done.version, done.data_version) == (1, 2, 1)
    # What the killed driver had taken over is not written again.
    assert all((Path(table.uri) / name).stat().st_ino == inode for name, inode in written.items())
    assert bool(written) == (point != "optimize:file-written")
    exactly(spark_local, done.uri, ids(0, 60))
    less = parquet_to_delta(dataset_of(tmp_path / "p", list(read_parts(dataset).parts[1:])), ctx=context(tmp_path, "t"))
    exactly(spark_local, less.uri, ids(5, 55))


def test_two_drivers_fill_one_table(spark_local: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    one, two = shards(tmp_path / "one", *[3] * 4), shards(tmp_path / "two", *[4] * 4, first=1000)
    both = [
        start_driver(spark_local, tmp_path, "ParquetToDelta", one, "one", table=place),
        start_driver(spark_local, tmp_path, "ParquetToDelta", two, "two", table=place),
    ]
    made = [finish_driver(process) for process in both]
    assert all(isinstance(table, VolumeDelta) for table in made)
    exactly(spark_local, place, ids(0, 12) + ids(1000, 16))
