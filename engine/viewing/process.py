"""The app's side of the process that opens datasets: started by the first question, and again after it has died."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from engine.declare.dataset_type import Dataset
from engine.declare.events import Event
from engine.processes.child import Child
from engine.processes.messages import Answer
from engine.run.worker_process import PROGRAM
from engine.viewing.reader import Question
from engine.workspace import Workspace

LOG = "views.log"
"""In the workspace's folder `locks`: what the process has printed."""


class ViewProcess:
    """Asks about datasets. May be used by any thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._waiting: dict[int, tuple[Child, Future[Answer]]] = {}
        self._last = 0
        self._closed = False

    def start(self) -> None:
        """Start the process, so that it has imported what it needs when the first question comes."""
        with self._lock:
            self._running()

    def ask(
        self, dataset: Dataset, made_from: Mapping[str, Dataset], panel: str, what: str, query: Mapping[str, str]
    ) -> Future[Answer]:
        """Ask a question; the answer comes later, from a thread of this process. Raises `OSError` when none starts."""
        with self._lock:
            child = self._running()
            self._last += 1
            answer: Future[Answer] = Future()
            self._waiting[self._last] = child, answer
            question = Question(
                n=self._last, dataset=dataset, made_from=dict(made_from), panel=panel, what=what, query=dict(query)
            )
            child.send(question.model_dump_json())
        return answer

    @property
    def pid(self) -> int | None:
        """The number of the process; None before its start."""
        with self._lock:
            return None if self._child is None else self._child.pid

    def close(self) -> None:
        """End the process."""
        with self._lock:
            child, self._child, self._closed = self._child, None, True
        if child is not None:
            child.end()

    def _running(self) -> Child:
        """Under the lock."""
        if self._closed:
            raise OSError("the app is ending")
        if self._child is None or self._child.exit_status is not None:
            self._workspace.locks.mkdir(parents=True, exist_ok=True)
            arguments = [*PROGRAM[1:], "_view", str(self._workspace.root)]
            # The log of one process: nobody reads that of the one before.
            log = self._workspace.locks / LOG
            log.unlink(missing_ok=True)
            child: Child | None = None

            def heard(message: Event | None) -> None:
                self._heard(child, message)

            child = self._child = Child(arguments, log, listener=heard)
        return self._child

    def _heard(self, child: Child | None, message: Event | None) -> None:
        if isinstance(message, Answer):
            with self._lock:
                found = self._waiting.pop(message.n, None)
            if found is not None and found[1].set_running_or_notify_cancel():
                found[1].set_result(message)
        elif message is None:
            with self._lock:
                lost = [self._waiting.pop(n)[1] for n, (asked, _) in list(self._waiting.items()) if asked is child]
            for answer in lost:
                if answer.set_running_or_notify_cancel():
                    answer.set_exception(
                        ChildProcessError("the process that reads the data has died, perhaps for want of memory")
                    )
