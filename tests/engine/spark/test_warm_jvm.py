"""A JVM that outlives its run: who gets it, when it ends, and what it prints. A Python program stands for Java here."""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from waiting import WAIT_S, wait_until

from engine.spark import jvm_daemon, warm_jvm
from engine.spark.warm_jvm import WarmJvm, environment_of_a_run, key_of

JAVA = """\
import os, struct, subprocess, sys, time
where = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
print("java", sys.argv[1:], os.environ.get("OTHER"), [n for n in os.environ if n.startswith("VOXELFLOW_")], flush=True)
if "broken" in sys.argv:
    sys.exit("no such option")
if "child" in sys.argv:
    subprocess.Popen(["sleep", "600"], process_group=0, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
if "late" in sys.argv:
    subprocess.Popen(["sh", "-c", "sleep 0.5; echo late"], stdin=subprocess.DEVNULL)
with open(where + ".part", "wb") as out:
    out.write(struct.pack(">ii", 4711, 6) + b"secret")
os.rename(where + ".part", where)
for line in iter(sys.stdin.readline, ""):
    pass
open("ended.txt", "w").close()  # a shutdown hook
"""


class Gateway:
    """As much of py4j's as `give_back` uses."""

    def __getattr__(self, name: str) -> Gateway:
        return self

    def __call__(self, *_: object) -> None:
        return None


@dataclass
class Place:
    folder: Path
    java: Path
    taken: list[WarmJvm] = field(default_factory=list)

    def take(self, *options: str, run: str = "run", other: str = "", heap: int = 0, **settings: str) -> WarmJvm | None:
        command = [sys.executable, "-S", "-E", str(self.java), *options]
        environment = {"PATH": os.environ["PATH"], "OTHER": other, "VOXELFLOW_RUN": run}
        (self.folder / run).mkdir(exist_ok=True)
        log = self.folder / f"{run}.log"
        found = WarmJvm.take(command, environment, settings, log, self.folder / run, heap=heap)
        if found is not None:
            self.taken.append(found)
        return found

    def log(self, run: str = "run") -> str:
        return (self.folder / f"{run}.log").read_text()


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    runtime = tmp_path_factory.mktemp("rt")  # a short path: a socket's has 107 letters at most
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warm_jvm, "clear", lambda gateway: None)
    java = tmp_path / "java.py"
    java.write_text(JAVA)
    out = Place(tmp_path, java)
    yield out
    warm_jvm.end_idle()
    for jvm in out.taken:
        jvm._connection.close()
    for jvm in out.taken:
        wait_until(lambda jvm=jvm: not psutil.pid_exists(jvm.daemon) or _is_dead(jvm.daemon), "the daemon's end")


