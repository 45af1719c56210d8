"""Which commands were handled, by browser page: the memory that makes each count once.

It outlives links: a page whose connection was lost comes back with a new link and sends again what
was not acknowledged. Numbers of commands that must not be done twice (start a run, make a copy) are
also kept on disk *before* they are done, so a restart of the server forgets none of them.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAGES = 500
"""Pages remembered. An older one that comes back has its say again; its edits are known by their ids."""


class Handled:
    """By client: the number of the last command that was handled. Used by several threads."""

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
            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._path)


def _read(path: Path) -> dict[str, tuple[int, float]]:
    # A damaged file costs the memory of what was done before a restart, and nothing else.
    with suppress(OSError, ValueError, TypeError, AttributeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(client): (int(n), float(at)) for client, (n, at) in found.items()}
    return {}
