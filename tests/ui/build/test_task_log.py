from __future__ import annotations

from pathlib import Path

import pytest

from engine.declare.events import Failure, Message
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build.task_log import FIRST_LINES, LINES_A_TURN, LONGEST_LINE, TaskLog


@pytest.fixture
def run_id(store: RunStore) -> str:
    return store.create_run("p", "{}", {}, "local")


@pytest.fixture
def path(workspace: Workspace, run_id: str) -> Path:
    return workspace.log_file(run_id, "a")


@pytest.fixture
def log(workspace: Workspace, store: RunStore, run_id: str) -> TaskLog:
    return TaskLog(workspace, store, run_id, "a")


def _append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def _texts(log: TaskLog, *, ended: bool = False) -> list[str]:
    return [line.text for line in log.lines(ended=ended)]


def test_what_is_written_comes_line_by_line_and_the_last_when_the_task_has_ended(log: TaskLog, path: Path) -> None:
    assert _texts(log) == []
    _append(path, "one\ntw")
    assert _texts(log) == ["one"]
    assert _texts(log) == []
    _append(path, "o\nthree")
    assert _texts(log) == ["two"]
    assert _texts(log, ended=True) == ["three"]
    assert _texts(log, ended=True) == []


def test_messages_have_a_level_and_the_time_at_which_they_were_sent(
    log: TaskLog, path: Path, store: RunStore, run_id: str
) -> None:
    store.add_events(
        run_id,
        [
            Message(node="b", text="of another", time=5),
            Message(node="a", text="first", time=10),
            Message(node="a", level="warning", text="two\nlines", time=11),
        ],
    )
    _append(path, "info: first\nwarning: two\nlines\nplain: text\n")
    lines = log.lines(ended=False)
    assert [(line.time, line.level, line.text) for line in lines] == [
        (10, "info", "first"),
        (11, "warning", "two"),
        (None, "output", "lines"),
        (None, "output", "plain: text"),
    ]


def test_a_message_waits_one_turn_for_its_time_and_keeps_the_order(
    log: TaskLog, path: Path, store: RunStore, run_id: str
) -> None:
    _append(path, "before\ninfo: late\nafter\n")
    assert _texts(log) == ["before"]
    store.add_events(run_id, [Message(node="a", text="late", time=10)])
    assert [(line.time, line.text) for line in log.lines(ended=False)] == [(10, "late"), (None, "after")]
    # One of which there is never an event: a program that writes so by itself.
    _append(path, "error: by itself\n")
    assert _texts(log) == []
    [line] = log.lines(ended=False)
    assert (line.time, line.level, line.text) == (None, "error", "by itself")


def test_why_a_task_failed_is_its_last_line(log: TaskLog, path: Path, store: RunStore, run_id: str) -> None:
    store.add_events(run_id, [Failure(node="a", time=20, code="x", message="it broke", hint="Mend it.", details="...")])
    _append(path, "working\nTraceback\n")
    lines = log.lines(ended=True)
    assert [(line.level, line.text) for line in lines] == [
        ("output", "working"),
        ("output", "Traceback"),
        ("error", "it broke. Mend it."),
    ]
    assert _texts(log, ended=True) == []


@pytest.mark.parametrize("event_first", [True, False])
@pytest.mark.parametrize(("code", "level"), [("error", "error"), ("cancelled", "info")])
def test_what_the_log_says_of_a_failure_is_shown_once(
    log: TaskLog, path: Path, store: RunStore, run_id: str, event_first: bool, code: str, level: str
) -> None:
    failure = Failure(node="a", time=20, code=code, message="it broke\non two lines", hint="Mend it.")
    if event_first:
        store.add_events(run_id, [failure])
    _append(path, f"{level}: it broke on two lines. Mend it.\n")
    lines = [*log.lines(ended=False), *log.lines(ended=False)]
    if not event_first:
        # The supervisor was slow: the line was shown without its time.
        store.add_events(run_id, [failure])
    lines += log.lines(ended=True)
    assert [(line.level, line.text) for line in lines] == [(level, "it broke on two lines. Mend it.")]
    assert lines[0].time == (20 if event_first else None)
    # The second attempt fails as the first one did.
    store.add_events(run_id, [failure])
    _append(path, f"{level}: it broke on two lines. Mend it.\n")
    assert _texts(log, ended=True) == ["it broke on two lines. Mend it."]
    assert _texts(log, ended=True) == []


def test_only_the_end_of_a_long_log_is_read(log: TaskLog, path: Path) -> None:
    _append(path, "".join(f"{i:06d} {'x' * 100}\n" for i in range(50_000)))
    texts = _texts(log)
    assert len(texts) == FIRST_LINES
    assert (texts[0][:6], texts[-1][:6]) == ("048000", "049999")


def test_what_is_written_faster_than_anyone_reads_is_left_out_and_counted(log: TaskLog, path: Path) -> None:
    _append(path, "begin\n")
    _texts(log)
    _append(path, "".join(f"{i}\n" for i in range(2_000)))
    texts = _texts(log)
    assert texts[0] == "(1,500 lines left out)"
    assert texts[1:] == [str(i) for i in range(1_500, 2_000)]
    _append(path, "".join(f"{i:06d} {'x' * 100}\n" for i in range(20_000)))
    texts = _texts(log)
    assert "bytes left out" in texts[0]
    assert texts[-1].startswith("019999")
    assert len(texts) <= LINES_A_TURN + 2


def test_whatever_a_program_prints_is_text(log: TaskLog, path: Path) -> None:
    _append(path, b"10%\r50%\r100%\n\x1b[31mred\x1b[0m\t<b>\n\xff\xfe\n" + b"y" * 10_000 + b"\n\n")
    texts = _texts(log)
    assert texts[0] == "100%"
    assert texts[1].split() == ["\\x1b[31mred\\x1b[0m", "<b>"]
    assert texts[2] == "\ufffd\ufffd"
    assert len(texts[3]) == LONGEST_LINE + 3
    assert texts[4] == ""


def test_a_line_without_an_end_does_not_grow_in_memory(log: TaskLog, path: Path) -> None:
    for _ in range(20):
        _append(path, b"#" * 200_000)
        log.lines(ended=False)
    assert len(log._rest) <= 1 << 18
