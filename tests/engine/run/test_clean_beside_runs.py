"""`clean` at the worst moments: while a run starts, after one was lost, beside readers, and killed itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from building import box, pipeline
from running import Runner
from stored_results import stored_result
from waiting import is_stopped, wait_until

from engine.declare.datasets import Report
from engine.declare.events import RunState
from engine.document.pipeline import Pipeline
from engine.errors import WorkspaceError
from engine.run import launch, start_lock
from engine.run.clean import always, free, survey
from engine.run.worker_process import PROGRAM
from engine.storage.process_lock import ProcessLock
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace


@pytest.fixture
def counting(tmp_path: Path) -> Pipeline:
    """Needs the listing of a folder, and a result of its own."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    return pipeline(
        box("count", "Count", folder=str(folder)), box("make", "Make"), box("end", "Join"),
        wires="make.out>end.first",
    )  # fmt: skip


def _result(workspace: Workspace, store: RunStore, name: str, text: str = "x") -> Path:
    folder = workspace.data / "Make" / name / "result"
    folder.mkdir(parents=True)
    for file in ("one", "two"):
        (folder / file).write_text(text)
    store.results.put(stored_result(name, outputs={"out": Report(uri=str(folder / "one"))}))
    return folder.parent


# --- runs that start -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_nothing_goes_between_the_plan_and_the_run(
    runner: Runner, counting: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = runner.run(counting)
    monkeypatch.setattr(start_lock, "PATIENCE_S", 0.1, raising=False)
    monkeypatch.setattr("engine.run.clean._LISTING_KEPT_S", 0, raising=False)
    begin = launch.begin

    def later(*arguments: object) -> str:
        # Planned: all is cached. Now all of it is freed, as far as that is allowed.
        freed = free(runner.workspace, runner.store, survey(runner.workspace, runner.store))
        assert freed.freed == []
        assert {reason for _, reason in freed.skipped} == {"a run is being planned or started; try again later"}
        return begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(launch, "begin", later)
    run, tasks = runner.run(counting)
    assert run.state == "done", run.error
    assert {t.state for t in tasks.values()} == {"cached"}
    assert tasks["end"].outputs == before["end"].outputs
    assert Path(tasks["end"].outputs["out"].uri).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_nothing_goes_before_the_places_are_held(
    runner: Runner, counting: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that started the run is done with it; the run's own has not got far."""
    monkeypatch.setattr(start_lock, "PATIENCE_S", 0.1)
    monkeypatch.setattr("engine.run.clean._LISTING_KEPT_S", 0)
    kept = _result(runner.workspace, runner.store, "other")
    monkeypatch.setenv("VOXELFLOW_STOP_AT", "supervisor:before-places")
    run_id = runner.start(counting)
    supervisor = psutil.Process(launch._children[run_id].pid)
    try:
        wait_until(lambda: is_stopped(supervisor))
        monkeypatch.delenv("VOXELFLOW_STOP_AT")
        freed = free(runner.workspace, runner.store, survey(runner.workspace, runner.store))
        assert (freed.freed, [path for path, _ in freed.skipped]) == ([], [kept])
        supervisor.resume()
        assert runner.finish(run_id).state == "done"
    finally:
        if supervisor.is_running():
            supervisor.kill()
    assert runner.text(runner.tasks(run_id)["end"]) == "made"
    assert kept in free(runner.workspace, runner.store, survey(runner.workspace, runner.store)).freed


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_run_that_was_lost_is_resumed_as_if_nothing_was_cleaned(
    runner: Runner, counting: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VOXELFLOW_KILL_AT", "supervisor:after-result")
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "once"))
    run_id = runner.start(counting)
    assert runner.finish(run_id).state == "lost"
    made = {r.fingerprint for r in runner.store.results.all()}
    assert len(made) == 1
    for listing in runner.workspace.observations.glob("*.arrow"):
        os.utime(listing, (0, 0))
    found = survey(runner.workspace, runner.store)
    assert {p.kept_for for p in found} == {run_id}
    freed = free(runner.workspace, runner.store, found)
    assert freed.freed == []
    assert {reason for _, reason in freed.skipped} == {f"run {run_id} can still be resumed"}
    run, tasks = runner.resume(run_id)
    assert run.state == "done", run.error
    assert runner.text(tasks["end"]) == "made"
    assert sorted(t.attempt for t in tasks.values())[0] == 1
    # Done: now nothing is kept for it.
    found = survey(runner.workspace, runner.store)
    assert {p.kept_for for p in found} == {""}
    assert len(free(runner.workspace, runner.store, found).freed) == len(found)
    assert runner.store.results.all() == []


# --- which runs keep what ------------------------------------------------------------------------


