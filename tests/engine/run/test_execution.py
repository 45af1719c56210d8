"""Runs for real: supervisor and workers as processes, killed, cancelled and resumed."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from building import box, pipeline
from running import Runner
from waiting import has_ended, wait_until

from engine.declare.events import Facts, Failure, Message, Progress, TaskStateChanged
from engine.document.plan import Choice
from engine.errors import UsageError
from engine.run import launch

pytestmark = pytest.mark.slow
forked = pytest.mark.usefixtures("forked_runs")
"""For what is not about the processes themselves."""


@forked
def test_a_run_makes_what_the_pipeline_says_and_the_second_finds_it(runner: Runner) -> None:
    document = pipeline(
        box("a", "Make", text="left right", steps=3),
        box("b", "Halve"),
        box("c", "Join"),
        wires="a.out>b.whole b.right>c.first b.left>c.second",
    )
    run, tasks = runner.run(document)
    assert run.state == "done"
    assert runner.text(tasks["c"]) == "right+left "
    assert {t.state for t in tasks.values()} == {"done"}
    log = runner.workspace.log_file(run.run_id, "a")
    assert log.exists()
    kinds = [type(e) for _, e in runner.store.events(run.run_id)]
    assert Message in kinds
    assert tasks["a"].progress == Progress(
        node="a", time=tasks["a"].progress.time, done=3, total=3, unit="steps", rate=tasks["a"].progress.rate
    )
    # As a kill leaves them that strikes between recording a result and deleting the half-done work.
    for result in runner.store.results.all():
        (runner.workspace.scratch / result.fingerprint / "half").mkdir(parents=True)
    again, tasks = runner.run(document)
    assert again.state == "done"
    assert {t.state for t in tasks.values()} == {"cached"}
    assert runner.text(tasks["c"]) == "right+left "
    # Nothing half-done is left.
    assert list(runner.workspace.scratch.iterdir()) == []


def test_each_task_reports_the_peak_memory_of_its_process(runner: Runner) -> None:
    run, _ = runner.run(pipeline(box("a", "Make"), box("b", "Halve"), wires="a.out>b.whole"))
    held = {e.node: e.values["peak_memory_mb"] for _, e in runner.store.events(run.run_id) if isinstance(e, Facts)}
    assert held.keys() == {"a", "b"}
    assert all(isinstance(megabytes, float) and megabytes > 20 for megabytes in held.values())


@forked
def test_an_error_names_the_node_skips_what_follows_and_lets_other_branches_end(runner: Runner) -> None:
    document = pipeline(
        box("bad", "Fail", how="told"), box("after", "Join"), box("other", "Make"), wires="bad.out>after.first"
    )
    run, tasks = runner.run(document)
    assert run.state == "failed"
    assert run.error == "bad: the probe was told to fail. Tell it otherwise."
    assert (tasks["bad"].state, tasks["after"].state, tasks["other"].state) == ("failed", "skipped", "done")
    assert tasks["bad"].failure is not None
    assert tasks["bad"].failure["parameter"] == "how"
    assert "VoxelflowError" in tasks["bad"].failure["details"]
    log = runner.workspace.log_file(run.run_id, "bad").read_text()
    assert log.splitlines()[-1] == "error: the probe was told to fail. Tell it otherwise."
    assert "Traceback" not in log


@forked
def test_the_traceback_of_an_error_with_a_message_is_in_the_log_on_request(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXELFLOW_TRACEBACK", "1")
    run, _ = runner.run(pipeline(box("bad", "Fail", how="told")))
    log = runner.workspace.log_file(run.run_id, "bad").read_text()
    assert "Traceback" in log
    assert log.rstrip().endswith("the probe was told to fail")


@pytest.mark.parametrize(
    ("how", "message"), [("kill", "SIGKILL"), ("exit", "exit status 7"), ("error", "an error of its own")]
)
def test_a_node_that_dies_fails_its_task_and_nothing_else(runner: Runner, how: str, message: str) -> None:
    run, tasks = runner.run(pipeline(box("bad", "Fail", how=how), box("good", "Make")))
    assert run.state == "failed"
    assert tasks["good"].state == "done"
    assert message in tasks["bad"].reason


@forked
def test_retries_try_again(runner: Runner, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    run, tasks = runner.run(pipeline(box("a", "Fail", marker=str(marker), times=1, how="kill", retries=1)))
    assert run.state == "done"
    assert (tasks["a"].attempt, tasks["a"].failure) == (2, None)
    assert runner.text(tasks["a"]) == "at last"
    run, tasks = runner.run(pipeline(box("b", "Fail", marker=str(tmp_path / "other"), times=5, retries=1)))
    assert (run.state, tasks["b"].attempt) == ("failed", 2)


def test_a_timeout_stops_a_task_that_hangs(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    run, tasks = runner.run(pipeline(box("a", "Make", steps=10_000, step_s=0.05, timeout_s=0.5)))
    assert run.state == "failed"
    assert "did not finish within 0.5 s" in tasks["a"].reason


@forked
def test_cancel_stops_a_run_and_resume_finishes_it(runner: Runner, probe_gate: Path) -> None:
    run_id, pid = runner.start_slow()
    launch.cancel(runner.store, run_id)
    run = runner.finish(run_id)
    assert run.state == "cancelled"
    wait_until(lambda: has_ended(pid))
    with pytest.raises(UsageError, match="not running"):
        launch.cancel(runner.store, run_id)
    probe_gate.touch()
    run, tasks = runner.resume(run_id)
    assert run.state == "done"
    assert run.attempt == 2
    assert tasks["first"].attempt == 1
    assert runner.text(tasks["end"]) == "made+slow"
    with pytest.raises(UsageError, match="is done"):
        launch.resume(runner.workspace, runner.store, run_id)


@forked
def test_what_is_half_done_is_saved_on_request(runner: Runner) -> None:
    run_id = runner.start(pipeline(box("slow", "Make", steps=10_000, step_s=0.05)))
    runner.wait_for_progress(run_id, "slow")
    assert launch.request_save(runner.workspace, runner.store, run_id) == ["slow"]
    messages = wait_until(lambda: [e.text for _, e in runner.store.events(run_id) if isinstance(e, Message)])
    assert messages == ["saved"]
    assert runner.store.run(run_id).active
    launch.cancel(runner.store, run_id)
    runner.finish(run_id)
    with pytest.raises(UsageError, match="no task of run"):
        launch.request_save(runner.workspace, runner.store, run_id)


def test_a_task_that_ignores_the_request_is_killed_after_the_grace(runner: Runner) -> None:
    run_id = runner.start(pipeline(box("deaf", "Fail", how="hang")))
    pid = runner.wait_for(run_id, "deaf", "running").pid
    assert pid is not None
    launch.cancel(runner.store, run_id)
    assert runner.finish(run_id).state == "cancelled"
    wait_until(lambda: has_ended(pid))


def test_a_killed_run_is_lost_its_workers_end_and_resume_finishes(runner: Runner, probe_gate: Path) -> None:
    run_id, worker = runner.start_slow()
    run = runner.store.run(run_id)
    with pytest.raises(UsageError, match="still running"):
        launch.resume(runner.workspace, runner.store, run_id)
    assert launch.kill_run(runner.workspace, run)
    wait_until(lambda: has_ended(worker))
    assert runner.store.run(run_id).state == "lost"
    probe_gate.touch()
    run, tasks = runner.resume(run_id)
    assert run.state == "done"
    assert tasks["first"].attempt == 1
    assert tasks["slow"].attempt == 2
    assert runner.text(tasks["end"]) == "made+slow"


@forked
@pytest.mark.parametrize("point", ["supervisor:before-result", "supervisor:after-result"])
def test_a_kill_around_the_record_of_a_result(runner: Runner, point: str, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "once"))
    run_id = runner.start(pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first"))
    assert runner.finish(run_id).state == "lost"
    run, tasks = runner.resume(run_id)
    assert run.state == "done"
    assert runner.text(tasks["b"]) == "made"
    assert len(runner.store.results.all()) == 2


@forked
def test_branches_run_side_by_side(runner: Runner, probe_gate: Path) -> None:
    run_id = runner.start(pipeline(*(box(f"n{i}", "Make", text="slow", steps=1 + i) for i in range(3))))
    for i in range(3):  # none can end yet
        runner.wait_for(run_id, f"n{i}", "running")
    probe_gate.touch()
    assert runner.finish(run_id).state == "done"


@forked
def test_two_runs_of_the_same_work_do_it_once(runner: Runner, probe_gate: Path) -> None:
    document = pipeline(box("slow", "Make", text="slow"))
    one = runner.start(document)
    runner.wait_for(one, "slow", "running")
    two = runner.start(document)
    runner.wait_for(two, "slow", "waiting")
    probe_gate.touch()
    assert runner.finish(one).state == "done"
    assert runner.finish(two).state == "done"
    assert runner.tasks(two)["slow"].state == "cached"
    states = [e.state for _, e in runner.store.events(two) if isinstance(e, TaskStateChanged)]
    assert states == ["waiting", "cached"] or states == ["queued", "waiting", "cached"]


@forked
@pytest.mark.parametrize("fresh", [False, True])
def test_work_that_another_run_did_after_the_planning_is_not_done_again(
    runner: Runner, probe_gate: Path, fresh: bool
) -> None:
    document = pipeline(box("slow", "Make", text="slow"))
    one = runner.start(document)
    runner.wait_for(one, "slow", "running")
    choice = Choice(fresh=fresh)
    ready = launch.prepare(document, runner.catalog, runner.workspace, runner.store, choice=choice, fresh_suffix="f")
    assert [t.action for t in ready.plan.tasks] == ["run"]
    probe_gate.touch()
    assert runner.finish(one).state == "done"
    two = launch.begin(document, ready.plan, runner.workspace, runner.store, {})
    assert runner.finish(two).state == "done"
    assert runner.tasks(two)["slow"].state == ("done" if fresh else "cached")


@forked
def test_more_of_an_extendable_parameter_continues(runner: Runner) -> None:
    _, tasks = runner.run(pipeline(box("g", "Grow", epochs=2)))
    assert runner.text(tasks["g"]) == "0->2"
    _, tasks = runner.run(pipeline(box("g", "Grow", epochs=5)))
    assert runner.text(tasks["g"]) == "2->5"
    _, tasks = runner.run(pipeline(box("g", "Grow", epochs=3)))
    assert runner.text(tasks["g"]) == "2->3"


@forked
def test_work_on_a_growing_folder_sees_what_it_made_before(runner: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    document = pipeline(box("c", "Count", folder=str(folder)))
    runner.run(document)
    (folder / "b.txt").write_text("x")
    _, tasks = runner.run(document)
    assert tasks["c"].reason == "folder gained 1 file"
    logs = list(runner.workspace.data.glob("Count/*/log"))
    assert [p.read_text() for p in logs] == ["1 previous=None\n2 previous=1\n"]


@forked
def test_fresh_does_everything_again_elsewhere(runner: Runner) -> None:
    document = pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first")
    _, before = runner.run(document)
    run, after = runner.run(document, fresh=True)
    assert run.state == "done"
    assert {t.state for t in after.values()} == {"done"}
    assert after["a"].outputs["out"].uri != before["a"].outputs["out"].uri
    _, again = runner.run(document)
    assert {t.state for t in again.values()} == {"cached"}
    assert again["a"].outputs == after["a"].outputs


@forked
def test_failures_leave_a_trace_in_the_events(runner: Runner) -> None:
    run, _ = runner.run(pipeline(box("bad", "Fail", how="kill")))
    failures = [e for _, e in runner.store.events(run.run_id, kinds=("failure",))]
    assert [type(f) for f in failures] == [Failure]
    assert "resume" in failures[0].hint  # type: ignore[attr-defined]


def test_a_signal_to_the_runs_process_cancels_it(runner: Runner) -> None:
    run_id = runner.start(pipeline(box("slow", "Make", steps=10_000, step_s=0.05)))
    runner.wait_for_progress(run_id, "slow")
    pid = runner.store.run(run_id).pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    assert runner.finish(run_id).state == "cancelled"


@forked
def test_the_time_between_two_attempts_is_neither_counted_nor_idle(runner: Runner, tmp_path: Path) -> None:
    document = pipeline(box("f", "Fail", how="told", marker=str(tmp_path / "marker"), times=1))
    failed, _ = runner.run(document)
    assert failed.ended is not None
    with closing(sqlite3.connect(runner.workspace.database)) as db, db:  # as if the first had been an hour before
        db.execute("UPDATE runs SET started = started - 3600, ended = ended - 3600")
    done, _ = runner.resume(failed.run_id)
    assert (done.state, done.attempt) == ("done", 2)
    assert done.paused_s >= 3600
    assert done.seconds is not None
    assert done.seconds < 3600
    assert done.idle_s <= done.measured_s <= done.seconds
