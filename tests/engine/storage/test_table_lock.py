from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import wait_for_line

from engine.errors import Cancelled
from engine.storage import table_lock as module
from engine.storage.table_lock import INTERNALS, read_holder, table_lock

_HOLD = """
import sys
sys.path.insert(0, {root!r})
from engine.storage.table_lock import table_lock
with table_lock({table!r}) as token:
    print(token, flush=True)
    sys.stdin.readline()
"""


@contextmanager
def _held_elsewhere(table: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the table's lock until it is asked to let go, or killed."""
    code = _HOLD.format(root=str(Path(__file__).parents[3]), table=str(table))
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        wait_for_line(process, r"^\d+$")
        yield process
    finally:
        process.kill()
        process.communicate()


def test_tokens_count_up(tmp_path: Path) -> None:
    tokens = []
    for _ in range(3):
        with table_lock(tmp_path / "t") as token:
            tokens.append(token)
    assert tokens == [1, 2, 3]


def test_a_lost_record_does_not_give_a_token_twice(tmp_path: Path) -> None:
    with table_lock(tmp_path) as first:
        pass
    shutil.rmtree(tmp_path / INTERNALS)
    with table_lock(tmp_path, floor=lambda: first) as second:
        assert second > first


def test_a_damaged_record_is_replaced(tmp_path: Path) -> None:
    with table_lock(tmp_path):
        pass
    (tmp_path / INTERNALS / "writer.json").write_text("{")
    assert read_holder(tmp_path) is None
    with table_lock(tmp_path, floor=lambda: 7) as token:
        assert token == 8
    assert read_holder(tmp_path) is not None


def test_the_floor_is_asked_while_the_lock_is_held(tmp_path: Path) -> None:
    def floor() -> int:
        # A log that is read before the lock is held may lack the newest commits.
        assert not module.ProcessLock(tmp_path / INTERNALS / "lock").acquire()
        return 0

    with table_lock(tmp_path, floor=floor):
        pass


def test_the_second_waits_for_the_first_and_says_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAY_AFTER_S", 0.0)
    said: list[str] = []
    with _held_elsewhere(tmp_path) as other:

        def let_go(text: str) -> None:
            said.append(text)
            assert other.stdin is not None
            other.stdin.write("\n")
            other.stdin.flush()

        with table_lock(tmp_path, on_wait=let_go) as token:
            assert token == 2
            assert other.wait() == 0
        assert f"process {other.pid} on " in said[0]
        assert str(tmp_path) in said[0]
        assert len(said) == 1
    holder = read_holder(tmp_path)
    assert holder is not None
    assert holder.pid == os.getpid()


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with _held_elsewhere(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with table_lock(tmp_path) as token:
            assert token == 2


@pytest.mark.slow
def test_waiting_can_be_cancelled(tmp_path: Path) -> None:
    asked = threading.Event()

    def cancelled() -> bool:
        asked.set()
        return True

    with (
        _held_elsewhere(tmp_path),
        pytest.raises(Cancelled, match="waiting for the table"),
        table_lock(tmp_path, is_cancelled=cancelled),
    ):
        raise AssertionError("two processes hold one lock")
    assert asked.is_set()


def test_a_free_lock_is_taken_without_asking(tmp_path: Path) -> None:
    def no(*_: object) -> bool:
        raise AssertionError("nobody had to wait")

    with table_lock(tmp_path, on_wait=no, is_cancelled=no) as token:
        assert token == 1


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(KeyError), table_lock(tmp_path):
        raise KeyError
    with table_lock(tmp_path) as token:
        assert token == 2
