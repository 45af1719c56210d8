"""Prepare, start, resume and cancel runs: what the command line, the app and notebooks call.

Preparing observes and plans in the caller's process, so that the problems of all nodes are reported together. The run
itself is a process of its own.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from engine.advisor.run_estimate import estimate_run
from engine.catalog import Catalog
from engine.declare.context import SAVE_REQUEST
from engine.diagnostics.rule import Diagnostic
from engine.document.checks import Observation
from engine.document.pipeline import Pipeline, dump
from engine.document.plan import PLAN, Choice, Plan, plan, plan_text, read_plan, require_plan
from engine.document.resolve import Resolved, resolve
from engine.document.values import with_values
from engine.errors import DiskFull, ExecutionError, UsageError
from engine.failpoints import failpoint
from engine.limit import Limit, require_price
from engine.observe.observe import observe
from engine.processes.system import kill_tree
from engine.profiles import Profile, find_profile
from engine.run import run_lock, start_lock
from engine.run.job import scratch_of
from engine.run.worker_process import PROGRAM
from engine.storage import is_url, place_from
from engine.storage.io_errors import explain, explained, full_disk
from engine.storage.process_lock import ProcessLock, is_held
from engine.store import ending as run_ending
from engine.store.runs import Run, RunStore
from engine.text import duration, money
from engine.wording import resume_command
from engine.workspace import Workspace, storage_of

_KILLED_S = 10.0
"""How long a killed process may take to be gone; one that waits in the kernel takes longer."""
_STUCK_S = 300.0
"""How long a run that does nothing is waited for: the machine may have slept, or a disk may answer again."""
_LOG = "supervisor.log"


@dataclass(frozen=True)
class Prepared:
    """A pipeline that is ready to run: what was observed and the plan made from it."""

    resolved: Resolved
    observation: Observation
    plan: Plan


def prepare(
    pipeline: Pipeline,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    *,
    values: Mapping[str, JsonValue] | None = None,
    profile: Profile | None = None,
    choice: Choice | None = None,
    base: Path | None = None,
    fresh_suffix: str = "",
) -> Prepared:
    """Observe and plan. `values` are the person's own, so the folders they name are allowed.

    Raises `CheckFailed` with the problems that were found in all nodes.
    """
    resolved = resolve(pipeline, catalog, values, base=base or workspace.root)
    texts = [v for v in (values or {}).values() if isinstance(v, str) and v]
    roots = [place for v in texts if is_url(place := place_from(base or workspace.root, v)) or os.path.isabs(place)]
    profile = profile or find_profile(None, workspace)
    storage = storage_of(workspace, profile.storage_root).root if profile.storage_root else None
    observation = observe(resolved, workspace, store, extra_roots=roots, storage=storage)
    made = plan(resolved, profile, observation, choice, fresh_suffix=fresh_suffix)
    return Prepared(resolved, observation, with_problems(made, catalog.problems))


def new_suffix() -> str:
    """What the new folders of forced work are named after: the plan needs it before the run is recorded."""
    return f"{time.time_ns():x}"[-10:]


def with_problems(made: Plan, problems: Iterable[Diagnostic]) -> Plan:
    """The plan with the catalogue's problems among its diagnostics."""
    return made.model_copy(update={"diagnostics": (*problems, *made.diagnostics)})


