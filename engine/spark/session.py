"""The Spark session of a compute profile: settings, jars, our code, and an error that says what to do.

What a profile does not say gets a value that suits Voxelflow: one small Spark on the loopback for local masters, a few
partitions (our tables are lists of files), the interpreter that runs us. The profile's own settings always win.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from engine.declare import events
from engine.declare.events import Event
from engine.errors import ExecutionError, UsageError
from engine.profiles import Profile, spark_settings
from engine.spark import class_data, kubernetes, yarn
from engine.spark.code import code_zip, send_to_executors
from engine.spark.failures import why_ended
from engine.spark.jars import DELTA, EXTENSION, delta_jars, with_jars
from engine.spark.java import find_java
from engine.spark.kubernetes import is_kubernetes
from engine.spark.warm_jvm import WarmJvm, environment_of_a_run, is_of_a_run
from engine.workspace import Workspace

_GIB = 1 << 30
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TASK_FAILURES = 4
_HEAP = "spark.driver.memory"
_CONNECT_S = 5.0
_IGNORED = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")
"""Variables of the person's environment that would give us another Spark, or a Python without our packages.
`SPARK_CONF_DIR`, `HADOOP_CONF_DIR` and `YARN_CONF_DIR` count: they say how to reach a cluster, and hold its secrets."""
_GIVEN = ("PYSPARK_GATEWAY_SECRET", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS")
"""What else is set while Java starts. PySpark's own `SPARK_AUTH_SOCKET_TIMEOUT` stays: it reads it all the time."""


def open_session(
    profile: Profile,
    *,
    name: str,
    workspace: Workspace | None = None,
    log: Path | None = None,
    folder: Path | None = None,
    say: Callable[[str], None] | None = None,
    shared: bool = False,
) -> SparkSession:
    """Start the profile's session; `name` is what the cluster shows.

    `workspace` is whose own nodes travel to the executors. Java's output goes to the file `log`, else to our standard
    error. `folder` is for Spark's temporary files, which a killed session leaves behind (else the system's place).
    `say` hears of jars that are downloaded. With `shared` its Java may be one that an earlier run has left, and may
    be given back (`engine.spark.warm_jvm`), where the profile keeps it warm.

    Raises `UsageError` when something is missing here (Java, jars, a variable, a setting), `ExecutionError` when the
    session does not start, such as with a master that does not answer.
    """
    own = spark_settings(profile)
    if SparkContext._active_spark_context is not None:
        raise ExecutionError("a Spark session lives in this process already", hint="Stop it first.")
    if profile.master.startswith("sc:"):
        raise UsageError(
            f"profile {profile.name} names a Spark Connect server ({profile.master})",
            hint="Name the cluster's own master: Voxelflow hands work to executors itself, which Spark Connect cannot.",
        )
    if is_kubernetes(profile.master):
        kubernetes.check(profile)
    if profile.master == yarn.MASTER:
        yarn.check(profile.name)
    java = find_java()
    _reach(profile.master)
    jars = delta_jars(own, say)
    place = Path(tempfile.mkdtemp(prefix="voxelflow-spark-")) if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    settings = _defaults(profile, place) | own
    settings["spark.master"] = master_url(profile.master)
    settings["spark.app.name"] = name
    settings["spark.jars"] = with_jars(own.get("spark.jars", ""), jars)
    kept = class_data.settings_with(own, jars, java)
    options = " ".join(filter(None, (_JAVA_OPTIONS, kept.pop("spark.driver.extraJavaOptions", ""))))
    settings |= kept
    for key, value in (("spark.sql.extensions", EXTENSION), ("spark.driver.extraJavaOptions", options)):
        settings[key] = _joined(key, own.get(key, ""), value)
    keep = shared and keeps_warm(profile) and log is not None
    if keep and "SPARK_LOCAL_DIRS" not in os.environ:
        settings.setdefault("spark.local.dir", str(place))  # Java's environment is that of the first of several runs
    stack = class_data.archive_path(own, jars, java).name if keep else ""
    session = _start(profile, settings, log, place, stack)
    if keep:
        for variable, value in environment_of_a_run().items():
            session.sparkContext.environment.setdefault(variable, value)
    send_to_executors(session, [code_zip(place, workspace)])
    return session


