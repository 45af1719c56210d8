"""Events of the leading worker, through a file: passed on in order, none lost and none twice, also across kills.

But one: a driver that is killed just between passing an event on and noting that repeats this event. The run
store keeps the first of two figures of a step.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.declare.events import Event, Metrics, event_from_json
from engine.storage.files import write_whole

_SYNC_S = 0.5
"""Least time between two flushes to shared storage, where another machine sees only what was flushed."""


class EventWriter:
    """The worker's end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._synced_at = 0.0

    def emit(self, event: Event) -> None:
        with self._lock:
            self._file.write(event.model_dump_json(exclude_none=True).encode() + b"\n")
            if time.monotonic() - self._synced_at >= _SYNC_S:
                self._sync()

    def sync(self) -> None:
        """What was emitted is on the disk afterwards: a checkpoint must not be ahead of its figures."""
        with self._lock:
            self._sync()

    def close(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced_at = time.monotonic()


class EventReader:
    """The driver's end: passes on what is new of the events in `path`.

    How far it came is written in a file beside it, so the next attempt passes on the rest of an attempt that was
    killed. `known` are figures reported by earlier attempts: a step that is taken again is not reported again.
    """

    def __init__(self, path: Path, emit: Callable[[Event], None], known: KnownSteps) -> None:
        self._path, self._place = path, path.with_name("handed-on")
        self._emit, self._known = emit, known
        self._at = _number_in(self._place)

    def pass_on(self) -> int:
        """Give the whole lines that are new to `emit`; how many."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return 0
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        for line in lines:
            event = self._known.without(event_from_json(line))
            if event is not None:
                self._emit(event)
            self._at += len(line)
            self._note()
        return len(lines)

    def _note(self) -> None:
        write_whole(self._place, str(self._at), durable=False)


def _number_in(path: Path) -> int:
    """0 also when a power cut has emptied the file: then events are passed on again, but no figure of a known step."""
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0


class KnownSteps:
    """The last step of each figure in the events of earlier attempts."""

    def __init__(self, earlier: Iterable[Path]) -> None:
        self._last: dict[str, int] = {}
        for path in earlier:
            if not path.exists():
                continue
            for line in path.read_bytes().splitlines():
                try:
                    event = event_from_json(line)
                except ValueError:  # cut off by the kill
                    continue
                if isinstance(event, Metrics):
                    for name in event.values:
                        self._last[name] = max(event.step, self._last.get(name, event.step))

    def without(self, event: Event) -> Event | None:
        """The event without figures reported before; None when nothing is left of it."""
        if not isinstance(event, Metrics):
            return event
        new = {name: value for name, value in event.values.items() if event.step > self._last.get(name, -1)}
        if len(new) == len(event.values):
            return event
        return event.model_copy(update={"values": new}) if new else None
