"""Events of the leading worker, through a file: handed on in order, none lost and none twice, also across kills.

But one: a driver that is killed just between handing an event on and noting that repeats this event. The run
store keeps the first of two figures of a step.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.events import Event, Metrics, event_from_json

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
        """What was told is on the disk afterwards: a checkpoint must not be ahead of its figures."""
        with self._lock:
            self._sync()

    def close(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced_at = time.monotonic()


class EventReader:
    """The driver's end: hands on what is new of the events in `path`.

    How far it came stands in a file beside it, so the next attempt hands on the rest of an attempt that was
    killed. `known` are figures told by earlier attempts: a step that is taken again is not told again.
    """

    def __init__(self, path: Path, emit: Callable[[Event], None], known: KnownSteps) -> None:
        self._path, self._place = path, path.with_name("handed-on")
        self._emit, self._known = emit, known
        self._at = int(self._place.read_text()) if self._place.exists() else 0

    def hand_on(self) -> int:
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
        partial = self._place.with_name(".handed-on")
        partial.write_text(str(self._at))
        partial.replace(self._place)


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
        """The event without figures told before; None when nothing is left of it."""
        if not isinstance(event, Metrics):
            return event
        new = {name: value for name, value in event.values.items() if event.step > self._last.get(name, -1)}
        if len(new) == len(event.values):
            return event
        return event.model_copy(update={"values": new}) if new else None
