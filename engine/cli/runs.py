"""`voxelflow runs`: the history: list, show, compare, costs, logs, resume, cancel, checkpoint, reproduce, rebuild."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.session import Listing, Session, json_option, limit_of, limit_options, workspace_option


@click.group("runs", cls=Listing, short_help="The history: list, show, compare, costs, logs, resume, cancel.")
def command() -> None:
    """The runs of a workspace. RUN is a run's id, a part of one that no other has, or "last".

    Without a command it is `list`, with the options of that.
    """


@command.command("list", short_help="List the newest runs.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@click.option("--pipeline", metavar="NAME", help="Only runs of this pipeline.")
@json_option
@workspace_option
@click.pass_obj
def list_runs(session: Session, limit: int, pipeline: str | None, as_json: bool, root: Path | None) -> int:
    """List the newest runs with their state, start and duration, and their cost where a price is known."""
    from engine.cli.history import run_as_json
    from engine.cli.screen import say, say_json, table
    from engine.text import duration, moment, money

    _, store = session.workspace_with_runs(root)
    runs = store.runs(limit, pipeline)
    if as_json:
        say_json([run_as_json(run) for run in runs])
    elif not runs:
        say("there are no runs yet")
    else:
        columns = ["run", "state", "pipeline", "started", "duration"]
        rows = [
            [r.run_id, r.state, r.pipeline, moment(r.started or r.created), duration(r.seconds) if r.seconds else ""]
            for r in runs
        ]
        if any(run.cost is not None for run in runs):
            columns.append("cost")
            for row, run in zip(rows, runs, strict=True):
                row.append("" if run.cost is None else money(run.cost, run.currency))
        table(columns, rows, right=("duration", "cost"))
    return 0


@command.command("costs", short_help="Sum what runs have cost, by month and pipeline.")
@json_option
@workspace_option
@click.pass_obj
def list_costs(session: Session, as_json: bool, root: Path | None) -> int:
    """Sum what the runs have cost by the month in which they began and by pipeline, and what idle time cost of it.

    A run costs its profile's price an hour (its price_per_hour, or that of its machine in `voxelflow prices`) while
    it is at work: the time between two attempts does not count. Idle is the share of that time in which the machine's
    GPUs, or without any its cores, had nothing to do, measured every second. Runs without a price are left out.
    Expected is what their estimates said before, the least and the most; unknown where a run is not done, or the time
    of a node was not known.
    """
    from dataclasses import asdict

    from engine.cli.screen import say, say_json, table
    from engine.store.costs import costs_by_month
    from engine.wording import COST_COLUMNS, cost_rows

    _, store = session.workspace_with_runs(root)
    sums = costs_by_month(store.runs(-1))
    if as_json:
        say_json([asdict(each) for each in sums])
    elif not sums:
        say("no run has a price; name a machine in the profile, as `voxelflow prices --help` says")
    else:
        table(COST_COLUMNS, cost_rows(sums), right=COST_COLUMNS[2:])
    return 0


@command.command("show", short_help="Show a run's tasks, results and failures.")
@click.argument("run", default="last")
@click.option("--all", "everything", is_flag=True, help="Show every figure of every result.")
@json_option
@workspace_option
@click.pass_obj
def show_run(session: Session, run: str, everything: bool, as_json: bool, root: Path | None) -> int:
    """Show the tasks of RUN: why each ran, what it made, where; failures with what to do about them."""
    from engine.cli.history import describe, show
    from engine.cli.screen import say_json

    workspace, store = session.workspace_with_runs(root)
    found = store.run(run)
    if as_json:
        say_json(describe(workspace, store, found))
    else:
        show(workspace, store, found, everything=everything)
    return 0


@command.command("compare", short_help="Put runs side by side: parameters that differ, figures, durations.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN [RUN...]")
@click.option("--all", "everything", is_flag=True, help="Show parameters that are equal, too.")
@json_option
@workspace_option
@click.pass_obj
def compare_runs(session: Session, runs: tuple[str, ...], everything: bool, as_json: bool, root: Path | None) -> int:
    """Put two or more runs side by side: the parameters that differ, the figures they came to, and their durations.

    Figures are those of the models and evaluations that were made, and the last value of each curve.
    """
    from engine.cli.compare import compare, compare_as_json
    from engine.cli.screen import say_json
    from engine.errors import UsageError

    workspace, store = session.workspace_with_runs(root)
    if len({store.run(name).run_id for name in runs}) < 2:
        raise UsageError("a comparison needs two runs", hint="`voxelflow runs list` shows them.")
    if as_json:
        say_json(compare_as_json(workspace, store, runs, everything=everything))
    else:
        compare(workspace, store, runs, everything=everything)
    return 0


@command.command("logs", short_help="Print the logs of a run's tasks.")
@click.argument("run", default="last")
@click.argument("node", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@workspace_option
@click.pass_obj
def show_logs(session: Session, run: str, node: str | None, follow: bool, root: Path | None) -> int:
    """Print what the tasks of RUN wrote, or that of one NODE; each line names its node where there are several."""
    from engine.cli.history import print_logs

    workspace, store = session.workspace_with_runs(root)
    print_logs(workspace, store, store.run(run).run_id, node, follow=follow)
    return 0


@command.command("resume", short_help="Go on with a run that was lost, failed or was cancelled.")
@click.argument("run", default="last")
@limit_options
@click.option("--detach", is_flag=True, help="Start it and return.")
@json_option
@workspace_option
@click.pass_obj
def resume_run(
    session: Session,
    run: str,
    stop_after: str | None,
    stop_at_cost: float | None,
    no_limit: bool,
    detach: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Go on with RUN: what is done stays done, half-done work goes on from where it was. Follows it as `run` does.

    A limit is that of the run: what its attempts have taken together counts, the time between them does not. RUN keeps
    the limit that it has; one that has used it goes on with a higher one (--stop-after, --stop-at-cost: in all, not
    from now on) or with --no-limit.
    """
    from engine.cli.following import follow_to_end
    from engine.run import launch

    workspace, store = session.workspace_with_runs(root)
    found = store.run(run)
    after = store.last_event(found.run_id)
    limit = limit_of(found.limit, stop_after, stop_at_cost, no_limit=no_limit)
    before = launch.resume(workspace, store, found.run_id, limit)
    return follow_to_end(
        workspace, store, before.run_id, attempt=before.attempt + 1, after=after, detach=detach, as_json=as_json
    )


