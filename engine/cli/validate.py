"""`voxelflow validate`: every problem of a document, at once and within a moment."""

from __future__ import annotations

import os
from pathlib import Path

import click

from engine.cli.session import Session, json_option, pipeline_options, workspace_option


@click.command("validate", short_help="Check a pipeline without looking at its data.")
@pipeline_options
@json_option
@workspace_option
@click.pass_obj
def command(session: Session, pipeline: str, settings: tuple[str, ...], as_json: bool, root: Path | None) -> int:
    """Check the document, wires, parameters, paths and permissions of PIPELINE; one line for each problem.

    Folders are not listed and no data is read: `voxelflow plan` looks at those too. Relative paths,
    in the document and in --set, start at the current directory.
    """
    from engine.checks import check
    from engine.cli.documents import find_pipeline, read_settings
    from engine.cli.screen import COLOURS, say, say_json
    from engine.observe import observe
    from engine.profiles import Profile
    from engine.resolve import resolve
    from engine.storage import is_url

    workspace = session.workspace_to_look_at(root)
    document = find_pipeline(pipeline, workspace)
    catalog = session.catalog(workspace)
    values = read_settings(settings, document, catalog)
    resolved = resolve(document, catalog, values, base=Path.cwd())
    named = [v for v in values.values() if isinstance(v, str) and (is_url(v) or os.path.isabs(v))]
    # The checks ask a profile for its backend only; finding out how much memory is free takes its time.
    # It is no one's profile, so that a mistake in profiles.toml is told where a profile is chosen.
    profile = Profile(name="local", cores=1, memory_bytes=1 << 28)
    seen = observe(resolved, workspace, None, scan=False, extra_roots=named)
    found = [*catalog.problems, *check(resolved, seen, profile).diagnostics]
    ok = all(d.severity != "error" for d in found)
    if as_json:
        say_json({"ok": ok, "pipeline": document.name, "diagnostics": [d.model_dump(mode="json") for d in found]})
        return 0 if ok else 2
    for diagnostic in found:
        say(diagnostic.line(), style=COLOURS.get(diagnostic.severity, ""))
    if ok:
        say(f"{document.name}: {len(document.nodes)} nodes, no errors")
    return 0 if ok else 2
