"""Record, start, resume and cancel sweeps: what the command line and the app call."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.document.pipeline import Pipeline, dump
from engine.document.plan import Choice
from engine.document.resolve import resolve
from engine.errors import ExecutionError, UsageError
from engine.extras import require
from engine.failpoints import failpoint
from engine.profiles import Profile
from engine.run.launch import Prepared, prepare
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep
from engine.sweep.options import SweepOptions
from engine.workspace import Workspace

_LOG = "sweep.log"
_MOST_CHECKED = 1_000
"""Combinations whose values are checked before the first run; of more, each is checked when its turn comes."""


def start_sweep(
    pipeline: Pipeline,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    options: SweepOptions,
    profile: Profile,
) -> Sweep:
    """Record a sweep and start its process, or go on with an unfinished one that was asked for in the same words.

    Raises `CheckFailed` with the problems of the pipeline and of every listed value, `UsageError` when nothing varies,
    and `MissingPackage` when a search lacks Optuna; then nothing was recorded.
    """
    if options.trials is not None:
        require("a search", "optuna")
        if options.objective is None:
            raise UsageError("a search needs a figure to go by", hint="Add --maximise val_auc, or --minimise val_loss.")
    if not options.space.names:
        raise UsageError(
            "nothing varies in this sweep", hint="Give a parameter several values: --set learning_rate=1e-4,3e-4"
        )
    check_values(pipeline, catalog, options)
    prepare_trial(pipeline, catalog, workspace, store, options, profile, first_values(options))
    kept = options.as_json(pipeline, profile.name)
    for earlier in store.sweeps.newest():
        if earlier.options.get("key") == kept["key"] and earlier.state != "done":
            return earlier if earlier.active else resume_sweep(workspace, store, earlier.sweep_id, jobs=options.jobs)
    trials = list(options.space.combinations()) if options.trials is None else []
    sweep_id = store.sweeps.create(pipeline.name, dump(pipeline), kept, profile.name, trials)
    failpoint("sweep:recorded")
    _spawn(workspace, sweep_id)
    return store.sweeps.find(sweep_id)


def first_values(options: SweepOptions) -> dict[str, JsonValue]:
    """The values of one trial: the first of each list, the lower end of each range."""
    out: dict[str, JsonValue] = {name: values[0] for name, values in options.space.lists.items()}
    for name, within in options.space.ranges.items():
        out[name] = int(within.low) if within.whole else within.low
    return out


def check_values(pipeline: Pipeline, catalog: Catalog, options: SweepOptions) -> None:
    """Raise `CheckFailed` with what is wrong with the values themselves, each problem once."""
    found: dict[str, Diagnostic] = {}
    for number, values in enumerate(_samples(options)):
        if number == _MOST_CHECKED:
            break
        resolved = resolve(pipeline, catalog, {**options.space.fixed, **values}, base=options.base)
        found |= {problem.line(): problem for problem in resolved.problems}
    if any(problem.severity == "error" for problem in found.values()):
        raise CheckFailed(list(found.values()))


def _samples(options: SweepOptions) -> Iterator[dict[str, JsonValue]]:
    """Sets of values that together contain each listed value and both ends of each range."""
    first = first_values(options)
    yield first
    for name, values in options.space.lists.items():
        yield from ({**first, name: value} for value in values[1:])
    for name, within in options.space.ranges.items():
        yield {**first, name: int(within.high) if within.whole else within.high}


def prepare_trial(
    pipeline: Pipeline,
    catalog: Catalog,
    workspace: Workspace,
    store: RunStore,
    options: SweepOptions,
    profile: Profile,
    values: Mapping[str, JsonValue],
) -> Prepared:
    """Look and plan as a run with these values does. Raises `CheckFailed`."""
    return prepare(
        pipeline, catalog, workspace, store,
        values={**options.space.fixed, **values}, profile=profile, choice=Choice(end=options.end), base=options.base,
    )  # fmt: skip


def resume_sweep(workspace: Workspace, store: RunStore, sweep_id: str, *, jobs: int | None = None) -> Sweep:
    """Go on with a sweep that was lost, failed or was cancelled, or in which a trial failed; done trials stay.

    Raises `UsageError` when it is at work, or has nothing left to do.
    """
    sweep = store.sweeps.find(sweep_id)
    if sweep.active:
        raise UsageError(
            f"sweep {sweep.sweep_id} is at work", hint=f"`voxelflow sweep cancel {sweep.sweep_id}` stops it."
        )
    trials = store.sweeps.trials(sweep.sweep_id)
    options = SweepOptions.from_json(sweep.options)
    left = len(trials) < options.count or any(t.state not in ("done", "pruned") for t in trials)
    if sweep.state == "done" and not left:
        raise UsageError(f"sweep {sweep.sweep_id} is done", hint=f"`voxelflow sweep show {sweep.sweep_id}` shows it.")
    if options.trials is not None:
        require("a search", "optuna")
    if jobs is not None:
        store.sweeps.change(sweep.sweep_id, {"jobs": jobs})
    _spawn(workspace, sweep.sweep_id)
    wait_started(workspace, store, sweep)
    return store.sweeps.find(sweep.sweep_id)


def cancel_sweep(store: RunStore, sweep_id: str) -> Sweep:
    """Ask a sweep to stop: it cancels its runs and ends; returns it as it is then.

    Raises `UsageError` when it is not at work.
    """
    sweep = store.sweeps.find(sweep_id)
    if not sweep.active:
        raise UsageError(f"sweep {sweep.sweep_id} is not at work; its state is {sweep.state}")
    store.sweeps.request_cancel(sweep.sweep_id)
    return store.sweeps.find(sweep.sweep_id)


def wait_started(workspace: Workspace, store: RunStore, before: Sweep, timeout_s: float = 60) -> None:
    """Wait until the sweep's process has begun the attempt after `before`. Raises `ExecutionError` when it does not."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        child = _children.get(before.sweep_id)
        died = child is not None and child.poll() is not None
        if store.sweeps.find(before.sweep_id).attempt > before.attempt:
            return
        if died:
            break
        time.sleep(0.05)
    raise ExecutionError(
        "the sweep's process did not start", hint=f"See {workspace.sweep_folder(before.sweep_id) / _LOG}."
    )


def _spawn(workspace: Workspace, sweep_id: str) -> None:
    folder = workspace.sweep_folder(sweep_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOG).open("ab") as output:
        process = subprocess.Popen(
            [*PROGRAM, "_sweep", str(workspace.root), sweep_id],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _children[sweep_id] = process
    # Reaped by a thread of its own: a long-lived caller must not collect dead processes.
    threading.Thread(target=process.wait, daemon=True).start()


_children: dict[str, subprocess.Popen[bytes]] = {}
"""By sweep. Kept to notice one that dies at once; they live on when the caller ends."""
