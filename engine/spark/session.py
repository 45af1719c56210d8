"""The Spark session of a compute profile: settings, jars, our code, and an error that says what to do.

What a profile does not say gets a value that suits Voxelflow: one small Spark on the loopback for local masters, a few
partitions (our tables are lists of files), the interpreter that runs us. The profile's own settings always win.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from engine.errors import ExecutionError, UsageError
from engine.profiles import Profile, spark_settings
from engine.spark.code import code_zip
from engine.spark.failures import last_words
from engine.spark.jars import delta_jars
from engine.spark.java import find_java
from engine.workspace import Workspace

_GIB = 1 << 30
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TASK_FAILURES = 4
_CONNECT_S = 5.0
_IGNORED = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")
"""Variables of the person's environment that would give us another Spark, or a Python without our packages.
`SPARK_CONF_DIR`, `HADOOP_CONF_DIR` and `YARN_CONF_DIR` count: they say how to reach a cluster, and hold its secrets."""


def open_session(
    profile: Profile,
    *,
    name: str,
    workspace: Workspace | None = None,
    log: Path | None = None,
    folder: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> SparkSession:
    """Start the profile's session; `name` is what the cluster shows.

    `workspace` is whose own nodes travel to the executors. Java's output goes to the file `log`, else to our standard
    error. `folder` is for Spark's temporary files, which a killed session leaves behind (else the system's place).
    `say` hears of jars that are downloaded.

    Raises `UsageError` when something is missing here (Java, jars, a variable, a setting), `ExecutionError` when the
    session does not start, such as with a master that does not answer.
    """
    own = spark_settings(profile)
    # Those with a reference may be secrets; what is on a command line, everyone on the machine can read. What only
    # counts while Java starts has no other way.
    hidden = {k for k, value in profile.spark.items() if own[k] != value and not k.startswith(_FOR_THE_START)}
    if SparkContext._active_spark_context is not None:
        raise ExecutionError("a Spark session lives in this process already", hint="Stop it first.")
    if profile.master.startswith("sc:"):
        raise UsageError(
            f"profile {profile.name} names a Spark Connect server ({profile.master})",
            hint="Voxelflow hands work to executors itself, which Spark Connect cannot: name the cluster's own master.",
        )
    find_java()
    _reach(profile.master)
    jars = [str(jar) for jar in delta_jars(own, say)]
    place = Path(tempfile.mkdtemp(prefix="voxelflow-spark-")) if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    settings = _defaults(profile, place) | own
    settings["spark.master"] = master_url(profile.master)
    settings["spark.app.name"] = name
    settings["spark.jars"] = ",".join(part for part in [*own.get("spark.jars", "").split(","), *jars] if part)
    for key, value in (("spark.sql.extensions", _EXTENSION), ("spark.driver.extraJavaOptions", _JAVA_OPTIONS)):
        settings[key] = _joined(key, own.get(key, ""), value)
    session = _start(settings, hidden, log, profile.master, place)
    path = list(sys.path)
    session.sparkContext.addPyFile(str(code_zip(place, workspace)))
    sys.path[:] = path  # the driver goes on with the code that it runs
    return session


_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_FOR_THE_START = ("spark.driver.", "spark.jars", "spark.submit.")
_JAVA_OPTIONS = "-XX:+ExitOnOutOfMemoryError"
"""A driver without memory limps on for minutes; one that ends is told, and started again."""


def is_local(master: str) -> bool:
    """Whether Spark runs within the driver's own process."""
    return master.startswith("local")


def master_url(master: str) -> str:
    """The master as Spark gets it. A local one tries a failed task again, as every other does; `local[2]` would not."""
    match = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{match[1] or 1},{_TASK_FAILURES}]" if match else master


def task_failures(context: SparkContext) -> int:
    """How often Spark tries a task before it gives up."""
    master = str(context.master)
    if match := re.fullmatch(r"local\[[^,]+,\s*(\d+)\]", master):
        return int(match[1])
    return 1 if is_local(master) else int(context.getConf().get("spark.task.maxFailures", str(_TASK_FAILURES)))


