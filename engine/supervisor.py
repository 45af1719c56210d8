"""The run's own process: holds the run's lock, executes the plan, samples the machine, starts the tracker.

It is nobody's child in spirit: closing the terminal or the browser changes nothing. It ends when the
run has ended; when it is killed, its workers end too, and the run is shown as lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress

from engine.catalog import Catalog
from engine.environment import keep_environment
from engine.errors import ExecutionError
from engine.events import RunStateChanged
from engine.execute import Execution
from engine.plan import Plan
from engine.run_lock import ProcessLock
from engine.runs import RunStore
from engine.system_metrics import SystemSampler
from engine.worker_process import PROGRAM
from engine.workspace import Workspace

SAMPLE_INTERVAL_S = 5.0
TRACKING = "VOXELFLOW_TRACKING"
"""Environment variable: "off" keeps runs out of MLflow."""


def supervise(workspace: Workspace, run_id: str, catalog: Catalog) -> int:
    """Execute the run's plan to its end. The exit status is 0 when the run is done.

    Raises `ExecutionError` when another process is already at it.
    """
    folder = workspace.run_folder(run_id)
    lock = ProcessLock(folder / "lock")
    # A reader that asks whether the lock is held takes it for a moment; that is no rival.
    for _ in range(50):
        if lock.acquire():
            break
        time.sleep(0.02)
    else:
        raise ExecutionError(f"run {run_id} is already running", hint="`voxelflow runs show` tells how far it is.")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    store = RunStore(workspace)
    plan = Plan.model_validate_json((folder / "plan.json").read_text())
    store.set_tasks(run_id, [(t.node, t.node_type, t.title) for t in plan.tasks])
    store.begin_attempt(run_id)
    store.add_events(run_id, [RunStateChanged(state="running")])
    # Before the tracker, which sends it.
    with suppress(OSError):  # a full disk is for the tasks to tell
        keep_environment(workspace, run_id, plan, catalog)
    _start_tracker(workspace, run_id)
    execution = Execution(workspace, store, catalog, run_id, plan)
    signal.signal(signal.SIGTERM, lambda *_: execution.cancel())
    sampler, sampled_at = SystemSampler(workspace.root), 0.0

    def sample() -> None:
        nonlocal sampled_at
        if time.monotonic() - sampled_at >= SAMPLE_INTERVAL_S:
            sampled_at = time.monotonic()
            store.add_events(run_id, [sampler.sample([os.getpid(), *execution.pids])])

    try:
        state = execution.run(sample)
        error = execution.first_error
    except Exception as exc:  # a fault of ours must leave a run that says so, not one that hangs
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        state, error = "failed", f"{type(exc).__name__}: {exc} (see {folder / 'supervisor.log'})"
    store.add_events(run_id, [RunStateChanged(state=state, error=error)])
    store.finish_run(run_id, state, error)
    lock.release()
    return 0 if state == "done" else 1


def _start_tracker(workspace: Workspace, run_id: str) -> None:
    if os.environ.get(TRACKING, "").lower() == "off":
        return
    with (workspace.run_folder(run_id) / "tracker.log").open("ab") as output:
        subprocess.Popen(
            [*PROGRAM, "_track", str(workspace.root), run_id],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
