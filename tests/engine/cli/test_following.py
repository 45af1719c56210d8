"""Watching: nothing missed, no false alarm, Ctrl-C counted, the wait for MLflow bounded."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save
from gated_start import gated_program
from waiting import WAIT_S

from engine.cli import following
from engine.cli.following import Interrupts, wait_for_tracking, watch
from engine.declare.events import Message, RunStateChanged
from engine.run import launch
from engine.storage.process_lock import ProcessLock
from engine.store import runs
from engine.store.liveness import is_supervised
from engine.store.runs import RunStore
from engine.workspace import Workspace


@pytest.fixture
def run_id(store: RunStore) -> str:
    return store.create_run("p", "{}", {}, "local")


def test_every_event_is_seen_once_and_the_last_moment_is_the_end(
    store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_BATCH", 2)
    store.add_events(run_id, [Message(node="a", text=str(i)) for i in range(5)])
    after = store.last_event(run_id)
    store.add_events(run_id, [Message(node="a", text=str(i)) for i in range(5, 10)])
    texts: list[str] = []
    states = []
    for moment in watch(store, run_id, after, ("message",)):
        texts += [e.text for e in moment.events if isinstance(e, Message)]
        states.append(moment.run.state)
        if len(states) == 1:
            store.add_events(run_id, [Message(node="a", text="last"), RunStateChanged(state="done")])
            store.finish_run(run_id, "done")
    assert texts == ["5", "6", "7", "8", "9", "last"]
    assert states == ["starting", "done"]


def test_a_run_that_ends_between_two_looks_is_not_lost(
    store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.begin_attempt(run_id)

    def ends_meanwhile(folder: Path, row: sqlite3.Row) -> bool:
        store.finish_run(run_id, "done")
        return is_supervised(folder, row)

    monkeypatch.setattr(runs, "is_supervised", ends_meanwhile)
    assert [m.run.state for m in watch(store, run_id, 0)] == ["done"]


def test_ctrl_c_is_counted_and_the_third_breaks_whatever_hangs() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.count == 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_counts_as_one_ctrl_c_however_often_it_comes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.count == 1
        signal.raise_signal(signal.SIGINT)
        assert interrupts.count == 2
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.count == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_wait_for_mlflow_ends_when_all_is_sent(
    workspace: Workspace, store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_TRACKER_GONE_S", 0.0)
    tracker = ProcessLock(workspace.run_folder(run_id) / "tracker.lock")
    assert tracker.acquire()
    asked = threading.Event()
    original = store.tracking.find

    def asked_for(run: str) -> tuple[int, dict[str, object], bool]:
        asked.set()
        return original(run)

    monkeypatch.setattr(store.tracking, "find", asked_for)

    def send() -> None:
        assert asked.wait(WAIT_S)
        RunStore(workspace).tracking.record(run_id, 1, {}, finished=True)

    sender = threading.Thread(target=send)
    sender.start()
    assert wait_for_tracking(workspace, store, run_id, Interrupts())
    sender.join()
    tracker.release()


def test_the_wait_for_mlflow_ends_without_a_tracker_when_time_is_up_and_at_ctrl_c(
    workspace: Workspace, store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = ProcessLock(workspace.run_folder(run_id) / "tracker.lock")
    monkeypatch.setattr(following, "_TRACKER_GONE_S", -1.0)
    assert not wait_for_tracking(workspace, store, run_id, Interrupts())
    assert tracker.acquire()
    monkeypatch.setattr(following, "_TRACKER_GONE_S", 60.0)
    monkeypatch.setattr(following, "_TRACKING_PATIENCE_S", -1.0)
    assert not wait_for_tracking(workspace, store, run_id, Interrupts())
    # Who sees an error does not wait as long.
    failed = store.create_run("p", "{}", {}, "local")
    store.record_end(failed, "failed", "it broke")
    monkeypatch.setattr(following, "_TRACKING_PATIENCE_S", 60.0)
    monkeypatch.setattr(following, "_FAILED_PATIENCE_S", -1.0)
    assert not wait_for_tracking(workspace, store, failed, Interrupts())
    monkeypatch.setattr(following, "_TRACKING_PATIENCE_S", 60.0)
    with Interrupts() as interrupts:
        # The timer is a thread; the signal reaches the main thread, as from a keyboard.
        timer = threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT))
        original = store.tracking.find

        def press(run: str) -> tuple[int, dict[str, object], bool]:
            if timer.ident is None:
                timer.start()
            return original(run)

        monkeypatch.setattr(store.tracking, "find", press)
        assert not wait_for_tracking(workspace, store, run_id, interrupts)
        timer.join()
    tracker.release()


@pytest.mark.slow
@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_run_that_is_interrupted_before_it_begins_is_cancelled(
    command: Command,
    save: Save,
    store: RunStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    detach: tuple[str, ...],
) -> None:
    class Pressed(Interrupts):
        def __enter__(self) -> Interrupts:
            self.count = 1
            return self

    monkeypatch.setattr(following, "Interrupts", Pressed)
    monkeypatch.setattr(launch, "PROGRAM", gated_program(tmp_path / "begin"))
    assert command("run", save(pipeline(box("a", "Make"))), *detach).status == 130
    (run,) = store.runs()
    assert (run.state, run.error) == ("cancelled", "the run's process had not begun")
    launch._children[run.run_id].wait(WAIT_S)
    # One that was to go on stays as it was.
    assert command("runs", "resume", run.run_id, *detach).status == 130
    assert store.run(run.run_id) == run
