"""A run as JSON lines: its events as they are stored, one a line."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from engine.cli.following import Moment
from engine.cli.screen import say_json


class JsonLines:
    """Every event, and each task's newest progress when it has moved."""

    kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._progress: dict[str, float] = {}

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def show(self, moment: Moment) -> None:
        for event in moment.events:
            print(event.model_dump_json(exclude_none=True), flush=True)
        for task in moment.tasks:
            if task.progress is not None and self._progress.get(task.node) != task.progress.time:
                self._progress[task.node] = task.progress.time
                print(task.progress.model_dump_json(exclude_none=True), flush=True)

    def note(self, text: str) -> None:
        say_json({"event": "note", "text": text})

    def sending(self, to: str) -> AbstractContextManager[Any]:
        return nullcontext()
