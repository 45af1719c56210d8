"""One small Spark for the tests of this process: `local[2]` with Delta, on the loopback only.

Starting a session takes ten seconds and more, so all modules share one; a test that needs a session of its own
calls `end_local_session` first, and the next user of `spark_local` gets a new one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from outside_parts import require
from pyspark.sql import SparkSession
from waiting import WAIT_S

_HERE = Path(__file__).resolve().parent
WORKER_PATH = os.pathsep.join([str(_HERE.parents[1]), str(_HERE)])
"""For Python workers: functions of test modules are pickled by name."""

_OPTIONS = "spark.driver.extraJavaOptions"
_JAVA_OPTIONS = "-XX:ReservedCodeCacheSize=160m"
"""All that these tests compile, 60 MB: Java's 48 would be full, and swept again and again."""
_FOR_SMALL_TABLES = {
    # Code that is generated, compiled and loaded for each query would handle a dozen rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Nor is there anything to spread; a run's session has two partitions.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}

_folders: list[str] = []
_gateways: list[Any] = []
"""To the JVM that was started here."""


@pytest.fixture(scope="module")
def spark_local() -> SparkSession:
    """The `local[2]` session. Two slots; a task that fails is not tried again, as in every local Spark."""
    require("java")
    return local_session()


def local_session() -> SparkSession:
    """The session of this process; a new one when there is none or it was stopped."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return _start()
    return SparkSession.builder.getOrCreate()


def end_local_session() -> None:
    """Stop the session. Its JVM stays, so the next one has the same jars and memory, and starts in a second."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkSession.builder.getOrCreate().stop()
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


def settings(folder: Path | str) -> dict[str, str]:
    """What a quiet Spark on one machine needs. `folder` is where it may put its files."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": WORKER_PATH,
    }


def _start() -> SparkSession:
    from engine.spark import class_data
    from engine.spark.jars import delta_jars
    from engine.spark.java import find_java

    _end_java_of_others()
    folder = tempfile.mkdtemp(prefix="spark-")
    _folders.append(folder)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The settings count for spark-submit alone; a session of this process looks here.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Not Delta's own helper: it lets Spark ask Ivy at each start, which two processes must not do at once.
    jars = delta_jars({})
    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.jars", ",".join(map(str, jars)))
    kept = class_data.settings_with({}, jars, find_java())
    options = " ".join(filter(None, (_JAVA_OPTIONS, kept.pop(_OPTIONS, ""))))
    for name, value in {**settings(folder), **_FOR_SMALL_TABLES, **kept, _OPTIONS: options}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _gateways[:] = [session.sparkContext._gateway]
    return session


def _end_java_of_others() -> None:
    """A test that opens a session of the engine in this process leaves its JVM, which our options come too late for:
    with the memory of that session, and code that is compiled and thrown away again and again."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None or gateway in _gateways:
        return
    gateway.shutdown()
    # A gateway asks Java for what it has not got itself.
    if (java := vars(gateway).get("proc")) is not None:
        java.stdin.close()
        java.wait(WAIT_S)
    SparkContext._gateway = SparkContext._jvm = None


def _at_exit() -> None:
    with contextlib.suppress(Exception):
        end_local_session()


atexit.register(_at_exit)
