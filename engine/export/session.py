"""What an exported file calls for its Spark session.

Started with plain Python, the file's own settings decide. Under spark-submit there is a Java process already, with the
settings that spark-submit was given: those go first, and the file's fill in what is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.catalog import user_module
from engine.extras import require
from engine.profiles import Profile, spark_settings
from engine.spark import yarn
from engine.spark.jars import EXTENSION, with_jars
from engine.spark.submit import OF_THE_CLIENT
from engine.storage import expanded, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets this variable for the Python that it starts."""
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
"""Set on a Databricks cluster, whose session is there already, has Delta, and is not ours to end."""


def to_give(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for `SparkSession.builder`: the file's, with `${NAME}` put in from the environment and Delta's jars.

    Raises `MissingPackage` without PySpark, `UsageError` when a variable is not set or a jar is missing,
    `ExecutionError` when it cannot be fetched.
    """
    require("this file", "pyspark")
    if _DATABRICKS in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    from engine.spark.jars import delta_jars
    from engine.spark.session import FOR_THE_START

    profile = Profile(name="of this file", backend="spark", cores=1, memory_bytes=1 << 28, spark=dict(settings))
    out = spark_settings(profile)
    # What is on a command line, everyone on the machine can read.
    hidden = {k for k, value in out.items() if settings[k] != value and not k.startswith(FOR_THE_START)}
    if out.get("spark.master") == yarn.MASTER:
        out = yarn.settings() | out
    # PySpark reads the variable, spark-submit the setting.
    os.environ.setdefault("PYSPARK_PYTHON", out.get("spark.pyspark.python", sys.executable))
    if _SUBMITTED in os.environ:
        SparkContext._ensure_initialized()
        given = SparkConf()
        here = given.get("spark.submit.deployMode", "client") == "client"
        out = {name: v for name, v in out.items() if not given.contains(name) and (here or name not in OF_THE_CLIENT)}
        # Jars that spark-submit was not given are not loaded yet.
        own = [] if given.contains("spark.jars") else [jar.strip() for jar in out.get("spark.jars", "").split(",")]
        _load(path for path in (local_path(jar, ("file", "local")) for jar in own) if path)
        if not _has_delta():
            jars = delta_jars(settings)
            _load(jars)
            out["spark.jars"] = with_jars(given.get("spark.jars", "") or ",".join(own), jars)
        return out
    if jars := delta_jars(out):
        out["spark.jars"] = with_jars(out.get("spark.jars", ""), jars)
    if out.get("spark.master", "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where Spark's pages listen
    if SparkContext._gateway is None:
        start = SparkConf(loadDefaults=False)
        for name, value in out.items():
            if name not in hidden:
                start.set(name, value)
        SparkContext._ensure_initialized(conf=start)
    return out


def end(session: SparkSession) -> None:
    """End the session, unless it is the cluster's own."""
    if _DATABRICKS not in os.environ:
        session.stop()


def send_code(session: SparkSession, folder: Path, files: Iterable[Path | str] = ()) -> None:
    """Give our code, and a person's own node files, to the executors. `folder` keeps what is sent."""
    from engine.spark.code import code_zip, send_to_executors

    place = folder / "code"
    place.mkdir(parents=True, exist_ok=True)
    sent = [code_zip(place)]
    for file in dict.fromkeys(expanded(str(f)).absolute() for f in files):
        # Under the name that its module has here: functions travel by name.
        copy = place / f"{user_module(file)}.py"
        shutil.copyfile(file, copy)
        sent.append(copy)
    send_to_executors(session, sent)


def _has_delta() -> bool:
    try:
        _loader().loadClass(EXTENSION)
    except Exception:  # Java's ClassNotFoundException, as py4j wraps it
        return False
    return True


def _load(jars: Iterable[Path | str]) -> None:
    """Add jars to a driver that runs already: spark-submit gave it a loader that takes more."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    for jar in jars:
        _loader().addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _loader() -> Any:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()
