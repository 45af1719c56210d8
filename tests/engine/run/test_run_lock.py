"""Runs whose process takes long to begin, or never does."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from building import box, pipeline
from gated_start import gated_program
from running import Runner
from waiting import wait_until

from engine.errors import ExecutionError, UsageError
from engine.run import launch, run_lock
from engine.store import liveness

pytestmark = pytest.mark.slow


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The process of a run begins once this file is there, and nothing is trusted for the time that has passed."""
    path = tmp_path / "begin"
    monkeypatch.setattr(launch, "PROGRAM", gated_program(path))
    monkeypatch.setattr(liveness, "_START_GRACE_S", 0.0)
    return path


def test_a_run_whose_process_takes_long_to_begin_is_not_lost(runner: Runner, gate: Path) -> None:
    run_id = runner.start(pipeline(box("a", "Make")))
    assert runner.store.run(run_id).state == "starting"
    gate.touch()
    # The command's patience is over, and the process lives.
    launch.wait_started(runner.workspace, runner.store, run_id, 1, timeout_s=0)
    assert runner.finish_done(run_id).attempt == 1


def test_nor_is_one_that_is_resumed(runner: Runner, gate: Path) -> None:
    gate.touch()
    run_id = runner.start(pipeline(box("a", "Make", steps=10_000, step_s=1.0)))
    wait_until(lambda: runner.store.run(run_id).attempt, "the first attempt")
    assert launch.kill_run(runner.workspace, runner.store.run(run_id))
    assert runner.store.run(run_id).state == "lost"
    gate.unlink()
    launch.resume(runner.workspace, runner.store, run_id)
    assert runner.store.run(run_id).active
    gate.touch()
    launch.wait_started(runner.workspace, runner.store, run_id, 2, timeout_s=0)
    launch.cancel(runner.store, run_id)
    assert runner.finish(run_id).state == "cancelled"


def test_one_that_was_started_this_moment_can_be_cancelled(
    runner: Runner, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the kernel sets a program up, nobody can read its arguments."""
    real, unset = psutil.Process.cmdline, iter(range(2))
    monkeypatch.setattr(
        psutil.Process, "cmdline", lambda process: [] if next(unset, None) is not None else real(process)
    )
    run_id = runner.start(pipeline(box("a", "Make")))
    assert launch.cancel(runner.store, run_id, at_once=True).state == "cancelled"
    assert next(unset, None) is None
    wait_until(lambda: launch._children[run_id].poll() is not None, "the end of its process")


def test_one_that_hangs_before_it_begins_can_be_cancelled(
    runner: Runner, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = runner.start(pipeline(box("a", "Make")))
    monkeypatch.setattr(run_lock, "USUAL_START_S", 0.0)
    assert launch.cancel(runner.store, run_id).state == "cancelled"
    wait_until(lambda: launch._children[run_id].poll() is not None, "the end of its process")
    gate.touch()
    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 2)
    runner.finish_done(run_id)


def test_one_whose_process_is_killed_before_it_begins_has_failed(runner: Runner, gate: Path) -> None:
    run_id = runner.start(pipeline(box("a", "Make")))
    launch._children[run_id].kill()
    with pytest.raises(ExecutionError, match="did not start"):
        launch.wait_started(runner.workspace, runner.store, run_id, 1)
    assert runner.store.run(run_id).state == "failed"
    runner.store.end_unbegun(run_id)
    gate.touch()
    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 1)
    runner.finish_done(run_id)


def test_nor_is_one_failed_that_was_to_be_cancelled_or_has_begun(runner: Runner, gate: Path) -> None:
    """Whichever process first finds that it has ended."""
    run_id = runner.start(pipeline(box("a", "Make")))
    runner.store.request_cancel(run_id)
    launch._children[run_id].kill()
    launch.wait_started(runner.workspace, runner.store, run_id, 1)
    run = runner.store.run(run_id)
    assert (run.state, run.attempt, run.error) == ("cancelled", 1, "the run's process had not begun")
    gate.touch()
    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 2)
    runner.store.end_unbegun(run_id)
    runner.finish_done(run_id)


def test_an_attempt_that_does_not_begin_is_cancelled_and_the_run_stays_as_it_was(runner: Runner, gate: Path) -> None:
    run_id = runner.start(pipeline(box("a", "Make")))
    assert launch.cancel(runner.store, run_id, at_once=True).state == "cancelled"
    before = runner.store.run(run_id)
    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 2, stop=lambda: True)
    assert launch.cancel(runner.store, run_id) == before
    wait_until(lambda: launch._children[run_id].poll() is not None, "the end of its process")
    gate.touch()
    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 2)
    runner.finish_done(run_id)
    with pytest.raises(UsageError, match="is not running"):
        launch.cancel(runner.store, run_id)
