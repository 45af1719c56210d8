"""Ways to show a run that is followed, and two of them: plain lines and JSON lines. `live` is the third."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from engine.cli.screen import say, say_json
from engine.declare.events import Event, Failure, Message, TaskStateChanged
from engine.store.runs import Run, Task
from engine.text import duration
from engine.wording import advance, failure_line, outcome

_INTERVAL_S = 5.0
"""Between two progress lines of one task: often enough to see life, seldom enough to keep a log readable."""
_PHASE_S = 1.0
"""The same when the task has begun another phase meanwhile."""


@dataclass(frozen=True)
class Moment:
    """The run as it is now, and the events since the moment before."""

    run: Run
    tasks: list[Task]
    events: list[Event]


class Display:
    """One way to show a run: on a terminal, as lines, as JSON."""

    kinds: tuple[str, ...] = ()
    """The events it wants; empty for all."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, moment: Moment) -> None:
        """Show what has changed since the moment before."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Print something beside the run's own events."""
        raise NotImplementedError

    def sending(self, to: str) -> AbstractContextManager[Any]:
        """Say, while it lasts, that the rest is being sent to MLflow at `to`."""
        return nullcontext()


class PlainLines(Display):
    """One line for each change of state, each warning, and now and then for progress."""

    kinds = ("task-state", "message", "failure")

    def __init__(self) -> None:
        self._printed: dict[str, tuple[float, str, str]] = {}
        """By node: when the last line was printed, the phase then, and the line."""

    def show(self, moment: Moment) -> None:
        tasks = {t.node: t for t in moment.tasks}
        for event in moment.events:
            if isinstance(event, TaskStateChanged) and event.node in tasks:
                self._state(tasks[event.node], event)
            elif isinstance(event, Message) and event.level != "info":
                self._line(event.time, f"{event.node or 'run'}: {event.level}: {event.text}")
            elif isinstance(event, Failure):
                self._line(event.time, failure_line(event.node or "", event.model_dump()))
        now = time.monotonic()
        for task in moment.tasks:
            if task.state != "running" or task.progress is None or not (text := advance(task.progress)):
                self._printed.pop(task.node, None)
                continue
            at, phase, line = self._printed.setdefault(task.node, (now, task.progress.phase, ""))
            if text != line and now - at >= (_INTERVAL_S if task.progress.phase == phase else _PHASE_S):
                self._printed[task.node] = now, task.progress.phase, text
                self._line(task.progress.time, f"{task.node}: {text}")

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


class JsonLines(Display):
    """Every event, and each task's newest progress when it has moved."""

    def __init__(self) -> None:
        self._progress: dict[str, float] = {}

    def show(self, moment: Moment) -> None:
        for event in moment.events:
            print(event.model_dump_json(exclude_none=True), flush=True)
        for task in moment.tasks:
            if task.progress is not None and self._progress.get(task.node) != task.progress.time:
                self._progress[task.node] = task.progress.time
                print(task.progress.model_dump_json(exclude_none=True), flush=True)

    def note(self, text: str) -> None:
        say_json({"event": "note", "text": text})
