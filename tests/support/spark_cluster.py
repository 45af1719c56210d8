"""A real Spark cluster on the loopback: one standalone master and two workers, from the pyspark package.

    with SparkCluster(folder) as cluster:
        (workspace.root / "profiles.toml").write_text(cluster.profile_toml())

What it starts it ends, executors and their Python processes too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyspark
from waiting import WAIT_S

from engine.spark import class_data
from engine.spark.jars import delta_jars
from engine.spark.java import find_java

_SPARK = Path(pyspark.__file__).parent
_START_S = 300.0
"""A JVM starts in two seconds; on a machine that does much else in many more."""
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE = re.compile(r"Successfully started service 'MasterUI' on port (\d+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """A master and `workers` workers with `cores` each. Use as a context manager.

    `folder` takes logs and the executors' own folders.
    """

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self._folder, self._count, self._cores, self._memory = folder, workers, cores, memory
        self._daemons: list[Daemon] = []
        self.url = ""
        """What a session gives as its master: spark://127.0.0.1:PORT."""
        self._page, self._started = 0, 0

    def __enter__(self) -> SparkCluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            master = self._start(
                "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0",
                "--webui-port", "0",
            )  # fmt: skip
            self._page = int(master.wait_for(_PAGE)[1])
            self.url = master.wait_for(_MASTER)[1]
            workers = [self._start_worker(number) for number in range(self._count)]
            self._started = self._count
            for worker in workers:
                worker.wait_for(_REGISTERED)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def profile_toml(self, name: str = "cluster", **settings: str) -> str:
        """A table for `profiles.toml`. `settings` are Spark settings with `_` for the dots."""
        spark = {
            "spark.executor.cores": str(self._cores),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            **_class_data("spark.executor.extraClassPath", "spark.executor.extraJavaOptions"),
        } | {key.replace("_", "."): value for key, value in settings.items()}
        lines = [f"[{name}]", 'backend = "spark"', f'master = "{self.url}"']
        lines += [f"cores = {self._cores * self._count}", 'memory = "1 GB"', "", f"[{name}.spark]"]
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in spark.items()]
        return "\n".join(lines) + "\n"

    def executor_pids(self) -> list[int]:
        """The executors that live now, of all workers."""
        return [p.pid for daemon in self._daemons for p in below(daemon.pid) if _is_executor(p)]

    def launched(self) -> set[str]:
        """All executors that the master has ever started, as `APPLICATION/NUMBER`."""
        return set(re.findall(r"Launching executor (\S+/\d+) on worker", (self._folder / "master.log").read_text()))

    def kill_an_executor(self) -> int:
        """End an executor with SIGKILL and wait until it is gone; gives its process id. There must be one."""
        pids = self.executor_pids()
        assert pids, "no executor runs"
        victim = psutil.Process(pids[0])
        victim.kill()
        # Its worker reaps it.
        psutil.wait_procs([victim], timeout=WAIT_S)
        return pids[0]

    def lose_a_worker(self) -> None:
        """Kill a worker that has an executor, and all that runs below it, as when a machine is switched off."""
        worker = next(d for d in self._daemons[1:] if any(_is_executor(p) for p in below(d.pid)))
        worker.end()
        self._daemons.remove(worker)

    def add_a_worker(self) -> None:
        """Start another worker, and wait until the master has it."""
        self._started += 1
        self._start_worker(self._started).wait_for(_REGISTERED)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all executors and their Python processes where they are, and let them go on afterwards.

        So a test that waited for a moment can look at it, and strike, before it is over.
        """
        stopped = [p for daemon in self._daemons for p in below(daemon.pid)]
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def workers_alive(self) -> int:
        """Workers that the master counts as alive."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=WAIT_S) as answer:
            status: dict[str, Any] = json.load(answer)
        return int(status["aliveworkers"])

    def log(self) -> str:
        """What master, workers and executors logged: for the message of a test that fails."""
        return "\n".join(
            f"== {path}\n{path.read_text(errors='replace')}"
            for path in sorted([*self._folder.glob("*.log"), *self._folder.glob("worker-*/app-*/*/std*")])
        )

    def _start_worker(self, number: int) -> Daemon:
        folder = self._folder / f"worker-{number}"
        return self._start(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", "0",
            "--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(folder),
            self.url,
        )  # fmt: skip

    def _start(self, name: str, main: str, *arguments: str) -> Daemon:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))}
        environment |= {
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",  # of the web pages as well
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            **_class_data("SPARK_DAEMON_CLASSPATH", "SPARK_DAEMON_JAVA_OPTS"),
        }
        daemon = Daemon([str(_SPARK / "bin" / "spark-class"), main, *arguments], environment, self._folder, name)
        self._daemons.append(daemon)
        return daemon

    def _end(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.end()
        self._daemons.clear()


class Daemon:
    """One process whose log is read as it comes, so that waiting for a line needs no polling."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, name: str) -> None:
        self._name, self._log = name, folder / f"{name}.log"
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._over = False
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, wanted: re.Pattern[str]) -> re.Match[str]:
        """The first line of the log with `wanted` in it. Raises `RuntimeError` when the process ends without it."""
        found: list[re.Match[str]] = []

        def there() -> bool:
            found.extend(match for line in self._lines if (match := wanted.search(line)))
            return bool(found) or self._over

        with self._news:
            self._news.wait_for(there, _START_S)
        if not found:
            raise RuntimeError(f"Spark's {self._name} did not say {wanted.pattern!r}:\n{''.join(self._lines)}")
        return found[0]

    def end(self) -> None:
        """Kill it and all that it has started: a node manager that is asked to end takes 17 s."""
        everything = [psutil.Process(self.pid), *below(self.pid)] if self._process.poll() is None else []
        for process in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(everything[1:], timeout=WAIT_S)
        self._reader.join(WAIT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as source, self._log.open("w") as copy:
            for line in source:
                copy.write(line)
                copy.flush()
                self._tell(lambda line=line: self._lines.append(line))  # type: ignore[misc]
        self._tell(lambda: setattr(self, "_over", True))

    def _tell(self, change: Callable[[], None]) -> None:
        with self._news:
            change()
            self._news.notify_all()


def _class_data(class_path: str, options: str) -> dict[str, str]:
    """The archive of Java's classes that our drivers map, for other processes of Spark, under these names."""
    settings = class_data.settings_with({}, delta_jars({}), find_java())
    return {
        to: settings[name]
        for name, to in ((class_data.CLASS_PATH, class_path), ("spark.driver.extraJavaOptions", options))
        if name in settings
    }


def below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(word.endswith(_EXECUTOR) for word in process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
