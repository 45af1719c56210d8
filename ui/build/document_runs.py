"""The runs of a document: starts them, and follows the newest one, also one started elsewhere, with its logs.

Following only reads the run store: the run is a process of its own and does not know of us. What is
sent each time is what has changed, so it does not grow with the graph.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.catalog import Catalog
from engine.declare.events import TaskState
from engine.document.pipeline import ID_PATTERN, Pipeline
from engine.document.plan import Choice
from engine.document.values import read_texts
from engine.errors import UsageError
from engine.history.summary import run_before, tiles
from engine.limit import Limit, read_time
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import Run
from engine.sweep.changes import begun_anew
from engine.sweep.expected import SweepEstimate
from engine.sweep.start import start_sweep
from engine.sweep.trials import SweepInputs
from ui.build.background import Loop
from ui.build.document_sweeps import options_of
from ui.build.link import LINES_A_NOTICE
from ui.build.run_statuses import RunStatuses
from ui.build.shared_document import Member, SharedDocument
from ui.build.status import run_figures, run_info, table_figures
from ui.build.task_log import TaskLog
from ui.protocol.commands import RunLimit, StartRun, StartSweep
from ui.protocol.notices import LogLines, RunShown, StatusChanged
from ui.protocol.status import NodeStatus, RunInfo
from ui.studio_context import Studio

ACTIVE_S = 0.2
QUIET_S = 1.0
_ENDED: frozenset[TaskState] = frozenset(("done", "cached", "failed", "cancelled", "skipped"))


@dataclass(frozen=True)
class StartedSweep:
    """A sweep's number of trials, why it is a new one where one of the same settings is unfinished, and the time and
    cost that are expected; both as sentences, "" where there is none."""

    trials: int
    begun_anew: str
    expected: str


class DocumentRuns:
    """Starts runs of a document, and sends its members what its newest run does."""

    def __init__(self, shared: SharedDocument, studio: Studio, each_second: Callable[[], None]) -> None:
        self.run_ended: Callable[[], None] = lambda: None
        """Called when a run has ended: what the next one would do is another question now."""
        self._shared, self._studio, self._each_second = shared, studio, each_second
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._run: Run | None = None
        self._info: RunInfo | None = None
        self._known = False
        self._name = ""
        self._statuses: dict[str, NodeStatus] = {}
        self._watched: dict[Member, str] = {}
        self._logs: dict[Member, TaskLog] = {}
        self._looked_at = 0.0
        self._following: RunStatuses | None = None
        self._compared: tuple[str, int] | None = None
        self._differs = ("", "")
        self._loop = Loop("run", self._step, ended=studio.store.close)

    def start(self, pipeline: Pipeline, command: StartRun, catalog: Catalog) -> str:
        """Start a run of `pipeline`, the document as it stood when asked for. Gives the run's id. May take seconds.

        Raises `CheckFailed` with all problems, `UsageError` when one is just being started, and
        `ExecutionError` when the run's process does not come up.
        """
        studio = self._studio
        if not self._starting.acquire(blocking=False):
            raise UsageError("a run of this pipeline is just being started", hint="Wait a moment.")
        try:
            run_id, _ = launch.start(
                pipeline,
                catalog,
                studio.workspace,
                studio.store,
                values=read_texts(command.values, pipeline, catalog, studio.base),
                profile=find_profile(command.profile, studio.workspace),
                choice=Choice(start=command.start, end=command.end, fresh=command.fresh),
                base=studio.base,
                limit=None if command.limit is None else _limit(command.limit),
            )
            self.poke()
            launch.wait_started(studio.workspace, studio.store, run_id, attempt=1)
        finally:
            self._starting.release()
        return run_id

    def sweep(self, pipeline: Pipeline, command: StartSweep, catalog: Catalog) -> StartedSweep:
        """Start a sweep of `pipeline`, or go on with the same one that is unfinished.

        May take seconds. Raises `CheckFailed` with all problems, `UsageError` when nothing varies or its cost cannot be
        limited.
        """
        studio = self._studio
        limit = Limit() if command.limit is None else _limit(command.limit)
        options = options_of(command, pipeline, catalog, studio, self._shared.name, limit)
        profile = find_profile(command.profile, studio.workspace)
        asked = time.time()
        began = start_sweep(SweepInputs(pipeline, catalog, studio.workspace, studio.store, options, profile))
        self.poke()
        expected = SweepEstimate.of(began.options)
        why = begun_anew(began) if began.created >= asked else ""
        return StartedSweep(options.count, why, "" if expected is None else expected.line())

    def poke(self) -> None:
        """Look now: a run was started, or a tab has joined."""
        with self._lock:
            self._looked_at = 0.0
        self._loop.poke()

    def show(self, member: Member) -> None:
        """Send a member the whole state; changes follow."""
        with self._lock:
            if self._known and self._name == self._shared.name:
                self._post_whole(member)
            self._logs.pop(member, None)
        self.poke()

    def watch(self, member: Member, node: str | None) -> None:
        """Stream the log of `node`'s task to `member`, from its beginning; none of what is no node's id."""
        with self._lock:
            self._logs.pop(member, None)
            # The log's file is called after the node: another text could lead to any file of this computer.
            if node is None or not re.fullmatch(ID_PATTERN, node):
                self._watched.pop(member, None)
            else:
                self._watched[member] = node
        self._loop.poke()

    def leave(self, member: Member) -> None:
        """Send this member no more logs."""
        with self._lock:
            self._watched.pop(member, None)
            self._logs.pop(member, None)

    def close(self) -> None:
        """End the thread."""
        self._loop.close()

    # --- the loop ---------------------------------------------------------------------------

    def _step(self) -> float | None:
        if not self._shared.members:
            with self._lock:
                self._known = False
            return None
        now = time.monotonic()
        if now - self._looked_at >= QUIET_S:
            self._looked_at = now
            self._each_second()
            self._shared.look_at_disk()
            self._find_newest()
        elif self._run is not None and self._run.active:
            self._update(self._studio.store.run(self._run.run_id))
        self._post_logs()
        return ACTIVE_S if self._run is not None and self._run.active else QUIET_S

    def _find_newest(self) -> None:
        name = self._shared.name
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
                self._shared.post(RunShown(document=self._shared.id, run=None))

    def _update(self, run: Run) -> None:
        # The run was read before its tasks: once it says that it has ended, they are as they will stay.
        before = self._run
        same = before is not None and before.run_id == run.run_id and before.attempt == run.attempt
        if self._following is None or self._following.run_id != run.run_id:
            self._following = RunStatuses(run, self._studio.shown)
        following = self._following
        since = self._since(following)
        if same and not run.active and before is not None and not before.active and self._known:
            if self._info is not None and (self._info.changes, self._info.given) != since:
                with self._lock:
                    self._info = self._info.model_copy(update={"changes": since[0], "given": since[1]})
                    self._shared.post(RunShown(document=self._shared.id, run=self._info))
            return
        statuses = following.read(self._studio.store, run)
        info = self._info_of(run, *since)
        with self._lock:
            if not self._known or self._info is None or self._info.run_id != run.run_id:
                self._run, self._info, self._statuses, self._known = run, info, statuses, True
                for member in self._shared.members:
                    self._post_whole(member)
            else:
                changed = {n: s for n, s in statuses.items() if self._statuses.get(n) != s}
                if info != self._info:
                    self._shared.post(RunShown(document=self._shared.id, run=info))
                self._run, self._info, self._statuses = run, info, statuses
                if changed:
                    self._shared.post(StatusChanged(run_id=run.run_id, whole=False, nodes=changed))
        if before is not None and not run.active and (before.active or before.run_id != run.run_id):
            self.run_ended()

    def _since(self, following: RunStatuses) -> tuple[str, str]:
        """How the document differs from what the run ran, and which values the run alone was given.

        Compared when the document was edited in what a run would do.
        """
        compared = following.run_id, self._shared.changed_rev
        if compared != self._compared:
            now, then = self._shared.pipeline, following.document
            self._compared, self._differs = compared, (then.changes(now), then.own_values(now))
        return self._differs

    def _info_of(self, run: Run, changes: str, given: str) -> RunInfo:
        if run.state != "done":
            return run_info(run, changes, given)
        store = self._studio.store
        before = run_before(store, run)
        tasks = store.tasks(run.run_id)
        found = tiles(tasks, store.tasks(before.run_id) if before is not None else ())
        if not found:
            return run_info(run, changes, given, table_figures(tasks))
        return run_info(run, changes, given, run_figures(found), before.run_id if before is not None else "")

    def _post_whole(self, member: Member) -> None:
        member.post(RunShown(document=self._shared.id, run=self._info))
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
                if self._watched.get(member) != node:
                    continue  # the tab has left meanwhile, or watches another
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


def _limit(said: RunLimit) -> Limit:
    return Limit(read_time(said.stop_after) if said.stop_after.strip() else None, said.stop_at_cost)


def resume_run(studio: Studio, run_id: str, spawned: Callable[[], None]) -> None:
    """Go on with a run; `spawned` is called once its process exists. May take seconds.

    One that its limit has stopped goes on for as much again. Raises `UsageError` when it is running or done.
    """
    before = studio.store.run(run_id)
    limit = before.limit.more(before.worked_s, before.cost) if before.stopped_at_limit else None
    run = launch.resume(studio.workspace, studio.store, run_id, limit)
    spawned()
    launch.wait_started(studio.workspace, studio.store, run.run_id, run.attempt + 1)
