"""The session that a run's Spark tasks share: starts in the background, is waited for, watched, and ended."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from engine import events
from engine.errors import ExecutionError
from engine.events import Event
from engine.profiles import Profile
from engine.spark.failures import last_words
from engine.spark.session import open_session
from engine.workspace import Workspace

_POLL_S = 0.1
_AGAIN_S = 0.5
_JAVA_ENDS_S = 2.0


class HeldSession:
    """One Spark session of one process. Made, it starts; `get` gives it."""

    def __init__(
        self, profile: Profile, name: str, workspace: Workspace, log: Path, folder: Path, emit: Callable[[Event], None]
    ) -> None:
        self.log = log
        self._profile, self._name, self._workspace, self._folder = profile, name, workspace, folder
        self._emit = emit
        self._begun = log.stat().st_size if log.exists() else 0
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._seconds, self._page = 0.0, ""
        self._told = False
        self._opener = threading.Thread(target=self._open, daemon=True)
        self._opener.start()

    def get(self, check_cancelled: Callable[[], None], say: Callable[[str], None]) -> SparkSession:
        """Wait for the session. Raises what its opening raised; `check_cancelled` may raise meanwhile."""
        while self._opener.is_alive():
            check_cancelled()
            self._opener.join(_POLL_S)
        if self._error is not None:
            raise self._error
        assert self._session is not None
        if not self._told:
            self._told = True
            page = f"; its UI: {self._page}" if self._page else ""
            say(f"Spark {self._session.version} at {self._profile.master}, started in {self._seconds:.0f} s{page}")
        return self._session

    @property
    def failed(self) -> bool:
        """Whether it could not be opened."""
        return self._error is not None

    def lost(self) -> ExecutionError | None:
        """Why the session that was open is gone; None while it lives (or has not begun)."""
        session = self._session
        if session is None or _lives(session):
            return None
        why = last_words(ExecutionError("its Java ended without a word"), self.log, self._begun)
        return ExecutionError(
            f"the Spark session has ended: {why}",
            hint=f"`voxelflow runs resume` goes on from what is done. Java's output is in {self.log}.",
        )

    def cancel_jobs(self, until: Callable[[], bool]) -> None:
        """End the jobs that run, and those that follow, until `until` says so. In a thread of its own."""

        def again() -> None:
            while not until() and self._session is not None:
                with contextlib.suppress(Exception):
                    self._session.sparkContext.cancelAllJobs()
                time.sleep(_AGAIN_S)

        threading.Thread(target=again, daemon=True).start()

    def close(self) -> None:
        """Stop it in good order, so that a cluster sees it finished."""
        self._opener.join()
        if self._session is not None:
            with contextlib.suppress(Exception):
                self._session.stop()
        self.ended()

    def ended(self) -> None:
        """Say that it is over."""
        self._emit(events.SparkSession(state="ended", master=self._profile.master))

    def _open(self) -> None:
        began = time.monotonic()
        try:
            session = open_session(
                self._profile, name=self._name, workspace=self._workspace, log=self.log, folder=self._folder
            )
        except BaseException as exc:
            self._error = exc
            return
        self._seconds = time.monotonic() - began
        context = session.sparkContext
        self._page = context.uiWebUrl or ""
        self._session = session
        self._emit(
            events.SparkSession(
                state="live",
                url=self._page,
                master=self._profile.master,
                application=context.applicationId,
            )
        )


def _lives(session: SparkSession) -> bool:
    context = session.sparkContext
    java = getattr(context._gateway, "proc", None)
    until = time.monotonic() + _JAVA_ENDS_S
    try:
        stopped = bool(context._jsc.sc().isStopped())
    except Exception:  # nobody answers: perhaps Java is just ending
        while java is not None and java.poll() is None and time.monotonic() < until:
            time.sleep(_POLL_S)
        return False
    return not stopped