def start(
    pipeline: Pipeline,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    *,
    values: Mapping[str, JsonValue] | None = None,
    profile: Profile | None = None,
    choice: Choice | None = None,
    base: Path | None = None,
    also: Mapping[str, JsonValue] | None = None,
    limit: Limit | None = None,
) -> tuple[str, Plan]:
    """Plan a new run and start its process. Gives the run's id and its plan.

    `also` is noted among the run's options, such as the sweep that it belongs to. `limit` is the time and the cost at
    which it is stopped; None: that of the profile.
    Raises as `prepare` and `begin` do; then no run was recorded.
    """
    profile = profile or find_profile(None, workspace)
    require_price(profile.limit if limit is None else limit, profile.hourly_price, profile.name, why=profile.unpriced)
    choice = choice or Choice()
    suffix = new_suffix()
    options: dict[str, JsonValue] = {"start": choice.start, "end": choice.end, "fresh": choice.fresh, **(also or {})}
    if values:
        options["given"] = [*sorted(values)]
    with start_lock.starting(workspace):
        ready = prepare(
            pipeline, catalog, workspace, store,
            values=values, profile=profile, choice=choice, base=base, fresh_suffix=suffix,
        )  # fmt: skip
        failpoint("start:planned")
        options |= _estimated(ready, workspace, store)
        return begin(with_values(pipeline, values or {}), ready.plan, workspace, store, options, limit), ready.plan


def _estimated(ready: Prepared, workspace: Workspace, store: RunStore) -> dict[str, JsonValue]:
    """What is expected of the run, to be kept among its options."""
    try:
        expected = estimate_run(ready.plan, ready.resolved, ready.observation, workspace, store)
    except Exception as exc:  # a run does not fail for want of a figure
        warnings.warn(f"the run's time could not be estimated: {type(exc).__name__}: {exc}", stacklevel=2)
        return {}
    return expected.kept(task.node for task in ready.plan.to_run if task.goes_on).as_options()


def begin(
    document: Pipeline,
    made: Plan,
    workspace: Workspace,
    store: RunStore,
    options: Mapping[str, JsonValue],
    limit: Limit | None = None,
) -> str:
    """Record a new run of the plan that was made for `document`, and start its process. Gives the run's id.

    To be called within the same `start_lock.starting` as the planning: what the plan found in the cache is there
    still. Raises `DiskFull` or `FileError` when there is no space for it or no file handle left, `UsageError` when its
    cost is limited (`limit`; None: that of the profile) and no price is known.
    """
    text, used = dump(document), made.profile
    limit = used.limit if limit is None else limit
    require_price(limit, used.hourly_price, used.name, why=used.unpriced)
    kept: dict[str, JsonValue] = {**options, "backend": used.backend, **limit.as_options()}
    if used.hourly_price is not None:
        # As it was then: the files may name another price when someone asks what the run has cost.
        kept |= {"price_per_hour": used.hourly_price, "currency": used.currency, "machine": used.machine}
    files = {"pipeline.json": text, PLAN: plan_text(made, store.paths), _LOG: ""}
    with explained(workspace.root, in_run=False):
        run_id = store.create_run(document.name, text, kept, used.name, files)
        failpoint("start:recorded")
        try:
            _spawn(workspace, run_id)
        except OSError as exc:
            found = explain(exc, [workspace.root])
            store.record_end(run_id, "failed", found.line() if found else str(exc))
            raise
    return run_id


def resume(workspace: Workspace, store: RunStore, run_id: str, limit: Limit | None = None) -> Run:
    """Go on with a run that was lost, failed or was cancelled: finished tasks stay.

    `limit` is its limit from now on, in which its earlier attempts count; None: the one that it has. Raises
    `UsageError` when it is still running, is done or has used its limit, `DiskFull` when there is still no space.
    """
    run = store.run(run_id)
    if run.active:
        raise UsageError(f"run {run.run_id} is still running", hint=f"`voxelflow runs cancel {run.run_id}` stops it.")
    if run.state == "done":
        raise UsageError(f"run {run.run_id} is done", hint="`voxelflow run` starts a new one.")
    require_plan(workspace, run.run_id)
    limited = run.limit if limit is None else limit
    require_price(limited, run.price, run.profile)
    if limited.seconds_left(run.worked_s, run.price) <= 0:
        raise _used_up(run, limited)
    with explained(workspace.root):
        if limited != run.limit:
            store.set_limit(run.run_id, limited)
        # What is known of the last attempt before its files are used for the next.
        store.record_ending(run.run_id)
        run_ending.prepare(workspace.run_folder(run.run_id))
        _spawn(workspace, run.run_id)
    return run


