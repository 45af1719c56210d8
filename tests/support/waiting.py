"""Waiting for what another process or thread does."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

T = TypeVar("T")
Details = str | Callable[[], str]
"""A sentence, or what makes it when it is wanted."""
WAIT_S = 120.0
"""The most that a test waits for what takes a moment: longer than it takes on a busy machine."""


def wait_until(
    happened: Callable[[], T],
    what: str = "it",
    timeout_s: float = WAIT_S,
    *,
    details: Details = "",
    pause_s: float = 0.02,
) -> T:
    """Ask until the answer is true, and return it; `pause_s` seconds between two questions.

    Raises `AssertionError` after `timeout_s` seconds: `details`, what was seen instead, or that `what` did not happen.
    `happened` raises one itself where it sees that it will never be.
    """
    until = time.monotonic() + timeout_s
    while not (found := happened()):
        if time.monotonic() > until:
            seen = details() if callable(details) else details
            raise AssertionError(seen or f"{what} did not happen within {timeout_s:g} s")
        time.sleep(pause_s)
    return found


def wait_for_line(process: subprocess.Popen[Any], wanted: str, timeout_s: float = WAIT_S) -> re.Match[str]:
    """Read what a process prints, to a pipe, up to the first line in which the pattern `wanted` is found.

    Nothing after that line is read. Raises `AssertionError` with what it has printed instead when it has ended, or
    closed its output, or after `timeout_s` seconds.
    """
    assert process.stdout is not None
    output, printed, line = process.stdout.fileno(), b"", b""
    until = time.monotonic() + timeout_s
    while True:
        if not select.select([output], [], [], max(0.0, until - time.monotonic()))[0]:
            why = f"has not said {wanted!r} within {timeout_s:g} s"
            break
        one = os.read(output, 1)
        line += one
        if (not one or one == b"\n") and (found := re.search(wanted, line.decode(errors="replace"))):
            return found
        if not one:
            why = f"has ended without saying {wanted!r}"
            break
        if one == b"\n":
            printed, line = printed + line, b""
    raise AssertionError(f"{str(process.args)[:300]} {why}, but: {(printed + line).decode(errors='replace')}")


def end_by_its_input(process: subprocess.Popen[Any], timeout_s: float = WAIT_S) -> None:
    """End a process that ends with its standard input, a pipe. One that has not after so many seconds is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def has_ended(process: psutil.Process | int) -> bool:
    """Whether the process is gone. Its new parent may take its time to reap it."""
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_stopped(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED
