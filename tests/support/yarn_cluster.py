"""A real YARN on the loopback: a resource manager and a node manager, from Hadoop's mini cluster on Maven.

    with YarnCluster(folder) as cluster:
        (workspace.root / "profiles.toml").write_text(cluster.profile_toml())
        os.environ["HADOOP_CONF_DIR"] = str(cluster.configuration)

Spark's package brings the rest of Hadoop in the same version. What it starts it ends, containers too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import psutil
from filelock import FileLock
from ports import held_port
from spark_cluster import Daemon, below
from waiting import WAIT_S

from engine.spark import class_data
from engine.spark.jars import CENTRAL, delta_jars, ivy_home, spark_jars_folder
from engine.spark.java import find_java

_SERVERS = "org.apache.hadoop.yarn.server"
_BOUNCY_CASTLE = "1.82"  # Hadoop 3.5.0's
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n%ex
"""


class YarnCluster:
    """Use as a context manager. `folder` takes configuration, logs, and what containers write."""

    def __init__(self, folder: Path, *, cores: int = 4, memory_mb: int = 4096) -> None:
        self._folder, self._cores, self._memory_mb = folder, cores, memory_mb
        self._daemons: list[Daemon] = []
        self._page = 0
        self.configuration = folder / "conf"
        """For HADOOP_CONF_DIR."""

    def __enter__(self) -> YarnCluster:
        self.configuration.mkdir(parents=True)
        jars = [*mini_cluster_jars(), spark_jars_folder() / "*"]
        with contextlib.ExitStack() as held:  # until the resource manager listens there
            self._write_configuration([held.enter_context(held_port()) for _ in range(5)])
            try:
                manager = self._start("resource-manager", f"{_SERVERS}.resourcemanager.ResourceManager", jars)
                node = self._start("node-manager", f"{_SERVERS}.nodemanager.NodeManager", jars)
                manager.wait_for(re.compile(r"Transitioned to active state"))
                node.wait_for(re.compile(r"Registered with ResourceManager"))
            except BaseException:
                self._end()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def profile_toml(self, name: str = "yarn", **more: str) -> str:
        """A table for `profiles.toml`: two executors of one core each. `more` are settings with _ in place of dots."""
        settings = {
            # Spark's jars are there already, as on clusters that have it installed.
            "spark.yarn.jars": f"local:{spark_jars_folder()}/*",
            "spark.yarn.stagingDir": str(self._folder / "staging"),
            "spark.yarn.am.memory": "256m",
            "spark.pyspark.python": sys.executable,
            "spark.executor.instances": "2",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Between two calls of an application, which asks for executors and learns of lost ones; 3 s.
            "spark.yarn.scheduler.heartbeat.interval-ms": "200",
            "spark.yarn.report.interval": "200ms",
            **_class_data(),
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        lines = [f"[{name}]", 'backend = "spark"', 'master = "yarn"', "cores = 2", 'memory = "1 GB"', ""]
        lines += [f"[{name}.spark]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in settings.items())]
        return "\n".join(lines) + "\n"

    def applications(self) -> list[dict[str, Any]]:
        """What the resource manager knows of all applications, the oldest first."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/ws/v1/cluster/apps", timeout=WAIT_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return sorted((found["apps"] or {}).get("app", []), key=lambda app: app["id"])

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """No container starts meanwhile, as when there is no place: the node does not answer."""
        node = psutil.Process(self._daemons[1].pid)
        node.suspend()
        try:
            yield
        finally:
            node.resume()

    def kill_an_executor(self) -> None:
        """End an executor with SIGKILL and wait until it is gone. There must be one."""
        found = [p for d in self._daemons for p in below(d.pid) if _is_executor(p)]
        assert found, "no executor runs"
        found[0].kill()
        psutil.wait_procs(found[:1], timeout=WAIT_S)

    def log(self) -> str:
        """What both servers and all containers logged: for the message of a test that fails."""
        paths = [*self._folder.glob("*.log"), *self._folder.glob("logs/**/std*")]
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-20_000:]}" for path in sorted(paths))

    def _write_configuration(self, ports: list[int]) -> None:
        self._page = ports[4]
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        yarn = {f"yarn.resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
        yarn |= {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.scheduler.class": f"{_SERVERS}.resourcemanager.scheduler.fifo.FifoScheduler",
            "yarn.resourcemanager.am.max-attempts": "1",
            "yarn.scheduler.minimum-allocation-mb": "128",
            # Containers start and end at a heartbeat; each second.
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
            # The default, and the options that make a Java of the tests cheap.
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,LANG,TZ,JDK_JAVA_OPTIONS",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.address": "127.0.0.1:0",
            "yarn.nodemanager.localizer.address": "127.0.0.1:0",
            "yarn.nodemanager.webapp.address": "127.0.0.1:0",
            "yarn.nodemanager.local-dirs": str(self._folder / "local"),
            "yarn.nodemanager.log-dirs": str(self._folder / "logs"),
            "yarn.nodemanager.resource.memory-mb": str(self._memory_mb),
            "yarn.nodemanager.resource.cpu-vcores": str(self._cores),
            "yarn.nodemanager.vmem-check-enabled": "false",
            # Does not switch off the first check, at the start: a disk that is nine tenths full would not do.
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        }
        for name, values in (("yarn-site", yarn), ("core-site", {"fs.defaultFS": "file:///"})):
            rows = "".join(
                f"<property><name>{k}</name><value>{escape(v)}</value></property>\n" for k, v in values.items()
            )
            (self.configuration / f"{name}.xml").write_text(f"<configuration>\n{rows}</configuration>\n")
        (self.configuration / "log4j2.properties").write_text(_LOGGING)

    def _start(self, name: str, main: str, jars: list[Path]) -> Daemon:
        command = [
            str(find_java().program), "-Xmx256m", f"-Djava.io.tmpdir={self._folder}",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "-cp", os.pathsep.join(map(str, [self.configuration, *jars])), main,
        ]  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))}
        daemon = Daemon(command, environment, self._folder, name)
        self._daemons.append(daemon)
        return daemon

    def _end(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.end()
        self._daemons.clear()


def _class_data() -> dict[str, str]:
    """The archive of Java's classes for drivers, executors and application masters.

    It is mapped where the class path begins as our drivers' does, and YARN's begins with two folders.
    """
    jars = delta_jars({})
    options = class_data.settings_with({}, jars, find_java()).get("spark.driver.extraJavaOptions")
    if options is None:
        return {}
    ours = spark_jars_folder()
    # As Spark's launcher has it, which begins with the interface of logging.
    path = os.pathsep.join(map(str, [*jars, *ours.glob("slf4j-api-*.jar"), ours / "*"]))
    paths = {f"spark.{each}.extraClassPath": path for each in ("driver", "executor")}
    return paths | {f"spark.{each}.extraJavaOptions": options for each in ("driver", "executor", "yarn.am")}


def mini_cluster_jars() -> list[Path]:
    """Hadoop's servers in the version of Spark's Hadoop, and what they need beside it: fetched once, by Spark's Ivy."""
    ours = spark_jars_folder()
    (client,) = ours.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    wanted = [
        ("org.apache.hadoop", "hadoop-client-minicluster", version),
        *(("org.bouncycastle", f"bc{part}-jdk18on", _BOUNCY_CASTLE) for part in ("prov", "pkix", "util")),
    ]
    home = ivy_home({})
    folder = home / "voxelflow-tests"
    jars = [folder / f"{name}-{revision}.jar" for _, name, revision in wanted]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if all(jar.is_file() for jar in jars):
            return jars
        settings, module = folder / "settings.xml", folder / "ivy.xml"
        settings.write_text(
            f'<ivysettings><settings defaultResolver="central"/><caches defaultCacheDir="{home / "cache"}"/><resolvers>'
            f'<ibiblio name="central" m2compatible="true" root="{CENTRAL}"/></resolvers></ivysettings>'
        )
        rows = "".join(
            f'<dependency org="{org}" name="{name}" rev="{revision}" transitive="false" conf="default->master"/>'
            for org, name, revision in wanted
        )
        module.write_text(
            '<ivy-module version="2.0"><info organisation="voxelflow" module="tests"/><configurations>'
            f'<conf name="default"/></configurations><dependencies>{rows}</dependencies></ivy-module>'
        )
        subprocess.run(
            [
                find_java().program, "-cp", next(ours.glob("ivy-*.jar")), "org.apache.ivy.Main", "-settings", settings,
                "-ivy", module, "-retrieve", f"{folder}/[artifact]-[revision].[ext]",
            ],
            check=True, capture_output=True, timeout=500,
        )  # fmt: skip
        return jars


def _is_executor(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    # The shell that starts it has the same words as one.
    return any(word.endswith("YarnCoarseGrainedExecutorBackend") for word in words)
