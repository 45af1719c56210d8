"""Python's end of the link to one canvas: each command counts once, each notice arrives.

Both directions are numbered and acknowledged. The browser sends again what was not acknowledged, so
lost, repeated and coalesced values do no harm. What waits to be seen is bounded: notices that a newer
one replaces are dropped, and when too much waits all of it is, and `overflowed` asks for a fresh start.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.storage.files import write_whole
from ui.protocol.commands import Seen
from ui.protocol.link import Inbox, Outbox, Posted, Sent, outbox_from_json
from ui.protocol.notices import (
    Checked,
    Edited,
    FileState,
    Library,
    LogLines,
    Notice,
    Opened,
    Others,
    RunForecast,
    RunShown,
    StatusChanged,
    Welcome,
)

MAX_NOTICES = 200
MAX_LOG_LINES = 4_000
LINES_A_NOTICE = 500
_DEEPEST = 200
"""More than an edit's value may have (see `documents`), less than what pydantic reads."""
_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A text, in which brackets mean nothing, or a bracket."""
_PAGES = 500
"""Pages remembered. What an older one sends again is done again, except edits, which are known by their ids."""
_REPLACED = (Welcome, Library, FileState, Checked, RunForecast, Others)
"""Of these only the newest counts."""
_NAMING_IT = (Edited, FileState, Checked, RunForecast, RunShown, Others)
"""These say which document they are about."""
_OF_A_DOCUMENT = (Opened, Edited, FileState, Checked, RunForecast, RunShown, StatusChanged, LogLines, Others)


class Link:
    """One link, from the canvas's first word to the end of its session. Not safe for several threads."""

    def __init__(self, handled: HandledCommands, session: str = "") -> None:
        self.session = session or uuid.uuid4().hex
        self.client = ""
        self.overflowed = False
        """Something was dropped for good: post the whole state again."""
        self.log_lost = False
        """Lines of the log were dropped: begin it anew."""
        self._handled = handled
        self._posted: list[Posted] = []
        self._last = 0
        self._shown = 0
        self._document = ""

    @property
    def document(self) -> str:
        """The document opened last; "" before the first."""
        return self._document

    def receive(self, outbox: Outbox) -> list[Sent]:
        """The commands that are still to be handled, in order; from now on they count as handled.

        An outbox for another session is left alone: it is what the browser last said before the
        connection was lost, and it says again, to this session, what still holds.
        """
        self.client = outbox.client
        if outbox.session != self.session:
            return []
        self._posted = [p for p in self._posted if p.n > outbox.seen]
        return [s for s in sorted(outbox.sent, key=lambda s: s.n) if self._handled.claim(outbox.client, s.n)]

    def post(self, notice: Notice) -> None:
        """Queue a notice for the canvas. Dropped while `overflowed`: the whole state will follow.

        Dropped, too, when it is about another document than the one opened last: a thread of that one was still at work
        when the tab left it, and its notice must not take the place of one about the document that is shown.
        """
        if self.overflowed:
            return
        if self._document and isinstance(notice, _NAMING_IT) and notice.document != self._document:
            return
        match notice:
            case Opened():
                # It holds all edits so far; and of another document nothing matters any more.
                old = (Opened, Edited) if notice.document == self._document else _OF_A_DOCUMENT
                self._posted = [p for p in self._posted if not isinstance(p.notice, old)]
                self._document = notice.document
            case StatusChanged():
                notice = self._joined_status(notice)
            case LogLines():
                if self.log_lost and not notice.reset:
                    return
                notice = self._joined_log(notice)
            case _ if isinstance(notice, _REPLACED):
                self._posted = [p for p in self._posted if type(p.notice) is not type(notice)]
        self._last += 1
        self._posted.append(Posted(n=self._last, notice=notice))
        self._bound()

    def inbox(self, sent: int = 0) -> Inbox:
        """All that the browser has not said to have seen, without notices up to number `sent`."""
        self._shown = self._last
        return Inbox(
            session=self.session,
            client=self.client,
            handled=self._handled.last(self.client),
            posted=[p for p in self._posted if p.n > sent],
        )

    def start_over(self) -> None:
        """Forget what waits; the caller posts the whole state."""
        self._posted = []
        self.overflowed = self.log_lost = False

    # --- bounds -----------------------------------------------------------------------------

    def _joined_status(self, notice: StatusChanged) -> StatusChanged:
        """With what was not shown yet of the same run. What was shown is not sent again."""
        for posted in self._posted:
            before = posted.notice
            if posted.n > self._shown and isinstance(before, StatusChanged) and before.run_id == notice.run_id:
                self._posted.remove(posted)
                if notice.whole:
                    return notice
                return before.model_copy(update={"nodes": {**before.nodes, **notice.nodes}})
        return notice

    def _joined_log(self, notice: LogLines) -> LogLines:
        if notice.reset:
            self._posted = [p for p in self._posted if not isinstance(p.notice, LogLines)]
            self.log_lost = False
            return notice
        last = next((p for p in reversed(self._posted) if isinstance(p.notice, LogLines)), None)
        if last is None or last.n <= self._shown or not isinstance(last.notice, LogLines):
            return notice
        before = last.notice
        together = [*before.lines, *notice.lines]
        if (before.run_id, before.node) != (notice.run_id, notice.node) or len(together) > LINES_A_NOTICE:
            return notice
        self._posted.remove(last)
        return before.model_copy(update={"lines": together})

    def _bound(self) -> None:
        lines = sum(len(p.notice.lines) for p in self._posted if isinstance(p.notice, LogLines))
        if lines > MAX_LOG_LINES:
            self._posted = [p for p in self._posted if not isinstance(p.notice, LogLines)]
            self.log_lost = True
        if len(self._posted) > MAX_NOTICES:
            self._posted = []
            self.overflowed = True


