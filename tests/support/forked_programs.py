"""Voxelflow's processes, forked from one that has imported everything: a run then takes a second instead of ten.

    with forking(folder, "forked_programs:import_nodes") as forks, forks.used():
        ...      # a run that is started in here is forked, and so are its workers

    python -m forked_programs SOCKET MODULE:FUNCTION now      the process that forks; ends when its input closes

FUNCTION imports, once: `now`, or `lazily`, when the first process is asked for. It may give a function, which each
forked process calls with its arguments before its work.

A process that is asked for in this way is a real one: it has its own arguments, environment, working directory, open
files, session and exit status, and can be killed alone. Only its interpreter and its imports are there already. Each
process that is forked starts Voxelflow's other processes in the same way (`ForkedPopen` in the place of
`subprocess.Popen`); any other program (Java) is started as ever.

It forks where nothing heavy has run yet: neither Arrow nor delta-rs survives a fork once it has threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.metadata
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

Begin = Callable[[list[str]], None]
PROGRAM = ("-P", "-m", "voxelflow")
MODULES = ("nodes.prediction.part_process", "nodes.profiling.worker", "benchmarks.race", "benchmarks.scale")
"""Other programs that are forked, when they are started with `python -m`."""
_CODE = ("code to be run in a fork",)
_MODULE = "import runpy, sys; sys.argv = {arguments!r}; runpy.run_module({0!r}, run_name='__main__', alter_sys=True)"
SOCKET = "VOXELFLOW_TEST_FORKS"
"""Environment variable: where the process that forks listens."""
IMPORTED_FOR_SPARK = (
    "pyspark.sql", "engine.spark.session", "engine.spark.spread", "nodes.spark.constraint_check",
    "nodes.spark.convert_to_delta", "nodes.spark.dataset_counts", "nodes.spark.delta_optimize",
    "nodes.spark.hash_sources", "nodes.spark.make_chunks", "nodes.spark.measure_volumes", "nodes.spark.predict_parts",
)  # fmt: skip
"""The driver's side of Spark."""
IMPORTED_TO_TRAIN = (
    "nodes.training.session", "nodes.tensorflow_keras.learner", "nodes.tensorflow_keras.mlflow_model",
    "matplotlib.figure", "mlflow.store.tracking.sqlalchemy_store",
)  # fmt: skip
"""TensorFlow and MLflow: modules that may be imported before a fork."""
IMPORTED_BY_THE_APP = (
    "ui.studio", "ui.shell.blocks", "ui.start.page", "ui.build.page", "ui.runs.history", "ui.runs.comparison",
    "ui.lineage.page", "ui.compute.page", "ui.runs.run_page",
)  # fmt: skip
"""Streamlit's server and the pages."""
shared: Callable[[], Mapping[str, Forks]] | None = None
"""In pytest: the processes that fork for all its workers, each by the function that prepared it."""
_HERE = Path(__file__).parent
_PIPES: Mapping[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
_REQUEST = 1 << 20
_PING = b"-"
_PREPARED_S = 300.0
"""The most that a process may take to import what is forked: TensorFlow takes ten seconds alone on two cores."""
_SHOWN = 1000
"""Bytes for the arguments of a forked process, as others see them."""


class ForkedPopen(subprocess.Popen[Any]):
    """`subprocess.Popen`, whose programs are forked when they are Voxelflow's."""

    _line: socket.socket | None = None

    def _execute_child(  # type: ignore[override]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
        start_new_session, process_group,
    ) -> None:  # fmt: skip
        given = [os.fspath(a) for a in args] if not isinstance(args, str) else []
        if given[1:3] == ["-m", "voxelflow"]:
            given[1:3] = PROGRAM
        elif "-m" in given[1:3] and (program := given[given.index("-m") + 1 :])[0] in MODULES:
            given = [given[0], *_CODE, _MODULE.format(program[0], arguments=program)]
        code = given[1:-1] == list(_CODE)
        if not (code or given[1 : 1 + len(PROGRAM)] == list(PROGRAM)) or SOCKET not in os.environ:
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
                start_new_session, process_group,
            )  # fmt: skip
            return
        standard = [p2cread if p2cread != -1 else 0, c2pwrite if c2pwrite != -1 else 1, errwrite]
        standard[2] = errwrite if errwrite != -1 else 2
        request = {
            "arguments": [] if code else given[1 + len(PROGRAM) :],
            "code": given[-1] if code else "",
            "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd) if cwd is not None else os.getcwd(),
            "files": list(pass_fds),
            "session": bool(start_new_session),
            "group": -1 if process_group is None else process_group,
        }
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(os.environ[SOCKET])
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST)
        socket.send_fds(self._line, [json.dumps(request).encode()], [*standard, *pass_fds])
        answer = self._line.recv(64)
        if not answer:
            raise OSError("the process that forks is gone")
        self.pid = int(answer)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._line is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]
        if wait_flags & os.WNOHANG and not select.select([self._line], [], [], 0)[0]:
            return 0, 0
        answer = self._line.recv(64)
        self._line.close()
        return self.pid, int(answer or signal.SIGKILL)

    def _internal_poll(self, *args: Any, **options: Any) -> int | None:  # type: ignore[override]
        """Python's own asks the system, which knows no such child of ours, and takes it for ended."""
        if self._line is None:
            return super()._internal_poll(*args, **options)  # type: ignore[misc,no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def __del__(self) -> None:
        if self._line is None:
            super().__del__()  # type: ignore[misc]
        else:  # Python's own keeps one that still runs, to ask for it again
            self._line.close()

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)


