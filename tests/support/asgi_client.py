"""Asks an ASGI application without a server: in this process, and with any headers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.routing import BaseRoute


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    content: bytes


class AsgiClient:
    """Asks the routes as a server at 127.0.0.1:8501 does that has read a request."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._app = Starlette(routes=routes)

    def ask(self, address: str, method: str = "GET", body: bytes = b"", **headers: str) -> Got:
        """The answer to a request of a path with its query. Headers have `_` for `-`. Raises what a route raises."""
        return asyncio.run(self._ask(address, method, body, {"host": "127.0.0.1:8501", **headers}))

    async def _ask(self, address: str, method: str, body: bytes, headers: dict[str, str]) -> Got:
        path, _, query = address.partition("?")
        sent: list[Any] = []
        scope = {
            "type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(), "scheme": "http",
            "query_string": query.encode(), "server": ("127.0.0.1", 8501),
            "headers": [(n.replace("_", "-").lower().encode(), v.encode()) for n, v in headers.items()],
        }  # fmt: skip
        asked = iter([{"type": "http.request", "body": body}])

        async def receive() -> dict[str, Any]:
            # There is one request, and nobody hangs up.
            return next(asked, None) or await asyncio.Future()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Got(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))
