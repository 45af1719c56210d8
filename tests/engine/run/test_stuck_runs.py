"""A run whose supervisor is alive and does nothing: it is shown as stuck, cancel ends it, resume finishes it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from running import Runner
from waiting import WAIT_S, has_ended, is_stopped, wait_until

from engine.cli.following import Interrupts, Moment, follow
from engine.cli.history import show
from engine.errors import ExecutionError
from engine.history.details import failure_lines
from engine.run import heartbeat, launch
from engine.storage.process_lock import ProcessLock
from engine.store.liveness import STUCK_AFTER_S
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build.status import run_info
from ui.runs.history import result_of


def _age(workspace: Workspace, run_id: str, seconds: float) -> None:
    """Let the last turn of the supervisor's loop lie so far back: nobody wants to wait for it."""
    with sqlite3.connect(workspace.database) as db:
        db.execute("UPDATE pulses SET at = at - ? WHERE run_id = ?", (seconds, run_id))
    db.close()


@pytest.fixture
def freeze(runner: Runner) -> Iterator[Callable[[str], int]]:
    """Stop the process of a run; gives its id."""
    stopped: list[psutil.Process] = []

    def stop(run_id: str) -> int:
        process = psutil.Process(runner.store.run(run_id).pid)
        stopped.append(process)
        process.suspend()
        wait_until(lambda: is_stopped(process))
        _age(runner.workspace, run_id, STUCK_AFTER_S + 1)
        return process.pid

    yield stop
    for process in stopped:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.slow
def test_a_stuck_supervisor_is_shown_cancelled_and_resumed(
    runner: Runner, freeze: Callable[[str], int], probe_gate: Path
) -> None:
    run_id, worker = runner.start_slow()
    assert runner.store.run(run_id).state == "running"
    pid = freeze(run_id)
    # Someone asked while it seemed to run; it never read that.
    runner.store.request_cancel(run_id)
    run = runner.store.run(run_id)
    assert (run.state, run.active) == ("stuck", True)
    assert launch.cancel(runner.store, run_id).state == "cancelled"
    wait_until(lambda: has_ended(pid) and has_ended(worker), "that both are gone")
    run = runner.store.run(run_id)
    assert run.state == "cancelled"
    assert "stuck" in run.error
    assert {n: t.state for n, t in runner.tasks(run_id).items()} == {
        "first": "done", "slow": "cancelled", "end": "cancelled",
    }  # fmt: skip
    probe_gate.touch()
    run, tasks = runner.resume(run_id)
    assert (run.state, run.error) == ("done", "")
    assert (tasks["first"].attempt, tasks["slow"].attempt) == (1, 2)
    assert runner.text(tasks["end"]) == "made+slow"


@pytest.mark.slow
def test_a_supervisor_whose_worker_is_dead_and_not_reaped_is_cancelled(
    runner: Runner, freeze: Callable[[str], int], probe_gate: Path
) -> None:
    run_id, worker = runner.start_slow()
    pid = freeze(run_id)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: psutil.Process(worker).status() == psutil.STATUS_ZOMBIE)
    assert launch.cancel(runner.store, run_id).state == "cancelled"
    wait_until(lambda: has_ended(pid))


def _supervised(store: RunStore, workspace: Workspace) -> tuple[str, ProcessLock]:
    run_id = store.create_run("p", "{}", {}, "local")
    lock = ProcessLock(workspace.run_folder(run_id) / "lock")
    assert lock.acquire()
    store.begin_attempt(run_id)
    return run_id, lock


def test_a_run_is_stuck_when_its_loop_has_not_turned(store: RunStore, workspace: Workspace) -> None:
    run_id, lock = _supervised(store, workspace)
    assert store.run(run_id).state == "running"
    _age(workspace, run_id, STUCK_AFTER_S - 1)
    assert store.run(run_id).state == "running"
    _age(workspace, run_id, 2)
    assert store.run(run_id).state == "stuck"
    assert [r.state for r in store.runs()] == ["stuck"]
    store.heartbeat(run_id)
    assert store.run(run_id).state == "running"
    _age(workspace, run_id, STUCK_AFTER_S + 1)
    lock.release()
    assert store.run(run_id).state == "lost"


def test_waiting_for_a_stuck_run_ends(store: RunStore, workspace: Workspace, monkeypatch) -> None:
    monkeypatch.setattr(launch, "_STUCK_S", 0.0)
    run_id, lock = _supervised(store, workspace)
    _age(workspace, run_id, STUCK_AFTER_S + 1)
    with pytest.raises(ExecutionError, match="is stuck"):
        list(launch.ended(workspace, store, run_id))
    lock.release()


