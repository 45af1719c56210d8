"""Exactly once, in both directions, whatever the network and Streamlit do to what is sent."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.events import RunState
from ui.build.link import LINES_A_NOTICE, MAX_LOG_LINES, MAX_NOTICES, HandledCommands, Link, read_json
from ui.protocol.commands import OpenDocument, Seen
from ui.protocol.document import Doc
from ui.protocol.link import Inbox, Outbox, Sent
from ui.protocol.notices import Checked, Edited, LogLines, Message, Notice, Opened, RunShown, StatusChanged
from ui.protocol.status import LogLine, NodeStatus, RunInfo

EMPTY = Doc(name="d", description="", parameters={}, nodes={}, edges={}, ui={})


class Page:
    """The browser's end (`ui/canvas/src/link/channel.ts`)."""

    def __init__(self) -> None:
        self.session, self.seen, self.next = "", 0, 1
        self.unhandled: list[Sent] = []
        self.heard: list[Notice] = []

    def say(self, word: str) -> None:
        self.unhandled.append(Sent(n=self.next, command=OpenDocument(document=word)))
        self.next += 1

    def outbox(self) -> Outbox:
        return Outbox(client="page", session=self.session, seen=self.seen, sent=list(self.unhandled))

    def receive(self, inbox: Inbox) -> None:
        if inbox.session != self.session:
            self.session, self.seen = inbox.session, 0
        if inbox.client == "page":
            self.unhandled = [s for s in self.unhandled if s.n > inbox.handled]
        for posted in inbox.posted:
            if posted.n > self.seen:
                self.seen = posted.n
                self.heard.append(posted.notice)


def message(text: str) -> Message:
    return Message(level="info", text=text, hint="", node=None, parameter=None)


@given(
    st.lists(
        st.sampled_from(["say", "post", "up", "down", "up again", "down again", "lost", "reconnect"]), max_size=60
    ),
    st.randoms(),
)
def test_each_command_is_handled_once_in_order_and_each_notice_heard_once(steps: list[str], rng: random.Random) -> None:
    handled = HandledCommands()
    link, page = Link(handled), Page()
    # Values on their way: Streamlit keeps the newest of each kind, and may deliver one twice or late.
    up: list[Outbox] = []
    down: list[Inbox] = []
    said: list[str] = []
    done: list[str] = []
    posted: list[str] = []

    def deliver(outbox: Outbox) -> None:
        for sent in link.receive(outbox):
            assert isinstance(sent.command, OpenDocument)
            done.append(sent.command.document)

    for step in steps:
        match step:
            case "say":
                said.append(str(len(said)))
                page.say(said[-1])
            case "post":
                posted.append(str(len(posted)))
                link.post(message(posted[-1]))
            case "up":
                up.append(page.outbox())
                deliver(up[-1])
            case "down":
                down.append(link.inbox())
                page.receive(down[-1])
            case "up again" if up:
                deliver(rng.choice(up))
            case "down again" if down:
                # A value of this session: Streamlit does not bring back an older session's.
                page.receive(rng.choice([d for d in down if d.session == link.session] or [link.inbox()]))
            case "lost":
                page.outbox()
                link.inbox()
            case "reconnect":
                # The session is gone with what it had to say; the new one says everything anew.
                page.heard = []
                posted = []
                link = Link(handled)
                up = up[-1:]
    for _ in range(3):
        page.receive(link.inbox())
        deliver(page.outbox())
    page.receive(link.inbox())
    assert done == said
    assert page.unhandled == []
    assert [n.text for n in page.heard if isinstance(n, Message)] == posted
    assert link.inbox().posted == []


def test_an_outbox_of_another_session_is_left_for_the_browser_to_send_again() -> None:
    handled = HandledCommands()
    first = Link(handled, "one")
    page = Page()
    page.receive(first.inbox())
    page.say("x")
    stale = page.outbox()
    second = Link(handled, "two")
    assert second.receive(stale) == []
    page.receive(second.inbox())
    assert [s.n for s in second.receive(page.outbox())] == [1]


