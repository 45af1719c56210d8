"""The log of one task, while it is written.

Its file holds all that the task printed, messages among it (`info: ...`), mostly also why it failed (`error: ...`).
The run's events know when each was said, and why a task failed that could say nothing itself (it was killed).
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Literal

from engine.declare.events import Failure, Message
from engine.errors import Cancelled
from engine.store.runs import RunStore
from engine.text import plural, safe_log_line
from engine.workspace import Workspace
from ui.protocol.status import LogLine

FIRST_LINES = 2_000
LINES_A_TURN = 500
LONGEST_LINE = 4_000
_FIRST_BYTES = 1 << 20
_BYTES_A_TURN = 1 << 18
_LEVELS = ("info", "warning", "error")


class TaskLog:
    """Reads what is new at each call of `lines`."""

    def __init__(self, workspace: Workspace, store: RunStore, run_id: str, node: str) -> None:
        self.run_id, self.node = run_id, node
        self._store = store
        self._path: Path = workspace.log_file(run_id, node)
        self._offset: int | None = None
        self._rest = b""
        self._cut = False
        self._event = 0
        self._messages: deque[Message] = deque(maxlen=FIRST_LINES)
        self._waiting: list[str] = []
        self._failures: list[Failure] = []
        self._shown: deque[str] = deque(maxlen=FIRST_LINES)
        """Lines that were shown before their event came."""

    def lines(self, *, ended: bool) -> list[LogLine]:
        """The lines since the last call: at first the last 2,000, then at most 500.

        What is written faster is left out, and a line says how much. With `ended` (the task writes no
        more) the last one counts as whole.
        """
        first = self._offset is None
        before = self._left_out(first)
        texts = [*self._waiting, *self._new_lines(ended)]
        self._read_events()
        out = [] if before is None else [before]
        limit = FIRST_LINES if first else LINES_A_TURN
        if len(texts) > limit:
            if not first:
                out.append(_note(f"({plural(len(texts) - limit, 'lines')} left out)"))
            texts = texts[-limit:]
        waiting, self._waiting = self._waiting, []
        for place, text in enumerate(texts):
            line = self._line(text)
            if line.time is None and line.level != "output" and text not in waiting and not ended:
                # Its event is on the way through the supervisor: the next turn will know the time.
                self._waiting = texts[place:]
                break
            if line.time is None and line.level != "output":
                self._shown.append(line.text)
            out.append(line)
        if not self._waiting and not self._behind:
            out += [_failure_line(f) for f in self._failures]
            self._failures = []
        return out

    # --- the file ---------------------------------------------------------------------------

    @property
    def _behind(self) -> bool:
        return self._size() > (self._offset or 0)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:  # the task has not begun
            return 0

    def _left_out(self, first: bool) -> LogLine | None:
        """Skip what is too much to show; the line that says so."""
        size = self._size()
        offset = self._offset or 0
        if size - offset <= (_FIRST_BYTES if first else _BYTES_A_TURN):
            self._offset = offset
            return None
        self._offset = size - (_FIRST_BYTES if first else _BYTES_A_TURN)
        left_out, self._rest, self._cut = self._offset - offset, b"", True
        return None if first else _note(f"({plural(left_out, 'bytes')} left out)")

    def _new_lines(self, ended: bool) -> list[str]:
        try:
            with self._path.open("rb") as source:
                source.seek(self._offset or 0)
                data = source.read(_FIRST_BYTES)
        except OSError:
            return []
        self._offset = (self._offset or 0) + len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        if ended and self._rest:
            whole.append(self._rest)
            self._rest = b""
        if self._cut and whole:
            # The skip ended amid a line.
            del whole[0]
            self._cut = False
        # A line that never ends (a progress bar drawn over itself) must not grow in memory.
        self._rest = self._rest[-_BYTES_A_TURN:]
        return [line.decode(errors="replace") for line in whole]

    # --- the events -------------------------------------------------------------------------

    def _read_events(self) -> None:
        for seq, event in self._store.events(self.run_id, self._event, kinds=("message", "failure")):
            self._event = seq
            if event.node != self.node:
                continue
            if isinstance(event, Message):
                self._messages.append(event)
            elif isinstance(event, Failure):
                if (text := _shown(event.line())) in self._shown:
                    self._shown.remove(text)
                else:
                    self._failures.append(event)

    def _line(self, text: str) -> LogLine:
        level, colon, said = text.partition(": ")
        if colon and level in _LEVELS:
            # A message of several lines is known by its first.
            place = next((i for i, m in enumerate(self._messages) if _same(m, level, said)), None)
            if place is not None:
                time = self._messages[place].time
                for _ in range(place + 1):
                    self._messages.popleft()
                return LogLine(time=time, level=level, text=_shown(said))  # type: ignore[arg-type]
            failed = next((f for f in self._failures if _shown(f.line()) == _shown(said)), None)
            if failed is not None:
                self._failures.remove(failed)
                return _failure_line(failed)
            return LogLine(time=None, level=level, text=_shown(said))  # type: ignore[arg-type]
        return LogLine(time=None, level="output", text=_shown(text))


def _same(message: Message, level: str, said: str) -> bool:
    return message.level == level and message.text.split("\n", 1)[0] == said.rstrip("\r")


def _failure_line(failure: Failure) -> LogLine:
    level: Literal["info", "error"] = "info" if failure.code == Cancelled.code else "error"
    return LogLine(time=failure.time, level=level, text=_shown(failure.line()))


def _note(text: str) -> LogLine:
    return LogLine(time=None, level="output", text=text)


def _shown(text: str) -> str:
    shown = safe_log_line(text)
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]}..."