FOR_THE_START = ("spark.driver.", "spark.jars", "spark.submit.")
_JAVA_OPTIONS = "-XX:+ExitOnOutOfMemoryError -XX:TieredStopAtLevel=1"
"""A driver without memory limps on for minutes; one that ends is reported, and started again. And its code runs for
seconds: Java's second compiler takes more time than it gives. Without it a session starts in 6.2 s of processor time
in place of 12, and its first CONVERT TO DELTA takes 12 in place of 25 (ten files, two busy cores)."""


def is_local(master: str) -> bool:
    """Whether Spark runs within the driver's own process."""
    return master.startswith("local")


def keeps_warm(profile: Profile) -> bool:
    """Whether the Java of a run may serve the next one: where Spark is that one process and nothing else."""
    if profile.keep_warm_minutes == 0 or not is_local(profile.master) or "cluster" in profile.master:
        return False
    # Hive's own database stays locked as long as its Java lives.
    return profile.spark.get("spark.sql.catalogImplementation") != "hive"


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
        except UnicodeError:
            why = f"{address[0]} is no name of a machine"
        except OSError as exc:
            why = str(exc.strerror or exc)
    if masters:
        host, port = masters[-1]
        raise ExecutionError(
            f"no Spark master answers at {master} ({why})",
            hint=f"Check that the cluster is up and the profile's master right: `nc -vz {quote(host)} {port}` asks it"
            " from here; `$SPARK_HOME/sbin/start-master.sh` on its machine starts one.",
        )


def _defaults(profile: Profile, place: Path) -> dict[str, str]:
    out = {
        **DELTA,
        "spark.sql.shuffle.partitions": str(max(2, min(profile.cores, 32))),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        # A page that does not match its checksum stops the task. Spark would take it as it is.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.hadoop.fs.defaultFS": "file:///",
        _HEAP: f"{max(1, min(4, profile.memory_bytes // 4 // _GIB))}g",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # an `engine` in the current directory must not be taken for ours
        "spark.python.worker.reuse": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.port.maxRetries": "100",
        # A pool of its own keeps what runs beside a long job, such as loading Delta's code, from waiting for its end.
        "spark.scheduler.mode": "FAIR",
    }
    if is_kubernetes(profile.master):
        template = place / "executor-pod.json"
        template.write_text(json.dumps(kubernetes.executor_template(), indent=1), encoding="utf-8")
        out |= {kubernetes.EXECUTOR_TEMPLATE: str(template), **kubernetes.settings(profile)}
    if profile.master == yarn.MASTER:
        out |= yarn.settings()
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
    """Both the person's value and ours, for settings that are lists. Of Java's options the last one wins: theirs."""
    if ours in own:
        return own
    both = (ours, own) if key.endswith("Options") else (own, ours)
    return (" " if key.endswith("Options") else ",").join(part for part in both if part)


def _start(profile: Profile, settings: Mapping[str, str], log: Path | None, place: Path, stack: str) -> SparkSession:
    """`stack` is what names this Java, Spark and their jars where an earlier run's may serve; else ""."""
    master = profile.master
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    begun = log.stat().st_size if log is not None and log.exists() else 0
    try:
        with _environment(master, settings, place):
            gateway: Any = SparkContext._gateway
            if gateway is None and stack and log is not None:
                gateway = _take(profile, settings, log, place, stack)
            elif gateway is None:
                gateway = _launch(profile, settings, log)
            context = _context(conf, gateway)
        return SparkSession(context)
    except Exception as exc:
        said = why_ended(exc, log, begun)
        where = f" Java's output is in {log}." if log else ""
        raise ExecutionError(
            f"the Spark session ({master}) did not start: {said}",
            hint=f"`voxelflow profiles test` looks at each thing that it needs.{where}",
        ) from exc


