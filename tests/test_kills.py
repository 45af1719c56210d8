"""From files to an optimised table, killed anywhere: no row lost, none doubled, the record as if undisturbed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from running import Runner
from volumes import etl, expected_rows, rows_by_polars, rows_by_pyarrow, write_volumes

import voxelflow
from engine.declare.datasets import VolumeDelta
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]

whole_etl = partial(etl, vacuum=True)
SHAPE = (12, 12, 8, 2)
COUNT = 600
CHAINS = [
    [
        "supervisor:before-result",
        "parquet:part-written",
        "parquet:before-manifest",
        "delta:file-linked#2",
        "delta:before-commit",
        "optimize:file-written",
        "optimize:before-commit",
        "optimize:before-vacuum",
    ],
    [
        "parquet:part-renamed#2",
        "parquet:after-manifest",
        "delta:before-ledger",
        "delta:after-commit",
        "optimize:after-commit",
    ],
    ["supervisor:before-result#3"],
    ["supervisor:after-result#2"],
]
"""Every named commit point on the way from files to the table; `#n` is its n-th passing.

A run is killed at each point of its chain, one after the other, and resumed in between."""


def rows(table: object) -> list[tuple[str, float | None, bytes]]:
    assert isinstance(table, VolumeDelta)
    found = rows_by_pyarrow(table.uri, table.version)
    assert found == rows_by_polars(table.uri, table.version)
    return found


def record(store: RunStore) -> dict[str, tuple]:
    """What the run store says of the results, without times and places."""
    return {
        r.fingerprint: (r.node_type, r.node, {k: v.details() | {"version": 0} for k, v in r.outputs.items()})
        for r in store.results.all()
    }


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list]:
    folder = tmp_path_factory.mktemp("volumes")
    return folder, expected_rows(write_volumes(folder, COUNT, shape=SHAPE))


def runner_in(workspace: Workspace) -> Runner:
    return Runner(voxelflow.catalog(workspace), workspace, RunStore(workspace))


@pytest.fixture(scope="module")
def undisturbed(volumes, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple], float]:
    """What the run store says after a run that nobody killed, and the seconds that it took."""
    home = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        # What `_isolated` does for a test, which comes after this.
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.setenv("VOXELFLOW_TRACKING", "off")
        patch.setenv("VOXELFLOW_DATA_ROOTS", f"{home}{os.pathsep}{volumes[0]}")
        runner = runner_in(open_workspace(home / "workspace"))
        run, tasks = runner.run(whole_etl(volumes[0]))
    assert run.state == "done", run.error
    assert run.seconds is not None
    assert rows(tasks["optimize"].outputs["out"]) == volumes[1]
    return record(runner.store), run.seconds


@pytest.fixture
def _volumes_allowed(volumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared volumes lie outside the test's own folder."""
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{tmp_path}{os.pathsep}{volumes[0]}")


def finish_killed(runner: Runner, run_id: str) -> dict:
    """Resume until the run is done; gives its tasks."""
    run = runner.finish(run_id)
    for _ in range(5):
        if run.state == "done":
            break
        run, _ = runner.resume(run_id)
    assert run.state == "done", run.error
    return runner.tasks(run_id)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_volumes_allowed")
def test_a_kill_at_every_commit_point(volumes, undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, chain in enumerate(CHAINS):
        runner = runner_in(open_workspace(tmp_path / f"killed-{number}"))
        run_id = ""
        for point in chain:
            once = tmp_path / f"once-{number}-{point}"
            monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
            monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(once))
            if run_id:
                run, _ = runner.resume(run_id)
            else:
                run_id = runner.start(whole_etl(volumes[0]))
                run = runner.finish(run_id)
            assert run.state in ("failed", "lost"), point
            assert once.exists(), f"{point} was never passed"
        tasks = finish_killed(runner, run_id)
        assert rows(tasks["optimize"].outputs["out"]) == volumes[1], chain
        assert record(runner.store) == undisturbed[0], chain
        assert list(runner.workspace.scratch.iterdir()) == [], chain


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_volumes_allowed")
def test_kills_at_random_moments(volumes, undisturbed, tmp_path: Path) -> None:
    dice, killed, span = random.Random(20), 0, undisturbed[1]
    for number in range(24):
        runner = runner_in(open_workspace(tmp_path / f"random-{number}"))
        run_id = runner.start(whole_etl(volumes[0]))
        launch.wait_started(runner.workspace, runner.store, run_id, 1)
        time.sleep(dice.uniform(0.05, span))
        run = runner.store.run(run_id)
        workers = [t.pid for t in runner.store.tasks(run_id) if t.state == "running" and t.pid]
        victim = run.pid if dice.random() < 0.5 or not workers else workers[0]
        if run.active and victim is not None:
            with contextlib.suppress(ProcessLookupError):  # a worker that has just ended by itself
                os.kill(victim, signal.SIGKILL)
                killed += 1
        else:
            # The machine is faster now than when the undisturbed run was timed.
            span *= 0.7
        tasks = finish_killed(runner, run_id)
        assert rows(tasks["optimize"].outputs["out"]) == volumes[1]
        assert record(runner.store) == undisturbed[0]
        if number >= 7 and killed >= 3:
            break
    assert killed >= 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", ["delta:before-commit", "delta:after-commit", "optimize:before-commit"])
def test_two_runs_on_one_table_one_of_them_killed(
    volumes, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{tmp_path}{os.pathsep}{volumes[0]}")
    other = tmp_path / "other"
    more = expected_rows(write_volumes(other, 300, shape=SHAPE, first=COUNT))
    place = str(tmp_path / "table")
    runner = runner_in(open_workspace(tmp_path / "workspace"))
    monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "once"))
    one = runner.start(whole_etl(volumes[0], table=place, name="one"))
    two = runner.start(whole_etl(other, table=place, name="two"))
    for run_id in (one, two):
        runner.finish(run_id)
    assert (tmp_path / "once").exists()
    for run_id in (one, two):
        if runner.store.run(run_id).state == "done":
            continue
        run, tasks = runner.resume(run_id)
        if run.state != "done":
            # The other run has moved the table on; a new run brings it up to what the sources say.
            assert tasks["optimize"].failure is not None, run.error
            assert tasks["optimize"].failure["code"] == "stale-input", run.error
    finals = []
    for document in (whole_etl(volumes[0], table=place, name="one"), whole_etl(other, table=place, name="two")):
        run, tasks = runner.run(document)
        assert run.state == "done", run.error
        finals.append(tasks["optimize"].outputs["out"])
    assert rows(max(finals, key=lambda t: t.version)) == sorted(volumes[1] + more)
