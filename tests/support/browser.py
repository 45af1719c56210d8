"""One Chromium for the browser tests, and what a page must not do while a test looks at it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request
from waiting import WAIT_S

ColorScheme = Literal["light", "dark"]
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SIZE = {"width": 1280, "height": 800}
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?: .*\n)+(\S.*)", re.MULTILINE)
TIMEOUT_MS = 1000 * WAIT_S
"""How long to wait for what must come: two cores may be busy with a run."""


def chromium() -> Path | None:
    """The browser: $VOXELFLOW_CHROMIUM, else the one that is installed."""
    for candidate in (os.environ.get("VOXELFLOW_CHROMIUM"), "/usr/bin/chromium", shutil.which("chromium")):
        if candidate and Path(candidate).exists():
            return Path(candidate)
    return None


def settled(page: Page) -> None:
    """Wait until the page is drawn. Asked at each frame: a live run's page on a busy machine rests for moments."""
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'",
        timeout=TIMEOUT_MS,
    )


class Troubles:
    """What must not happen, seen or unseen: errors on the console or in the server, requests to elsewhere."""

    def __init__(self) -> None:
        self._found: list[str] = []
        # Opened below its root, Streamlit first looks whether it is served below that path.
        self._allowed = [re.compile(r"404 .*/\w+/_stcore/(health|host-config)\)$")]
        self._pages: list[Page] = []
        self._watched: list[tuple[BrowserContext, str, Callable[[Any], None]]] = []

    def watch(self, context: BrowserContext, home: str) -> None:
        """Note what goes wrong in any page of `context`. `home` is the only place it may ask."""
        handlers: dict[str, Callable[[Any], None]] = {
            "console": self._console,
            "weberror": lambda error: self._found.append(f"uncaught: {error.error}"),
            "request": lambda request: self._request(request, urlsplit(home).netloc),
            "page": lambda page: self._pages.append(page),
        }
        self._pages += context.pages
        for event, handler in handlers.items():
            context.on(event, handler)  # type: ignore[call-overload]
            self._watched.append((context, event, handler))

    def leave(self) -> None:
        """Watch no longer."""
        for watched in self._watched:
            context, event, handler = watched
            context.remove_listener(event, handler)
        self._watched.clear()

    def allow(self, pattern: str) -> None:
        """Errors that match are meant: a lost connection while the server is away."""
        self._allowed.append(re.compile(pattern))

    def all(self, output: str) -> list[str]:
        """What was not allowed, in words: on the pages, and in the `output` of the server."""
        shown = [
            f"error box: {box.inner_text()}"
            for page in self._pages
            if not page.is_closed()
            for box in page.get_by_test_id("stException").all()
        ]
        logged = [f"server: {what}" for what in _TRACEBACK.findall(output)]
        return [text for text in (*self._found, *shown, *logged) if not any(p.search(text) for p in self._allowed)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._found.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Request, home: str) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != home:
            self._found.append(f"request to elsewhere: {request.url}")
