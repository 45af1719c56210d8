"""`voxelflow plan`: what a run would do, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.session import Session, choice_options, json_option, pipeline_options, workspace_option

if TYPE_CHECKING:
    from engine.datasets import Preview
    from engine.launch import Prepared
    from engine.plan import Plan, PlannedTask


@click.command("plan", short_help="Show what a run would do, and why.")
@pipeline_options
@choice_options
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session,
    pipeline: str,
    settings: tuple[str, ...],
    profile: str,
    start: str | None,
    end: str | None,
    fresh: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Show the tasks of PIPELINE: which would run and why, which are up to date, and what they will make.

    Looks at folders, tables and the cache as a run does, and starts nothing. Relative paths, in the
    document and in --set, start at the current directory.
    """
    from engine import launch
    from engine.cli.documents import find_pipeline, read_settings
    from engine.plan import Choice
    from engine.profiles import find_profile
    from engine.runs import RunStore

    workspace = session.workspace(root)
    document = find_pipeline(pipeline, workspace)
    catalog = session.catalog(workspace)
    ready = launch.prepare(
        document,
        catalog,
        workspace,
        RunStore(workspace),
        values=read_settings(settings, document, catalog),
        profile=find_profile(profile, workspace),
        choice=Choice(start=start, end=end, fresh=fresh),
        base=Path.cwd(),
    )
    if as_json:
        click.echo(ready.plan.model_dump_json(indent=2))
    else:
        show(ready)
    return 0


def show(ready: Prepared) -> None:
    """Print the plan as a table, then its diagnostics and a line that sums it up."""
    from engine.checks import look_ahead
    from engine.cli.screen import COLOURS, say, table

    made = ready.plan
    previews, _ = look_ahead(ready.resolved, ready.observation)
    rows = [
        (t.node, t.node_type, t.backend, t.action, t.reason, ", ".join(_estimates(t, ready, previews)))
        for t in made.tasks
    ]
    table(("node", "type", "backend", "action", "why", "makes"), rows)
    for line in backend_lines(made):
        say(line)
    for diagnostic in made.diagnostics:
        say(diagnostic.line(), style=COLOURS.get(diagnostic.severity, ""))
    to_run = len(made.to_run)
    parts = [f"{to_run} to run", f"{len(made.tasks) - to_run} up to date"]
    if made.left_out:
        parts.append(f"left out: {', '.join(made.left_out)}")
    say(f"{made.pipeline} on {made.profile.name}: {', '.join(parts)}")


def backend_lines(made: Plan) -> Iterator[str]:
    """Where the nodes work and why, a line for each reason; nothing when all is as ever, embedded."""
    if all(t.backend == "embedded" for t in made.tasks) and made.profile.backend == "embedded":
        return
    by_reason: dict[tuple[str, str], list[str]] = {}
    for task in made.tasks:
        by_reason.setdefault((task.backend, task.backend_reason), []).append(task.node)
    for (backend, reason), nodes in by_reason.items():
        yield f"{', '.join(nodes)}: {backend} ({reason})"
    if made.storage is not None:
        yield f"results lie in {made.storage}"


def _estimates(task: PlannedTask, ready: Prepared, previews: Mapping[tuple[str, str], Preview]) -> Iterator[str]:
    """Volumes and bytes that the task will make, or has made."""
    from engine.cli.wording import made, plural, size

    cached = ready.observation.cache.get(task.identity.fingerprint)
    if task.action == "cached" and cached is not None and not cached.problem:
        if text := made(cached.result.outputs):
            yield text
        return
    for (node, _port), preview in previews.items():
        if node != task.node:
            continue
        if preview.count is not None:
            yield f"about {plural(preview.count, 'volumes')}"
        if preview.bytes is not None:
            yield size(preview.bytes)
        if preview.spec is not None and preview.count is not None:
            yield preview.spec.describe()
