"""Tables that are made on either backend, and read with everything there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from delta_tables import (
    read_by_deltalake,
    rows_of,
)
from pyspark.sql import SparkSession
from spark_nodes import on_spark, rows_by_duckdb, rows_by_spark, spark_context
from volumes import rows_by_polars, rows_by_pyarrow

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.declare.events import Event, Message
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table

EMBEDDED, SPARK = "embedded", "spark"


class Tables:
    """Runs the nodes on either backend, and reads what they made with everything there is."""

    def __init__(self, session: SparkSession, base: Path) -> None:
        self.session, self.base = session, base
        self.said: list[str] = []

    def ctx(self, name: str) -> TaskContext:
        return spark_context(self.session, self.base, name, emit=self._hear)

    def fill(self, backend: str, dataset: VolumeParquet, ctx: Any = None, **params: Any) -> VolumeDelta:
        return self._run(parquet_to_delta, backend, dataset, ctx or self.ctx("t"), **params)

    def optimize(self, backend: str, table: VolumeDelta, ctx: Any = None, **params: Any) -> VolumeDelta:
        return self._run(optimize_delta, backend, table, ctx or self.ctx("o"), **params)

    def hold(self, table: VolumeDelta, volume_ids: list[str]) -> None:
        wanted = rows_of(volume_ids)
        for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars):
            assert read(table.uri, table.version) == wanted, read
        assert rows_by_spark(self.session, table.uri, table.version) == wanted
        if table.version == open_table(table.uri).version:
            assert rows_by_duckdb(table.uri) == wanted
        assert table.count == len(volume_ids)

    def _run(self, node: Any, backend: str, dataset: Any, ctx: Any, **params: Any) -> VolumeDelta:
        return on_spark(node, dataset, ctx=ctx, **params) if backend == SPARK else node(dataset, **params, ctx=ctx)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Message):
            self.said.append(event.text)


@pytest.fixture
def tables(spark_local: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark_local, tmp_path)


def log_of(table: VolumeDelta, version: int) -> dict[str, Any]:
    path = Path(table.uri) / "_delta_log" / f"{version:020d}.json"
    return {kind: action for line in path.read_text().splitlines() for kind, action in json.loads(line).items()}