@command.command("cancel", short_help="Ask a run to stop.")
@click.argument("run", default="last")
@json_option
@workspace_option
@click.pass_obj
def cancel_run(session: Session, run: str, as_json: bool, root: Path | None) -> int:
    """Ask RUN to stop. Tasks that do not stop by themselves are ended after some seconds; finished ones stay done.

    A run that is stuck cannot be asked: its processes are killed. `runs resume` goes on from what is done.
    """
    from engine.cli.screen import say, say_json
    from engine.run import launch

    _, store = session.workspace_with_runs(root)
    found = launch.cancel(store, run)
    if as_json:
        say_json({"run_id": found.run_id, "cancelling": found.active})
    elif not found.active:
        say(f"run {found.run_id} is {found.state}; `voxelflow runs resume {found.run_id}` goes on from what is done")
    else:
        say(f"asked run {found.run_id} to stop; `voxelflow runs show {found.run_id}` shows when it has")
    return 0


@command.command("reproduce", short_help="Repeat a training on the same data and report differences.")
@click.argument("run")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Give a parameter of the pipeline another value than then; can be repeated.",
)
@click.option("--profile", metavar="NAME", help="The compute profile. Default: the one of then.")
@click.option("--with", "other", metavar="RUN", help="Start nothing; compare with this finished run.")
@json_option
@workspace_option
@click.pass_obj
def reproduce_run(
    session: Session,
    run: str,
    settings: tuple[str, ...],
    profile: str | None,
    other: str | None,
    as_json: bool,
    root: Path | None,
) -> int:
    """Do RUN over and report the difference. RUN is an id in MLflow, also of a run made elsewhere, or a run's id.

    The nodes that reported curves run again, on the versions of the data that they were given, with the parameters and
    seeds of then and nothing from the cache. The data must be where they were; what made them is not run.
    Secrets are names of environment variables, so set these first.

    Reported are the differences in packages, code, git state and machine, then each curve and figure. Figures of time,
    rate and memory are not compared. Models and results of the new run are kept apart; `voxelflow clean` frees them.

    Exit status: 0 when all is exactly equal, 1 when something differs, the data are gone or the run failed, 2 for a run
    that is not known or cannot be started, 130 when it was cancelled. With --json the last line is the comparison:
    {"event": "reproduced", "equal": ...}.
    """
    from engine.cli.reproduce import compare_with, reproduce
    from engine.errors import UsageError
    from engine.store.runs import RunStore

    workspace = session.workspace(root)
    store = RunStore(workspace)
    if other is not None:
        if settings or profile:
            raise UsageError(
                "--with starts nothing, so --set and --profile mean nothing beside it", hint="Leave out either."
            )
        return compare_with(workspace, store, run, other, as_json=as_json)
    return reproduce(
        workspace, store, session.catalog(workspace), run, settings=settings, profile=profile, as_json=as_json
    )