def test_what_must_not_be_done_twice_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "drafts" / ".handled.json"
    before = HandledCommands(path)
    assert before.claim("page", 3)
    before.keep("page", 3)
    assert before.claim("page", 4)
    after = HandledCommands(path)
    assert not after.claim("page", 3)
    assert after.claim("page", 4)
    assert after.claim("another page", 1)


def test_what_is_nested_deeper_than_python_reads_comes_cut() -> None:
    deep = "[" * 5_000 + r'"]]\"}"' + "]" * 5_000
    read = read_json(f'{{"a": "[[{{", "b": {deep}, "c": [[1], {{"d": 2}}], "e": {deep}, "f": 3}}')
    assert (read["a"], read["c"], read["f"]) == ("[[{", [[1], {"d": 2}], 3)
    depth, item = 0, read["b"]
    while isinstance(item, list):
        depth, item = depth + 1, item[0]
    assert (depth, math.isnan(item), read["e"] is read["b"]) == (199, True, False)


@pytest.mark.parametrize("text", ["[" * 5_000, "]" * 5_000, "{", '{"a', "[" * 5_000 + '"' + "]" * 5_000])
def test_what_is_no_json_is_refused_however_deep_it_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1 column \d+"):
        read_json(text)


def test_a_damaged_memory_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "handled.json"
    for text in ("{", "[]", '{"page": 3}', '{"page": ["x", 1]}', "null", "\xff", '{"page": [1e999, 1]}'):
        path.write_text(text, encoding="latin-1")
        handled = HandledCommands(path)
        assert handled.last("page") == 0
    handled.keep("page", 2)
    assert HandledCommands(path).last("page") == 2


def test_pages_of_long_ago_are_forgotten(tmp_path: Path) -> None:
    handled = HandledCommands(tmp_path / "handled.json")
    for i in range(600):
        handled.claim(str(i), 1)
        with handled.turn(str(i)):
            pass
    assert handled.last("599") == 1
    assert handled.last("0") == 0


# --- what waits is bounded ---------------------------------------------------------------------


def _status(state: str, run: str = "r", whole: bool = False, nodes: str = "a") -> StatusChanged:
    status = NodeStatus(
        state=state,
        reason="",
        attempt=1,
        started=None,
        ended=None,
        progress=None,
        made="",
        outputs=[],
        curve=[],
        failure=None,
    )  # type: ignore[arg-type]
    return StatusChanged(run_id=run, whole=whole, nodes=dict.fromkeys(nodes.split(), status))


def _checked(rev: int) -> Checked:
    return Checked(document="d", rev=rev, problems=[], previews={}, views={}, does={}, listed=True)


def _edited(rev: int, document: str = "d") -> Edited:
    return Edited(document=document, rev=rev, edit=str(rev), ops=[])


def _opened(document: str = "d") -> Opened:
    return Opened(document=document, rev=0, doc=EMPTY, edits=[])


def _log(first: int, count: int, reset: bool = False, node: str = "a") -> LogLines:
    lines = [LogLine(time=None, level="output", text=str(i)) for i in range(first, first + count)]
    return LogLines(run_id="r", node=node, reset=reset, lines=lines)


def _run(state: RunState) -> RunShown:
    run = RunInfo(
        run_id="r", state=state, profile="local", error="", created=0, started=None, ended=None, paused=0,
        cancelling=False, changes="", given="", limit="", limited=False, figures=[], against="",
    )  # fmt: skip
    return RunShown(document="d", run=run)


def _notices(link: Link) -> list[Notice]:
    return [p.notice for p in link.inbox().posted]


def test_a_newer_notice_replaces_an_older_one_where_only_the_newest_counts() -> None:
    link = Link(HandledCommands())
    for rev in range(1000):
        link.post(_checked(rev))
    assert _notices(link) == [_checked(999)]


