"""The process that keeps a warm Java virtual machine (JVM) from one run to the next.

    run 1's Spark worker ──starts, with one end of a socket──> daemon ──starts──> JVM: its standard input and output
         │ "give back" on that socket                            │                 are pipes of the daemon's
    run 2's Spark worker ──connects to FOLDER/PID.sock─────────> │ the same JVM, with a fresh SparkContext

One run at a time uses the JVM: the one that is connected. `FOLDER/PID.sock` exists only while none is. A connection
that closes without "give back" means that its run was killed or crashed, and the JVM is killed with every process that
it has started. A JVM that is given back and not kept exits normally. So does an idle one when its time is over, when
memory is short, and when a run connects that needs another JVM (which then finds ports, locks and memory free). When
the daemon itself is killed, the JVM exits because its standard input closes.

The secret for the JVM (py4j's token) is sent over that socket only, in a folder that only its user can open. What Java
prints is appended to the log of the connected run. Imports the standard library only: it stays in memory for minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engine.processes.system import kill_tree

_ANSWER_S = 2.0
"""For a client that has connected to send its request."""
_POLL_S = 0.05
_MEMORY_POLL_S = 5.0
_LEAST_FREE = 1 / 8
"""Of the machine's memory: with less available, no JVM is kept."""
_CHILDREN_END_S = 2.0
_JAVA_ENDS_S = 3.0
"""For Java's own exit, in which it removes what it has unpacked into the system's temporary folder."""
_PIPE = 1 << 16


def idle_folder() -> Path | None:
    """Where this user's daemons listen while their JVM is idle; None where no folder is private to the user."""
    # With the user in its name: `sudo -E` and `su` keep the variable, and make a folder that others cannot open.
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"voxelflow-{os.getuid()}")
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
    return None


