"""The canvas's WebSocket on a real server: who may connect, what arrives unasked, what is left when it ends."""

from __future__ import annotations

import gc
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from building import box, pipeline
from canvas_tab import OpenTab
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from streamlit import config
from waiting import WAIT_S, wait_until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from ui.build import connection
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.protocol.commands import Hello, MakeEdit
from ui.protocol.document import Op
from ui.protocol.link import SUBPROTOCOL, Inbox, Outbox, Sent
from ui.protocol.notices import Message, Others
from ui.studio import listen

Connect = Callable[..., ClientConnection]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server whose only route is the canvas's."""
    settings = uvicorn.Config(
        Starlette(routes=[WebSocketRoute("/canvas", connection.serve)]), ws="websockets-sansio", log_level="error"
    )
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.fixture
def reach(port: int) -> Iterator[Connect]:
    """Connects as a browser does, with an editor's ticket or any other."""
    with ExitStack() as opened:

        def to(ticket: str, *, host: str = "127.0.0.1", origin: str | None = None) -> ClientConnection:
            wire = connect(
                f"ws://{host}:{port}/canvas",
                sock=socket.create_connection(("127.0.0.1", port)),
                origin=Origin(origin or f"http://{host}:{port}"),
                subprotocols=[Subprotocol(SUBPROTOCOL), Subprotocol(ticket)],
            )
            return opened.enter_context(wire)

        yield to


def _hear(wire: ClientConnection, until: Callable[[Inbox], Any]) -> list[Inbox]:
    """All that comes, up to what was waited for."""
    out: list[Inbox] = []
    while not out or not until(out[-1]):
        out.append(Inbox.model_validate_json(wire.recv(timeout=WAIT_S)))
    return out


def _texts(inbox: Inbox) -> list[str]:
    return [p.notice.text for p in inbox.posted if isinstance(p.notice, Message)]


def _hello(wire: ClientConnection) -> Inbox:
    """Say hello and hear the document."""
    first = Inbox.model_validate_json(wire.recv(timeout=WAIT_S))
    outbox = Outbox(client="page", session=first.session, seen=0, sent=[Sent(n=1, command=Hello(document=None))])
    wire.send(outbox.model_dump_json())
    return _hear(wire, lambda inbox: inbox.handled == 1 and any(p.notice.type == "opened" for p in inbox.posted))[-1]


@pytest.fixture
def editor(documents: OpenDocuments) -> Editor:
    """A tab whose page has run; it shows the document `shared`."""
    documents.add(pipeline(box("a", "Make"), name="shared"))
    found = Editor(documents, address="shared")
    connection.invite(found)
    return found


class TestWhoMayConnect:
    def test_a_page_with_its_ticket(self, editor: Editor, reach: Connect) -> None:
        assert reach(editor.ticket).subprotocol == SUBPROTOCOL

    @pytest.mark.parametrize("ticket", ["wrong", "x" * 43])
    def test_nobody_without_one(self, editor: Editor, reach: Connect, ticket: str) -> None:
        with pytest.raises(InvalidStatus, match="403"):
            reach(ticket)

    @pytest.mark.slow
    def test_nobody_once_the_page_is_gone(self, documents: OpenDocuments, reach: Connect) -> None:
        ticket = connection.invite(Editor(documents))
        gc.collect()
        with pytest.raises(InvalidStatus, match="403"):
            reach(ticket)

    def test_no_other_web_site(self, editor: Editor, reach: Connect) -> None:
        with pytest.raises(InvalidStatus, match="403"):
            reach(editor.ticket, origin="http://evil.example")

    def test_no_other_host_name(self, editor: Editor, reach: Connect) -> None:
        before = config.get_option("server.allowedHosts")
        config.set_option("server.allowedHosts", ["localhost", "127.0.0.1"])
        try:
            reach(editor.ticket, host="localhost")
            with pytest.raises(InvalidStatus, match="403"):
                reach(editor.ticket, host="evil.example")
        finally:
            config.set_option("server.allowedHosts", before)


