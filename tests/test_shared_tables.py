"""Pipelines in one or several workspaces that fill and compact one table at the same time: each waits its turn."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import box, pipeline
from delta_tables import read_by_deltalake
from outside_parts import require
from running import Runner
from volumes import etl, expected_rows, write_volumes
from waiting import has_ended, wait_until

import voxelflow
from engine.declare.datasets import VolumeDelta
from engine.document.pipeline import Pipeline
from engine.run import launch
from engine.storage.objects import RemotePath
from engine.storage.reservation import LEASE_S
from engine.store.runs import RunStore, Task
from engine.workspace import open_workspace, trust

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]
SHORT_LEASES = Path(__file__).parent / "support" / "short_leases.py"
COUNT, SHAPE = 30, (24, 24, 16, 2)
"""Three small files, which are one after the compaction."""
Row = tuple[str, float, bytes]


@pytest.fixture(params=["local", "azure_server", "s3_stand_in"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a table may come: a folder that is not there yet, or one in an object store."""
    if request.param == "local":
        return _allowed(tmp_path, monkeypatch)
    from store_fixtures import container_in

    url = container_in(request.getfixturevalue(request.param), monkeypatch)
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{url}{os.pathsep}{tmp_path}")
    return f"{url}/table"


@pytest.fixture
def local_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return _allowed(tmp_path, monkeypatch)


def _allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(tmp_path))
    return str(tmp_path / "table")


class Runners:
    """One for each workspace, with volumes of its own to put into the table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.stores: list[RunStore] = []

    def make(self, name: str) -> Runner:
        workspace = open_workspace(self._folder / name)
        self.stores.append(RunStore(workspace))
        return Runner(voxelflow.catalog(workspace), workspace, self.stores[-1])

    def volumes(self, number: int) -> tuple[Path, list[Row]]:
        folder = self._folder / f"volumes-{number}"
        return folder, expected_rows(write_volumes(folder, COUNT, shape=SHAPE, first=1000 * number))


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    out = Runners(tmp_path)
    yield out
    for store in out.stores:
        store.close()


def _holds(table: str, *some: list[Row]) -> None:
    assert read_by_deltalake(table) == sorted(row for rows in some for row in rows)


def _waits(runner: Runner, run_id: str, node: str) -> Task:
    return runner.wait_for(run_id, node, "waiting")


def _log(runner: Runner, run_id: str, node: str) -> str:
    return runner.workspace.log_file(run_id, node).read_text()


def _kill(runner: Runner, run_id: str, node: str) -> None:
    """Kill a run's process and the worker of one of its tasks."""
    worker = runner.tasks(run_id)[node].pid
    supervisor = runner.store.run(run_id).pid
    assert worker is not None
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: has_ended(supervisor), "the end of the run's process")


def _is_stopped(pid: int | None) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def _start_stopped(
    runner: Runner, document: Pipeline, node: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, int]:
    """Start a run whose task `node` stops at a commit point; its id, and the stopped process."""
    monkeypatch.setenv("VOXELFLOW_STOP_AT", point)
    run_id = runner.start(document)
    pid = runner.wait_for(run_id, node, "running").pid
    assert pid is not None
    wait_until(lambda: _is_stopped(pid), f"{node} stopped at {point}")
    monkeypatch.delenv("VOXELFLOW_STOP_AT")
    return run_id, pid


ROUNDS = int(os.environ.get("VOXELFLOW_TEST_ROUNDS", "2"))


def test_first_runs_at_the_same_time_all_end_well(table: str, runners: Runners) -> None:
    """Two of them in one workspace, one in another; the second round finds a table."""
    home, away = runners.make("home"), runners.make("away")
    rows: list[list[Row]] = []
    for turn in range(ROUNDS):
        started = []
        for number in range(3 * turn, 3 * turn + 3):
            folder, made = runners.volumes(number)
            rows.append(made)
            runner = (home, home, away)[number % 3]
            started.append((runner, runner.start(etl(folder, table=table, name=f"etl-{number}")), made))
        for runner, run_id, made in started:
            run = runner.finish(run_id)
            assert run.state == "done", run.error
            out = runner.tasks(run_id)["optimize"].outputs["out"]
            assert isinstance(out, VolumeDelta)
            assert set(made) <= set(read_by_deltalake(out.uri, out.version))
        _holds(table, *rows)