def _is_dead(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def java_of(jvm: WarmJvm) -> psutil.Process:
    return psutil.Process(jvm.daemon).children()[0]


def given_back(jvm: WarmJvm | None, minutes: float = 1) -> WarmJvm:
    assert jvm is not None
    assert jvm.give_back(Gateway(), minutes)
    return jvm


def sockets() -> list[Path]:
    folder = jvm_daemon.idle_folder()
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    return list(folder.iterdir())


@pytest.mark.slow
def test_the_next_run_gets_the_same_one_and_its_own_log(place: Place) -> None:
    first = place.take(run="one")
    assert first is not None
    assert (first.port, first.secret, first.is_new) == (4711, "secret", True)
    assert not sockets()  # nobody can reach one that is in use
    java = java_of(given_back(first))
    assert [path.name for path in sockets()] == [f"{first.daemon}.sock"]
    second = place.take(run="two")
    assert second is not None
    assert (second.daemon, second.port, second.secret, second.is_new) == (first.daemon, 4711, "secret", False)
    assert not sockets()
    java.kill()
    assert second.has_ended(10)
    assert place.log("one").startswith("java")
    assert place.log("two") == ""  # what it printed at its start was of the first run


@pytest.mark.slow
def test_a_second_run_beside_it_gets_its_own_and_one_idle_stays(place: Place) -> None:
    first, beside, third = place.take(), place.take(), place.take()
    assert first is not None
    assert beside is not None
    assert first.daemon != beside.daemon
    java = java_of(given_back(first))
    given_back(third)
    wait_until(lambda: not java.is_running() and len(sockets()) == 1, "the end of the one before")
    assert warm_jvm.end_idle() == 1
    assert not sockets()
    assert not beside.has_ended()


@pytest.mark.slow
def test_one_that_does_not_fit_ends_in_good_order_before_another_starts(place: Place) -> None:
    """What it holds may be what the other one needs: a port, a lock, memory."""
    java = java_of(given_back(place.take()))
    other = place.take(other="changed")
    assert other is not None
    assert other.is_new
    assert not java.is_running()
    assert Path("ended.txt").exists()  # not killed: Java removes what it has unpacked
    assert not sockets()


@pytest.mark.slow
def test_what_it_prints_last_is_in_its_own_runs_log(place: Place) -> None:
    given_back(place.take("late", run="one"))
    assert place.log("one").endswith("late\n")
    again = place.take("late", run="two")
    assert again is not None
    assert not again.is_new
    assert place.log("two") == ""


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), TimeoutError()])
def test_the_socket_of_one_that_cannot_be_asked_now_stays(
    place: Place, error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back(place.take())

    def connect(self: object, to: str) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("socket.socket.connect", connect)
        assert warm_jvm.end_idle() == 0
    assert warm_jvm.end_idle() == 1


def test_what_keeps_it_from_starting_is_reported(place: Place) -> None:
    with pytest.raises(OSError, match=r"No such file.*/missing/spark-submit"):
        WarmJvm.take(["/missing/spark-submit"], {}, {}, place.folder / "log", place.folder / "run")


def test_the_system_ends_an_idle_one_first(place: Place) -> None:
    jvm = given_back(place.take())
    score = Path("/proc", str(java_of(jvm).pid), "oom_score_adj")
    wait_until(lambda: score.read_text().strip() == "1000", "the score of an idle one")
    again = place.take()
    assert again is not None
    assert not again.is_new
    assert score.read_text() == Path("/proc/self/oom_score_adj").read_text()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("dropped", marks=pytest.mark.slow),
        pytest.param("children", marks=pytest.mark.slow),
        "no time",
        "no folder",
    ],
)
def test_one_that_is_not_given_back_cleanly_ends_with_all_that_it_has_started(
    place: Place, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm = place.take("child") if how in ("dropped", "children") else place.take()
    assert jvm is not None
    daemon = psutil.Process(jvm.daemon)
    processes = daemon.children(recursive=True)
    assert len(processes) == (2 if how in ("dropped", "children") else 1)
    if how == "dropped":
        jvm._connection.close()
    elif how == "no folder":
        folder = jvm_daemon.idle_folder()
        assert folder is not None
        folder.rmdir()
        folder.write_text("no folder")
        assert not jvm.give_back(Gateway(), 1)
    else:
        assert not jvm.give_back(Gateway(), 0 if how == "no time" else 1)
    assert not psutil.wait_procs(processes, timeout=WAIT_S)[1]
    wait_until(lambda: not (place.folder / "run").exists(), "the end of its temporary files")
    assert Path("ended.txt").exists() == (how != "dropped")  # else killed, and what it has unpacked stays


@pytest.mark.slow
def test_it_ends_when_its_time_is_over_or_the_daemon_is_killed(place: Place) -> None:
    java = java_of(given_back(place.take(), 0.005))
    assert not psutil.wait_procs([java], timeout=WAIT_S)[1]
    wait_until(lambda: not sockets(), "the end of the socket")
    jvm = given_back(place.take())
    java = java_of(jvm)
    os.kill(jvm.daemon, signal.SIGKILL)
    assert not psutil.wait_procs([java], timeout=WAIT_S)[1]  # its standard input has closed
    again = place.take()  # the dead one's socket lies about
    assert again is not None
    assert again.is_new
    assert not sockets()


def test_one_that_does_not_start_is_none_and_the_log_says_why(place: Place) -> None:
    assert place.take("broken") is None
    assert "no such option" in place.log()


def test_our_own_variables_come_with_each_run_and_not_with_java(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXELFLOW_KILL_AT", "somewhere")
    place.take(other="there")
    assert "there []" in place.log()
    assert environment_of_a_run()["VOXELFLOW_KILL_AT"] == "somewhere"


@pytest.mark.slow
def test_one_with_less_memory_than_is_asked_for_does_not_fit(place: Place) -> None:
    """The default follows from what is free: one run asks for more than the next."""
    first, less, more = (given_back(place.take(heap=heap)) for heap in (2, 1, 3))
    assert (less.is_new, less.daemon) == (False, first.daemon)
    assert more.is_new


SETTINGS = {"spark.driver.memory": "1g", "spark.app.name": "one", "spark.local.dir": "/one"}


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"environment": {"HOME": "/h", "OLDPWD": "/x", "VOXELFLOW_KILL_AT": "y"}}, True),
        ({"settings": {**SETTINGS, "spark.app.name": "two", "spark.local.dir": "/two"}}, True),
        ({"settings": {**SETTINGS, "spark.executorEnv.A": "b"}}, True),
        ({"environment": {"HOME": "/other"}}, False),
        ({"environment": {"HOME": "/h", "AWS_SECRET_ACCESS_KEY": "k"}}, False),
        ({"settings": {**SETTINGS, "spark.driver.memory": "2g"}}, False),
        ({"settings": {**SETTINGS, "spark.hadoop.fs.s3a.secret.key": "k"}}, False),
        ({"settings": {**SETTINGS, "spark.driver.extraJavaOptions": "-Xint"}}, False),
        ({"program": "/other/bin/spark-submit"}, False),
    ],
)
def test_what_must_be_equal(changed: dict, same: bool) -> None:
    usual = {"program": "/spark/bin/spark-submit", "environment": {"HOME": "/h"}, "settings": SETTINGS}
    assert (key_of(**usual) == key_of(**(usual | changed))) == same


@pytest.mark.parametrize("name", ["own.jar", "my own.jar"])
def test_a_jar_that_was_built_anew_and_another_directory_count(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / name
    jar.write_text("one")

    def key() -> str:
        return key_of("spark-submit", {"HADOOP_CONF_DIR": str(tmp_path / "conf")}, {"spark.jars": f"/x.jar, {jar}"})

    keys = [key()]
    jar.write_text("other")
    keys.append(key())
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").write_text("<x/>")
    keys.append(key())
    monkeypatch.chdir(tmp_path / "conf")
    keys.append(key())
    assert len(set(keys)) == 4


def test_a_directory_made_again_a_daemon_of_another_version_and_other_limits_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM would work in the directory that is gone, and open no more files than before."""

    def key() -> str:
        return key_of("spark-submit", {}, {})

    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    keys = [key(), key()]
    (tmp_path / "work").rename(tmp_path / "before")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    keys.append(key())
    older = tmp_path / "jvm_daemon.py"
    older.write_text("# older")
    with monkeypatch.context() as patch:
        patch.setattr(jvm_daemon, "__file__", str(older))
        keys.append(key())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        keys.append(key())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    umask = os.umask(0o037)
    try:
        keys.append(key())
    finally:
        os.umask(umask)
    assert keys[0] == keys[1]
    assert keys[2] == key()
    assert len(set(keys)) == 5


def test_a_folder_that_others_can_open_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = jvm_daemon.idle_folder()
    assert folder is not None
    folder.chmod(0o755)
    assert jvm_daemon.idle_folder() is None
    assert warm_jvm.end_idle() == 0


def test_memory_is_read_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jvm_daemon.enough_memory()
    monkeypatch.setattr(jvm_daemon, "_LEAST_FREE", 1.0)
    assert not jvm_daemon.enough_memory()
