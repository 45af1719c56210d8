"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")
WAIT_S = 120.0
"""The most that a test waits for what takes a moment: longer than it takes on a busy machine."""


def wait_until(happened: Callable[[], T], what: str = "it", timeout_s: float = WAIT_S) -> T:
    """Ask until the answer is true, and return it. Raises `AssertionError` after `timeout_s` seconds."""
    until = time.monotonic() + timeout_s
    while not (found := happened()):
        assert time.monotonic() < until, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.02)
    return found


def has_ended(process: psutil.Process | int) -> bool:
    """Whether the process is gone. Its new parent may take its time to reap it."""
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_stopped(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED
