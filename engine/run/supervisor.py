"""The run's own process: holds the run's lock, executes the plan, samples the machine, starts the tracker.

It has a session of its own: closing the terminal or the browser changes nothing. It ends when the
run has ended; when it is killed, its workers end too, and the run is shown as lost.
"""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from engine.catalog import Catalog
from engine.declare.events import Message, RunState, RunStateChanged, SystemSample
from engine.document.plan import require_plan
from engine.environment import keep_environment
from engine.errors import ExecutionError, VoxelflowError
from engine.extras import missing, missing_text, tracking_is_off
from engine.processes.detached import start_detached
from engine.profiles import Profile
from engine.run import run_lock, start_lock
from engine.run.execute import Execution
from engine.run.monitor import INTERVAL_S, Monitor
from engine.run.system_metrics import SystemSampler, idle_share, mean_of
from engine.run.worker_process import PROGRAM
from engine.storage.io_errors import explain, explained
from engine.storage.process_lock import ProcessLock
from engine.store import ending as run_ending
from engine.store.ending import Ending
from engine.store.monitor import FILE as MONITOR
from engine.store.runs import Run, RunStore
from engine.wording import limit_line
from engine.workspace import Workspace

SAMPLE_INTERVAL_S = 5.0
"""Between two samples of the run's events, which go to MLflow; each is the mean of what the monitor measured."""
_RECORD_PATIENCE_S = 1.0
"""How long the run's process tries to record the run's end in the run store."""


def supervise(workspace: Workspace, run_id: str, catalog: Catalog) -> int:
    """Execute the run's plan to its end. The exit status is 0 when the run is done.

    Raises `ExecutionError` when another process is already at it, `FileError` when its lock or the run store
    cannot be opened.
    """
    folder = workspace.run_folder(run_id)
    with explained(folder, in_run=False):
        start = start_lock.handed_on(workspace)
        lock = run_lock.handed_on(folder)
        if lock is None:
            raise ExecutionError(f"run {run_id} is already running", hint="`voxelflow runs show` shows how far it is.")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        store = RunStore(workspace)
        before = store.run(run_id)
    attempt = before.attempt + 1
    execution: Execution | None = None
    unrecorded: Mapping[str, Mapping[str, Any]] = {}
    try:
        plan = require_plan(workspace, run_id)
        store.set_tasks(run_id, [(t.node, t.node_type, t.title) for t in plan.tasks])
        store.begin_attempt(run_id)
        store.add_events(run_id, [RunStateChanged(state="running")])
        # Before the tracker, which sends it.
        with suppress(OSError):  # a full disk: the tasks report it
            keep_environment(workspace, run_id, plan, catalog)
        _start_tracker(workspace, store, run_id)
        execution = Execution(workspace, store, catalog, run_id, plan, resumed=before.attempt > 0)
        state = _execute(execution, workspace, store, before, start, plan.profile)
        error = execution.first_error
    except Exception as exc:  # a fault of ours must leave a run that says so, not one that hangs
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        unrecorded = execution.unrecorded() if execution is not None else {}
        state, error = "failed", (execution.first_error if execution is not None else "") or _error_text(exc, folder)
    _record_end(store, folder, run_id, Ending(attempt=attempt, state=state, error=error, ended=time.time()), unrecorded)
    lock.release()
    return 0 if state == "done" else 1


def _execute(
    execution: Execution,
    workspace: Workspace,
    store: RunStore,
    before: Run,
    start: ProcessLock,
    profile: Profile,
) -> RunState:
    """Execute the plan of the run that was as in `before` when this attempt began; stop it at its limit."""
    run_id = before.run_id
    begun = store.run(run_id)
    # On a cluster the machine that is paid for is not the one that is seen from here.
    is_measured = profile.is_here
    ends_at = time.time() + begun.limit.seconds_left(begun.worked_s, begun.price)
    signal.signal(signal.SIGTERM, lambda *_: execution.cancel())
    sampler = SystemSampler(workspace.root)
    monitor = Monitor(workspace.run_folder(run_id) / MONITOR, sampler, profile)
    execution.on_progress = monitor.note
    idle_s = measured_s = 0.0
    sampled_at = kept_at = 0.0
    samples: list[SystemSample] = []

    def tick() -> None:
        nonlocal sampled_at, kept_at, ends_at
        if time.time() >= ends_at:
            ends_at = math.inf
            why = limit_line(store.run(run_id))
            store.request_cancel(run_id, why)
            # The run's error says how to go on, once it has ended.
            store.add_events(run_id, [Message(level="warning", text=why.partition(";")[0])])
            execution.cancel("the run has reached its limit")
        now = time.monotonic()
        if now - sampled_at < INTERVAL_S:
            return
        sampled_at = now
        sample()
        if now - kept_at >= SAMPLE_INTERVAL_S:
            kept_at = now
            keep()

    def sample() -> None:
        nonlocal idle_s, measured_s
        try:
            samples.append(monitor.sample(os.getpid(), execution.pids, execution.java))
        except (OSError, psutil.Error):
            return  # a run does not fail for want of a figure
        share = idle_share(samples[-1]) if is_measured else None
        if share is not None:
            idle_s += share * sampler.interval_s
            measured_s += sampler.interval_s

    def keep() -> None:
        nonlocal idle_s, measured_s
        if not samples:
            return
        store.add_sample(run_id, mean_of(samples), idle_s, measured_s)
        samples.clear()
        idle_s = measured_s = 0.0

    state = execution.run(tick, start)
    # Not after a failure: on a full disk the last space is for the run's end.
    if state == "done":
        with suppress(sqlite3.Error, OSError, VoxelflowError):
            sample()
            keep()
    monitor.flush()
    return state


def _error_text(exc: Exception, folder: Path) -> str:
    if (found := explain(exc, [folder])) is not None:
        return found.line()
    if isinstance(exc, VoxelflowError):
        return exc.line()
    return f"{type(exc).__name__}: {exc} (see {folder / 'supervisor.log'})"


def _record_end(
    store: RunStore, folder: Path, run_id: str, ending: Ending, unrecorded: Mapping[str, Mapping[str, Any]]
) -> None:
    """Record how the run ended, also on a full disk (see `engine.store.ending`)."""
    until, pause_s = time.monotonic() + _RECORD_PATIENCE_S, 0.1
    while True:
        try:
            store.record_end(run_id, ending.state, ending.error, attempt=ending.attempt, tasks=unrecorded)
        except sqlite3.Error as exc:
            print(
                f"error: the run's end could not be recorded: {_error_text(exc, folder)}", file=sys.stderr, flush=True
            )
            # At once: a kill from now on must not make the run one that died without a report.
            run_ending.write_ending(folder, ending)
            run_ending.free_reserve(folder)
            if time.monotonic() > until:
                print(f"error: {ending.error}", file=sys.stderr, flush=True)
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)
        else:
            run_ending.clear(folder)
            with suppress(sqlite3.Error):  # the log of the database then stays beside it
                store.checkpoint()
            return


def _start_tracker(workspace: Workspace, store: RunStore, run_id: str) -> None:
    if tracking_is_off():
        return
    if missing(["mlflow"]):
        message, hint = missing_text("tracking", ["mlflow"])
        text = f"{message}; the run goes on without it, and a later run sends this one. {hint}"
        store.add_events(run_id, [Message(level="warning", text=text)])
        return
    try:
        start_detached([*PROGRAM, "_track", str(workspace.root), run_id], workspace.run_folder(run_id) / "tracker.log")
    except OSError as exc:  # the next run's tracker sends this one too
        print(f"warning: the tracker did not start: {exc}", file=sys.stderr, flush=True)
