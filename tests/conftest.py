"""Shared fixtures: an isolated workspace and the small node types that the engine's tests run."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.metadata
import itertools
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import forked_programs
import pytest
import pytest_rerunfailures
import pytest_timeout
from forked_programs import Forks, forking
from laws import load_examples
from one_spark import OneSpark
from outcome import FAILED
from outside_parts import require
from session_folders import clear_ended, files_folder, runtime_folder
from store_fixtures import azure, azure_server, container, gcs_stand_in, s3_stand_in

from engine.catalog import Catalog, build_catalog
from engine.spark.warm_jvm import end_idle
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace, trust

__all__ = ["azure", "azure_server", "container", "gcs_stand_in", "s3_stand_in"]

# Each Java of these tests lives for seconds: compiling hot code twice, and several threads of clearing up, cost more
# than they save.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Sessions map Spark's classes where `python -m engine.spark.class_data` has kept them; no test begins to keep them.
if not list(Path("~/.ivy2.5.2/voxelflow").expanduser().glob("classes-*.jsa")):
    os.environ.setdefault("VOXELFLOW_SPARK_CLASS_DATA", "off")
# A run on Spark takes the Java that another one of this process has left, never one of the person's or of other tests.
_RUNTIME = runtime_folder()
os.environ["XDG_RUNTIME_DIR"] = _RUNTIME
# Hundreds of processes import the same packages: none shall compile them anew, as where Python keeps no bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@functools.cache
def _entry_points(path: tuple[str, ...], **wanted: str) -> importlib.metadata.EntryPoints:
    return _read_entry_points(**wanted)


# Each catalogue reads the entry points of 180 packages: once for the places where Python looks for packages.
_read_entry_points = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **wanted: _entry_points(tuple(sys.path), **wanted)

IN_MEMORY = Path("/dev/shm")
"""A file system without a disk, on Linux."""
_MINUTES_S, _MOST_FILES = 300, 60
_OWN_FOLDER = pytest.StashKey[Path]()
_FORKS = pytest.StashKey[dict[str, Forks]]()

PROBES = Path(__file__).parent / "support" / "probes.py"
"""Node types that sleep, fail, count and grow: what the engine's tests execute for real."""


