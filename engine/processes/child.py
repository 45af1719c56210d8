"""The parent's side: start a process, write lines to it, read its messages, kill it."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from engine.declare.events import Event, Failure, Message
from engine.processes.messages import Result, death_of, from_line
from engine.processes.system import kill_tree, widen_pipe

_LOOK_MS = 1000
"""Between two looks at whether a silent child has ended; mostly its pipe closes, and that is seen at once."""
_PIPE = 1 << 20
POLL_S = 0.1

Listener = Callable[[Event | None], None]
"""Called with each message, and with None once the process has ended. From another thread."""


def same_modules(environment: Mapping[str, str]) -> dict[str, str]:
    """This process' environment with changes, for a child that finds its modules where this process does.

    On an executor our code is a zip that Spark has put on this process' path.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}


class Child(contextlib.AbstractContextManager["Child"]):
    """A Python process that leads a process group of its own, or a session.

    `arguments` are those of the interpreter; the number of the message pipe comes after them. Standard output and
    error are appended to `log`. Without a `listener`, `messages` gives what it sends.
    """

    node: str | None = None

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        *,
        listener: Listener | None = None,
        environment: Mapping[str, str] | None = None,
        session: bool = False,
    ) -> None:
        self.log = log
        self._inbox: queue.Queue[Event | None] = queue.Queue()
        self._listener = listener or self._inbox.put
        self._failure: Failure | None = None
        self._succeeded = False
        # A process of Spark whose executor is killed becomes an orphan, and has to notice by itself.
        self._grandparent = os.getppid()
        receive, send = os.pipe()
        widen_pipe(receive, _PIPE)
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, *arguments, str(send)],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    pass_fds=(send,),
                    env=environment,
                    start_new_session=session,
                    # A group within the session, so that a kill of the session kills this too.
                    process_group=None if session else 0,
                )
        except BaseException:
            os.close(receive)
            raise
        finally:
            os.close(send)
        # Written by a thread: a child reads when its imports are done, and a pipe takes 64 KiB till then.
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._reader = threading.Thread(target=self._read, args=(receive,), daemon=True)
        for thread in (threading.Thread(target=self._write, daemon=True), self._waiter, self._reader):
            thread.start()

    @property
    def pid(self) -> int:
        """The process' id, also that of its group or session."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """As `Popen.returncode`: negative for the signal that ended it."""
        return self._process.poll()

    def send(self, line: str) -> None:
        """Write a line to its standard input, when it comes to read it. One that has ended gets nothing."""
        self._lines.put(line)

    def messages(self, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[Event]:
        """What it sends until it has ended, or is not wanted, or this process has lost its own parent."""
        while is_wanted() and os.getppid() == self._grandparent:
            with contextlib.suppress(queue.Empty):
                message = self._inbox.get(timeout=POLL_S)
                if message is None:
                    return
                yield message

    def failure(self) -> Failure | None:
        """Why it ended without success: its own report, else how its process ended. None after success."""
        # Status 0 alone says little: a library may have ended it, and where the system was told to ignore ended
        # children, as some launchers do, each has it.
        if self.exit_status == 0 and self._succeeded:
            return None
        return self._failure or death_of(self.exit_status, self.log, node=self.node)

    def kill(self) -> None:
        """End it and its children now."""
        if self._process.returncode is None:  # else its number may be another's
            kill_tree(self._process.pid)

    def end(self) -> int:
        """Kill it if it lives, and wait until it is gone; its exit status."""
        self.kill()
        self._reader.join()
        return self._process.wait()

    def __exit__(self, *_: object) -> None:
        self.end()

    def _write(self) -> None:
        assert self._process.stdin is not None
        # It may just have died; its exit is reported by the reading thread.
        with contextlib.suppress(OSError), self._process.stdin as sink:
            while (line := self._lines.get()) is not None:
                sink.write(line.encode() + b"\n")
                sink.flush()

    def _wait(self) -> None:
        self._process.wait()
        kill_tree(self._process.pid)  # what it left behind, which would keep the pipe open

    def _read(self, handle: int) -> None:
        for line in self._sent(handle):
            try:
                message = from_line(line)
            except ValueError:  # cut off by a kill
                message = Message(node=self.node, level="warning", text="the process sent an unreadable message")
            if isinstance(message, Failure):
                self._failure = message
            self._succeeded = self._succeeded or isinstance(message, Result)
            self._listener(message)
        self._waiter.join()
        self._lines.put(None)
        self._listener(None)

    def _sent(self, handle: int) -> Iterator[bytes]:
        """The lines that it sends, until it has ended.

        A process that it left behind in a session of its own may keep the pipe open for ever: once the child is gone,
        what the pipe holds is all.
        """
        poll, rest = select.poll(), bytearray()
        poll.register(handle, select.POLLIN)
        try:
            while True:
                over = not self._waiter.is_alive()
                ready = poll.poll(0 if over else _LOOK_MS)
                if not ready and not over:
                    continue
                if not ready or not (data := os.read(handle, _PIPE)):
                    break
                first, *others = data.split(b"\n")
                rest += first
                for more in others:
                    yield bytes(rest)
                    rest[:] = more
            if rest:
                yield bytes(rest)
        finally:
            os.close(handle)
