"""The child's side: lines from the process that started it, and messages to it."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NoReturn

from engine.declare.events import Event
from engine.processes.messages import Result, failure_of, to_line
from engine.processes.system import exit_now, kill_tree, tolerate_full_disk

_children: list[Parent] = []


def is_child() -> bool:
    """Whether this process does nothing but work for a parent, and no other program runs in it."""
    return bool(_children)


class Parent:
    """The process that started this one. When it is gone, this one ends at once, with all that it started."""

    def __init__(self, handle: int) -> None:
        # Ctrl-C in a terminal is for the person's command; what follows from it comes as a line.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.set_inheritable(handle, False)
        self._sink = os.fdopen(handle, "wb", buffering=0)
        self._lock = threading.Lock()
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._source = os.fdopen(os.dup(0), "rb")
        # A program that the work starts would inherit standard input, and might read a part of what comes there.
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        threading.Thread(target=self._listen, daemon=True).start()
        _children.append(self)

    def send(self, message: Event) -> None:
        """Write the message to the parent's pipe. Any thread may."""
        data = memoryview(to_line(message))
        with self._lock:
            while data:
                data = data[self._sink.write(data) or 0 :]

    def line(self) -> bytes:
        """Wait for the next line that the parent writes."""
        return self._lines.get()

    def _listen(self) -> None:
        with self._source:
            for line in self._source:
                if line.endswith(b"\n"):
                    self._lines.put(line.strip())
        kill_tree(os.getpid())
        os._exit(1)  # it led no process group


def serve(handle: int, work: Callable[[Parent], str]) -> NoReturn:
    """Do the work of this process: report the result (JSON text) that `work` gives, or what it raised, and end.

    `handle` is the number of the message pipe.
    """
    tolerate_full_disk()
    parent, status = Parent(handle), 1
    try:
        try:
            parent.send(Result(value=work(parent)))
            status = 0
        except BaseException as exc:
            print(traceback.format_exc(), file=sys.stderr, flush=True)
            parent.send(failure_of(exc))
    finally:
        exit_now(status)