_numbers = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As pytest's own, which looks through the folders of all tests before this one to find a number.

    That of a failed test stays.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(_numbers)}"
    folder.mkdir(mode=0o700)
    yield folder
    if not request.node.stash.get(FAILED, True):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the person's trust file, workspace or tracking server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(tmp_path))
    monkeypatch.setenv("VOXELFLOW_TRACKING", "off")
    monkeypatch.delenv("VOXELFLOW_WORKSPACE", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return open_workspace(tmp_path / "workspace")


@pytest.fixture
def store(workspace: Workspace) -> Iterator[RunStore]:
    out = RunStore(workspace)
    yield out
    out.close()


@pytest.fixture
def probes(workspace: Workspace) -> Catalog:
    """A catalogue with the test nodes, installed as the workspace's own and trusted."""
    (workspace.my_nodes / "probes.py").write_text(PROBES.read_text())
    trust(workspace)
    return build_catalog((), workspace)


@pytest.fixture
def probe_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: before it is there, the test node Make with the text `slow` does not come to its end."""
    monkeypatch.setenv("PROBES_GATE", f"slow:{tmp_path / 'gate'}")
    return tmp_path / "gate"


@pytest.fixture
def forked_runs(pytestconfig: pytest.Config) -> Iterator[None]:
    """Runs that the test starts, and their workers, are forked from a process that has imported all but TensorFlow.

    For tests of what becomes of the data. Not for those of the processes' own arguments, parents and imports.
    """
    with _forks(pytestconfig)["import_nodes"].used():
        yield


@pytest.fixture
def forked_trainings(pytestconfig: pytest.Config) -> Iterator[None]:
    """The same, where TensorFlow and MLflow are imported as well."""
    with _forks(pytestconfig)["import_training"].used():
        yield


def _forks(config: pytest.Config) -> dict[str, Forks]:
    """A process that forks for each set of imports: one for all of pytest's workers together.

    TensorFlow takes ten seconds to import. A process forked from one without it starts in a third of the time.
    """
    if (given := getattr(config, "workerinput", None)) is not None:
        return {prepare: Forks(*where) for prepare, where in given["forks"].items()}
    if _FORKS not in config.stash:
        kept = contextlib.ExitStack()
        config.add_cleanup(kept.close)
        config.stash[_FORKS] = {}
        for prepare in ("import_nodes", "import_training", "import_keras"):
            folder = Path(kept.enter_context(tempfile.TemporaryDirectory()))
            # Matplotlib makes a folder there, which shall not be one of the test that happens to be the first.
            own = {"XDG_CONFIG_HOME": str(folder)}
            forks = kept.enter_context(forking(folder, f"forked_programs:{prepare}", own, lazily=True))
            config.stash[_FORKS][prepare] = forks
    return config.stash[_FORKS]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """As xdist starts a worker: it gets which processes fork."""
    node.workerinput["forks"] = {prepare: (forks.pid, forks.address) for prepare, forks in _forks(node.config).items()}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark | None:
    return OneSpark(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """While you edit (`-m "not slow"`), laws get fewer examples than in a whole run, and files are in memory.

    The quick tests make some 100 MB of small files and flush them thousands of times. A whole run uses the disk.
    """
    forked_programs.shared = functools.partial(_forks, config)
    quick = "not slow" in config.option.markexpr
    if quick and "VOXELFLOW_CI" not in os.environ:
        config.option.reruns = 0
    load_examples(quick=quick)
    if not hasattr(config, "workerinput"):
        _make_own_folder(config, in_memory=quick and _free_bytes(IN_MEMORY) > 2 << 30)


def _make_own_folder(config: pytest.Config, *, in_memory: bool) -> None:
    """One folder for all that these tests, their processes and Java write; clears those of sessions that have ended."""
    disk = Path(tempfile.gettempdir())
    clear_ended({disk, IN_MEMORY})
    folder = config.stash[_OWN_FOLDER] = files_folder(IN_MEMORY if in_memory else disk)
    temporary = folder / "tmp"
    for each in (folder, temporary):
        each.mkdir(mode=0o711)  # some tests look as another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    os.environ["JDK_JAVA_OPTIONS"] += f" -Djava.io.tmpdir={temporary}"
    config.option.basetemp = config.option.basetemp or str(folder / "tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What the imports and the list of tests have made stays to the end: nobody looks for garbage in it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Turn off Nagle's algorithm: under xdist pytest-rerunfailures sends two small messages a test, and the second
    would be held back for 40 milliseconds, until the first is acknowledged."""
    found = getattr(session.config, "failures_db", None)
    if isinstance(found, pytest_rerunfailures.SocketDB):
        found.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What failed can be looked at until the next session; all else leaves nothing."""
    end_idle()
    shutil.rmtree(_RUNTIME, ignore_errors=True)
    if exitstatus == 0 and (folder := session.config.stash.get(_OWN_FOLDER, None)):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The command that repeats what failed, unless nearly all did; what was seen of first attempts."""
    ended = terminalreporter.stats
    again = {report.nodeid for report in ended.get("rerun", ())}
    seen = {
        (f"{report.nodeid}: {title}", text): None  # the second attempt's report has it once more
        for report in ended.get("", ())
        if report.when == "teardown" and report.nodeid in again
        for title, text in report.sections
        if title.startswith("Captured") and title.endswith("teardown")
    }
    for title, text in seen:
        terminalreporter.write_sep("-", title)
        terminalreporter.write_line(text)
    _write_longest_files(terminalreporter)
    failed = dict.fromkeys(shlex.quote(r.nodeid) for kind in ("failed", "error") for r in ended.get(kind, ()))
    if 0 < len(failed) < 50:
        terminalreporter.write_line(f"To repeat: .venv/bin/pytest {' '.join(failed)}")


def _write_longest_files(terminalreporter: Any) -> None:
    """Of tests that take minutes, the files that take most of them: `--durations` shows single tests alone."""
    took: Counter[str] = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if duration := getattr(report, "duration", 0):
            took[report.nodeid.partition("::")[0]] += duration
    if took.total() > _MINUTES_S:
        terminalreporter.write_sep("=", f"longest files, of {took.total():.0f} s in all")
        for file, seconds in took.most_common(_MOST_FILES):
            terminalreporter.write_line(f"{seconds:6.1f}s {file}")


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when != "teardown":
        item.stash[FAILED] = report.failed
    return report


_CHANCE_IS_A_DEFECT = re.compile(
    r"test_(kills|power_cuts|conformance|reproduced)\.py|tests/torture/|tests/nodes/.*kill|bit_for_bit"
)
"""Tests of what no kill, power cut or repetition may change: one failure in a hundred is a failure."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if _CHANCE_IS_A_DEFECT.search(item.nodeid):
        item.add_marker(pytest.mark.flaky(reruns=0))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if getattr(item, "execution_count", 1) > 1:  # its failure has ended its time limit
        item.ihook.pytest_timeout_set_timer(item=item, settings=pytest_timeout._get_item_settings(item))
    for marker in item.iter_markers("needs"):
        require(marker.kwargs["part"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first, so that a mistake shows in a minute; then what has a long time limit, for nobody to wait for.

    Those in a browser last: from the first on, Playwright has this thread's event loop. Of them the modules with most
    text first, which take longest: one of a minute at the end would have the other workers wait.
    """
    texts = {path: path.stat().st_size for path in {item.path for item in items if _in_a_browser(item)}}
    limits: Counter[Path] = Counter()
    for item in items:
        limits[item.path] = max(limits[item.path], _time_limit(item))
    items.sort(key=lambda item: (_group(item), -limits[item.path] * _group(item), -texts.get(item.path, 0)))


def _group(item: pytest.Item) -> int:
    return (item.get_closest_marker("slow") is not None) + _in_a_browser(item)


def _time_limit(item: pytest.Item) -> int:
    """The test's own, in seconds; 0 for the usual one."""
    marker = item.get_closest_marker("timeout")
    return int(marker.args[0]) if marker else 0


def _in_a_browser(item: pytest.Item) -> bool:
    return item.get_closest_marker("browser") is not None
