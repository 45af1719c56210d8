"""`voxelflow run`: start a pipeline and follow it to its end."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.session import (
    Session,
    choice_options,
    json_option,
    limit_of,
    limit_options,
    pipeline_options,
    workspace_option,
)


@click.command("run", short_help="Run a pipeline and follow it.")
@pipeline_options
@choice_options
@limit_options
@click.option("--detach", is_flag=True, help="Start the run, print its id and return.")
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session,
    pipeline: str,
    settings: tuple[str, ...],
    profile: str | None,
    start: str | None,
    end: str | None,
    fresh: bool,
    stop_after: str | None,
    stop_at_cost: float | None,
    no_limit: bool,
    detach: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Run PIPELINE: a file, or the name of a pipeline of the workspace or of one that comes with Voxelflow.

    The run is a process of its own. The first Ctrl-C cancels it and waits, the second leaves it to
    itself; closing the terminal leaves it running. What is up to date is not run again.

    A run with a limit (--stop-after, --stop-at-cost, or stop_after and stop_at_cost of its profile) is cancelled when
    it reaches it, even with no terminal or browser open: finished nodes stay done and a training keeps its state.
    `voxelflow runs resume` goes on, with a higher limit: all attempts of a run count together, the time between them
    does not. Exit status 130, as for every cancelled run.

    Relative paths, in the document and in --set, start at the current directory.

    With --json each line is one event: run-started, then those of the run as they are stored, at
    last run-ended with the state and the outputs.
    """
    from engine.cli.following import follow_to_end
    from engine.cli.plan import backend_lines
    from engine.cli.screen import say, say_diagnostics
    from engine.document.plan import Choice
    from engine.profiles import find_profile
    from engine.run import launch
    from engine.store.runs import RunStore

    workspace = session.workspace(root)
    store = RunStore(workspace)
    where = find_profile(profile, workspace)
    limit = limit_of(where.limit, stop_after, stop_at_cost, no_limit=no_limit)
    document, catalog, values = session.pipeline(pipeline, settings, workspace)
    run_id, made = launch.start(
        document,
        catalog,
        workspace,
        store,
        values=values,
        profile=where,
        choice=Choice(start=start, end=end, fresh=fresh),
        base=Path.cwd(),
        limit=limit,
    )
    say_diagnostics(made.diagnostics, error=True)
    for line in backend_lines(made):
        say(line, error=True)
    return follow_to_end(workspace, store, run_id, attempt=1, after=0, detach=detach, as_json=as_json)