@pytest.mark.slow
def test_what_is_posted_arrives_unasked_and_once(editor: Editor, reach: Connect) -> None:
    wire = reach(editor.ticket)
    _hello(wire)
    for text in ("one", "two"):
        editor.post(Message(level="info", text=text, hint="", node=None, parameter=None))
        assert _texts(_hear(wire, _texts)[-1]) == [text]
    wire.close()
    # Nobody has said to have seen them.
    again = _hear(reach(editor.ticket), _texts)[-1]
    assert _texts(again) == ["one", "two"]


def test_it_sends_a_heartbeat(editor: Editor, reach: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEARTBEAT_S", 0.05)
    wire = reach(editor.ticket)
    heard = [Inbox.model_validate_json(wire.recv(timeout=WAIT_S)) for _ in range(3)]
    assert [inbox.posted for inbox in heard] == [[]] * 3


@pytest.mark.slow
def test_a_tab_is_there_as_long_as_it_is_connected(editor: Editor, reach: Connect, open_tab: OpenTab) -> None:
    other = open_tab(address="shared", client="second")

    def others() -> int:
        return other.turn().last(Others).count

    wire = reach(editor.ticket)
    _hello(wire)
    wait_until(lambda: others() == 1)
    # It has connected again before the server hears that the first connection is lost.
    second = reach(editor.ticket)
    _hear(second, lambda _: True)
    wire.close()
    other.set("description", to="both are here")
    _hear(second, lambda inbox: any(p.notice.type == "edited" for p in inbox.posted))
    assert others() == 1
    second.close()
    wait_until(lambda: others() == 0)
    other.set("description", to="meanwhile")
    opened = _hear(reach(editor.ticket), lambda inbox: any(p.notice.type == "opened" for p in inbox.posted))[-1]
    assert "meanwhile" in opened.model_dump_json()
    wait_until(lambda: others() == 1)


def test_what_a_connection_asks_for_as_it_ends_does_not_bring_the_tab_back(
    editor: Editor, documents: OpenDocuments, reach: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = reach(editor.ticket)
    _hello(wire)
    asked, left, answered = threading.Event(), threading.Event(), threading.Event()

    def late(*args: Any) -> Inbox:
        asked.set()
        assert left.wait(WAIT_S)
        out = Editor.inbox(editor, *args)
        answered.set()
        return out

    monkeypatch.setattr(editor, "inbox", late)
    editor.post(Message(level="info", text="news", hint="", node=None, parameter=None))
    assert asked.wait(WAIT_S)
    wire.close()
    shown = documents.open("shared").document
    wait_until(lambda: shown.members == [])
    left.set()
    assert answered.wait(WAIT_S)
    assert shown.members == []


@pytest.mark.parametrize("depth", [150, 1_000, 10_000])
def test_a_value_that_is_nested_too_deeply_is_refused_and_holds_up_nothing(
    editor: Editor, reach: Connect, depth: int
) -> None:
    wire = reach(editor.ticket)
    session = _hello(wire).session
    op = Op(path=["nodes", "a", "params", "text"], value="DEEP", remove=False)
    edit = MakeEdit(document="shared", edit="e", ops=[op])
    outbox = Outbox(client="page", session=session, seen=0, sent=[Sent(n=2, command=edit)]).model_dump_json()
    wire.send(outbox.replace('"DEEP"', "[" * depth + "]" * depth))
    heard = _hear(wire, _texts)[-1]
    assert (heard.handled, _texts(heard)) == (2, ["the node's value is nested too deeply"])
    edit = MakeEdit(document="shared", edit="f", ops=[Op(path=["description"], value="alive", remove=False)])
    wire.send(Outbox(client="page", session=session, seen=0, sent=[Sent(n=3, command=edit)]).model_dump_json())
    _hear(wire, lambda inbox: any(p.notice.type == "edited" for p in inbox.posted))


@pytest.mark.slow
@pytest.mark.parametrize("sent", ["{", b"\x00", json.dumps([1])])
def test_what_makes_no_sense_harms_nobody_else(editor: Editor, reach: Connect, sent: str | bytes) -> None:
    wire = reach(editor.ticket)
    _hello(wire)
    wire.send(sent)
    if sent != "[1]":
        with pytest.raises(ConnectionClosed):
            _hear(wire, lambda _: False)
        wire = reach(editor.ticket)
    editor.post(Message(level="info", text="alive", hint="", node=None, parameter=None))
    assert "alive" in _texts(_hear(wire, _texts)[-1])
