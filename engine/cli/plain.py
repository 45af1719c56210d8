"""A run as plain lines, for a pipe, a log file or a continuous integration service."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from engine.cli.following import Moment
from engine.cli.screen import say
from engine.cli.telling import advance, failure_line, outcome
from engine.cli.wording import duration
from engine.events import Failure, Message, TaskStateChanged
from engine.runs import Task

_INTERVAL_S = 5.0
"""Between two progress lines of one task: often enough to see life, seldom enough to keep a log readable."""


class PlainLines:
    """One line for each change of state, each warning, and now and then for progress."""

    kinds: tuple[str, ...] = ("task-state", "message", "failure")

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def show(self, moment: Moment) -> None:
        tasks = {t.node: t for t in moment.tasks}
        for event in moment.events:
            if isinstance(event, TaskStateChanged) and event.node in tasks:
                self._state(tasks[event.node], event)
            elif isinstance(event, Message) and event.level != "info":
                self._line(event.time, f"{event.node}: {event.level}: {event.text}")
            elif isinstance(event, Failure):
                self._line(event.time, failure_line(event.node or "", event.model_dump()))
        now = time.monotonic()
        for task in moment.tasks:
            if task.state != "running" or task.progress is None:
                self._told.pop(task.node, None)
            elif now - self._told.setdefault(task.node, now) >= _INTERVAL_S:
                self._told[task.node] = now
                self._line(task.progress.time, f"{task.node}: {advance(task.progress)}")

    def _state(self, task: Task, event: TaskStateChanged) -> None:
        if event.state == "queued" and event.attempt <= 1:
            return  # all are, at first
        text = f"{event.node}: {event.state}"
        if event.state == "done":
            spent = f" in {duration(task.seconds)}" if task.state == "done" and task.seconds is not None else ""
            counts = outcome(task) if task.state == "done" else ""
            text += spent + (f": {counts}" if counts else "")
        elif event.state == "cached" and task.state == "cached":
            text = f"{event.node}: {outcome(task)}"
        elif event.reason:
            text += f" ({event.reason})"
        self._line(event.time, text)

    def _line(self, at: float, text: str) -> None:
        say(f"{time.strftime('%H:%M:%S', time.localtime(at))} {text}")

    def note(self, text: str) -> None:
        say(text)

    def sending(self, to: str) -> AbstractContextManager[Any]:
        say(f"sending to MLflow at {to}")
        return nullcontext()
