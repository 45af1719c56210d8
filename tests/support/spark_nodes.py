"""Nodes run on a Spark session without the engine, tables read by Spark and DuckDB, and drivers that are killed.

A driver that is to be killed is a process of its own, forked from one with our imports, that uses the Java of this
process's session, as notebooks do: starting it takes a second, and what Spark was doing for it goes on after its death,
as on a cluster.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import forked_programs
from delta_tables import context
from pyspark.sql import SparkSession

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, dataset_from_json
from engine.declare.node_type import NodeType

Rows = list[tuple[str, float | None, bytes]]
NODES = {
    "NumpyToParquet": ("nodes.numpy_to_parquet", "numpy_to_parquet"),
    "ParquetToDelta": ("nodes.parquet_to_delta", "parquet_to_delta"),
    "OptimizeDelta": ("nodes.optimize_delta", "optimize_delta"),
    "TransformVolumes": ("nodes.transform_volumes", "transform_volumes"),
    "InspectDataset": ("nodes.inspect_dataset", "inspect_dataset"),
}


def spark_context(session: SparkSession, tmp_path: Path, name: str = "task", **fields: Any) -> TaskContext:
    """As `delta_tables.context`, for a task on Spark."""
    return dataclasses.replace(context(tmp_path, name), open_spark=lambda: session, **fields)


def on_spark(node: NodeType[Any, Any], dataset: Dataset, *, ctx: Any, **params: Any) -> Any:
    """The node's variant for Spark, with all parameters, as the engine calls it."""
    given = {p.name: p.default for p in node.parameters} | params
    return node.backends["spark"](dataset, **given, ctx=ctx)


def rows_by_spark(session: SparkSession, uri: str, version: int | None = None) -> Rows:
    """All rows (id, label, bytes), sorted, through delta-spark."""
    reader = session.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    found = reader.load(uri).select("id", "label", "volume").collect()
    return sorted((r["id"], r["label"], bytes(r["volume"])) for r in found)


def rows_by_duckdb(uri: str) -> Rows:
    """The newest version through DuckDB's Delta extension, which is a third implementation (delta-kernel)."""
    with _duckdb().cursor() as connection:
        found = connection.execute("SELECT id, label, volume FROM delta_scan(?)", [uri]).fetchall()
    return sorted(found)


@cache
def _duckdb() -> Any:
    """A database in memory with the extension, which takes longer to load than a small table to read."""
    import duckdb
    import duckdb_ext

    extension = next(Path(next(iter(duckdb_ext.__path__))).rglob("delta.duckdb_extension"))
    connection = duckdb.connect(config={"enable_external_file_cache": False, "threads": 1})
    connection.execute(f"LOAD '{extension}'")
    return connection


# --- drivers in processes of their own --------------------------------------------------------


def start_driver(
    session: SparkSession, tmp_path: Path, node: str, dataset: Dataset, name: str, kill_at: str = "", **params: Any
) -> subprocess.Popen[str]:
    """Run a node's Spark variant in its own process, under the context `name`, killed at the commit point `kill_at`."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    order = {
        "tmp": str(tmp_path),
        "node": node,
        "name": name,
        "params": params,
        "input": dataset.model_dump(mode="json"),
    }
    java = gateway.gateway_parameters
    environment = {
        "VOXELFLOW_KILL_AT": kill_at,
        "PYSPARK_GATEWAY_PORT": str(java.port),
        "PYSPARK_GATEWAY_SECRET": java.auth_token,
    }
    return forked_programs.start(
        f"import spark_nodes; spark_nodes._main({order!r})",
        environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def finish_driver(process: subprocess.Popen[str]) -> Dataset:
    """The node's result. Raises `AssertionError` with its traceback when it failed."""
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return dataset_from_json(out.splitlines()[-1])


def was_killed(process: subprocess.Popen[str]) -> bool:
    _, err = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, err
    return True


def _join_session() -> SparkSession:
    """A session of this process over the Java, and the Spark, of the process that started this one."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    java = gateway.jvm.JavaSparkContext.fromSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    return SparkSession(SparkContext(gateway=gateway, jsc=java))


def _main(order: dict[str, Any]) -> None:
    module, name = NODES[order["node"]]
    node = getattr(importlib.import_module(module), name)
    ctx = spark_context(_join_session(), Path(order["tmp"]), order["name"])
    made = on_spark(node, dataset_from_json(json.dumps(order["input"])), ctx=ctx, **order["params"])
    print(made.model_dump_json(), flush=True)
    # Ending in order would stop the session, which is not this process's.
    os._exit(0)
