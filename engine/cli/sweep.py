"""`voxelflow sweep`: run a pipeline with many sets of values, some at a time; show, list, resume and cancel sweeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.session import (
    Session,
    json_option,
    limit_of,
    profile_option,
    stop_options,
    workspace_option,
)
from engine.cli.sweep_report import (
    dry_run_of,
    options_of,
    outlook,
    plans_as_json,
    ranked_trials,
    report,
    resources,
    score_text,
    sweep_as_json,
    trial_as_json,
)

if TYPE_CHECKING:
    from engine.profiles import Profile
    from engine.store.runs import RunStore
    from engine.store.sweeps import Sweep, Trial
    from engine.workspace import Workspace

_POLL_S = 0.1
_STATUS = {"done": 0, "failed": 1, "lost": 3, "cancelled": 130}
_TRACKING_PATIENCE_S = 60.0


class _Sweep(click.Group):
    """`sweep PIPELINE` is short for `sweep start PIPELINE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["start", *args]
        return super().parse_args(ctx, args)


@click.group("sweep", cls=_Sweep, short_help="Run a pipeline with many sets of values, and rank them.")
def command() -> None:
    """Run a pipeline with many sets of values."""


@command.command("start", short_help="Start a sweep and follow it: `voxelflow sweep PIPELINE` does the same.")
@click.argument("pipeline")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUES",
    help="Values of a parameter of the pipeline, or NODE.PARAMETER of a node, separated by commas; can be repeated."
    " One value alone is that of all trials. With --trials also a range: 16..64, 0.1..0.9, 1e-5..1e-2:log or, in"
    " steps, 16..64:16. A comma within brackets or quotes belongs to a value.",
)
@click.option(
    "--trials",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Search: try N sets of values, each chosen by what the ones before came to (Optuna).",
)
@click.option("--maximise", metavar="FIGURE", help="The figure that is best when high, such as val_auc or NODE.auc.")
@click.option("--minimise", metavar="FIGURE", help="The figure that is best when low, such as val_loss.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N", help="Trials at a time.")
@click.option("--no-prune", is_flag=True, help="In a search, run every trial to its end.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="The search's own seed.")
@click.option("--to", "end", metavar="NODE", help="Run only this node and what it needs.")
@stop_options("sweep")
@click.option("--dry-run", is_flag=True, help="Show the trials, what each would run and what it takes; start nothing.")
@click.option("--detach", is_flag=True, help="Start the sweep, print its id and return.")
@profile_option
@json_option
@workspace_option
@click.pass_obj
def start(
    session: Session,
    pipeline: str,
    settings: tuple[str, ...],
    trials: int | None,
    maximise: str | None,
    minimise: str | None,
    jobs: int,
    no_prune: bool,
    seed: int,
    end: str | None,
    stop_after: str | None,
    stop_at_cost: float | None,
    dry_run: bool,
    detach: bool,
    profile: str | None,
    as_json: bool,
    root: Path | None,
) -> int:
    """Run PIPELINE with every combination of the given values, or search them, and rank the trials.

    \b
      voxelflow sweep quickstart --set train.learning_rate=1e-4,3e-4 --set train.width=16,32
      voxelflow sweep quickstart --set train.learning_rate=1e-5..1e-2:log --trials 20 --maximise val_auc

    Each trial is a run. What is up to date is not run again, so the data is prepared once: a trial waits while another
    makes what it needs too. With --jobs each trial gets its part of the profile's cores and memory.

    Before it starts it says how long it is expected to take and what it will cost, as a range: what trials share is
    counted once, what is not known is called unknown. --dry-run says it of each trial and starts nothing.

    With --stop-after or --stop-at-cost the whole sweep is stopped there: its runs are cancelled, what is done is kept,
    and `voxelflow sweep resume` goes on with a higher limit. The time is that of the clock while the sweep is at work,
    however many trials run at a time; the cost is the sum of its runs' costs, each by its own time, also where several
    share a machine. All attempts count together, the time between them does not. A limit of the profile is that of
    each trial. A sweep whose process was killed stops nothing: its runs go on to their ends.

    The sweep is a process of its own. The first Ctrl-C cancels it and waits, the second leaves it to itself; closing
    the terminal leaves it at work. After a kill or a cancel the same command goes on, or `voxelflow sweep resume ID`:
    trials that are done are not repeated. Where data or a node's code has changed since, the same command begins a new
    sweep, so that all its scores are of the same; `resume` warns.

    Without --maximise or --minimise the trials are ranked by the first of val_auc, val_accuracy, val_loss and their
    like that they report. A search needs one of both. It ends trials that after some epochs are worse than half of the
    others were by then.

    \b
    voxelflow sweep list            the sweeps of the workspace
    voxelflow sweep show ID         the trials, best first
    voxelflow sweep resume ID       go on; also with trials that failed (not in a search), or with a higher limit
    voxelflow sweep cancel ID       stop it and its runs

    Exit status: 0 when all trials ended well, 1 when some failed or were cancelled, 130 when the sweep was cancelled
    or stopped at its limit.
    """
    from engine.cli.screen import say
    from engine.errors import UsageError
    from engine.limit import Limit
    from engine.profiles import find_profile
    from engine.store.runs import RunStore
    from engine.sweep.changes import begun_anew
    from engine.sweep.options import SweepOptions
    from engine.sweep.score import Objective
    from engine.sweep.space import read_space
    from engine.sweep.start import start_sweep
    from engine.sweep.trials import SweepInputs

    if maximise is not None and minimise is not None:
        raise UsageError(
            "--maximise and --minimise are both given", hint="Choose the one figure by which trials are ranked."
        )
    workspace = session.workspace(root)
    document, catalog, _ = session.pipeline(pipeline, (), workspace)
    figure = maximise or minimise
    options = SweepOptions(
        space=read_space(settings, document, catalog, searched=trials is not None),
        objective=None if figure is None else Objective(figure, maximise is not None),
        trials=trials,
        jobs=jobs,
        prune=not no_prune,
        seed=seed,
        base=Path.cwd(),
        end=end,
        source=pipeline,
        limit=limit_of(Limit(), stop_after, stop_at_cost, no_limit=False),
    )
    where = find_profile(profile, workspace)
    store = RunStore(workspace)
    inputs = SweepInputs(document, catalog, workspace, store, options, where)
    if dry_run:
        return dry_run_of(inputs, as_json=as_json)
    asked = time.time()
    began = start_sweep(inputs)
    if began.created >= asked and (why := begun_anew(began)):
        say(why, error=as_json)
    return _follow(workspace, store, began, where, detach=detach, as_json=as_json)


@command.command("resume", short_help="Go on with a sweep that was lost, was cancelled, or has trials left.")
@click.argument("sweep", default="last")
@click.option("--jobs", type=click.IntRange(1, 64), metavar="N", help="Trials at a time. Default: as before.")
@stop_options("sweep")
@click.option("--no-limit", is_flag=True, help="Go on without a limit for the whole sweep.")
@click.option("--detach", is_flag=True, help="Start it and return.")
@json_option
@workspace_option
@click.pass_obj
def resume(
    session: Session,
    sweep: str,
    jobs: int | None,
    stop_after: str | None,
    stop_at_cost: float | None,
    no_limit: bool,
    detach: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Go on with SWEEP: trials that are done stay, those that were at work go on from what is done.

    One that its limit has stopped needs a higher one, in which what it has spent before counts, or --no-limit.

    Trials that failed are run again, but not in a search, which has learnt from them. A sweep that is done and has
    nothing left is not begun again: `voxelflow sweep show` shows it.
    """
    from engine.cli.screen import COLOURS, say
    from engine.profiles import find_profile
    from engine.sweep.changes import mixed
    from engine.sweep.start import resume_sweep

    workspace, store = session.workspace_with_runs(root)
    limit = limit_of(store.sweeps.find(sweep).limit, stop_after, stop_at_cost, no_limit=no_limit)
    went_on = resume_sweep(workspace, store, sweep, session.catalog(workspace), jobs=jobs, limit=limit)
    where = find_profile(went_on.profile, workspace)
    if warning := mixed(went_on):
        say(f"warning: {warning}", style=COLOURS["warning"], error=True)
    return _follow(workspace, store, went_on, where, detach=detach, as_json=as_json)


@command.command("cancel", short_help="Stop a sweep and its runs.")
@click.argument("sweep", default="last")
@json_option
@workspace_option
@click.pass_obj
def cancel(session: Session, sweep: str, as_json: bool, root: Path | None) -> int:
    """Ask SWEEP to stop; its runs are cancelled. `voxelflow sweep resume` goes on from what is done."""
    from engine.cli.screen import say, say_json
    from engine.sweep.start import cancel_sweep

    _, store = session.workspace_with_runs(root)
    found = cancel_sweep(store, sweep)
    if as_json:
        say_json({"sweep_id": found.sweep_id, "cancelling": found.active})
    else:
        say(f"asked sweep {found.sweep_id} to stop; `voxelflow sweep show {found.sweep_id}` shows when it has")
    return 0


@command.command("list", short_help="List the newest sweeps.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@json_option
@workspace_option
@click.pass_obj
def list_sweeps(session: Session, limit: int, as_json: bool, root: Path | None) -> int:
    """List the newest sweeps with their state, what they vary and their best score."""
    from engine.cli.screen import say, say_json, table
    from engine.sweep.score import best_of
    from engine.text import moment

    _, store = session.workspace_with_runs(root)
    found = store.sweeps.newest(limit)
    if as_json:
        say_json([sweep_as_json(store, each) for each in found])
    elif not found:
        say("there are no sweeps yet; `voxelflow sweep --help` shows how to start one")
    else:
        rows = []
        for each in found:
            ranked, objective = ranked_trials(store, each)
            best, done = best_of(ranked, objective), sum(t.ended for t in ranked)
            rows.append(
                (
                    each.sweep_id, each.state, each.pipeline, moment(each.created), f"{done}/{options_of(each).count}",
                    ", ".join(options_of(each).space.names), "" if best is None else score_text(best),
                )
            )  # fmt: skip
        table(("sweep", "state", "pipeline", "started", "trials", "varies", "best"), rows, right=("trials", "best"))
    return 0


@command.command("show", short_help="Show a sweep's trials, best first.")
@click.argument("sweep", default="last")
@json_option
@workspace_option
@click.pass_obj
def show(session: Session, sweep: str, as_json: bool, root: Path | None) -> int:
    """Show the trials of SWEEP, best first, with their values, scores and runs; and the command that takes the best."""
    from engine.cli.screen import say_json

    workspace, store = session.workspace_with_runs(root)
    found = store.sweeps.find(sweep)
    if as_json:
        say_json(sweep_as_json(store, found))
    else:
        report(workspace, store, found)
    return 0


# --- following ------------------------------------------------------------------------------------------


def _follow(
    workspace: Workspace, store: RunStore, sweep: Sweep, profile: Profile, *, detach: bool, as_json: bool
) -> int:
    """Say what the sweep's trials do until it ends; gives the exit status."""
    from engine.cli.following import Interrupts
    from engine.cli.screen import say, say_json
    from engine.errors import UsageError
    from engine.sweep.start import cancel_sweep, wait_started

    sweep_id, options = sweep.sweep_id, options_of(sweep)
    with Interrupts() as interrupts:
        if sweep.attempt == 0:
            wait_started(workspace, store, sweep, stop=lambda: interrupts.count > 0)
        if as_json:
            say_json(
                {"event": "sweep-started", "sweep_id": sweep_id, "pipeline": sweep.pipeline, **plans_as_json(sweep)}
            )
        else:
            kind = "trials of a search" if options.trials is not None else "trials"
            say(f"sweep {sweep_id} of {sweep.pipeline}: {options.count} {kind}, {resources(profile, options.jobs)}")
            for line in outlook(sweep):
                say(line)
        if detach and not interrupts.count:
            if not as_json:
                say(f"`voxelflow sweep show {sweep_id}` shows how far it is")
            return 0
        asked = False
        shown: dict[int, str] = {}
        while True:
            # The sweep first: once it says that it has ended, its trials are as they stay.
            now = store.sweeps.find(sweep_id)
            for trial in store.sweeps.trials(sweep_id):
                before = shown.get(trial.number)
                if before != trial.state:
                    shown[trial.number] = trial.state
                    if before is not None or trial.state != "waiting":
                        _say_trial(store, now, trial, as_json=as_json)
            if not now.active:
                break
            if interrupts.count and not asked:
                asked = True
                say("cancelling the sweep and its runs; Ctrl-C again leaves it to itself", error=True)
                try:
                    # Who waits for one that does not begin waits for the end of a process that may hang.
                    cancel_sweep(store, sweep_id, at_once=True)
                except UsageError:  # it has just ended
                    continue
            if interrupts.count > 1:
                say(f"left the sweep to itself, to be cancelled; `voxelflow sweep show {sweep_id}` shows its state")
                return _STATUS["cancelled"]
            time.sleep(_POLL_S)
        if not as_json:
            say("")
            report(workspace, store, now)
        _wait_for_mlflow(workspace, store, now, interrupts.count)
    if as_json:
        say_json({"event": "sweep-ended", **sweep_as_json(store, now)})
    unfinished = any(trial.state in ("failed", "cancelled") for trial in store.sweeps.trials(sweep_id))
    return _STATUS[now.state] or int(unfinished)


def _say_trial(store: RunStore, sweep: Sweep, trial: Trial, *, as_json: bool) -> None:
    from engine.cli.screen import COLOURS, say, say_json
    from engine.sweep.space import settings_text
    from engine.text import duration

    run_id = store.sweeps.runs_of_trials(sweep.sweep_id).get(trial.number, "")
    if as_json:
        say_json({"event": "trial", **trial_as_json(trial, run_id)})
        return
    run = store.run(run_id) if run_id else None
    took = f" in {duration(run.seconds)}" if run is not None and trial.ended and run.seconds is not None else ""
    objective = options_of(sweep).objective
    came_to = f"{objective.figure} {score_text(trial)}" if objective is not None and trial.score is not None else ""
    what = f": {came_to}" if came_to and trial.state == "done" else f": {trial.error}" if trial.error else ""
    about = f" (run {run_id})" if run_id and trial.state == "running" else ""
    head = f"trial {trial.number}  {settings_text(trial.values)}"
    say(f"{head}  {trial.state}{took}{what}{about}", style=COLOURS.get(trial.state, ""))


def _wait_for_mlflow(workspace: Workspace, store: RunStore, sweep: Sweep, presses: int) -> None:
    """Wait until the sweep's process has sent its end, so that the machine may be shut down after us."""
    from engine.extras import is_tracked
    from engine.storage.process_lock import is_held

    until = time.monotonic() + _TRACKING_PATIENCE_S
    while is_tracked() and time.monotonic() < until and is_held(workspace.sweep_folder(sweep.sweep_id) / "lock"):
        time.sleep(_POLL_S)