class HandledCommands:
    """By browser page: the number of the last command that was handled. Safe for several threads.

    It outlives links: a page whose connection was lost comes back with a new link and sends again what
    was not acknowledged. Numbers of commands that must not be done twice (start a run, make a copy) are
    also kept on disk *before* they are done, so a restart of the server forgets none of them.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._turns: dict[str, threading.RLock] = {}
        self._last: dict[str, int] = {}
        self._kept: dict[str, tuple[int, float]] = _read(path) if path else {}
        self._last.update({client: n for client, (n, _) in self._kept.items()})

    @contextmanager
    def turn(self, client: str) -> Iterator[None]:
        """Commands of one page are handled one after the other, whichever link they come through."""
        with self._lock:
            turn = self._turns.pop(client, None) or threading.RLock()
            self._turns[client] = turn
            while len(self._turns) > _PAGES:
                del self._turns[next(iter(self._turns))]
        with turn:
            yield

    def last(self, client: str) -> int:
        """Number of the page's last handled command; 0 before the first."""
        return self._last.get(client, 0)

    def claim(self, client: str, n: int) -> bool:
        """Whether command `n` is still to be handled; from now on it counts as handled."""
        with self._lock:
            if n <= self._last.get(client, 0):
                return False
            self._last.pop(client, None)
            self._last[client] = n
            while len(self._last) > _PAGES:
                del self._last[next(iter(self._last))]
        return True

    def keep(self, client: str, n: int) -> None:
        """Remember command `n` beyond the end of this process. Raises `OSError` when that is not possible."""
        if self._path is None:
            return
        with self._lock:
            self._kept.pop(client, None)
            self._kept[client] = (n, time.time())
            while len(self._kept) > _PAGES:
                del self._kept[next(iter(self._kept))]
            text = json.dumps(self._kept)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, text, durable=True)


def _read(path: Path) -> dict[str, tuple[int, float]]:
    # A damaged file costs the memory of what was done before a restart, and nothing else.
    with suppress(OSError, ValueError, TypeError, AttributeError, OverflowError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(client): (int(n), float(at)) for client, (n, at) in found.items()}
    return {}


def read_json(text: str) -> Any:
    """What the browser sent. Raises `ValueError` when it is no JSON.

    What is nested deeper than Python can read comes cut, still deep enough to be refused: not read at all, the
    browser would send it for ever. In its place stands NaN, which nothing that is carried out may hold.
    """
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_cut(text))


def _cut(text: str) -> str:
    """JSON without what lies deeper than `_DEEPEST`."""
    kept: list[str] = []
    depth = start = 0
    for found in _MARK.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept += [text[start : found.start()], "NaN"]
        elif found[0] in "]}":
            if depth == _DEEPEST + 1:
                start = found.end()
            depth -= 1
    # What is never closed stays so: it is no JSON.
    return "".join([*kept, text[start:] if depth <= _DEEPEST else ""])


def read_outbox(value: Any) -> tuple[Outbox, dict[int, str]]:
    """The outbox, and by number what is wrong with commands that cannot be read.

    They are replaced by `Seen`: unhandled, the browser would send them for ever and everything after
    them would wait. Raises `pydantic.ValidationError` when it is no outbox at all.
    """
    try:
        return outbox_from_json(value), {}
    except ValidationError:
        if not isinstance(value, dict) or not isinstance(value.get("sent"), list):
            raise
    unreadable: dict[int, str] = {}
    sent: list[Sent] = []
    for item in value["sent"]:
        try:
            sent.append(Sent.model_validate(item))
        except ValidationError as exc:
            number = item.get("n") if isinstance(item, dict) else None
            if isinstance(number, int) and not isinstance(number, bool):
                first = exc.errors()[0]
                unreadable[number] = f"{'.'.join(str(p) for p in first['loc'][:6])}: {first['msg']}"
                sent.append(Sent(n=number, command=Seen()))
    return outbox_from_json({**value, "sent": [s.model_dump() for s in sent]}), unreadable
