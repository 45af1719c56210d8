"""Waiting for a lock that another holder has."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from waiting import wait_until

from engine.storage import process_lock
from engine.storage.process_lock import ProcessLock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "one"


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[ProcessLock]:
    """Who has tried to get a lock, and did not."""
    refused: list[ProcessLock] = []
    acquire = ProcessLock.acquire

    def noted(lock: ProcessLock, *, shared: bool = False) -> bool:
        held = acquire(lock, shared=shared)
        if not held:
            refused.append(lock)
        return held

    monkeypatch.setattr(ProcessLock, "acquire", noted)
    return refused


def test_a_lock_that_comes_free_is_had(path: Path, tries: list[ProcessLock]) -> None:
    holder, other = ProcessLock(path), ProcessLock(path)
    assert holder.acquire_within(0)
    had: list[bool] = []
    waiter = threading.Thread(target=lambda: had.append(other.acquire_within(60)))
    waiter.start()
    wait_until(lambda: tries, "that it tried in vain")
    holder.release()
    waiter.join()
    assert had == [True]
    assert not holder.acquire()
    other.release()


def test_one_that_does_not_come_free_is_not(
    path: Path, tries: list[ProcessLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_lock, "_POLL_S", 0.001)
    readers = ProcessLock(path), ProcessLock(path)
    assert all(each.acquire_within(0, shared=True) for each in readers)
    assert not ProcessLock(path).acquire_within(0.01)
    assert tries