class _Notes:
    """A view that keeps what is reported beside the run's own news, and lets the run end then."""

    kinds: tuple[str, ...] = ()

    def __init__(self, then: Callable[[], object]) -> None:
        self.notes: list[str] = []
        self._then = then

    def __enter__(self) -> _Notes:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, moment: Moment) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._then()


def test_every_view_of_a_stuck_run_shows_what_to_do(
    store: RunStore, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, lock = _supervised(store, workspace)
    _age(workspace, run_id, STUCK_AFTER_S + 1)
    run, advice = store.run(run_id), f"`voxelflow runs cancel {run_id}`"
    show(workspace, store, run)
    shown = capsys.readouterr().out
    assert "stuck after" in shown
    assert advice in shown
    assert failure_lines(run, []) == [
        (
            "The run's process lives and has done nothing for over 35 s.",
            "Cancel ends it. Then Resume goes on from what is done.",
        ),
    ]
    assert "cancel the run, then resume it" in result_of(run, [])
    assert not run_info(replace(run, cancel=True)).cancelling  # else its button could not be pressed
    view = _Notes(then=lock.release)
    with Interrupts() as interrupts:
        assert follow(store, run_id, view, interrupts).run.state == "lost"
    assert [advice in note for note in view.notes] == [True]


def test_a_clock_that_jumps_makes_no_run_stuck(store: RunStore, workspace: Workspace, monkeypatch) -> None:
    """As after a laptop's sleep, or when the time is set."""
    run_id, lock = _supervised(store, workspace)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10 * 3600)
    assert store.run(run_id).state == "running"
    lock.release()


def test_what_other_machines_and_dead_processes_left_is_not_called_stuck(store: RunStore, workspace: Workspace) -> None:
    run_id, lock = _supervised(store, workspace)
    _age(workspace, run_id, STUCK_AFTER_S + 1)
    with sqlite3.connect(workspace.database) as db:
        db.execute("UPDATE runs SET host = 'elsewhere'")
    assert store.run(run_id).state == "running"
    # A resumed run, between its lock and its first entry: the row still names the process before.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with sqlite3.connect(workspace.database) as db:
        db.execute("UPDATE runs SET host = (SELECT ?), pid = ?", (os.uname().nodename, gone.pid))
    db.close()
    assert store.run(run_id).state == "running"
    lock.release()


def test_cancel_of_a_stuck_run_ends_no_other_process(store: RunStore, workspace: Workspace) -> None:
    """The row names a process that is not the run's: here this one."""
    run_id, lock = _supervised(store, workspace)
    _age(workspace, run_id, STUCK_AFTER_S + 1)
    assert store.run(run_id).pid == os.getpid()
    with pytest.raises(Exception, match=f"process {os.getpid()}"):
        launch.cancel(store, run_id)
    lock.release()


@pytest.mark.slow
def test_a_queue_that_can_wait_for_ever_is_refused_by_the_linter() -> None:
    for use in (
        "import queue\n\nqueue.SimpleQueue()\n",
        "from queue import SimpleQueue\n\nSimpleQueue()\n",
        "import _queue\n\n_queue.SimpleQueue()\n",
        "import multiprocessing\n\nmultiprocessing.SimpleQueue()\n",
    ):
        command = [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--output-format=concise",
            "--stdin-filename",
            "engine/x.py",
            "-",
        ]
        root = Path(__file__).parents[3]
        done = subprocess.run(command, input=use, capture_output=True, text=True, cwd=root, check=False)
        assert "TID251" in done.stdout, done.stdout + done.stderr


def _pulse(store: RunStore, run_id: str) -> float:
    with sqlite3.connect(store.workspace.database) as db:
        found: float = db.execute("SELECT at FROM pulses WHERE run_id = ?", (run_id,)).fetchone()[0]
    db.close()
    return found


def test_a_long_step_beats_but_not_for_ever(store: RunStore, workspace: Workspace, monkeypatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_S", 0.01)
    run_id, lock = _supervised(store, workspace)
    with heartbeat.Heartbeat(store, run_id).long_step():
        for _ in range(2):
            before = _pulse(store, run_id)
            wait_until(lambda: _pulse(store, run_id) != before)  # noqa: B023
    monkeypatch.setattr(heartbeat, "LONGEST_STEP_S", 0.0)
    with heartbeat.Heartbeat(store, run_id).long_step():
        beating = [t for t in threading.enumerate() if t.name == "heartbeat"]
        for thread in beating:
            thread.join(WAIT_S)
            assert not thread.is_alive()
    lock.release()
