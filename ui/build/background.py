"""Threads beside the browser's requests: loops that sleep until they are needed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger("voxelflow.studio")
_RETRY_S = 5.0
_CLOSE_TIMEOUT_S = 5.0


class Loop:
    """Calls `step` in a daemon thread of its own, whenever poked and again after the seconds it gives.

    When `step` gives None there is nothing to do: the thread waits for a poke, and ends after
    `linger_s` without one. `ended` is called in the thread at its end. A step that raises is logged and repeated
    after 5 s.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float | None],
        *,
        ended: Callable[[], None] = lambda: None,
        linger_s: float = 60.0,
    ) -> None:
        self._name, self._step, self._ended, self._linger_s = name, step, ended, linger_s
        self._lock = threading.Lock()
        self._poked = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def poke(self) -> None:
        """Call `step` soon. Cheap: may be done for every keystroke."""
        with self._lock:
            self._poked.set()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread after the step it is at. One that takes too long is left to end by itself."""
        with self._lock:
            self._closed = True
            self._poked.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_TIMEOUT_S)

    @property
    def alive(self) -> bool:
        """Whether the thread exists and runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._closed:
                self._poked.clear()
                try:
                    pause = self._step()
                except Exception:  # whatever went wrong, the next step may find it solved
                    LOG.exception("%s failed", self._name)
                    pause = _RETRY_S
                if self._poked.wait(self._linger_s if pause is None else pause) or pause is not None:
                    continue
                with self._lock:
                    # A poke may have come between the wait and here.
                    if not self._poked.is_set():
                        self._thread = None
                        return
        finally:
            self._ended()
