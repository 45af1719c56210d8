"""A Java virtual machine (JVM) that outlives its run: the next run that would start an equal one uses it.

Starting Spark's JVM and loading Delta's code take longer than all the rest of a small run on Spark, and neither depends
on the run. `jvm_daemon` keeps the JVM; this module is the run's side. JVMs are equal when everything that a JVM reads
at its start is (`key_of`). Nothing of a run stays in the JVM: each run makes its own SparkContext with its own Python
processes, and `clear` removes what Spark, Hadoop and Delta keep outside a context. A failed run does not give its JVM
back, because the fault may be in the JVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.spark import jvm_daemon

_OF_A_RUN = ("spark.app.name", "spark.local.dir", "spark.sql.warehouse.dir", "spark.executorEnv.")
"""Settings that differ from run to run. The JVM is started without them, and each context sets them."""
_INHERITED = ("Umask", "CapEff", "NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed")
"""Lines of /proc/PID/status that a process inherits from its parent."""
_PASSING = frozenset({"_", "OLDPWD", "PWD", "SHLVL", "PYTEST_CURRENT_TEST"})
"""Variables that change from command to command in one shell, and that Java does not read."""
_OURS = ("VOXELFLOW_", "XDG_CONFIG_HOME")
"""Variables that only our own Python reads. Spark's Python processes get those of their run."""
_LOADED = "voxelflow.delta.loaded"
_END_S = 8.0
_KEPT_BINDINGS = ("GATEWAY_SERVER", "j", "t", "e", "default")
"""Objects that py4j itself registers. All others belonged to a run."""


class WarmJvm:
    """A JVM for the exclusive use of this process: a warm one, or a new one."""

    def __init__(self, connection: socket.socket, answer: Mapping[str, Any], *, is_new: bool) -> None:
        self._connection = connection
        self.port, self.secret = int(answer["port"]), str(answer["secret"])
        self.daemon = int(answer["daemon"])
        """The process that the JVM is a child of."""
        self.is_new = is_new
        self._properties: Any = None

    @classmethod
    def take(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        settings: Mapping[str, str],
        log: Path,
        folder: Path,
        *,
        heap: int = 0,
    ) -> WarmJvm | None:
        """The idle JVM with this key and at least this `heap`, else a new one, started by `command` in `environment`.

        The key covers all of `settings` but a run's own (`is_of_a_run`). An idle JVM that does not fit is ended. Java's
        output is appended to `log`; `folder` is for Spark's temporary files, and removed when the JVM has to be killed.
        None: the JVM did not start, and the log says why. Raises `OSError` when no process could be started.
        """
        order: dict[str, Any] = {
            "key": key_of(command[0], environment, settings),
            "heap": heap,
            "log": str(log.resolve()),
            "folder": str(folder.resolve()),
        }
        for path in _idle():
            if (connection := jvm_daemon.connect(path)) is not None:
                with contextlib.suppress(OSError):
                    jvm_daemon.send(connection, order)
                    if (answer := jvm_daemon.receive(connection)) is not None:
                        return cls(connection, answer, is_new=False)
                connection.close()
        order |= {"command": [*command], "environment": _of_java(environment), "directory": os.getcwd()}
        ours, theirs = socket.socketpair()
        with theirs:
            daemon = subprocess.Popen(
                [sys.executable, "-P", "-m", "engine.spark.jvm_daemon", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd=os.sep,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)},
            )
        # Reaped by a thread of its own: it may end before this process, or long after it.
        threading.Thread(target=daemon.wait, daemon=True).start()
        jvm_daemon.send(ours, order)
        answer = jvm_daemon.receive(ours)
        if answer is not None and "error" not in answer:
            return cls(ours, answer, is_new=True)
        ours.close()
        if answer is not None:
            raise OSError(answer["error"])
        return None

    def begin(self, gateway: Any) -> None:
        """To be called when the gateway to it is open: remembers Java's properties, which `give_back` restores."""
        # Spark chooses its folders for temporary files once, from the first context's settings.
        getattr(getattr(gateway.jvm.org.apache.spark.util, "Utils$"), "MODULE$").clearLocalRootDirs()
        self._properties = gateway.jvm.java.lang.System.getProperties().clone()

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether it has exited, with all its output in the log."""
        poll = select.poll()  # not `select.select`, which takes no file handle beyond 1,023
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(1000 * wait_s))

    def give_back(self, gateway: Any, minutes: float) -> bool:
        """Keep it idle for the next run, for that long; whether it is kept. With 0 minutes it has exited on return.

        Closes the gateway; the context must have been stopped. Any error here kills the JVM instead, as does a process
        that ends without having called this.
        """
        try:
            if minutes:
                loaded = delta_is_loaded(gateway)
                gateway.jvm.java.lang.System.setProperties(self._properties)
                if loaded:
                    note_delta_loaded(gateway)
                clear(gateway)
            gateway.close()
            self._connection.settimeout(_END_S)
            jvm_daemon.send(self._connection, {"give_back": minutes * 60})
            return jvm_daemon.receive(self._connection) is not None
        except Exception:
            return False
        finally:
            self._connection.close()


def clear(gateway: Any) -> None:
    """Remove what would outlive a run's SparkContext in the JVM, and give memory back to the system.

    Raises Java's errors; after one the JVM must not be used by another run.
    """
    from py4j.java_gateway import JavaObject

    jvm = gateway.jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # they hold the context, and another table may take the path
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # they hold credentials, and are found by address alone
    jvm.org.apache.hadoop.security.UserGroupInformation.reset()  # a Kerberos ticket may be renewed, or another one's
    java = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    names = jvm.java.util.ArrayList()
    for name in _KEPT_BINDINGS:
        names.add(name)
    java.getGateway().getBindings().keySet().retainAll(names)
    jvm.java.lang.System.gc()


def delta_is_loaded(gateway: Any) -> bool:
    """Whether a run has noted that Delta's code is loaded. It stays loaded until the JVM exits."""
    return gateway.jvm.java.lang.System.getProperty(_LOADED) is not None