def test_a_run_waits_for_another_and_goes_on_when_that_is_killed(
    local_table: str, runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, away = runners.make("home"), runners.make("away")
    (one, ones), (two, twos) = runners.volumes(1), runners.volumes(2)
    first, _ = _start_stopped(home, etl(one, table=local_table), "table", "delta:before-commit", monkeypatch)
    second = away.start(etl(two, table=local_table))
    reason = _waits(away, second, "table").reason
    assert reason == f"waits for run {first} of {home.workspace.root}, which writes to {local_table}"
    wait_until(lambda: reason in _log(away, second, "table"), "the reason in the task's log")
    _kill(home, first, "table")
    run = away.finish(second)
    assert run.state == "done", run.error
    _holds(local_table, twos)
    run, _ = home.resume(first)
    assert run.state == "done", run.error
    _holds(local_table, ones, twos)


def test_a_run_that_waits_can_be_cancelled(local_table: str, runners: Runners, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runners.make("home")
    (one, ones), (two, twos) = runners.volumes(1), runners.volumes(2)
    first, pid = _start_stopped(runner, etl(one, table=local_table), "table", "delta:before-commit", monkeypatch)
    second = runner.start(etl(two, table=local_table, name="other"))
    _waits(runner, second, "table")
    launch.cancel(runner.store, second)
    assert runner.finish(second).state == "cancelled"
    os.kill(pid, signal.SIGCONT)
    assert runner.finish(first).state == "done"
    _holds(local_table, ones)
    run, _ = runner.resume(second)
    assert run.state == "done", run.error
    _holds(local_table, ones, twos)


def test_a_fill_waits_until_another_run_has_compacted(
    table: str, runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reservation lasts from the fill to the end of the compaction; readers see both."""
    home, away = runners.make("home"), runners.make("away")
    (one, ones), (two, twos) = runners.volumes(1), runners.volumes(2)
    first, pid = _start_stopped(home, etl(one, table=table), "optimize", "optimize:before-commit", monkeypatch)
    second = away.start(etl(two, table=table))
    assert f"waits for run {first}" in _waits(away, second, "table").reason
    _holds(table, ones)
    os.kill(pid, signal.SIGCONT)
    for runner, run_id in ((home, first), (away, second)):
        run = runner.finish(run_id)
        assert run.state == "done", run.error
    _holds(table, ones, twos)
    # What the first made is as it left it: its results stand, and hold its rows alone.
    out = home.tasks(first)["optimize"].outputs["out"]
    assert isinstance(out, VolumeDelta)
    assert read_by_deltalake(out.uri, out.version) == sorted(ones)


def test_a_lease_runs_out_when_its_holder_was_killed(
    azure: str, runners: Runners, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("azurite")
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{azure}{os.pathsep}{tmp_path}")
    home, away = runners.make("home"), runners.make("away")
    (one, ones), (two, twos) = runners.volumes(1), runners.volumes(2)
    url = f"{azure}/table"
    for runner in (home, away):
        (runner.workspace.my_nodes / SHORT_LEASES.name).write_text(SHORT_LEASES.read_text())
        trust(runner.workspace)
    first, _ = _start_stopped(home, etl(one, table=url), "table", "delta:before-commit", monkeypatch)
    second = away.start(etl(two, table=url))
    assert _waits(away, second, "table").reason == f"waits for run {first}, which writes to {url}"
    _kill(home, first, "table")
    wait_until(lambda: away.tasks(second)["table"].state != "waiting", "the lease has run out", timeout_s=4 * LEASE_S)
    run = away.finish(second)
    assert run.state == "done", run.error
    run, _ = home.resume(first)
    assert run.state == "done", run.error
    _holds(url, ones, twos)
    # Nobody's path or machine is in the shared table.
    left = (RemotePath.at(url) / "_voxelflow/reserved.json").read_bytes()
    assert str(tmp_path).encode() not in left


def test_a_run_that_was_killed_between_its_tasks_makes_its_table_up_to_date_again(
    local_table: str, runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody held the table meanwhile, and another run put rows into it."""
    home, away = runners.make("home"), runners.make("away")
    (one, ones), (two, twos) = runners.volumes(1), runners.volumes(2)
    first, _ = _start_stopped(home, etl(one, table=local_table), "optimize", "optimize:file-written", monkeypatch)
    _kill(home, first, "optimize")
    run, _ = away.run(etl(two, table=local_table))
    assert run.state == "done", run.error
    run, tasks = home.resume(first)
    assert run.state == "done", run.error
    assert tasks["table"].attempt == 2
    _holds(local_table, ones, twos)
    out = tasks["optimize"].outputs["out"]
    assert isinstance(out, VolumeDelta)
    assert read_by_deltalake(out.uri, out.version) == sorted([*ones, *twos])


def test_two_runs_that_write_to_two_tables_in_another_order_do_not_wait_for_each_other(
    tmp_path: Path, runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    _allowed(tmp_path, monkeypatch)
    rows: dict[str, list[list[Row]]] = {"a": [], "b": []}
    started = []
    for number, order in enumerate(("ab", "ba")):
        nodes, wires = [], []
        for place, name in enumerate(order):
            folder, made = runners.volumes(10 * number + place)
            rows[name].append(made)
            # The second table comes from the first one's pipeline only after that was filled.
            nodes += [
                box(f"folder-{name}", "VolumeFolder", folder=str(folder)),
                box(f"convert-{name}", "NumpyToParquet", target_file_mb=1),
                box(f"table-{name}", "ParquetToDelta", table=str(tmp_path / name)),
                box(f"optimize-{name}", "OptimizeDelta", target_file_mb=3),
            ]
            ends = ("folder", "convert", "table", "optimize")
            ports = ("files", "parquet", "table")
            wires += [
                f"{a}-{name}.out>{b}-{name}.{port}" for a, b, port in zip(ends[:-1], ends[1:], ports, strict=True)
            ]
        runner = runners.make(f"workspace-{number}")
        started.append((runner, runner.start(pipeline(*nodes, wires=" ".join(wires)))))
    for runner, run_id in started:
        run = runner.finish(run_id)
        assert run.state == "done", run.error
    for name, made in rows.items():
        _holds(str(tmp_path / name), *made)
