"""`voxelflow runs`: the history: list, show, logs, resume, cancel, checkpoint, reproduce."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.session import Session, json_option, workspace_option


@click.group(
    "runs", short_help="The history: list, show, logs, resume, cancel, reproduce.", invoke_without_command=True
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The runs of a workspace. RUN is a run's id, the beginning or end of one, or "last"."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_runs)


@command.command("list", short_help="List the newest runs.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@click.option("--pipeline", metavar="NAME", help="Only runs of this pipeline.")
@json_option
@workspace_option
@click.pass_obj
def list_runs(session: Session, limit: int, pipeline: str | None, as_json: bool, root: Path | None) -> int:
    """List the newest runs with their state, start and duration."""
    from engine.cli.history import run_as_json
    from engine.cli.screen import say, say_json, table
    from engine.cli.wording import duration, moment

    _, store = session.workspace_with_runs(root)
    runs = store.runs(limit, pipeline)
    if as_json:
        say_json([run_as_json(run) for run in runs])
    elif not runs:
        say("there are no runs yet")
    else:
        rows = [
            (r.run_id, r.state, r.pipeline, moment(r.started or r.created), duration(r.seconds) if r.seconds else "")
            for r in runs
        ]
        table(("run", "state", "pipeline", "started", "duration"), rows, right=("duration",))
    return 0


@command.command("show", short_help="Show a run's tasks, results and failures.")
@click.argument("run", default="last")
@json_option
@workspace_option
@click.pass_obj
def show_run(session: Session, run: str, as_json: bool, root: Path | None) -> int:
    """Show the tasks of RUN: why each ran, what it made, where; failures with what to do about them."""
    from engine.cli.history import describe, show
    from engine.cli.screen import say_json

    workspace, store = session.workspace_with_runs(root)
    found = store.run(run)
    if as_json:
        say_json(describe(workspace, store, found))
    else:
        show(workspace, store, found)
    return 0


@command.command("logs", short_help="Print the logs of a run's tasks.")
@click.argument("run", default="last")
@click.argument("node", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@workspace_option
@click.pass_obj
def show_logs(session: Session, run: str, node: str | None, follow: bool, root: Path | None) -> int:
    """Print what the tasks of RUN wrote, or that of one NODE; each line names its node where there are several."""
    from engine.cli.logs import print_logs

    workspace, store = session.workspace_with_runs(root)
    print_logs(workspace, store, store.run(run).run_id, node, follow=follow)
    return 0


@command.command("resume", short_help="Go on with a run that was lost, failed or was cancelled.")
@click.argument("run", default="last")
@click.option("--detach", is_flag=True, help="Start it and return.")
@json_option
@workspace_option
@click.pass_obj
def resume_run(session: Session, run: str, detach: bool, as_json: bool, root: Path | None) -> int:
    """Go on with RUN: what is done stays done, half-done work goes on from where it was. Follows it as `run` does."""
    from engine import launch
    from engine.cli.attending import attend

    workspace, store = session.workspace_with_runs(root)
    after = store.last_event(store.run(run).run_id)
    before = launch.resume(workspace, store, run)
    return attend(
        workspace, store, before.run_id, attempt=before.attempt + 1, after=after, detach=detach, as_json=as_json
    )


@command.command("cancel", short_help="Ask a run to stop.")
@click.argument("run", default="last")
@json_option
@workspace_option
@click.pass_obj
def cancel_run(session: Session, run: str, as_json: bool, root: Path | None) -> int:
    """Ask RUN to stop. Tasks that do not stop by themselves are ended after some seconds; finished ones stay done."""
    from engine import launch
    from engine.cli.screen import say, say_json

    _, store = session.workspace_with_runs(root)
    found = launch.cancel(store, run)
    if as_json:
        say_json({"run_id": found.run_id, "cancelling": True})
    else:
        say(f"asked run {found.run_id} to stop; `voxelflow runs show {found.run_id}` tells when it has")
    return 0


@command.command("reproduce", short_help="Do a training over on the same data and compare.")
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

    The nodes that told curves run again, on the versions of the data that they were given, with the parameters and
    seeds of then and nothing from the cache. The data must be where they were; what made them is not run.
    Secrets are names of environment variables, so set these first.

    Told are the differences in packages, code, git state and machine, then each curve and figure. Figures of time,
    rate and memory are not compared. Models and results of the new run are kept apart; `voxelflow clean` frees them.

    Exit status: 0 when all is exactly equal, 1 when something differs, the data are gone or the run failed, 2 for a run
    that is not known or cannot be started, 130 when it was cancelled. With --json the last line is the comparison:
    {"event": "reproduced", "equal": ...}.
    """
    from engine.cli.reproduce import compare_with, reproduce
    from engine.errors import UsageError
    from engine.runs import RunStore

    workspace = session.workspace(root)
    store = RunStore(workspace)
    if other is not None:
        if settings or profile:
            raise UsageError("--with starts nothing, so --set and --profile mean nothing beside it")
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
    """Ask the training in RUN to save its state at the next step and to go on. Its log tells when it has."""
    from engine import launch
    from engine.cli.screen import say, say_json

    workspace, store = session.workspace_with_runs(root)
    found = store.run(run)
    nodes = launch.request_save(workspace, store, found.run_id)
    if as_json:
        say_json({"run_id": found.run_id, "asked": nodes})
    else:
        say(f"asked {', '.join(nodes)} of run {found.run_id} to save; `voxelflow runs logs {found.run_id}` tells when")
    return 0