def note_delta_loaded(gateway: Any) -> None:
    """Note for later runs that Delta's code is loaded."""
    gateway.jvm.java.lang.System.setProperty(_LOADED, "yes")


def is_of_a_run(setting: str) -> bool:
    """Whether it may differ between the runs of one JVM."""
    return setting.startswith(_OF_A_RUN)


def environment_of_a_run() -> dict[str, str]:
    """The variables for Spark's Python processes, which the JVM is started without."""
    return {name: value for name, value in os.environ.items() if name.startswith(_OURS)}


def end_idle() -> int:
    """End all idle JVMs of this user and wait until they have exited; how many there were."""
    return sum(jvm_daemon.end(path) for path in _idle())


def key_of(program: str, environment: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """Two runs with the same key would start equal JVMs.

    In it: the program that starts it, all settings that are not a run's own (so Java's options and jars), the whole
    environment but our own variables (so credentials of stores), the working directory, what else a process inherits
    (limits, umask, priority, cores, groups, container), and size and time of each file that these name, of Spark's and
    Hadoop's configuration and of our daemon.
    """
    known = _of_java(environment)
    counted = {name: value for name, value in settings.items() if not is_of_a_run(name)}
    files = [f"{path} {found.st_size} {found.st_mtime_ns}" for path, found in _files(program, known, counted)]
    parts = [program, sorted(known.items()), sorted(counted.items()), sys.executable, files, inherited()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def inherited() -> list[object]:
    """What a process inherits from its parent beside its environment."""
    here = os.stat(".")  # a folder that was removed and made again is another one
    out: list[object] = [os.getcwd(), here.st_dev, here.st_ino, os.getpriority(os.PRIO_PROCESS, 0), os.getgroups()]
    out += [resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
    with contextlib.suppress(OSError):  # on Linux
        status = Path("/proc/self/status").read_text().splitlines()
        out += [line for line in status if line.startswith(_INHERITED)]
        out.append(Path("/proc/self/cgroup").read_text())
        out += [os.readlink(path) for path in sorted(Path("/proc/self/ns").iterdir())]
    return out


def _of_java(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k not in _PASSING and not k.startswith(_OURS)}


def _files(
    program: str, environment: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[tuple[str, os.stat_result]]:
    # With blanks as well, since a path may have some.
    splits = (r"[,:;=\s\"]", r"[,:;=\"]")
    texts = [program, *settings.values()]
    named = {part.strip() for split in splits for text in texts for part in re.split(split, text) if "/" in part}
    named.add(jvm_daemon.__file__)
    home = Path(program).parent.parent
    folders = [environment.get("SPARK_CONF_DIR", str(home / "conf")), environment.get("HADOOP_CONF_DIR", "")]
    for folder in filter(None, folders):
        with contextlib.suppress(OSError):
            named.update(str(path) for path in Path(folder).iterdir())
    for path in sorted(named):
        with contextlib.suppress(OSError, ValueError):
            if os.path.isfile(path):
                yield path, os.stat(path)


def _idle() -> list[Path]:
    folder = jvm_daemon.idle_folder()
    return [] if folder is None else sorted(folder.glob("*.sock"))
