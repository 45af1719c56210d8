"""What an exported file calls for its Spark session.

Started with plain Python, the file's own settings decide. Under spark-submit there is a Java process already, with the
settings that spark-submit was told: those go first, and the file's fill in what is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.catalog import user_module
from engine.profiles import Profile, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets this variable for the Python that it starts."""
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


def to_give(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for `SparkSession.builder`: the file's, with `${NAME}` put in from the environment and Delta's jars.

    Raises `UsageError` when a variable is not set or a jar is missing, `ExecutionError` when it cannot be fetched.
    """
    from pyspark import SparkConf, SparkContext

    from engine.spark.jars import delta_jars

    profile = Profile(name="of this file", backend="spark", cores=1, memory_bytes=1 << 28, spark=dict(settings))
    out = spark_settings(profile)
    # PySpark reads the variable, spark-submit the setting.
    os.environ.setdefault("PYSPARK_PYTHON", out.get("spark.pyspark.python", sys.executable))
    if _SUBMITTED in os.environ:
        SparkContext._ensure_initialized()
        given = SparkConf()
        out = {name: value for name, value in out.items() if not given.contains(name)}
        if not _has_delta():
            jars = [str(jar) for jar in delta_jars(settings)]
            _load(jars)
            out["spark.jars"] = _listed(given.get("spark.jars", "") or "", *jars)
        return out
    jars = [str(jar) for jar in delta_jars(out)]
    if jars:
        out["spark.jars"] = _listed(out.get("spark.jars", ""), *jars)
    if out.get("spark.master", "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where Spark's pages listen
    if SparkContext._gateway is None:
        start = SparkConf(loadDefaults=False)
        for name, value in out.items():
            # What is on a command line, everyone on the machine can read.
            if name not in settings or settings[name] == value:
                start.set(name, value)
        SparkContext._ensure_initialized(conf=start)
    return out


def send_code(session: SparkSession, folder: Path, files: Iterable[Path | str] = ()) -> None:
    """Give our code, and a person's own node files, to the executors. `folder` keeps what is sent."""
    from engine.spark.code import code_zip

    place = folder / "code"
    place.mkdir(parents=True, exist_ok=True)
    context, path = session.sparkContext, list(sys.path)
    context.addPyFile(str(code_zip(place)))
    for file in dict.fromkeys(Path(f).expanduser().absolute() for f in files):
        # Under the name that its module has here: functions travel by name.
        copy = place / f"{user_module(file)}.py"
        shutil.copyfile(file, copy)
        context.addPyFile(str(copy))
    sys.path[:] = path  # the driver goes on with the code that it runs


def _listed(*names: str) -> str:
    return ",".join(name for name in names if name)


def _has_delta() -> bool:
    try:
        _loader().loadClass(_EXTENSION)
    except Exception:  # Java's ClassNotFoundException, as py4j wraps it
        return False
    return True


def _load(jars: Iterable[str]) -> None:
    """Add jars to a driver that runs already: spark-submit gave it a loader that takes more."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    for jar in jars:
        _loader().addURL(jvm.java.io.File(jar).toURI().toURL())


def _loader() -> Any:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()