@dataclass(frozen=True)
class Forks:
    """The processes that were forked by process `pid`, which listens at `address`."""

    pid: int
    address: str

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Within it, Voxelflow's processes that this one starts, and those that they start, are forked."""
        import pytest  # not where processes are forked: they shall not have it

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SOCKET, self.address)
            patch.setattr(subprocess, "Popen", ForkedPopen)
            yield

    def start(self, code: str, environment: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[Any]:
        """A process that runs `code`; `options` are those of `Popen`. What it starts in its turn is not forked.

        `environment` is added to that of this process.
        """
        given = {**os.environ, **(environment or {})}
        environment = {name: value for name, value in given.items() if name != SOCKET}
        with self.used():
            return ForkedPopen([sys.executable, *_CODE, code], env=environment, **options)

    def kill_all(self) -> None:
        """End them, and wait until they are gone."""
        import psutil
        from waiting import WAIT_S  # not where processes are forked

        children = psutil.Process(self.pid).children()
        for process in children:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(children, timeout=WAIT_S)

    def pids(self) -> list[int]:
        """Those that live, after all that were asked for until now have been started."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(self.address)
            line.send(_PING)
            line.recv(64)
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in children if _lives(pid)]

    def alive(self) -> list[str]:
        """The same by what they do."""
        return [self.name_of(pid) for pid in self.pids()]

    @staticmethod
    def name_of(pid: int) -> str:
        """What a process does: command, supervisor, worker or tracker."""
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return "?"


def start(
    code: str, environment: Mapping[str, str] | None = None, *, training: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """In pytest: a process that runs `code`, forked from the one with Voxelflow's imports, for `training` with all.

    `environment` is added to that of this process; `options` are those of `Popen`.
    """
    assert shared is not None
    return shared()["import_training" if training else "import_nodes"].start(code, environment, **options)


def run(
    code: str, environment: Mapping[str, str] | None = None, *, training: bool = False, timeout: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """The same, with what it has printed when it has ended."""
    return _completed(start(code, environment, training=training, **_PIPES, **options), code, timeout)


def run_without_voxelflow(code: str, *, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same of code that finds Keras and MLflow imported, and nothing of Voxelflow."""
    assert shared is not None
    return _completed(shared()["import_keras"].start(code, **_PIPES, **options), code, timeout)


def _completed(process: subprocess.Popen[Any], code: str, timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(code, process.returncode, out, err)


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextlib.contextmanager
def forking(
    folder: Path, prepare: str, environment: Mapping[str, str] | None = None, *, lazily: bool = False
) -> Iterator[Forks]:
    """A process that forks, prepared by `prepare` ("module:function"); `environment` is what it starts with.

    With `lazily` it is prepared when it is first asked for a process.
    """
    from waiting import end_by_its_input, wait_for_line  # not where processes are forked

    address = folder / "fork"
    when = "lazily" if lazily else "now"
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "forked_programs", str(address), prepare, when, " " * _SHOWN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(map(str, (_HERE, _HERE.parents[1])))},
    )
    try:
        wait_for_line(process, "^ready$", _PREPARED_S)
        yield Forks(process.pid, str(address))
    finally:
        end_by_its_input(process)


# --- the process that forks ------------------------------------------------------------------------------------------


def serve(address: str, prepare: str, when: str) -> None:
    @functools.cache
    def prepared() -> Begin | None:
        module, _, function = prepare.partition(":")
        with _reported_on_failure():
            begin: Begin | None = getattr(importlib.import_module(module), function)()
        subprocess.Popen = ForkedPopen  # type: ignore[misc]
        gc.collect()
        gc.freeze()
        return begin

    if when == "now":
        prepared()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    print("ready", flush=True)
    lines: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        _reap(lines)
        if 0 in ready:
            for pid in lines:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return
        if listener in ready:
            _fork(listener, lines, prepared)


