"""`voxelflow plan` and `validate`: what a run would do and why, and a document's problems; nothing is started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.session import Session, choice_options, json_option, pipeline_options, workspace_option
from engine.text import plural

if TYPE_CHECKING:
    from engine.advisor.run_estimate import RunEstimate
    from engine.declare.datasets import Preview
    from engine.document.plan import Plan, PlannedTask
    from engine.run.launch import Prepared


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
    profile: str | None,
    start: str | None,
    end: str | None,
    fresh: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Show the tasks of PIPELINE: which would run and why, which are up to date, and what they will make.

    Then how long the run takes and what it costs, as a range: each node as in earlier runs under the profile, a
    training that did not run yet as `voxelflow advise` predicts it. What is not known is called unknown, and is not in
    the sum.

    Looks at folders, tables and the cache as a run does, and starts nothing. Relative paths, in the
    document and in --set, start at the current directory.
    """
    from engine.advisor.run_estimate import as_json as estimate_as_json
    from engine.advisor.run_estimate import estimate_run
    from engine.cli.screen import say, say_json
    from engine.document.plan import Choice
    from engine.profiles import find_profile
    from engine.run import launch
    from engine.store.runs import RunStore

    workspace = session.workspace(root)
    store = RunStore(workspace)
    document, catalog, values = session.pipeline(pipeline, settings, workspace)
    ready = launch.prepare(
        document,
        catalog,
        workspace,
        store,
        values=values,
        profile=find_profile(profile, workspace),
        choice=Choice(start=start, end=end, fresh=fresh),
        base=Path.cwd(),
    )
    estimate = estimate_run(ready.plan, ready.resolved, ready.observation, workspace, store)
    if as_json:
        say_json({**ready.plan.model_dump(mode="json"), "estimate": estimate_as_json(estimate)})
    else:
        show(ready)
        show_estimate(estimate)
        if pointer := session.pointer(ready.plan.diagnostics):
            say(pointer)
    return 0


def show(ready: Prepared) -> None:
    """Print the plan as a table, then its diagnostics and a line that sums it up."""
    from engine.cli.screen import say, say_diagnostics, table
    from engine.document.checks import preview_outputs

    made = ready.plan
    previews, _ = preview_outputs(ready.resolved, ready.observation)
    rows = [
        (t.node, t.node_type, t.backend, t.action, t.reason, ", ".join(_estimates(t, ready, previews)))
        for t in made.tasks
    ]
    table(("node", "type", "backend", "action", "why", "makes"), rows)
    for line in backend_lines(made):
        say(line)
    say_diagnostics(made.diagnostics)
    to_run = len(made.to_run)
    parts = [f"{to_run} to run", f"{len(made.tasks) - to_run} up to date"]
    if made.left_out:
        parts.append(f"left out: {', '.join(made.left_out)}")
    say(f"{made.pipeline} on {made.profile.name}: {', '.join(parts)}")


def show_estimate(estimate: RunEstimate) -> None:
    """Print the time of each node that would run, that and the cost of all, and how they come about."""
    from engine.advisor.run_estimate import arithmetic, expected_parts, node_rows
    from engine.cli.screen import say, table

    if not estimate.nodes:
        return
    say("")
    for name, text in expected_parts(estimate):
        say(f"{name}: {text}")
    if estimate.seconds is not None:
        table(("node", "time", "known from"), node_rows(estimate))
    for line in arithmetic(estimate):
        say(line)


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
    """Volumes and bytes that the task will make, or has made; by port where it has several."""
    from engine.wording import MOST_FIGURES, made

    cached = ready.observation.cache.get(task.identity.fingerprint)
    if task.action == "cached" and cached is not None and not cached.problem:
        if text := made(cached.result.outputs, MOST_FIGURES):
            yield text
        return
    texts = {port: ", ".join(_foreseen(p)) for (node, port), p in previews.items() if node == task.node}
    if len(texts) == 1:
        yield from filter(None, texts.values())
    elif any(texts.values()):
        yield "; ".join(f"{port}: {text}" for port, text in texts.items() if text)


def _foreseen(preview: Preview) -> Iterator[str]:
    from engine.text import size
    from engine.wording import foreseen

    if text := foreseen(preview):
        yield text if preview.selected is not None else f"about {text}"
    # A part of a table takes no space of its own.
    if preview.bytes is not None and preview.selected is None:
        yield size(preview.bytes)
    if preview.spec is not None and preview.count is not None:
        yield preview.spec.describe()


@click.command("validate", short_help="Check a pipeline without looking at its data.")
@pipeline_options
@json_option
@workspace_option
@click.pass_obj
def validate(session: Session, pipeline: str, settings: tuple[str, ...], as_json: bool, root: Path | None) -> int:
    """Check the document, wires, parameters, paths and permissions of PIPELINE; one line for each problem.

    Folders are not listed and no data is read: `voxelflow plan` looks at those too. Relative paths,
    in the document and in --set, start at the current directory.
    """
    from engine.cli.screen import say, say_diagnostics, say_json
    from engine.document.checks import check
    from engine.document.resolve import resolve
    from engine.observe.observe import observe
    from engine.profiles import Profile
    from engine.storage import is_url

    workspace = session.workspace_to_look_at(root)
    document, catalog, values = session.pipeline(pipeline, settings, workspace)
    resolved = resolve(document, catalog, values, base=Path.cwd())
    named = [v for v in values.values() if isinstance(v, str) and (is_url(v) or os.path.isabs(v))]
    # The checks ask a profile for its backend only; finding out how much memory is free takes its time.
    # It is no one's profile, so that a mistake in profiles.toml is reported where a profile is chosen.
    profile = Profile(name="local", cores=1, memory_bytes=1 << 28)
    seen = observe(resolved, workspace, None, scan=False, extra_roots=named)
    found = [*catalog.problems, *check(resolved, seen, profile).diagnostics]
    ok = all(d.severity != "error" for d in found)
    if as_json:
        say_json({"ok": ok, "pipeline": document.name, "diagnostics": [d.model_dump(mode="json") for d in found]})
        return 0 if ok else 2
    say_diagnostics(found)
    if ok:
        say(f"{document.name}: {plural(len(document.nodes), 'nodes')}, no errors")
    if pointer := session.pointer(found):
        say(pointer)
    return 0 if ok else 2
