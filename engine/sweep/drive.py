"""The sweep's own process: starts a run for each trial, some at a time, and notes how each ended.

A kill at any moment loses nothing: trials are recorded before their runs start, each run names its trial from its first
moment, and runs live on without this process. The next one takes over the runs that are at work, resumes those that
died, and starts what is left.

It adds up the time that the sweep is at work and the cost of its runs, and cancels them at the sweep's limit.
"""

from __future__ import annotations

import math
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import load
from engine.document.plan import Choice, Plan, read_plan
from engine.errors import ChangedSincePlanned, ExecutionError, PipelineError, UsageError, VoxelflowError
from engine.extras import is_tracked
from engine.failpoints import failpoint
from engine.profiles import find_profile
from engine.run import launch, run_lock
from engine.store.runs import Run, RunStore
from engine.store.sweeps import Sweep, SweepState, Trial, TrialState
from engine.sweep.options import SweepOptions, objective_as_json, share_of
from engine.sweep.score import figures_of_run, source_of, steps_of_run, usual_objective
from engine.sweep.search import Search, open_search
from engine.sweep.spent import limit_line, spent, sums_by_currency, worked_alone
from engine.sweep.trials import SweepInputs
from engine.workspace import Workspace

_TICK_S = 0.1
_BEAT_S = 1.0
_MOST_ATTEMPTS = 3
"""How often a trial whose run died without reporting a result is resumed by itself."""


@dataclass
class _Active:
    """A trial whose run is at work. `work` are the fingerprints that the run is to make, by node."""

    trial: Trial
    run_id: str
    work: Mapping[str, str]
    seen: int = 0
    """Number of the newest event that was reported to the search."""
    pruned: bool = False


def drive(workspace: Workspace, sweep_id: str, catalog: Catalog) -> int:
    """Carry out a sweep to its end. The exit status is 0 when it is done.

    Raises `ExecutionError` when another process is already at it.
    """
    lock = run_lock.handed_on(workspace.sweep_folder(sweep_id))
    if lock is None:
        raise ExecutionError(f"sweep {sweep_id} is already at work", hint="`voxelflow sweep show` shows how far it is.")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    store = RunStore(workspace)
    store.sweeps.begin(sweep_id)
    state: SweepState
    try:
        driver = _Driver(workspace, store, catalog, sweep_id)
        signal.signal(signal.SIGTERM, lambda *_: driver.cancel())
        state, error = driver.run()
    except Exception as exc:  # a fault of ours must leave a sweep that says so
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        error = exc.line() if isinstance(exc, VoxelflowError) else f"{type(exc).__name__}: {exc}"
        state = "failed"
    store.sweeps.end(sweep_id, state, error)
    failpoint("sweep:ended")
    _close_in_mlflow(workspace, sweep_id)
    lock.release()
    return 0 if state == "done" else 1


def _close_in_mlflow(workspace: Workspace, sweep_id: str) -> None:
    import os

    if not is_tracked():
        return
    from engine.tracking.sweep_run import close_sweep

    os.nice(10)
    close_sweep(workspace, sweep_id)


class _Spent:
    """What the sweep has spent, added up while it is at work."""

    def __init__(self, store: RunStore, sweep: Sweep) -> None:
        self._store, self._sweep = store, sweep
        runs = store.runs_of_sweep(sweep.sweep_id)
        self._costs: dict[str, tuple[float, str]] = {}
        for run in runs:
            self.note(run)
        self._worked_s = sweep.worked_s + worked_alone(sweep, runs)
        self._counted_at, self._kept_at = time.monotonic(), -math.inf

    def note(self, run: Run) -> None:
        """Take what a run has cost by now; nothing of one without a price."""
        if run.cost is not None:
            self._costs[run.run_id] = run.cost, run.currency

    def count(self) -> None:
        """Add the time since the last call, and keep it from time to time."""
        now = time.monotonic()
        self._worked_s += now - self._counted_at
        self._counted_at = now
        if now - self._kept_at >= _BEAT_S:
            self._kept_at = now
            self.keep()

    def keep(self) -> None:
        """Note in the run store how long the sweep has been at work."""
        with suppress(sqlite3.Error):  # no space: the next time
            self._store.sweeps.beat(self._sweep.sweep_id, self._worked_s)

    @property
    def is_all(self) -> bool:
        """Whether nothing is left of the sweep's limit."""
        cost = next(iter(sums_by_currency([*self._costs.values()]).values()), None)
        return self._sweep.limit.is_used(self._worked_s, cost)

    def limit_line(self) -> str:
        """Which limit was reached, and how the sweep goes on."""
        now = self._store.sweeps.find(self._sweep.sweep_id)
        return limit_line(now, spent(self._store, now))