def _used_up(run: Run, limit: Limit) -> UsageError:
    cost = f" and {money(run.price * run.worked_s / 3600, run.currency)}" if run.price else ""
    return UsageError(
        f"run {run.run_id} has used its limit of {limit.text(run.currency)}: it was at work for"
        f" {duration(run.worked_s)}{cost}",
        hint=f"Go on with a higher limit, {resume_command(run, limited=True)}, or with --no-limit without one.",
    )


def cancel(store: RunStore, run_id: str, why: str = "", *, at_once: bool = False) -> Run:
    """Ask a run to stop; returns it as it is then. `why` is shown with the cancelled run, for who did not ask.

    A stuck one would never read that: its process is killed here, and the run recorded as cancelled. So is that of a
    new one that has not begun for long, with `at_once` after however short a time. One that was about to go on with an
    earlier attempt is killed, and the run stays as it was. Raises `UsageError` when it is not running, `ExecutionError`
    when a stuck one cannot be ended.
    """
    run = store.run(run_id)
    if run.attempt and _kill_unbegun(store, run):
        return store.run(run.run_id)
    if not run.active:
        raise UsageError(
            f"run {run.run_id} is not running; its state is {run.state}",
            hint="Choose one that `voxelflow runs list` shows at work.",
        )
    store.request_cancel(run.run_id, why)
    if run.state == "stuck":
        _end_stuck(store, run)
    # One that was about to begin reads the request, or finds its run cancelled, as after any other kill.
    hangs = run.state == "starting" and (at_once or time.time() - run.created > run_lock.USUAL_START_S)
    if hangs and _kill_unbegun(store, run):
        store.end_unbegun(run.run_id)
    return store.run(run.run_id)


def _kill_unbegun(store: RunStore, run: Run) -> bool:
    """Kill the process of an attempt that has not begun: the run has the id of the one before."""
    return run_lock.kill_unbegun(store.workspace.run_folder(run.run_id), run.run_id, begun=run.pid)


def _end_stuck(store: RunStore, run: Run) -> None:
    """Kill the processes of a stuck run, and record what its supervisor would have recorded."""
    lock = ProcessLock(store.workspace.run_folder(run.run_id) / "lock")
    until = time.monotonic() + _KILLED_S
    if not kill_run(store.workspace, run):
        raise ExecutionError(
            f"run {run.run_id} is stuck, and its process {run.pid} cannot be killed from here",
            hint=f"End the process that has {lock.path} open; then `voxelflow runs resume {run.run_id}` goes on.",
        )
    while not lock.acquire():
        if store.run(run.run_id).attempt != run.attempt:
            return  # resumed already
        if time.monotonic() > until:
            raise ExecutionError(
                f"process {run.pid} of run {run.run_id} was killed and has not ended",
                hint="It waits for a disk or a network file system that does not answer, and ends when that does; "
                f"then `voxelflow runs resume {run.run_id}` goes on.",
            )
        time.sleep(0.02)
    try:
        if store.run(run.run_id).attempt == run.attempt:
            _record_killed(store, run)
    finally:
        lock.release()


def _record_killed(store: RunStore, run: Run) -> None:
    reason = "the run's process was stuck and was killed"
    columns = {"state": "cancelled", "reason": reason, "ended": time.time()}
    unended = [t.node for t in store.tasks(run.run_id) if t.state in ("queued", "waiting", "running")]
    store.record_end(run.run_id, "cancelled", reason, tasks=dict.fromkeys(unended, columns))


