"""Record, start, resume and cancel sweeps: what the command line and the app call."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline, dump
from engine.errors import ExecutionError, UsageError
from engine.extras import require
from engine.failpoints import failpoint
from engine.limit import Limit, require_price
from engine.profiles import Profile, find_profile
from engine.run import run_lock
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep
from engine.sweep.changes import as_options, changed, record_changes
from engine.sweep.forecast import expect
from engine.sweep.options import SweepOptions
from engine.sweep.spent import resume_command, spent
from engine.sweep.trials import SweepInputs, check_values
from engine.workspace import Workspace

_LOG = "sweep.log"
_CLOCK_S = 2.0
"""By how much the time at which the system says that a process began may be off. A sweep takes longer."""


def start_sweep(inputs: SweepInputs) -> Sweep:
    """Record a sweep and start its process, or go on with an unfinished one that was asked for in the same words.

    Where what its nodes do or read is other than then, it is a new sweep: scores of other data or code do not compare.
    What is as it was is found in the cache.

    Raises what `check_sweep` does, and `CheckFailed` with the problems of the pipeline; then nothing was recorded.
    """
    pipeline, workspace, store = inputs.pipeline, inputs.workspace, inputs.store
    options, profile = inputs.options, inputs.profile
    check_sweep(pipeline, inputs.catalog, options, profile)
    work = inputs.work()
    kept = options.as_json(pipeline, profile.name)
    other: Sweep | None = None
    for earlier in store.sweeps.newest():
        if earlier.options.get("key") != kept["key"] or earlier.state == "done":
            continue
        # Whatever has changed here since: two sweeps at work would share the machine.
        if earlier.active and earlier.options.get("base") == kept["base"]:
            return earlier
        if changed(earlier, work):
            other = other or earlier
            continue
        limit = options.limit or None
        return resume_sweep(workspace, store, earlier.sweep_id, jobs=options.jobs, limit=limit)
    trials = list(options.space.combinations()) if options.trials is None else []
    kept |= as_options(work, other)
    expected = expect(inputs)
    if expected is not None:
        kept |= expected.as_options()
    sweep_id = store.sweeps.create(pipeline.name, dump(pipeline), kept, profile.name, trials)
    failpoint("sweep:recorded")
    _spawn(workspace, sweep_id)
    return store.sweeps.find(sweep_id)


def check_sweep(pipeline: Pipeline, catalog: Catalog, options: SweepOptions, profile: Profile) -> None:
    """Whether there can be such a sweep, without a look at data.

    Raises `CheckFailed` with the problems of every listed value, `UsageError` when nothing varies or a cost is limited
    that cannot be counted, and `MissingPackage` when a search lacks Optuna.
    """
    require_price(options.limit, profile.hourly_price, profile.name, "sweep", why=profile.unpriced)
    if options.trials is not None:
        require("a search", "optuna")
        if options.objective is None:
            raise UsageError("a search needs a figure to go by", hint="Add --maximise val_auc, or --minimise val_loss.")
    if not options.space.names:
        raise UsageError(
            "nothing varies in this sweep", hint="Give a parameter several values: --set learning_rate=1e-4,3e-4"
        )
    check_values(pipeline, catalog, options)


def resume_sweep(
    workspace: Workspace,
    store: RunStore,
    sweep_id: str,
    catalog: Catalog | None = None,
    *,
    jobs: int | None = None,
    limit: Limit | None = None,
) -> Sweep:
    """Go on with a sweep that was lost, failed or was cancelled, or is done with trials left; done trials stay.

    Left are those that were cancelled or, but in a search, failed (`SweepOptions.is_left`).

    With a `catalog` it also records whether data or code have changed since the sweep began (`record_changes`).
    `limit` is its limit from now on, in which its earlier attempts count; None: the one that it has. Raises
    `UsageError` when it is at work, has nothing left to do or has used its limit.
    """
    sweep = store.sweeps.find(sweep_id)
    if sweep.active:
        raise UsageError(
            f"sweep {sweep.sweep_id} is at work", hint=f"`voxelflow sweep cancel {sweep.sweep_id}` stops it."
        )
    options = SweepOptions.from_json(sweep.options)
    trials = store.sweeps.trials(sweep.sweep_id)
    if sweep.state == "done" and not options.is_left(trials):
        failed = "; a search tries no values again that failed" * any(trial.state == "failed" for trial in trials)
        raise UsageError(
            f"sweep {sweep.sweep_id} is done{failed}", hint=f"`voxelflow sweep show {sweep.sweep_id}` shows it."
        )
    if options.trials is not None:
        require("a search", "optuna")
    _require_something_left(workspace, store, sweep, sweep.limit if limit is None else limit)
    if limit is not None:
        store.sweeps.change(sweep.sweep_id, limit.as_options() or {"limit": None})
    if jobs is not None:
        store.sweeps.change(sweep.sweep_id, {"jobs": jobs})
    if catalog is not None:
        record_changes(workspace, store, catalog, sweep)
    _spawn(workspace, sweep.sweep_id)
    try:
        wait_started(workspace, store, sweep)
    except KeyboardInterrupt:
        if store.sweeps.find(sweep.sweep_id).attempt > sweep.attempt:
            cancel_sweep(store, sweep.sweep_id)
        else:  # the sweep stays as it was
            run_lock.kill_unbegun(workspace.sweep_folder(sweep.sweep_id), sweep.sweep_id)
        raise
    return store.sweeps.find(sweep.sweep_id)


def _require_something_left(workspace: Workspace, store: RunStore, sweep: Sweep, limit: Limit) -> None:
    if not limit:
        return
    profile = find_profile(sweep.profile, workspace)
    require_price(limit, profile.hourly_price, sweep.profile, "sweep", why=profile.unpriced)
    used = spent(store, sweep)
    if limit.is_used(used.worked_s, used.cost):
        raise UsageError(
            f"sweep {sweep.sweep_id} has used its limit of {limit.text(used.currency)}: it has spent {used.text()}",
            hint=f"Go on with a higher limit, {resume_command(sweep, used, limit)}, or with --no-limit without one.",
        )


def cancel_sweep(store: RunStore, sweep_id: str, *, at_once: bool = False) -> Sweep:
    """Ask a sweep to stop: it cancels its runs and ends; returns it as it is then.

    One whose process has not begun for long may hang: that is killed, with `at_once` after however short a time. So is
    one that was about to go on with a sweep that had ended, which stays as it was. Raises `UsageError` when the sweep
    is not at work.
    """
    sweep = store.sweeps.find(sweep_id)
    if sweep.ended is not None and _kill_unbegun(store, sweep):
        return store.sweeps.find(sweep.sweep_id)
    if not sweep.active:
        raise UsageError(
            f"sweep {sweep.sweep_id} is not at work; its state is {sweep.state}",
            hint="Choose one that `voxelflow sweep list` shows at work.",
        )
    store.sweeps.request_cancel(sweep.sweep_id)
    hangs = sweep.state == "starting" and (at_once or time.time() - sweep.created > run_lock.USUAL_START_S)
    if hangs and _kill_unbegun(store, sweep):
        store.sweeps.end_unbegun(sweep.sweep_id)
    return store.sweeps.find(sweep.sweep_id)


def _kill_unbegun(store: RunStore, sweep: Sweep) -> bool:
    """Kill the process of an attempt that has not begun, and not one that is ending the sweep."""
    folder = store.workspace.sweep_folder(sweep.sweep_id)
    return run_lock.kill_unbegun(folder, sweep.sweep_id, since=(sweep.ended or 0.0) - _CLOCK_S)


def wait_started(
    workspace: Workspace,
    store: RunStore,
    before: Sweep,
    timeout_s: float = run_lock.USUAL_START_S,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until the sweep's process has begun the attempt after `before`: as long as it lives, else `timeout_s`
    seconds, and no longer once `stop` says so. Raises `ExecutionError` when it does not begin."""
    folder = workspace.sweep_folder(before.sweep_id)
    if not run_lock.wait_begun(
        _children.get(before.sweep_id),
        folder,
        lambda: store.sweeps.find(before.sweep_id).attempt > before.attempt,
        lambda: store.sweeps.end_unbegun(before.sweep_id),
        timeout_s,
        stop,
    ):
        raise ExecutionError("the sweep's process did not start", hint=f"See {folder / _LOG}.")


def _spawn(workspace: Workspace, sweep_id: str) -> None:
    folder = workspace.sweep_folder(sweep_id)
    folder.mkdir(parents=True, exist_ok=True)
    _children[sweep_id] = run_lock.start_locked([*PROGRAM, "_sweep", str(workspace.root), sweep_id], folder, _LOG)


_children: dict[str, subprocess.Popen[bytes]] = {}
"""By sweep. Kept to notice one that dies at once; they live on when the caller ends."""
