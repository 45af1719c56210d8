"""Follows the newest run of a document, whoever started it, and the logs its members watch.

It only reads the run store: the run is a process of its own and does not know of us. What is sent
each time is what has changed, so it does not grow with the graph.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from engine.events import TaskState
from engine.runs import Run, Task
from ui.build.background import Loop
from ui.build.link import LINES_A_NOTICE
from ui.build.room import Member, Room
from ui.build.status import node_status, run_info
from ui.build.task_log import TaskLog
from ui.protocol.notices import LogLines, RunShown, StatusChanged
from ui.protocol.status import NodeStatus, RunInfo
from ui.studio_context import Studio

ACTIVE_S = 0.2
QUIET_S = 1.0
_ENDED: frozenset[TaskState] = frozenset(("done", "cached", "failed", "cancelled", "skipped"))


class Following:
    """Keeps a room's members told of its newest run."""

    def __init__(self, room: Room, studio: Studio, each_second: Callable[[], None]) -> None:
        self.run_ended: Callable[[], None] = lambda: None
        """Called when a run has ended: what the next one would do is another question now."""
        self._room, self._studio, self._each_second = room, studio, each_second
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._info: RunInfo | None = None
        self._known = False
        self._name = ""
        self._statuses: dict[str, NodeStatus] = {}
        self._watched: dict[Member, str] = {}
        self._logs: dict[Member, TaskLog] = {}
        self._looked_at = 0.0
        self._loop = Loop("run", self._step, ended=studio.store.close)

    def poke(self) -> None:
        """Look now: a run was started, someone came in."""
        with self._lock:
            self._looked_at = 0.0
        self._loop.poke()

    def show(self, member: Member) -> None:
        """Tell a member the whole state; from now on it hears of changes."""
        with self._lock:
            if self._known and self._name == self._room.name:
                self._post_whole(member)
            self._logs.pop(member, None)
        self.poke()

    def watch(self, member: Member, node: str | None) -> None:
        """Stream the log of `node`'s task to `member`, from its beginning."""
        with self._lock:
            self._logs.pop(member, None)
            if node is None:
                self._watched.pop(member, None)
            else:
                self._watched[member] = node
        self._loop.poke()

    def leave(self, member: Member) -> None:
        with self._lock:
            self._watched.pop(member, None)
            self._logs.pop(member, None)

    def close(self) -> None:
        self._loop.close()

    # --- the loop ---------------------------------------------------------------------------

    def _step(self) -> float | None:
        if not self._room.members:
            with self._lock:
                self._known = False
            return None
        now = time.monotonic()
        if now - self._looked_at >= QUIET_S:
            self._looked_at = now
            self._each_second()
            self._room.look_at_disk()
            self._find_newest()
        elif self._run is not None and self._run.active:
            self._update(self._studio.store.run(self._run.run_id))
        self._post_logs()
        return ACTIVE_S if self._run is not None and self._run.active else QUIET_S

    def _find_newest(self) -> None:
        name = self._room.name
        newest = self._studio.store.runs(limit=1, pipeline=name)
        with self._lock:
            if name != self._name:
                # Renamed, which is a new document to the tabs.
                self._name, self._known = name, False
                self._logs.clear()
        if newest:
            self._update(newest[0])
            return
        with self._lock:
            if not self._known or self._run is not None:
                self._run = self._info = None
                self._statuses = {}
                self._known = True
                self._room.post(RunShown(document=self._room.document, run=None))

    def _update(self, run: Run) -> None:
        # The run was read before its tasks: once it says that it has ended, they are as they will stay.
        before = self._run
        same = before is not None and before.run_id == run.run_id and before.attempt == run.attempt
        if same and not run.active and before is not None and not before.active and self._known:
            return
        statuses = {t.node: node_status(_seen(t, run)) for t in self._studio.store.tasks(run.run_id)}
        with self._lock:
            info = run_info(run)
            if not self._known or self._info is None or self._info.run_id != run.run_id:
                self._run, self._info, self._statuses, self._known = run, info, statuses, True
                for member in self._room.members:
                    self._post_whole(member)
            else:
                changed = {n: s for n, s in statuses.items() if self._statuses.get(n) != s}
                if info != self._info:
                    self._room.post(RunShown(document=self._room.document, run=info))
                self._run, self._info, self._statuses = run, info, statuses
                if changed:
                    self._room.post(StatusChanged(run_id=run.run_id, whole=False, nodes=changed))
        if before is not None and not run.active and (before.active or before.run_id != run.run_id):
            self.run_ended()

    def _post_whole(self, member: Member) -> None:
        member.post(RunShown(document=self._room.document, run=self._info))
        if self._info is not None:
            member.post(StatusChanged(run_id=self._info.run_id, whole=True, nodes=self._statuses))

    # --- logs -------------------------------------------------------------------------------

    def _post_logs(self) -> None:
        with self._lock:
            run = self._run
            watched = dict(self._watched)
        if run is None:
            return
        for member, node in watched.items():
            with self._lock:
                log = self._logs.get(member)
                begins = log is None or (log.run_id, log.node) != (run.run_id, node)
                if begins or log is None:
                    log = self._logs[member] = TaskLog(self._studio.workspace, self._studio.store, run.run_id, node)
                status = self._statuses.get(node)
            # Reading a file takes its time: not under the lock.
            lines = log.lines(ended=not run.active or (status is not None and status.state in _ENDED))
            with self._lock:
                if self._logs.get(member) is not log:
                    continue
                if begins:
                    member.post(LogLines(run_id=run.run_id, node=node, reset=True, lines=lines[:LINES_A_NOTICE]))
                    lines = lines[LINES_A_NOTICE:]
                while lines:
                    member.post(LogLines(run_id=run.run_id, node=node, reset=False, lines=lines[:LINES_A_NOTICE]))
                    lines = lines[LINES_A_NOTICE:]


def _seen(task: Task, run: Run) -> Task:
    """A task of a run whose process is gone: whatever its row says, it does not run."""
    if run.state != "lost" or task.state not in ("running", "waiting", "queued"):
        return task
    return replace(task, state="cancelled", reason="the run's process ended without a word")
