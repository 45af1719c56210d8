"""CutVolumes on Spark: the same parts as embedded, byte for byte."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import segyio
from cuts import cut, rows_of
from npy_folders import context, reasons, take
from pyspark.sql import SparkSession
from spark_nodes import on_spark

from engine.declare.datasets import VolumeParquet
from nodes.cut_volumes import cut_volumes


def _content(dataset: VolumeParquet) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(dataset.uri).iterdir()}


@pytest.mark.slow
def test_spark_cuts_the_same_parts(spark_local: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    random = np.random.default_rng(0)
    for name in ("amp", "phase"):
        volume = random.random((48, 40, 32), np.float32)
        volume[3, 4, 5] = np.nan
        segyio.tools.from_array3D(str(root / f"a_{name}.sgy"), volume, format=5)
    labels = (random.random((48, 40, 32)) < 0.3).astype(np.float32)
    segyio.tools.from_array3D(str(root / "a_facies.sgy"), labels, format=5)
    (tmp_path / "wells.csv").write_text("file,well,drilled\na,F03-4,1979-05-01\n")
    given: dict[str, Any] = {
        "size": (16, 16, 16), "stride": (8, 8, 8), "target_file_mb": 1, "channels_from": "{cube}_{channel}.sgy",
        "labels": "volume", "label_volume": "{cube}_facies.sgy", "keep": "1=0.5", "edges": "repeat",
        "hash_sources": True, "columns_file": str(tmp_path / "wells.csv"),
    }  # fmt: skip
    here = cut(root, tmp_path / "here", **given)
    files = take(root, tmp_path / "there")
    ctx = dataclasses.replace(context(tmp_path / "there", "cut"), open_spark=lambda: spark_local)
    there = on_spark(cut_volumes, files, ctx=ctx, **given)
    assert len(_content(here)) > 1
    assert {(row["well"], row["drilled"]) for row in rows_of(here).values()} == {("F03-4", date(1979, 5, 1))}
    assert _content(here) == _content(there)
    assert reasons(here) == reasons(there) == {"a/x00000-y00000-z00000": "not-finite"}
    assert (here.count, here.left_out, here.labelled) == (there.count, there.left_out, there.labelled)
