"""`voxelflow runs`: the history: list, show, logs, resume, cancel, checkpoint."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.session import Session, json_option, workspace_option


@click.group("runs", short_help="The history: list, show, logs, resume, cancel.", invoke_without_command=True)
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