@contextlib.contextmanager
def _reported_on_failure() -> Iterator[None]:
    """What is printed meanwhile is seen only if it ends in an error: TensorFlow and Streamlit warn while they load."""
    # The handle, not `sys.stderr`: loggers that are made now keep that, and the app's log is looked at.
    shown = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(shown, hidden.read())
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)


def _reap(lines: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            line = lines.pop(found[0], None)
            if line is not None:
                with contextlib.suppress(OSError):
                    line.send(str(found[1]).encode())
                line.close()


def _fork(listener: socket.socket, lines: dict[int, socket.socket], prepared: Callable[[], Begin | None]) -> None:
    line, _ = listener.accept()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _REQUEST)
    data, handles, _, _ = socket.recv_fds(line, _REQUEST, 64)
    if data in (b"", _PING):  # one that was killed while it asked; one that waits until it is its turn
        with contextlib.suppress(OSError):
            line.send(_PING)
        line.close()
        return
    request = json.loads(data)
    begin = prepared()
    pid = os.fork()
    if pid == 0:
        _become(request, handles, begin)
    for handle in handles:
        os.close(handle)
    lines[pid] = line
    with contextlib.suppress(OSError):
        line.send(str(pid).encode())


def _become(request: dict[str, Any], handles: list[int], begin: Begin | None) -> NoReturn:
    """Be the process that was asked for."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request["session"]:
            os.setsid()
        elif request["group"] >= 0:
            os.setpgid(0, request["group"])
        wanted = dict(zip([0, 1, 2, *request["files"]], handles, strict=True))
        # First out of the way of the numbers that they will have.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        high = {number: _duplicate_above(handle, 500) for number, handle in wanted.items()}
        for number, handle in high.items():
            os.dup2(handle, number)
        kept = sorted(wanted)
        for low, next_kept in zip(kept, [*kept[1:], min(limit, 4096)], strict=True):
            os.closerange(low + 1, next_kept)
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()  # $TZ is one of them
        os.chdir(request["folder"])
        # Those of before remember whether their files could be sought in.
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(  # noqa: SIM115
            2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        sys.argv = ["voxelflow", *request["arguments"]]
        _show([sys.executable, *PROGRAM, *request["arguments"]])
        if begin is not None:
            begin(request["arguments"])
        if request["code"]:
            exec(request["code"], {})
            status = 0
        else:
            import voxelflow

            status = voxelflow.main()  # type: ignore[func-returns-value]
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status or 0)


def _show(command: list[str]) -> None:
    """Let other processes see this command line, by which a run's process is known: in the place of the server's."""
    with contextlib.suppress(OSError):  # no Linux
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        text = "\0".join(command).encode()[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))


def _duplicate_above(handle: int, least: int) -> int:
    import fcntl

    return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, least)


def import_nodes(*more: str) -> None:
    """Import what a run of the storage nodes imports, and `more`; what is not installed is left out."""
    import voxelflow

    # Each process reads the entry points of 180 packages: a third of its time.
    importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)
    imports = {name for node in voxelflow.catalog() for name in node.imports}
    wanted = {name for name in imports if not name.startswith(("nodes.tensorflow_keras", "mlflow"))}
    wanted |= {
        "engine.cli.run", "engine.cli.runs", "engine.cli.following", "engine.sweep.drive", "engine.run.supervisor",
        "engine.run.worker",
        "engine.environment", "nodes.prediction.session", "nodes.evaluation.report", "nodes.training.session",
        "nodes.table.ingest", "nodes.table.compaction", "nodes.conversion.convert", "deltalake", "pyarrow.dataset",
        "pyarrow.parquet", "pyarrow.compute", "matplotlib.figure", "matplotlib.backends.backend_svg", "platformdirs",
        "engine.cli.command", "engine.cli.plan",
        *IMPORTED_FOR_SPARK,
    }  # fmt: skip
    for name in sorted({*wanted, *more}):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def import_training() -> None:
    """The same, and what the app and a training with TensorFlow and its tracking import."""
    import_nodes(*IMPORTED_TO_TRAIN, *IMPORTED_BY_THE_APP)
    with contextlib.suppress(ImportError):
        import importlib_metadata

        # MLflow asks it of each model that it saves, and it reads the lists of files of all packages.
        importlib_metadata.packages_distributions = functools.cache(importlib_metadata.packages_distributions)
        importlib_metadata.packages_distributions()
    with contextlib.suppress(ImportError):
        from streamlit.runtime.scriptrunner import script_runner

        # Where Keras is imported, Streamlit has it collect all garbage after each script. No studio imports it.
        script_runner._clean_problem_modules = lambda: None


def import_keras() -> None:
    """Import what reads a trained model where Voxelflow is not installed."""
    for name in ("mlflow.pyfunc", "mlflow.keras", "mlflow.tensorflow"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    # As that module, so that a forked process which imports it finds the same classes.
    import forked_programs

    forked_programs.serve(*sys.argv[1:4])
