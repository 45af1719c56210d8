"""What is promised of every child process, shown with children that are a few lines each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import psutil
import pytest
from pydantic_core import PydanticSerializationError
from waiting import WAIT_S, has_ended, is_stopped, wait_until

from engine.declare.events import Artifact, Event, Failure, Message, Progress
from engine.errors import (
    Cancelled,
    DataError,
    ExecutionError,
    StaleInput,
    TooManyBadFiles,
    UsageError,
    VoxelflowError,
)
from engine.processes.child import Child, same_modules
from engine.processes.messages import Listening, Result, error_of, failure_of, from_line, to_line

PROGRAM = """
import errno, os, signal, subprocess, sys, time
from engine.errors import DataError
from engine.declare.events import Message
from engine.processes.messages import Listening
from engine.processes.parent import serve
def work(parent):
{body}
serve(int(sys.argv[-1]), work)
"""
TEXT = "x" * 3_000_000
"""More than any pipe takes."""


def child(tmp_path: Path, body: str, *, session: bool = False) -> Child:
    """A process whose work is `body`, the lines of a function with the argument `parent`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    arguments = ["-P", "-c", PROGRAM.format(body=lines)]
    return Child(arguments, tmp_path / "log", environment=same_modules({}), session=session)


def run(tmp_path: Path, body: str) -> tuple[list[Event], Child]:
    """All that it sends, once it has ended."""
    with child(tmp_path, body) as made:
        return list(made.messages()), made


@pytest.mark.slow
def test_its_result_comes_last_and_what_it_prints_goes_to_the_log(tmp_path: Path) -> None:
    sent, made = run(
        tmp_path,
        "print('printed')\nos.system('echo by a shell')\nparent.send(Message(text='Grüße'))\nreturn 'all'",
    )
    first, last = sent
    assert isinstance(first, Message)
    assert isinstance(last, Result)
    assert (first.text, last.value) == ("Grüße", "all")
    assert sorted((tmp_path / "log").read_text().split("\n")) == ["", "by a shell", "printed"]
    assert (made.exit_status, made.failure()) == (0, None)
    assert not psutil.pid_exists(made.pid)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("raise DataError('v.npy is cut short', hint='Mend it.', parameter='p')", "data", "v.npy is cut short"),
        ("raise KeyError(3)", "task-failed", "KeyError: 3"),
        ("sys.exit('no')", "task-failed", "SystemExit: no"),
        ("raise OSError(errno.ENOSPC, 'full', '/d/f')", "disk-full", "no space left on"),
    ],
)
def test_an_error_is_reported_once_and_its_traceback_is_in_the_log(
    tmp_path: Path, body: str, code: str, message: str
) -> None:
    sent, made = run(tmp_path, body)
    assert sent == [made.failure()]
    failure = made.failure()
    assert failure is not None
    assert (failure.code, made.exit_status) == (code, 1)
    assert message in failure.message
    assert "Traceback" in failure.details
    assert "Traceback" in (tmp_path / "log").read_text()
    if code == "data":
        error = error_of(failure)
        assert (type(error), error.message, error.hint, error.parameter) == (
            DataError,
            "v.npy is cut short",
            "Mend it.",
            "p",
        )


@pytest.mark.parametrize("kind", [UsageError, DataError, StaleInput, TooManyBadFiles, Cancelled, ExecutionError])
def test_errors_keep_their_class(kind: type[VoxelflowError]) -> None:
    assert type(error_of(Failure(code=kind.code, message="m"))) is kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
        ("os.abort()", "was ended by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 2)", "was ended by signal "),
        ("os._exit(7)", "ended with exit status 7"),
        ("os._exit(0)", "ended with exit status 0"),
    ],
)
def test_one_that_dies_is_reported_with_its_end_and_the_end_of_its_log(tmp_path: Path, end: str, how: str) -> None:
    body = "print('x' * 100_000)\nprint('the last line', flush=True)\n"
    body += f"os.write(int(sys.argv[-1]), b'{{\"event\": ')\n{end}"
    sent, made = run(tmp_path, body)
    failure = made.failure()
    assert failure is not None
    assert failure.code == "worker-died"
    assert how in failure.message
    assert ("memory" in failure.hint) == ("SIGKILL" in how)
    # As Arrow ends the process for some damaged footers of Parquet.
    assert ("voxelflow verify" in failure.hint) == ("SIGABRT" in how)
    assert failure.details.endswith("the last line\n")
    assert len(failure.details) < 10_000
    # The message that it was about to send.
    assert [event.text for event in sent if isinstance(event, Message)] == ["the process sent an unreadable message"]


@pytest.mark.slow
def test_lines_and_messages_of_any_length(tmp_path: Path) -> None:
    with child(tmp_path, "return str(parent.line() == b'x' * 3_000_000) + parent.line().decode() * 2") as made:
        made.send(TEXT)
        made.send(TEXT)
        (result,) = made.messages()
    assert isinstance(result, Result)
    assert result.value == "True" + TEXT * 2