def _on_this_machine(master: str) -> bool:
    masters = _masters(master)
    return is_local(master) or (bool(masters) and all(host in _LOOPBACK for host, _ in masters))


def _masters(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a standalone cluster's masters."""
    if not master.startswith("spark://"):
        return []
    out = []
    for part in master.removeprefix("spark://").split(","):
        host, _, port = part.rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(
                f"{master} is no Spark master", hint="Write spark://HOST:PORT, such as spark://10.0.0.5:7077."
            )
        out.append((host.strip("[]"), int(port)))
    return out


def _reach(master: str) -> None:
    """Ask a standalone cluster's masters for a connection: Spark itself would try for a minute."""
    masters = _masters(master)
    why = ""
    for address in masters:
        try:
            socket.create_connection(address, _CONNECT_S).close()
            return
        except OSError as exc:
            why = str(exc.strerror or exc)
    if masters:
        raise ExecutionError(
            f"no Spark master answers at {master} ({why})", hint="Is the cluster up, and the profile's `master` right?"
        )


def _defaults(profile: Profile, place: Path) -> dict[str, str]:
    out = {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": str(max(2, min(profile.cores, 32))),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.hadoop.fs.defaultFS": "file:///",
        "spark.driver.memory": f"{max(1, min(4, profile.memory_bytes // 4 // _GIB))}g",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # an `engine` in the current directory must not be taken for ours
        "spark.python.worker.reuse": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.port.maxRetries": "100",
    }
    address = "127.0.0.1" if _on_this_machine(profile.master) else _address(profile.master)
    return out | {"spark.driver.host": address, "spark.driver.bindAddress": address}


def _address(master: str) -> str:
    """This machine's address as a cluster sees it: of the interface that leads to its master, else to the world."""
    target = next(iter(_masters(master)), ("192.0.2.1", 9))
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(target)  # sends nothing
        return str(probe.getsockname()[0])
    return socket.gethostname()


def _joined(key: str, own: str, ours: str) -> str:
    """Both the person's value and ours, for settings that are lists."""
    if ours in own:
        return own
    return (" " if key.endswith("Options") else ",").join(part for part in (own, ours) if part)


def _start(settings: Mapping[str, str], hidden: set[str], log: Path | None, master: str, place: Path) -> SparkSession:
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    begun = log.stat().st_size if log is not None and log.exists() else 0
    try:
        with _environment(master, settings, place):
            gateway = SparkContext._gateway or _launch(settings, hidden, log)
            context = SparkContext(conf=conf, gateway=gateway)
        return SparkSession(context)
    except Exception as exc:
        said = last_words(exc, log, begun)
        where = f" Java's output is in {log}." if log else ""
        raise ExecutionError(
            f"the Spark session ({master}) did not start: {said}",
            hint=f"`voxelflow profiles test` looks at each thing that it needs.{where}",
        ) from exc


def _launch(settings: Mapping[str, str], hidden: set[str], log: Path | None) -> Any:
    launch: Any = launch_gateway
    conf = SparkConf(loadDefaults=False)
    for key in sorted(set(settings) - hidden):
        conf.set(key, settings[key])
    if log is None:
        return launch(conf, {})
    with log.open("ab") as output:
        return launch(conf, {"stdout": output, "stderr": output})


@contextlib.contextmanager
def _environment(master: str, settings: Mapping[str, str], place: Path) -> Iterator[None]:
    """What Java reads from its environment while it starts."""
    kept = dict(os.environ)
    for name in _IGNORED:
        os.environ.pop(name, None)
    # PySpark reads the variables, Spark's own scripts the settings.
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    os.environ["PYSPARK_DRIVER_PYTHON"] = settings["spark.pyspark.driver.python"]
    # Where the Spark UI listens; the driver's other ports have settings. People of a cluster may have set it.
    if _on_this_machine(master):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "spark.local.dir" not in settings:
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(place))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