def connect(path: Path) -> socket.socket | None:
    """A connection to the daemon that listens there, or None. The file of one that was killed is removed."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(_ANSWER_S)
    try:
        client.connect(str(path))
    except OSError as exc:
        client.close()
        if isinstance(exc, ConnectionRefusedError):  # a busy daemon does not refuse, it times out
            path.unlink(missing_ok=True)
        return None
    return client


def send(to: socket.socket, message: dict[str, Any]) -> None:
    """Write the message as a line of JSON."""
    to.sendall(json.dumps(message).encode() + b"\n")


def receive(source: socket.socket) -> dict[str, Any] | None:
    """The next message; None when the other end has closed, sent nothing in time, or sent something else."""
    line = bytearray()
    with contextlib.suppress(OSError, ValueError):
        while not line.endswith(b"\n"):
            if not (data := source.recv(_PIPE)):
                return None
            line += data
        message = json.loads(line)
        return message if isinstance(message, dict) else None
    return None


def enough_memory() -> bool:
    """Whether the machine has memory to spare; True where the system does not say."""
    values = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            values[name] = int(value.split()[0])
    return values.get("MemAvailable", 1) >= values.get("MemTotal", 1) * _LEAST_FREE


def _ready(wait_s: float | None, *sources: Any) -> list[Any]:
    """Those of the handles and sockets that have something to read, or have ended."""
    return select.select(sources, [], [], wait_s)[0]


class _Jvm:
    """The JVM, what it prints, and how to reach it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.port, self.secret = 0, ""
        self._log: int | None = None
        self._folder: Path | None = None
        self.follow(order)
        self.output, output = os.pipe()
        self._place = Path(tempfile.mkdtemp(prefix="voxelflow-jvm-"))
        environment = {
            **order["environment"],
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._place / "connection"),
        }
        try:
            # A session of its own, for `kill_tree`: Spark's Python processes leave the group, not the session.
            self._process = subprocess.Popen(
                order["command"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=order["directory"],
                start_new_session=True,
            )
        except OSError:
            shutil.rmtree(self._place, ignore_errors=True)
            raise
        finally:
            os.close(output)
        self._victim = "0"
        with contextlib.suppress(OSError):
            self._victim = Path("/proc/self/oom_score_adj").read_text()

    def has_started(self, client: socket.socket) -> bool:
        """Wait for its port and token; False when it exits first, or the client disconnects."""
        connection = self._place / "connection"  # written whole, then renamed
        while not connection.is_file():
            ready = _ready(_POLL_S, self.output, client)
            if client in ready or (self.output in ready and not self.pump()):
                return False
        data = connection.read_bytes()
        shutil.rmtree(self._place, ignore_errors=True)
        self.port, length = struct.unpack(">ii", data[:8])
        self.secret = data[8 : 8 + length].decode()
        return True

    def follow(self, order: dict[str, Any] | None) -> None:
        """From now on, append what it prints to this run's log; None: discard it. Raises `OSError`."""
        if self._log is not None:
            self._drain()
            os.close(self._log)
        self._log = self._folder = None
        if order is not None:
            self._log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            self._folder = Path(order["folder"])

    def pump(self) -> bool:
        """Copy what it has printed to the log; False when it has exited."""
        data = os.read(self.output, _PIPE)
        if self._log is not None:
            with contextlib.suppress(OSError):  # a full disk: the run says so
                os.write(self._log, data)
        return bool(data)

    def answer(self, client: socket.socket) -> None:
        """Tell the client how to reach the JVM."""
        send(client, {"port": self.port, "secret": self.secret, "daemon": os.getpid()})

    def is_alone(self) -> bool:
        """Whether every process that it has started exits soon, as Spark's Python processes do with their context."""
        until = time.monotonic() + _CHILDREN_END_S
        while self._others():
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        return True

    def make_first_victim(self, yes: bool) -> None:
        """Whether the system ends it before all others when memory runs out faster than we look."""
        with contextlib.suppress(OSError):
            Path("/proc", str(self._process.pid), "oom_score_adj").write_text("1000" if yes else self._victim)

    def end(self) -> None:
        """Let it exit by itself. No run may be connected."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        until = time.monotonic() + _JAVA_ENDS_S
        while (left := until - time.monotonic()) > 0:
            if _ready(left, self.output) and not self.pump():
                return

    def kill(self) -> None:
        """Kill it with every process it has started, log the rest of its output, remove its run's temporary files."""
        kill_tree(self._process.pid)  # not reaped yet, so no other process can have its number
        self._process.wait()
        self._drain()
        shutil.rmtree(self._place, ignore_errors=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _drain(self) -> None:
        while _ready(0, self.output) and self.pump():
            pass

    def _others(self) -> list[int]:
        leader, out = self._process.pid, []
        with contextlib.suppress(FileNotFoundError):  # no /proc: trust that Spark has ended them
            for name in os.listdir("/proc"):
                with contextlib.suppress(ProcessLookupError, PermissionError, FileNotFoundError):
                    if not name.isdigit() or int(name) == leader or os.getsid(int(name)) != leader:
                        continue
                    # Spark's start script leaves a zombie behind, a shell that is never reaped.
                    if Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                        out.append(int(name))
        return out


class _Daemon:
    """One JVM, and the connection of the run that uses it, or used it last."""

    def __init__(self, client: socket.socket, order: dict[str, Any]) -> None:
        self._client, self._key, self._heap = client, order["key"], order["heap"]
        self._jvm = _Jvm(order)

    def run(self) -> None:
        """Serve one run after another, until the JVM is to end, and end it."""
        try:
            if self._jvm.has_started(self._client):
                while (seconds := self._serve()) is not None:
                    if not self._wait(seconds):
                        self._jvm.end()
                        break
        finally:
            self._jvm.kill()
            self._client.close()  # last: a client that waits for this finds the processes gone and the log complete

    def _serve(self) -> float | None:
        """Wait for the end of the connected run. Gives the seconds to keep the JVM; None when it must be killed."""
        with contextlib.suppress(OSError):
            self._jvm.answer(self._client)
            while True:
                ready = _ready(None, self._jvm.output, self._client)
                if self._jvm.output in ready and not self._jvm.pump():
                    return None
                if self._client in ready:
                    # A killed run closes the socket: None at once.
                    message = receive(self._client)
                    return float(message["give_back"]) if message else None
        return None

    def _wait(self, seconds: float) -> bool:
        """Wait for the next run that can use this JVM; False when none came in time, or the JVM has to exit."""
        folder = idle_folder()
        if seconds == 0 or folder is None or not self._jvm.is_alone():
            return False
        path, until = folder / f"{os.getpid()}.sock", time.monotonic() + seconds
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
            try:
                # Renamed once it listens: a client takes one that refuses for dead.
                listener.bind(str(path.with_suffix(".new")))
                listener.listen()
                path.with_suffix(".new").rename(path)
                self._jvm.follow(None)
                send(self._client, {"kept": True})
                self._jvm.make_first_victim(True)
                _end_older(path)
                while (left := until - time.monotonic()) > 0 and enough_memory():
                    ready = _ready(min(left, _MEMORY_POLL_S), self._jvm.output, listener)
                    if self._jvm.output in ready and not self._jvm.pump():
                        return False
                    if listener in ready:
                        return self._fits(listener.accept()[0])
            except OSError:  # the folder was removed, its path is too long, the next run's log cannot be opened
                pass
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
        return False

    def _fits(self, client: socket.socket) -> bool:
        """Whether the JVM is what the client needs. A client that needs none wants it to exit."""
        self._client.close()
        self._client = client
        client.settimeout(_ANSWER_S)
        order = receive(client) or {}
        if order.get("key") != self._key or order["heap"] > self._heap:
            return False
        self._jvm.make_first_victim(False)
        self._jvm.follow(order)
        return True


def end(path: Path, wait_s: float = _JAVA_ENDS_S + _ANSWER_S) -> bool:
    """Ask the idle daemon that listens there to exit, and wait until its JVM has; False when there was none."""
    client = connect(path)
    if client is None:
        return False
    with client, contextlib.suppress(OSError):
        send(client, {})
        client.settimeout(wait_s)
        receive(client)
    return True


def _end_older(path: Path) -> None:
    """End idle JVMs that are older: one is enough. Does not wait for them, since the next run may be waiting for us."""
    begun = path.stat().st_mtime_ns, path.name
    for other in path.parent.glob("*.sock"):
        with contextlib.suppress(OSError):
            if (other.stat().st_mtime_ns, other.name) < begun:
                end(other, 0)


def main(handle: int) -> None:
    """Start the JVM that the client at the socket `handle` describes, and keep it for that run and later ones."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client = socket.socket(fileno=handle)
    client.settimeout(_ANSWER_S)
    order = receive(client)
    if order is None:
        return
    try:
        daemon = _Daemon(client, order)
    except OSError as exc:  # a full disk, no memory: the run says so
        send(client, {"error": str(exc)})
        return
    daemon.run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