def test_edits_are_never_lost_or_reordered_by_it() -> None:
    link = Link(HandledCommands())
    link.post(_opened())
    for rev in range(1, 60):
        link.post(_edited(rev))
        link.post(_checked(rev))
    assert _notices(link) == [_opened(), *(_edited(r) for r in range(1, 60)), _checked(59)]


def test_states_of_nodes_are_joined_until_they_were_shown_once() -> None:
    link = Link(HandledCommands())
    link.post(_run("running"))
    link.post(_status("queued", whole=True, nodes="a b c"))
    link.post(_status("running"))
    link.post(_status("done"))
    whole, *rest = [n for n in _notices(link) if isinstance(n, StatusChanged)]
    assert rest == []
    assert (whole.whole, {k: v.state for k, v in whole.nodes.items()}) == (
        True,
        {"a": "done", "b": "queued", "c": "queued"},
    )
    # Shown but not acknowledged: what comes now is sent by itself, not with all the nodes again.
    link.post(_status("running", nodes="b"))
    link.post(_status("done", nodes="b"))
    assert _notices(link) == [_run("running"), whole, _status("done", nodes="b")]
    link.post(_status("queued", run="another", whole=True))
    assert len(_notices(link)) == 4


def test_lines_of_a_log_are_joined_in_order_and_begun_anew_when_there_are_too_many() -> None:
    link = Link(HandledCommands())
    link.post(_log(0, 10, reset=True))
    link.post(_log(10, 10))
    assert _notices(link) == [_log(0, 20, reset=True)]
    link.post(_log(20, 10))
    assert _notices(link) == [_log(0, 20, reset=True), _log(20, 10)]
    link.post(_log(0, 5, reset=True, node="b"))
    assert _notices(link) == [_log(0, 5, reset=True, node="b")]
    link.post(_log(5, LINES_A_NOTICE, node="b"))
    assert [len(n.lines) for n in _notices(link) if isinstance(n, LogLines)] == [5, LINES_A_NOTICE]
    for first in range(0, MAX_LOG_LINES, 500):
        link.post(_log(first, 500, node="b"))
    assert link.log_lost
    link.post(_log(9000, 1, node="b"))
    assert _notices(link) == []
    link.post(_log(0, 1, reset=True, node="b"))
    assert not link.log_lost
    assert _notices(link) == [_log(0, 1, reset=True, node="b")]


def test_opening_drops_messages_about_the_document_before() -> None:
    link = Link(HandledCommands())
    before = (_opened("old"), _edited(1, "old"), _checked(1), message("kept"))
    for notice in (*before, _opened("d"), _edited(1), _checked(2)):
        link.post(notice)
    assert _notices(link) == [message("kept"), _opened("d"), _edited(1), _checked(2)]
    link.post(_opened("d"))
    assert _notices(link) == [message("kept"), _checked(2), _opened("d")]


def test_a_late_notice_of_another_document_takes_the_place_of_none() -> None:
    link = Link(HandledCommands())
    # A thread that checks the document before is still at it when the tab has gone to another.
    late = _checked(9).model_copy(update={"document": "old"})
    for notice in (_opened("old"), _opened("d"), _checked(1), late, _edited(10, "old")):
        link.post(notice)
    assert _notices(link) == [_opened("d"), _checked(1)]


def test_a_browser_that_never_acknowledges_costs_a_bounded_amount() -> None:
    link = Link(HandledCommands())
    link.post(_opened())
    for rev in range(MAX_NOTICES + 50):
        link.post(_edited(rev))
        link.inbox()
    assert link.overflowed
    assert _notices(link) == []
    link.post(message("dropped"))
    assert _notices(link) == []
    link.start_over()
    link.post(_opened())
    inbox = link.inbox()
    assert [p.notice for p in inbox.posted] == [_opened()]
    assert inbox.posted[0].n > MAX_NOTICES
    link.receive(Outbox(client="p", session=link.session, seen=inbox.posted[0].n, sent=[Sent(n=1, command=Seen())]))
    assert _notices(link) == []
