"""What tests wait for: it comes, or they fail with what there was in its place, and never wait without an end."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from object_stores import ObjectStore
from slow_network import delayed
from waiting import WAIT_S, end_by_its_input, has_ended, wait_for_line, wait_until

Start = Callable[[str], subprocess.Popen[bytes]]
NEVER_S = 0.05


def test_the_answer_is_returned_or_the_error_says_what_was_seen_instead() -> None:
    answers = iter(["", "", "here"])
    assert wait_until(lambda: next(answers)) == "here"
    with pytest.raises(AssertionError, match=r"^rain did not happen within 0\.05 s$"):
        wait_until(lambda: 0, "rain", NEVER_S)
    seen: list[int] = []
    with pytest.raises(AssertionError, match=r"^only \d+ drops$"):
        wait_until(lambda: seen.append(1), "rain", NEVER_S, details=lambda: f"only {len(seen)} drops")


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(script: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        with process:
            process.kill()


@pytest.mark.slow
def test_of_what_a_process_prints_no_more_is_read_than_the_line(start: Start) -> None:
    process = start("echo one; printf 'at 1'; echo 23; echo more")
    assert wait_for_line(process, r"^at (\d+)$")[1] == "123"
    assert process.communicate()[0] == b"more\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "timeout_s", "message"),
    [
        ("echo no such module; exit 3", WAIT_S, r"has ended without saying '\^ready\$', but: no such module\n$"),
        ("printf read; exec sleep 600", NEVER_S, r"has not said '\^ready\$' within 0\.05 s, but: (read)?$"),
        ("exec sleep 600 >&-", WAIT_S, r"has ended without saying '\^ready\$', but: $"),
    ],
)
def test_a_process_that_does_not_start_is_reported_with_its_output(
    start: Start, script: str, timeout_s: float, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        wait_for_line(start(script), "^ready$", timeout_s)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "timeout_s"), [("read line", WAIT_S), ("exec sleep 600", NEVER_S)])
def test_a_process_is_ended_by_its_input_or_killed(start: Start, script: str, timeout_s: float) -> None:
    process = start(script)
    end_by_its_input(process, timeout_s)
    assert has_ended(process.pid)


@pytest.mark.slow
def test_a_proxy_that_cannot_begin_ends_the_test_that_wants_it() -> None:
    nowhere = ObjectStore("s3", "http://no port", {})
    with pytest.raises(AssertionError, match="has ended without saying"), delayed(nowhere, 20):
        raise RuntimeError("there is no proxy")


_ROOT = Path(__file__).parents[1]
_METHODS = ("wait", "join", "result", "communicate")
_FUNCTIONS = ("wait_until", "wait_for_line", "end_by_its_input", "wait_procs")
"""They take the seconds that they wait at most."""
_PERHAPS = re.compile(rf"timeout=\d|\.join\(\d|\b(wait|result|communicate|{'|'.join(_FUNCTIONS)})\(")
"""In a text without it no such call is: to parse them all takes three times as long."""
_NOT_LOOKED_AT = ("node_modules", ".venv")


def _short_waits(code: str) -> list[str]:
    """Where code waits less than `WAIT_S` for what shall happen: in seconds, or a browser's milliseconds.

    Less than a second is for what shall not happen. What is suppressed is tried again.
    """
    nodes = [*ast.walk(ast.parse(code))]
    suppressing = [
        node for node in nodes if isinstance(node, ast.With) and _called(node.items[0].context_expr) == "suppress"
    ]
    again = {node for each in suppressing for node in ast.walk(each)}
    found = []
    for node in nodes:
        if not isinstance(node, ast.Call) or node in again or (name := _called(node)) == "connect":  # to SQLite
            continue
        given = [each.value for each in node.keywords if each.arg == "timeout"]
        if name in (_METHODS if isinstance(node.func, ast.Attribute) else ()) or name in _FUNCTIONS:
            given += node.args
        numbers = [
            each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, int | float)
        ]
        if any(1 <= number < WAIT_S or 1000 <= number < 1000 * WAIT_S for number in numbers):
            found.append(f"{node.lineno}: {ast.unparse(node)[:100]}")
    return found


def _called(node: ast.expr) -> str:
    """The last part of a called function's name; "" for what is no name."""
    function = node.func if isinstance(node, ast.Call) else node
    return str(getattr(function, "attr", getattr(function, "id", "")))


@pytest.mark.parametrize(
    ("code", "is_short"),
    [
        ("thread.join(10)", True), ("process.wait(timeout=60)", True), ("wait_until(is_there, 'it', 90.0)", True),
        ("expect(card).to_be_visible(timeout=40_000)", True), ("tab.wait(lambda: run, 'the run', 60)", True),
        ("subprocess.run(command, timeout=5)", True), ("with held:\n    heard.wait(5)", True),
        ("thread.join(WAIT_S)", False), ("process.wait(300)", False), ("assert not taken.wait(0.3)", False),
        ("join([], path, 64)", False), ("','.join(names)", False), ("tab.wait_for(Checked, 2)", False),
        ("with suppress(Timeout):\n    item.click(timeout=5_000)", False), ("sqlite3.connect(path, timeout=30)", False),
    ],
)  # fmt: skip
def test_a_short_wait_is_recognised(code: str, is_short: bool) -> None:
    assert bool(_short_waits(code)) == is_short


@pytest.mark.slow
def test_no_test_fails_because_the_machine_is_busy_for_a_minute() -> None:
    files = [path for folder in ("tests", "nodes/testing") for path in (_ROOT / folder).rglob("*.py")]
    texts = {path: path.read_text() for path in files if not {*_NOT_LOOKED_AT} & {*path.parts}}
    assert len(texts) > 300
    found = {path: _short_waits(text) for path, text in texts.items() if _PERHAPS.search(text)}
    assert not [f"{path.relative_to(_ROOT)}:{each}" for path, waits in found.items() for each in waits]
