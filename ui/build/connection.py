"""The WebSocket of a canvas: commands come in, and notices go out as soon as they are posted.

Only a script run of the Build page hands out the ticket of its tab, so the route is open to those who may see that
page, however this is decided, and to nobody else. Other web sites and host names are refused as by Streamlit's own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakValueDictionary

from anyio.to_thread import run_sync
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit.web.server.server_util import is_url_from_allowed_origins
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from ui.build.background import LOG
from ui.build.editor import Editor
from ui.build.link import read_json
from ui.protocol.link import HEARTBEAT_S, SUBPROTOCOL

_editors: WeakValueDictionary[str, Editor] = WeakValueDictionary()


def invite(editor: Editor) -> str:
    """The ticket with which the editor's canvas connects, for as long as Streamlit keeps the page's session."""
    _editors[editor.ticket] = editor
    return editor.ticket


async def serve(socket: WebSocket) -> None:
    """Serve one connection until either side ends it."""
    editor = _editor_of(socket)
    if editor is None:
        await socket.close(1008)  # not accepted yet: the answer is status 403
        return
    await socket.accept(SUBPROTOCOL)
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def ring() -> None:
        with suppress(RuntimeError):  # the server has ended, and threads go on to their next step
            loop.call_soon_threadsafe(news.set)

    editor.attach(ring)
    sending = asyncio.create_task(_send(socket, editor, news, ring))
    try:
        while True:
            await run_sync(editor.handle, read_json(await socket.receive_text()))
    except (WebSocketDisconnect, RuntimeError):
        pass  # either end has closed it
    except (ValueError, KeyError):
        LOG.warning("the browser sent what is no JSON text: its connection is closed")
    finally:
        sending.cancel()
        await run_sync(editor.detach, ring)


async def _send(socket: WebSocket, editor: Editor, news: asyncio.Event, ring: Callable[[], None]) -> None:
    sent = 0
    try:
        while True:
            news.clear()
            inbox = await run_sync(editor.inbox, sent, ring)
            sent = max((posted.n for posted in inbox.posted), default=sent)
            await socket.send_text(json.dumps(inbox.model_dump(mode="json"), allow_nan=False))
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), HEARTBEAT_S)
    except (WebSocketDisconnect, RuntimeError):
        pass  # so has the receiving side
    except Exception:
        LOG.exception("a notice could not be sent to the canvas")
        await socket.close(1011)


def _editor_of(socket: WebSocket) -> Editor | None:
    """Whose canvas this is; None when it may not connect."""
    host, origin = socket.headers.get("host"), socket.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == host or is_url_from_allowed_origins(origin)
    tickets = socket.scope["subprotocols"][1:] if ours and is_host_allowed(host) else ()
    return next((editor for ticket in tickets if (editor := _editors.get(ticket))), None)