def _context(conf: SparkConf, gateway: Any) -> SparkContext:
    for _ in range(2):
        try:
            return SparkContext(conf=conf, gateway=gateway)
        except Exception as exc:
            if not _met_the_filter(str(exc)):
                raise
    return SparkContext(conf=conf, gateway=gateway)


def _met_the_filter(text: str) -> bool:
    """Whether a context ended, before it did any work, by this defect of Spark 4 on YARN.

    It starts the handlers of its web UI while the application master sends the filter for them. A handler that starts
    between the filter's mapping and its definition does not know it, and one that starts while the list of filters
    grows stops there.
    """
    changed = "ConcurrentModificationException" in text and "org.apache.spark.ui.SparkUI" in text
    return changed or "No filter named org.apache.spark.deploy.yarn" in text


def _for_all_to_see(profile: Profile, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for Java's command line, which everyone on the machine can read: without those that hold a
    reference, which may be secrets. What only counts while Java starts has no other way."""
    own = spark_settings(profile)
    hidden = {k for k, value in profile.spark.items() if own[k] != value and not k.startswith(FOR_THE_START)}
    return {key: settings[key] for key in sorted(set(settings) - hidden)}


def _launch(profile: Profile, settings: Mapping[str, str], log: Path | None) -> Any:
    launch: Any = launch_gateway
    conf = SparkConf(loadDefaults=False)
    for key, value in _for_all_to_see(profile, settings).items():
        conf.set(key, value)
    if log is None:
        return launch(conf, {})
    with log.open("ab") as output:
        return launch(conf, {"stdout": output, "stderr": output})


def _take(profile: Profile, settings: Mapping[str, str], log: Path, folder: Path, stack: str) -> Any:
    """A gateway to a JVM that is warm, or may become so."""
    start = {k: value for k, value in _for_all_to_see(profile, settings).items() if not is_of_a_run(k)}
    options = [word for name, value in start.items() for word in ("--conf", f"{name}={value}")]
    command = [str(Path(_find_spark_home(), "bin", "spark-submit")), *options, "pyspark-shell"]
    equal = {**settings, "stack": stack}
    heap = 0
    if _HEAP not in profile.spark:
        # Ours follows from the memory that is free, which differs from run to run: any that is as large will do.
        heap = int(equal.pop(_HEAP).removesuffix("g"))
    java = WarmJvm.take(command, os.environ, equal, log, folder, heap=heap)
    if java is None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(java.port), java.secret
    attach: Any = launch_gateway
    gateway = attach()
    java.begin(gateway)
    gateway.warm_jvm = java
    return gateway


def warm_jvm(session: SparkSession) -> WarmJvm | None:
    """The JVM of a session that may have come from an earlier run and go on to another; None for a JVM of its own."""
    # A gateway asks Java for what it has not got itself, and never says that there is none.
    java = vars(session.sparkContext._gateway).get("warm_jvm")
    return java if isinstance(java, WarmJvm) else None


@contextlib.contextmanager
def _environment(master: str, settings: Mapping[str, str], place: Path) -> Iterator[None]:
    """What Java reads from its environment while it starts.

    Other threads go on meanwhile, and find the rest of the environment as it is.
    """
    kept = {name: os.environ.get(name) for name in (*_IGNORED, *_GIVEN)}
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
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_POLL_S = 0.1
_AGAIN_S = 0.5
_SLOW_S = 60.0
"""A first start that fetches jars takes 36 s; a full cluster never answers."""
_JAVA_ENDS_S = 2.0


class SharedSession:
    """One Spark session of one process. Made, it starts; `get` gives it."""

    def __init__(
        self, profile: Profile, name: str, workspace: Workspace, log: Path, folder: Path, emit: Callable[[Event], None]
    ) -> None:
        self.log = log
        self._profile, self._name, self._workspace, self._folder = profile, name, workspace, folder
        self._emit = emit
        self._begun = log.stat().st_size if log.exists() else 0
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._seconds, self._page = 0.0, ""
        self._announced = False
        self._opener = threading.Thread(target=self._open, daemon=True)
        self._opener.start()

    def get(self, check_cancelled: Callable[[], None], say: Callable[[str], None]) -> SparkSession:
        """Wait for the session. Raises what its opening raised; `check_cancelled` may raise meanwhile."""
        warn_at = time.monotonic() + _SLOW_S
        while self._opener.is_alive():
            check_cancelled()
            self._opener.join(_POLL_S)
            if time.monotonic() > warn_at and self._opener.is_alive():
                warn_at = float("inf")
                say(
                    f"Spark at {self._profile.master} has not started within {_SLOW_S:.0f} s: is the cluster full or"
                    f" out of reach? Java's output is in {self.log}."
                )
        if self._error is not None:
            raise self._error
        assert self._session is not None
        if not self._announced:
            self._announced = True
            page = f"; its UI: {self._page}" if self._page else ""
            java = warm_jvm(self._session)
            where = "" if java is None or java.is_new else " in the Java of an earlier run"
            version, master = self._session.version, self._profile.master
            say(f"Spark {version} at {master}, started in {self._seconds:.0f} s{where}{page}")
        return self._session

    @property
    def failed(self) -> bool:
        """Whether it could not be opened."""
        return self._error is not None

    def lost(self) -> ExecutionError | None:
        """Why the session that was open is gone; None while it lives (or has not begun)."""
        session = self._session
        if session is None or _lives(session):
            return None
        why = why_ended(
            ExecutionError(
                "its Java process died without an error message", hint="Look at the node's log (`voxelflow runs logs`)."
            ),
            self.log,
            self._begun,
        )
        return ExecutionError(
            f"the Spark session has ended: {why}",
            hint=f"`voxelflow runs resume` goes on from what is done. Java's output is in {self.log}.",
        )

    def cancel_jobs(self, until: Callable[[], bool]) -> None:
        """End the jobs that run, and those that follow, until `until` says so. In a thread of its own."""

        def again() -> None:
            while not until() and self._session is not None:
                with contextlib.suppress(Exception):
                    self._session.sparkContext.cancelAllJobs()
                time.sleep(_AGAIN_S)

        threading.Thread(target=again, daemon=True).start()

    def close(self, *, reusable: bool = False) -> None:
        """Stop it in good order, so that a cluster sees it finished. `reusable`: nothing in it has failed or was broken
        off, so another run may have its Java."""
        self._opener.join()
        if self._session is not None:
            gateway, java = self._session.sparkContext._gateway, warm_jvm(self._session)
            with contextlib.suppress(Exception):
                self._session.stop()
                if java is not None:
                    java.give_back(gateway, self._profile.keep_warm_minutes if reusable else 0)
            with contextlib.suppress(Exception):  # a help for later sessions, which do without
                class_data.make_later(spark_settings(self._profile))
        self.ended()

    def ended(self) -> None:
        """Say that it is over."""
        self._emit(events.SparkSession(state="ended", master=self._profile.master))

    def _open(self) -> None:
        began = time.monotonic()
        try:
            session = open_session(
                self._profile,
                name=self._name,
                workspace=self._workspace,
                log=self.log,
                folder=self._folder,
                shared=True,
            )
        except BaseException as exc:
            self._error = exc
            return
        self._seconds = time.monotonic() - began
        context, java = session.sparkContext, warm_jvm(session)
        self._page = context.uiWebUrl or ""
        self._session = session
        self._emit(
            events.SparkSession(
                state="live",
                url=self._page,
                master=self._profile.master,
                application=context.applicationId,
                java=java.daemon if java is not None else 0,
            )
        )


def _lives(session: SparkSession) -> bool:
    context, kept = session.sparkContext, warm_jvm(session)
    java = getattr(context._gateway, "proc", None)
    until = time.monotonic() + _JAVA_ENDS_S
    try:
        stopped = bool(context._jsc.sc().isStopped())
    except Exception:  # no answer: Java may be shutting down
        if kept is not None:
            kept.has_ended(_JAVA_ENDS_S)
        while java is not None and java.poll() is None and time.monotonic() < until:
            time.sleep(_POLL_S)
        return False
    return not stopped