@pytest.mark.slow
def test_what_it_starts_does_not_read_what_is_meant_for_it(tmp_path: Path) -> None:
    body = "read = subprocess.run(['cat'], capture_output=True).stdout\nparent.send(Message(text=repr(read)))\n"
    with child(tmp_path, body + "return parent.line().decode()") as made:
        made.send("a line")
        message, result = made.messages()
    assert isinstance(message, Message)
    assert isinstance(result, Result)
    assert (message.text, result.value) == ("b''", "a line")


@pytest.mark.slow
def test_one_that_does_not_read_keeps_nobody_waiting(tmp_path: Path) -> None:
    with child(tmp_path, "parent._lines.get = None\nos.kill(os.getpid(), signal.SIGSTOP)") as made:
        wait_until(lambda: is_stopped(psutil.Process(made.pid)))
        made.send(TEXT)
        made.send("cancel")
        assert made.end() == -9
        made.send("too late")
        made.kill()


@pytest.mark.slow
@pytest.mark.parametrize("heeds", [True, False])
def test_a_request_then_a_kill(tmp_path: Path, heeds: bool) -> None:
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nparent.send(Message(text='ready'))\n"
    body += "return parent.line().decode()" if heeds else "time.sleep(600)"
    with child(tmp_path, body) as made:
        messages = made.messages(lambda: time.monotonic() < until)
        until = time.monotonic() + WAIT_S
        next(messages)
        until = time.monotonic() + (WAIT_S if heeds else 0.2)
        made.send("cancel")
        left = list(messages)
        status = made.end()
    assert (status, len(left)) == ((0, 1) if heeds else (-9, 0))
    assert not psutil.pid_exists(made.pid)


Leaving = Literal["same group", "own group", "own session"]
LEAVE: dict[Leaving, str] = {
    "same group": "subprocess.Popen(['sleep', '600'])",
    "own group": "subprocess.Popen(['sleep', '600'], process_group=0)",
    # A fork has all handles, the message pipe too.
    "own session": "import types\npid = os.fork()\nif pid == 0:\n    os.setsid()\n    time.sleep(600)\n"
    "while os.getsid(pid) != pid:\n    time.sleep(0.01)\nleft = types.SimpleNamespace(pid=pid)",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("session", "kind", "ends", "lives"),
    [
        (False, "same group", "killed", False),
        (True, "own group", "by itself", False),
        (False, "own session", "by itself", True),
        (True, "own session", "killed", True),
    ],
)
def test_what_it_started_ends_with_it_or_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: bool, kind: Leaving, ends: str, lives: bool
) -> None:
    monkeypatch.setattr("engine.processes.child._LOOK_MS", 50)
    body = LEAVE[kind] if kind == "own session" else f"left = {LEAVE[kind]}"
    body += "\nparent.send(Listening(port=1, pid=left.pid))\n"
    body += "time.sleep(600)" if ends == "killed" else "return ''"
    with child(tmp_path, body, session=session) as made:
        started = next(made.messages())
        assert isinstance(started, Listening)
        left = psutil.Process(started.pid)
        if ends == "by itself":
            assert len(list(made.messages())) == 1
    try:
        if lives:
            assert not has_ended(left)
        else:
            wait_until(lambda: has_ended(left))
    finally:
        if left.is_running():
            left.kill()
    assert not psutil.pid_exists(made.pid)


def test_one_that_cannot_be_started_leaves_no_handle_open(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError):
        Child(["-c", ""], tmp_path / "no folder" / "log")
    assert psutil.Process().num_fds() == before


@pytest.mark.slow
def test_ended_children_leave_no_handle_and_no_thread(tmp_path: Path) -> None:
    process = psutil.Process()
    before = process.num_fds(), process.num_threads()
    for _ in range(3):
        run(tmp_path, "return ''")

    # The writing thread closes its pipe after the end was reported.
    wait_until(lambda: process.num_fds() <= before[0] and process.num_threads() <= before[1])


def test_the_report_on_an_error_has_its_own_lines_where_none_is_handled() -> None:
    try:
        raise DataError("v.npy is gone")
    except DataError as exc:
        kept = exc
    details = failure_of(kept).details
    assert "raise DataError" in details
    assert details.endswith("DataError: v.npy is gone\n")


@pytest.mark.parametrize(
    "message",
    [
        Message(text="reading v\udcff.npy"),
        Failure(code="data", message="v\udcff.npy is gone", hint="Mend v\udcff.npy.", details="v\udcff.npy"),
        Progress(done=1, label="v\udcff.npy"),
    ],
)
def test_names_of_files_that_are_no_text_are_escaped_for_people(message: Event) -> None:
    line = to_line(message)
    assert rb"v\\udcff.npy" in line
    assert type(from_line(line)) is type(message)


def test_a_path_that_is_no_text_is_not_changed() -> None:
    with pytest.raises(PydanticSerializationError):
        to_line(Artifact(role="file", name="v", path="/d/v\udcff.npy"))
