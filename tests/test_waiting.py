"""What tests wait for: it comes, or they fail with what there was in its place, and never wait without an end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

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
