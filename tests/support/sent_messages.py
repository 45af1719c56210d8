"""What a page sends over its WebSockets, kept for a while as if the line to the server were slow."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page

_KEEP_SENT = """(path) => {
  window.sent = { keeps: false, kept: [], count: 0 };
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (data) {
    if (!this.url.includes(path)) return send.call(this, data);
    sent.count += 1;
    if (sent.keeps) sent.kept.push({ data, send: () => send.call(this, data) });
    else send.call(this, data);
  };
}"""


class SentMessages:
    """Of the sockets with `path` in their address. Made before the page is opened.

    In the page it is `sent`: `keeps`, what is `kept` (`data`, and `send` to let it go), and the `count` of all.
    """

    def __init__(self, page: Page, path: str = "") -> None:
        self._page = page
        page.add_init_script(f"({_KEEP_SENT})({json.dumps(path)})")

    @property
    def count(self) -> int:
        """How many were sent, kept ones included."""
        found: int = self._page.evaluate("sent.count")
        return found

    @property
    def kept(self) -> list[bytes]:
        """Those that wait; they are binary."""
        kept: list[list[Any]] = self._page.evaluate("sent.kept.map(({ data }) => [...data])")
        return [bytes(message) for message in kept]

    def keep(self) -> None:
        """From now on none leaves the page."""
        self._page.evaluate("sent.keeps = true; sent.kept = []")

    def let_go(self) -> None:
        """Send what was kept, and what comes."""
        self._page.evaluate("sent.keeps = false; sent.kept.splice(0).forEach(({ send }) => send())")
