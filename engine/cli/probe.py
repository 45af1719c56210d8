"""`voxelflow probe`: how fast a place is, and how long an epoch takes there."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.finite import Finite
from engine.cli.session import Session, json_option, workspace_option


@click.command("probe", short_help="Measure how fast storage is, and how long an epoch takes there.")
@click.argument("place", required=False)
@click.option(
    "--files",
    type=click.IntRange(1),
    metavar="N",
    help="Files in an epoch. Default: those in PLACE; with --file-kb 650,000.",
)
@click.option(
    "--file-kb",
    type=Finite(0, min_open=True),
    metavar="KB",
    help="Their size, in kB. Default: that of those in PLACE; with --files 360.",
)
@click.option("--seconds", type=click.IntRange(5, 120), default=20, show_default=True, help="How long it may take.")
@click.option(
    "--limit-mb", type=click.IntRange(4, 65_536), default=256, show_default=True, help="What it may write at most."
)
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session,
    place: str | None,
    files: int | None,
    file_kb: float | None,
    seconds: int,
    limit_mb: int,
    as_json: bool,
    root: Path | None,
) -> int:
    """Measure reading and writing at PLACE, a folder or az://container/folder, s3://bucket/folder, gs://bucket/folder.

    Without PLACE it is the workspace. Files like your volumes are written to a hidden folder there, read one by one,
    several at a time, at random, in order, and as a table by the loader that trains; then they are removed.
    On a local disk the system is asked to drop its cache first; the result says whether it did.

    The epoch is that of the .npy files in PLACE, or of --files and --file-kb; without either 650,000 files of 360 kB.
    The result is kept in the workspace, as JSON and as a page with a picture.
    """
    from engine.cli.screen import say, say_json, table
    from engine.probes import COLUMNS

    workspace = session.workspace(root)

    def report(step: str) -> None:
        if not as_json:
            say(f"{step} ...", error=True)

    probe, page = session.work.probe_storage(
        workspace,
        place or str(workspace.root),
        seconds=seconds,
        limit_mb=limit_mb,
        files=files,
        file_bytes=None if file_kb is None else max(1, round(file_kb * 1000)),
        report=report,
    )
    if as_json:
        figures = {"figures": probe.figures(), "meaning": probe.meaning(), "page": str(page)}
        say_json({**probe.model_dump(mode="json"), **figures})
        return 0
    table(COLUMNS, probe.rows(), right=COLUMNS[1:])
    say("")
    for line in probe.meaning():
        say(line)
    say(f"kept as {page}")
    return 0
