"""Python's end of the link to one canvas: each command counts once, each notice arrives. Pure.

Both directions are numbered and acknowledged. The browser sends again what was not acknowledged, so
lost, repeated and coalesced values do no harm. What waits to be seen is bounded: notices that a newer
one replaces are dropped, and when too much waits all of it is, and `overflowed` asks for a fresh start.
"""

from __future__ import annotations

import uuid

from ui.build.handled import Handled
from ui.protocol.link import Inbox, Outbox, Posted, Sent
from ui.protocol.notices import (
    Checked,
    Edited,
    FileState,
    Foreseen,
    Library,
    LogLines,
    Notice,
    Opened,
    Others,
    RunShown,
    StatusChanged,
    Welcome,
)

MAX_NOTICES = 200
MAX_LOG_LINES = 4_000
LINES_A_NOTICE = 500
_REPLACED = (Welcome, Library, FileState, Checked, Foreseen, Others)
"""Of these only the newest counts."""
_OF_A_DOCUMENT = (Opened, Edited, FileState, Checked, Foreseen, RunShown, StatusChanged, LogLines, Others)


class Link:
    """One link, from the canvas's first word to the end of its session. Not for several threads at once."""

    def __init__(self, handled: Handled, session: str = "") -> None:
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
        """Say something to the canvas. Dropped while `overflowed`: what follows will say it all."""
        if self.overflowed:
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

    def inbox(self) -> Inbox:
        """All that the browser has not said to have seen."""
        self._shown = self._last
        return Inbox(
            session=self.session,
            client=self.client,
            handled=self._handled.last(self.client),
            posted=list(self._posted),
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
