"""The heartbeat of a supervisor beside a long step."""

from __future__ import annotations

import errno
import threading

import pytest
from waiting import WAIT_S, wait_until

from engine.errors import FileError
from engine.run import heartbeat
from engine.run.heartbeat import Heartbeat
from engine.store.runs import RunStore


def test_a_beat_that_fails_is_not_the_last_one_of_a_long_step(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the step has all file handles for a moment: the run would count as stuck, and might be killed."""
    run_id = store.create_run("p", "{}", {}, "local")
    failures = [FileError("too many open files to open runs.db"), OSError(errno.EIO, "once more")]
    beaten = threading.Event()
    beat = store.heartbeat

    def once_it_can(of_run: str) -> bool:
        if failures:
            raise failures.pop()
        beaten.set()
        return beat(of_run)

    monkeypatch.setattr(store, "heartbeat", once_it_can)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_S", 0.01)
    with Heartbeat(store, run_id).long_step():
        assert beaten.wait(WAIT_S)
    # The thread is in its last beat: the store must outlive that.
    wait_until(lambda: "heartbeat" not in [thread.name for thread in threading.enumerate()], "the end of the beats")