@command.command("checkpoint", short_help="Ask a run's training to save its state now.")
@click.argument("run", default="last")
@json_option
@workspace_option
@click.pass_obj
def checkpoint_run(session: Session, run: str, as_json: bool, root: Path | None) -> int:
    """Ask the training in RUN to save its state at the next step and to go on. Its log says when it has."""
    from engine.cli.screen import say, say_json
    from engine.run import launch

    workspace, store = session.workspace_with_runs(root)
    found = store.run(run)
    nodes = launch.request_save(workspace, store, found.run_id)
    if as_json:
        say_json({"run_id": found.run_id, "asked": nodes})
    else:
        say(f"asked {', '.join(nodes)} of run {found.run_id} to save; `voxelflow runs logs {found.run_id}` shows when")
    return 0


@command.command("rebuild", short_help="Set a damaged run store aside and make a new one.")
@json_option
@workspace_option
@click.pass_obj
def rebuild_store(session: Session, as_json: bool, root: Path | None) -> int:
    """Rename the workspace's runs.db to runs.db.damaged-TIME, and make a new one.

    What can still be read in the old file is taken over. Results come back from a copy of their row beside their
    files, runs from their folders. Said is what is not known any more; a result that is lost is made again when a
    pipeline needs it. No data is deleted.

    Neither the app nor a run may be at work in the workspace.
    """
    from engine.cli.screen import say, say_json
    from engine.run.rebuild import rebuild
    from engine.text import plural

    workspace = session.existing_workspace(root)
    made = rebuild(workspace)
    if as_json:
        say_json(
            {
                "aside": str(made.aside), "whole": made.whole, "read": made.read, "results": made.results,
                "runs": made.runs, "unknown": list(made.unknown),
            }
        )  # fmt: skip
        return 0
    say(f"set aside: {made.aside}")
    rows = {name: made.read.get(name, 0) for name in ("runs", "results", "tasks", "events")}
    say("read in it: " + ", ".join(plural(count, name) for name, count in rows.items()))
    say(f"rebuilt from the workspace's files: {plural(made.runs, 'runs')}, {plural(made.results, 'results')}")
    for run_id in made.unknown:
        say(f"run {run_id}: how it ended is not known; `voxelflow runs resume {run_id}` goes on from what is done")
    if not made.whole:
        say("not rebuilt: events of runs and what was sent to MLflow, where they could not be read")
    return 0