class _Driver:
    def __init__(self, workspace: Workspace, store: RunStore, catalog: Catalog, sweep_id: str) -> None:
        self._workspace, self._store, self._catalog, self._id = workspace, store, catalog, sweep_id
        sweep = store.sweeps.find(sweep_id)
        self._document = load(sweep.document, f"the document of sweep {sweep_id}")
        self._options = SweepOptions.from_json(sweep.options)
        self._profile_name, self._first = sweep.profile, sweep.attempt <= 1
        self._objective = self._options.objective
        self._source: str | None = None
        """The `node.name` that gives the objective's figure; None until a trial with it is done."""
        self._active: dict[int, _Active] = {}
        self._waiting: dict[int, Trial] = {}
        self._planned: dict[int, frozenset[str]] = {}
        self._search: Search | None = None
        self._cancelled = self._asked = self._at_limit = False
        self._spent = _Spent(store, sweep)

    def cancel(self) -> None:
        """Stop soon. Called in a signal handler: nothing is done here."""
        self._asked = True

    def run(self) -> tuple[SweepState, str]:
        """Give each trial its run; the sweep's state then, and what went wrong."""
        if self._options.trials is not None:
            self._search = open_search(self._workspace.sweep_folder(self._id), self._options)
        self._take_over()
        while True:
            if not self._cancelled and (self._asked or self._store.sweeps.find(self._id).cancel):
                self._cancel()
            for active in [*self._active.values()]:
                self._look(active)
            self._spent.count()
            if not self._cancelled and self._spent.is_all and self._is_more():
                self._at_limit = True
                self._cancel("the sweep has reached its limit")
            if not self._cancelled:
                self._start_more()
            if not self._active and (self._cancelled or not self._waiting):
                break
            time.sleep(_TICK_S)
        self._spent.keep()
        # What was at work at the limit may have ended well before it was cancelled.
        if self._cancelled and not (self._at_limit and self._is_all_done()):
            return "cancelled", self._spent.limit_line() if self._at_limit else ""
        trials = self._store.sweeps.trials(self._id)
        failed = [t for t in trials if t.state == "failed"]
        if trials and not any(t.state in ("done", "pruned") for t in trials):
            return ("failed", failed[0].error) if failed else ("cancelled", "")
        return "done", ""

    def _take_over(self) -> None:
        """See how far an earlier process of this sweep came; what failed is tried again, but not in a search."""
        again = ("waiting", "running", "cancelled", *(() if self._search is not None else ("failed",)))
        runs = self._store.sweeps.runs_of_trials(self._id)
        trials = self._store.sweeps.trials(self._id)
        if self._search is not None:
            self._search.forget_unrecorded({t.number for t in trials})
        for trial in trials:
            if trial.state in again:
                self._waiting[trial.number] = trial
            elif trial.state == "pruned" and trial.number in runs:
                with suppress(UsageError):  # it has ended
                    launch.cancel(self._store, runs[trial.number], trial.error)
            if self._source is None and trial.state == "done" and trial.number in runs:
                self._source = self._source_of(runs[trial.number])
            if self._search is not None and trial.ended and trial.state != "cancelled":
                # A kill may have come between the store and the search.
                self._search.ended(trial.number, trial.state, trial.score)

    def _cancel(self, why: str = "") -> None:
        self._cancelled = True
        for active in self._active.values():
            with suppress(UsageError, ExecutionError):  # it has just ended
                launch.cancel(self._store, active.run_id, why)

    def _is_more(self) -> bool:
        """Whether a trial is at work, waits, or is still to be chosen."""
        if self._active or self._waiting:
            return True
        return self._search is not None and len(self._store.sweeps.trials(self._id)) < self._options.count

    def _is_all_done(self) -> bool:
        trials = self._store.sweeps.trials(self._id)
        return len(trials) >= self._options.count and all(t.state in ("done", "pruned") for t in trials)

    # --- what is at work ------------------------------------------------------------------------

    def _look(self, active: _Active) -> None:
        run = self._store.run(active.run_id)
        self._spent.note(run)
        if run.active:
            if self._search is not None and not active.pruned and not self._cancelled:
                self._maybe_prune(active, self._search)
            return
        if run.state == "lost" and run.attempt < _MOST_ATTEMPTS and not self._cancelled and not active.pruned:
            try:
                launch.resume(self._workspace, self._store, run.run_id)
                launch.wait_started(self._workspace, self._store, run.run_id, run.attempt + 1)
                return
            except VoxelflowError as exc:
                run = replace(run, error=exc.line())
        del self._active[active.trial.number]
        if active.pruned and run.state != "done":
            assert self._search is not None
            self._search.ended(active.trial.number, "pruned", None)
        else:  # or it was quicker than the request to stop
            self._ended(active.trial, run, active.seen)

    def _source_of(self, run_id: str) -> str | None:
        return None if self._objective is None else source_of(self._store, run_id, self._objective.figure)

    def _maybe_prune(self, active: _Active, search: Search) -> None:
        assert self._objective is not None
        number, figure = active.trial.number, self._objective.figure
        if self._source is None:
            # Of two nodes that report it, one gives the score: a trial is not given up for the figures of the other.
            return
        active.seen, steps = steps_of_run(self._store, active.run_id, self._source, active.seen)
        for step, value in steps:
            if search.gives_up(number, step, value):
                active.pruned = True
                why = f"given up at step {step}: {figure} was {value:.4g}, worse than in other trials by then"
                self._store.sweeps.set_trial(self._id, number, "pruned", score=value, error=why)
                failpoint("sweep:pruned")
                with suppress(UsageError):  # it has just ended
                    launch.cancel(self._store, active.run_id, why)
                return

    def _ended(self, trial: Trial, run: Run, seen: int = 0) -> None:
        score, error = None, run.error
        if run.state == "done":
            figures = figures_of_run(self._store, run.run_id)
            if self._objective is None:
                self._objective = usual_objective(figures)
                self._store.sweeps.change(self._id, objective_as_json(self._objective))
            if self._objective is not None:
                score = figures.get(self._objective.figure)
                if score is None:
                    known = ", ".join(sorted(name for name in figures if "." not in name)) or "none"
                    error = f"it has no figure {self._objective.figure}; it has: {known}"
                elif not math.isfinite(score):
                    # No score: it would be the best of all, or the worst, and says nothing of the values.
                    score, error = None, f"its {self._objective.figure} is {score}"
            self._source = self._source or self._source_of(run.run_id)
            if self._search is not None and self._source is not None:
                # What others are compared with, also where it was not known yet which steps count.
                for step, value in steps_of_run(self._store, run.run_id, self._source, seen)[1]:
                    self._search.gives_up(trial.number, step, value)
            self._set(trial, "done", score, error)
        elif run.state == "cancelled" and not run.stopped_at_limit:
            self._set(trial, "cancelled", None, "")
        else:
            self._set(trial, "failed", None, error or "the run's process died without reporting a result")

    def _set(self, trial: Trial, state: TrialState, score: float | None, error: str) -> None:
        self._store.sweeps.set_trial(self._id, trial.number, state, score=score, error=error)
        failpoint("sweep:trial-ended")
        if self._search is not None and state != "cancelled":
            self._search.ended(trial.number, state, score)

    # --- what comes next ------------------------------------------------------------------------

    def _start_more(self) -> None:
        while len(self._active) < self._options.jobs:
            trial = self._next()
            if trial is None:
                return
            del self._waiting[trial.number]
            try:
                self._begin(trial)
            except (CheckFailed, UsageError, PipelineError) as exc:
                self._set(trial, "failed", None, _reason(exc))

    def _next(self) -> Trial | None:
        """The next trial that may begin: none that would make what another run is making just now."""
        busy = self._being_made()
        for trial in self._waiting.values():
            if not busy or not busy & self._to_make(trial):
                return trial
        if self._search is None or self._waiting or len(self._store.sweeps.trials(self._id)) >= self._options.count:
            return None
        number, values = self._search.next()
        self._store.sweeps.add_trial(self._id, number, values)
        failpoint("sweep:trial-recorded")
        self._waiting[number] = next(t for t in self._store.sweeps.trials(self._id) if t.number == number)
        return self._next()

    def _being_made(self) -> set[str]:
        out: set[str] = set()
        for active in self._active.values():
            ended = {
                t.node
                for t in self._store.tasks(active.run_id)
                if t.state in ("done", "cached", "failed", "cancelled", "skipped")
            }
            out |= {fingerprint for node, fingerprint in active.work.items() if node not in ended}
        return out

    def _to_make(self, trial: Trial) -> frozenset[str]:
        """The fingerprints that the trial's run would make, planned once."""
        if trial.number not in self._planned:
            try:
                inputs = SweepInputs(
                    self._document, self._catalog, self._workspace, self._store, self._options,
                    find_profile(self._profile_name, self._workspace),
                )  # fmt: skip
                self._planned[trial.number] = frozenset(_work(inputs.prepare(trial.values).plan).values())
            except VoxelflowError:
                self._planned[trial.number] = frozenset()  # said when it begins
        return self._planned[trial.number]

    def _begin(self, trial: Trial) -> None:
        """Give the trial its run: the one it has already, as far as that came, else a new one.

        One that cannot go on, since its data or code has changed, is planned anew, which takes over what is done.
        """
        before = self._store.sweeps.runs_of_trials(self._id).get(trial.number)
        run = self._store.run(before) if before is not None else None
        plan = read_plan(self._workspace, run.run_id) if run is not None else None
        if run is not None and run.state == "done":
            self._ended(trial, run)
            return
        if run is None or plan is None or self._has_changed(run):
            profile = share_of(find_profile(self._profile_name, self._workspace), self._options.jobs)
            run_id, plan = launch.start(
                self._document,
                self._catalog,
                self._workspace,
                self._store,
                values={**self._options.space.fixed, **trial.values},
                profile=profile,
                choice=Choice(end=self._options.end),
                base=self._options.base,
                also={"sweep": self._id, "trial": trial.number},
            )
            failpoint("sweep:run-started")
        else:
            run_id = run.run_id
            if not run.active:
                launch.resume(self._workspace, self._store, run_id)
                launch.wait_started(self._workspace, self._store, run_id, run.attempt + 1)
        self._store.sweeps.set_trial(self._id, trial.number, "running")
        self._active[trial.number] = _Active(trial, run_id, _work(plan))

    def _has_changed(self, run: Run) -> bool:
        tasks = self._store.tasks(run.run_id) if run.state == "failed" else ()
        return any((task.failure or {}).get("code") == ChangedSincePlanned.code for task in tasks)


def _work(plan: Plan) -> dict[str, str]:
    return {task.node: task.identity.fingerprint for task in plan.to_run}


def _reason(exc: VoxelflowError) -> str:
    if isinstance(exc, CheckFailed):
        return "; ".join(d.line() for d in exc.diagnostics if d.severity == "error")
    return exc.line()
