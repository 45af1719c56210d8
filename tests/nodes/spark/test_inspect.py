"""InspectDataset on Spark: the same page and the same figures, to the last digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from npy_folders import convert, make_volumes, numbered, write_labels
from pyspark.sql import SparkSession
from spark_nodes import on_spark, spark_context

from engine.declare.datasets import Selection, VolumeDelta, VolumeParquet
from engine.errors import DataError
from nodes.inspect_dataset import inspect_dataset
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta

pytestmark = pytest.mark.slow

SHAPE = (25, 25, 10, 4)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> VolumeParquet:
    """45 volumes in five parts, values of all magnitudes, some not finite, some without a label."""
    base = tmp_path_factory.mktemp("inspect")
    root = base / "in"
    for name, volume in make_volumes(root, numbered(45), SHAPE).items():
        scaled = volume.astype(np.float32) ** 9 - 1e3
        scaled[0, 0, 0, int(name[1:5]) % 4] = np.inf
        np.save(root / name, scaled)
    write_labels(root / "labels.csv", [(n, "abc"[i % 3]) for i, n in enumerate(numbered(45)) if i % 7])
    return convert(root, base / "work", not_finite="keep", target_file_mb=1)


@pytest.fixture(scope="module")
def table(parquet: VolumeParquet, tmp_path_factory: pytest.TempPathFactory, spark_local: SparkSession) -> VolumeDelta:
    """The same as a table whose newest version has other files."""
    base = tmp_path_factory.mktemp("table")
    made = parquet_to_delta(parquet, ctx=spark_context(spark_local, base, "t"))
    optimize_delta(made, target_file_mb=2, ctx=spark_context(spark_local, base, "o"))
    return made


def same(session: SparkSession, tmp_path: Path, dataset: VolumeDelta | VolumeParquet, sample: int) -> dict:
    """The figures, which are the same on both backends; so is the page."""
    here = inspect_dataset(dataset, sample=sample, ctx=spark_context(session, tmp_path, "here"))
    there = on_spark(inspect_dataset, dataset, sample=sample, ctx=spark_context(session, tmp_path, "there"))
    assert there.figures == here.figures
    for name in ("figures.json", "dataset.html"):
        assert (Path(there.uri).parent / name).read_bytes() == (Path(here.uri).parent / name).read_bytes()
    return dict(there.figures)


def test_a_pinned_version_of_a_table(spark_local: SparkSession, table: VolumeDelta, tmp_path: Path) -> None:
    figures = same(spark_local, tmp_path, table, 30)
    assert (figures["volumes"], figures["labelled"], figures["version"], figures["files"]) == (45, 38, 1, 5)
    # Blocks of four, and the last of a file is short: which files come first is their names' business.
    assert 20 < figures["sampled"] <= 30
    assert figures["not_finite"] == figures["sampled"]


def test_a_selection(spark_local: SparkSession, table: VolumeDelta, tmp_path: Path) -> None:
    part = table.select(Selection(salt="s", low=0.25, high=0.75)).select(Selection(salt="t", low=0, high=0.8))
    figures = same(spark_local, tmp_path, part, 10)
    assert 0 < figures["volumes"] < 45
    assert figures["sampled"] == min(10, figures["volumes"])


def test_parquet_files(spark_local: SparkSession, parquet: VolumeParquet, tmp_path: Path) -> None:
    assert same(spark_local, tmp_path, parquet, 1000)["sampled"] == 45


def test_volumes_of_another_size_are_reported(
    spark_local: SparkSession, parquet: VolumeParquet, tmp_path: Path
) -> None:
    assert parquet.spec is not None
    wrong = parquet.model_copy(update={"spec": parquet.spec.model_copy(update={"shape": (5, 4)})})
    with pytest.raises(DataError, match="has 100,000 bytes, not 80"):
        on_spark(inspect_dataset, wrong, sample=1000, ctx=spark_context(spark_local, tmp_path))
