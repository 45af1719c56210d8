"""The supervisor's end of a worker: start it, tell it its task, hear its events, stop it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from engine.events import Event, Message, event_from_json
from engine.offspring import kill_session
from engine.worker import CANCEL, END, SparkOrder, TaskMessage, WorkerStart

# -P: a file called voxelflow.py in the current directory must not be taken for ours.
PROGRAM = (sys.executable, "-P", "-m", "voxelflow")
"""How to start another Voxelflow process."""

Listener = Callable[["WorkerProcess", Event | None], None]
"""Called with each event, and with None once the process has ended. From another thread."""


class WorkerProcess:
    """A worker in a session of its own. It starts importing at once and waits for its task.

    With `spark` it starts that session and takes one task after another, until `end` is called.
    """

    def __init__(
        self,
        workspace: Path,
        log: Path,
        imports: tuple[str, ...],
        listener: Listener,
        spark: SparkOrder | None = None,
    ) -> None:
        self.node = ""
        self.holds_spark = spark is not None
        self._listener = listener
        receive, send = os.pipe()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*PROGRAM, "_worker", str(workspace), str(send)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(send,),
                start_new_session=True,
            )
        os.close(send)
        self._tell(WorkerStart(imports=imports, spark=spark).model_dump_json())
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()
        threading.Thread(target=self._read, args=(receive,), daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """As `Popen.returncode`: negative for the signal that ended it."""
        return self._process.poll()

    def start(self, message: TaskMessage) -> None:
        self.node = message.node
        self._tell(message.model_dump_json())

    def cancel(self) -> None:
        """Ask it to stop at the next step."""
        self._tell(CANCEL.decode())

    def end(self) -> None:
        """Tell it that no further task comes: it ends its Spark session in good order, then itself."""
        self._tell(END.decode())

    def kill(self) -> None:
        """End it and its children now."""
        kill_session(self._process.pid)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # It may just have died; its exit is told by the reading thread.
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _wait(self) -> None:
        self._process.wait()
        self.kill()  # what it left behind, which would hold the pipe open

    def _read(self, handle: int) -> None:
        with os.fdopen(handle, "rb") as source:
            for line in source:
                try:
                    event = event_from_json(line)
                except ValueError:  # a line cut off by a kill
                    event = Message(node=self.node, level="warning", text="the worker sent an unreadable event")
                self._listener(self, event)
        self._waiter.join()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._listener(self, None)