def request_save(workspace: Workspace, store: RunStore, run_id: str) -> list[str]:
    """Ask the tasks of a run that can to save their half-done work, without stopping; gives their nodes.

    Raises `UsageError` when there is none.
    """
    run = store.run(run_id)
    plan = read_plan(workspace, run.run_id)
    running = {task.node for task in store.tasks(run.run_id) if task.state == "running"} if run.active else set()
    asked = []
    if plan is not None:
        for task in plan.tasks:
            scratch = scratch_of(plan, workspace, task)
            if task.saves_on_request and task.node in running and scratch.is_dir():
                (scratch / SAVE_REQUEST).touch()
                asked.append(task.node)
    if not asked:
        raise UsageError(
            f"no task of run {run.run_id} is at work that can save what is half done",
            hint=f"`voxelflow runs show {run.run_id}` shows what it does. Training also saves checkpoints by itself.",
        )
    return asked


def wait_started(
    workspace: Workspace,
    store: RunStore,
    run_id: str,
    attempt: int,
    timeout_s: float = run_lock.USUAL_START_S,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until the run's process has begun its attempt: as long as it lives, else `timeout_s` seconds, and no longer
    once `stop` says so.

    Raises `ExecutionError` when it does not begin.
    """
    folder = workspace.run_folder(run_id)
    if run_lock.wait_begun(
        _children.get(run_id),
        folder,
        lambda: store.run(run_id).attempt >= attempt,
        lambda: _record_unbegun(store, run_id),
        timeout_s,
        stop,
    ):
        return
    if (full := full_disk(workspace.root)) is not None:
        raise DiskFull(f"the run's process did not start: {full.message}", hint=full.hint)
    raise ExecutionError("the run's process did not start", hint=f"See {folder / _LOG}.")


def _record_unbegun(store: RunStore, run_id: str) -> None:
    """A new run whose process is gone has failed, and can be resumed at once.

    Not on a full disk, which `wait_started` reports.
    """
    with suppress(sqlite3.Error, DiskFull):
        store.end_unbegun(run_id)


def ended(workspace: Workspace, store: RunStore, run_id: str, poll_s: float = 0.1) -> Iterator[Run]:
    """Yield the run about every `poll_s` seconds until it has ended; the last one is the ended run.

    Raises `ExecutionError` when it has been stuck for `_STUCK_S` seconds: it may never end.
    """
    moved = time.monotonic()
    while True:
        run = store.run(run_id)
        yield run
        if not run.active:
            return
        if run.state != "stuck":
            moved = time.monotonic()
        elif time.monotonic() - moved > _STUCK_S:
            raise ExecutionError(
                f"run {run_id} is stuck: its process {run.pid} lives and does nothing",
                hint=f"`voxelflow runs cancel {run_id}` ends it, `voxelflow runs resume {run_id}` then goes on.",
            )
        time.sleep(poll_s)


def _spawn(workspace: Workspace, run_id: str) -> None:
    with start_lock.starting(workspace) as start:
        _children[run_id] = run_lock.start_locked(
            [*PROGRAM, "_supervise", str(workspace.root), run_id],
            workspace.run_folder(run_id),
            _LOG,
            {start_lock.HANDED_ON: start.fileno()},
        )


_children: dict[str, subprocess.Popen[bytes]] = {}
"""By run. Kept to notice one that dies at once; they live on when the caller ends."""


def kill_run(workspace: Workspace, run: Run) -> bool:
    """Kill the run's process and its workers, and wait until they are gone; whether that process was found.

    The tracker lives on: it sends what there is.
    """
    import psutil

    lock = workspace.run_folder(run.run_id) / "lock"
    if run.pid is None or not is_held(lock):
        return False
    try:
        supervisor = psutil.Process(run.pid)
        # The number may be another process's by now.
        if not {"_supervise", run.run_id} <= set(supervisor.cmdline()):
            return False
        workers = []
        for child in supervisor.children():
            with suppress(psutil.Error):  # it has just ended, and a stuck supervisor never reaps it
                if "_worker" in child.cmdline():
                    workers.append(child.pid)
        supervisor.kill()
    except psutil.Error:
        return False
    for pid in workers:
        # They end by themselves when their supervisor is gone, unless they are stuck like it.
        kill_tree(pid)
    until = time.monotonic() + _KILLED_S
    while is_held(lock) and time.monotonic() < until:
        time.sleep(0.01)
    return True