def _ended(workspace: Workspace, store: RunStore, state: RunState, place: str, fingerprint: str) -> str:
    run_id = store.create_run("p", "{}", {}, "local")
    task = {"shared": place, "identity": {"fingerprint": fingerprint}}
    (workspace.run_folder(run_id) / "plan.json").write_text(json.dumps({"tasks": [task]}))
    store.finish_run(run_id, state)
    return run_id


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_what_an_ended_run_left_undone_is_kept_until_the_person_says_so(
    workspace: Workspace, store: RunStore, state: RunState
) -> None:
    half = workspace.scratch / "f123"
    half.mkdir()
    other = _result(workspace, store, "other")
    shared = workspace.data / "Make" / "mine"
    shared.mkdir()
    run_id = _ended(workspace, store, state, "Make/mine", "f123")
    found = survey(workspace, store)
    assert {p.path: p.kept_for for p in found} == {half: run_id, other: "", shared: run_id}
    freed = free(workspace, store, found)
    assert freed.freed == [other]
    assert sorted(p for p, _ in freed.skipped) == sorted([half, shared])
    found = survey(workspace, store, lambda run: run.run_id != run_id)
    assert len(free(workspace, store, found, lambda run: run.run_id != run_id).freed) == 2


def test_a_failed_run_keeps_nothing_once_another_has_made_it_all(workspace: Workspace, store: RunStore) -> None:
    place = _result(workspace, store, "same")
    _ended(workspace, store, "failed", "Make/same", "same")
    assert [p.kept_for for p in survey(workspace, store)] == [""]
    assert free(workspace, store, survey(workspace, store)).freed == [place]


def test_a_choice_of_the_person_never_reaches_a_run_at_work(workspace: Workspace, store: RunStore) -> None:
    """One that has not got its locks yet, as after a slow start."""
    place = _result(workspace, store, "same")
    _ended(workspace, store, "failed", "Make/same", "elsewhere")
    run_id = _ended(workspace, store, "starting", "Make/same", "elsewhere")
    never: list[Run] = []
    found = survey(workspace, store, lambda run: bool(never))
    assert [p.in_use for p in found] == [True]
    freed = free(workspace, store, found, lambda run: bool(never))
    assert freed.skipped == [(place, "a run is using it")]
    assert always(store.run(run_id))


def test_a_place_that_was_used_after_it_was_chosen_stays(workspace: Workspace, store: RunStore) -> None:
    place = _result(workspace, store, "same")
    found = survey(workspace, store)
    store.results.touch("same")
    assert free(workspace, store, found).skipped == [(place, "a run has used it meanwhile")]


@pytest.mark.parametrize("name", ["leases/3-abc", "lock"])
def test_a_table_that_someone_reads_or_writes_stays(workspace: Workspace, store: RunStore, name: str) -> None:
    place = _result(workspace, store, "table")
    found = survey(workspace, store)
    holder = ProcessLock(place / "table" / "_voxelflow" / name)
    assert holder.acquire()
    assert [p.in_use for p in survey(workspace, store)] == [True]
    assert free(workspace, store, found).skipped == [(place, "a run is using it")]
    holder.release()
    assert free(workspace, store, found).freed == [place]


# --- cleans that are killed, or beside each other ------------------------------------------------


def test_the_second_of_two_cleans_is_refused(workspace: Workspace, store: RunStore) -> None:
    _result(workspace, store, "one")
    other = ProcessLock(workspace.locks / "clean")
    assert other.acquire()
    with pytest.raises(WorkspaceError, match="another"):
        free(workspace, store, survey(workspace, store))
    other.release()


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize("point", ["clean:forgotten", "clean:moved", "clean:file-deleted"])
def test_a_clean_that_is_killed_leaves_no_result_without_files_and_the_next_finishes(
    workspace: Workspace, store: RunStore, point: str
) -> None:
    for name in ("one", "two"):
        _result(workspace, store, name)
    command = [*PROGRAM, "clean", "--all", "--apply", "--workspace", str(workspace.root)]
    env = {**os.environ, "VOXELFLOW_KILL_AT": point}
    assert subprocess.run(command, env=env, capture_output=True, check=False).returncode == -signal.SIGKILL
    left = store.results.all()
    assert all((workspace.data / r.shared / "result" / "two").exists() for r in left)
    assert len(left) == (0 if point == "clean:file-deleted" else 1)
    with start_lock.starting(workspace):  # nobody is kept from starting by the dead
        pass
    free(workspace, store, survey(workspace, store))
    assert store.results.all() == []
    assert [p for p in workspace.data.rglob("*") if p.is_file()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_run_starts_while_a_clean_deletes(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    _result(runner.workspace, runner.store, "one")
    monkeypatch.setattr(start_lock, "PATIENCE_S", 1.0)
    command = [*PROGRAM, "clean", "--all", "--apply", "--workspace", str(runner.workspace.root)]
    env = {**os.environ, "VOXELFLOW_STOP_AT": "clean:file-deleted"}
    cleaning = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    try:
        process = psutil.Process(cleaning.pid)
        wait_until(lambda: is_stopped(process))
        run, _ = runner.run(pipeline(box("a", "Make")))
        assert run.state == "done"
    finally:
        cleaning.kill()
        cleaning.communicate()
