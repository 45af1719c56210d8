"""`voxelflow export`: a pipeline as one Python file."""

from __future__ import annotations

import importlib.util
import os
import shlex
from pathlib import Path

import click

from engine.cli.session import Session, pipeline_options, workspace_option


@click.command("export", short_help="Write a pipeline as one Python file.")
@pipeline_options
@click.option("--profile", default="local", show_default=True, metavar="NAME", help="The compute profile.")
@click.option("-o", "--output", metavar="FILE", help='The file to write; "-" prints it. Default: the pipeline\'s name.')
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@workspace_option
@click.pass_obj
def command(
    session: Session,
    pipeline: str,
    settings: tuple[str, ...],
    profile: str,
    output: str | None,
    force: bool,
    root: Path | None,
) -> int:
    """Write PIPELINE as a Python file to read, change and run without the editor and the run store.

    It runs with `python FILE`, for a Spark profile with `spark-submit FILE` as well, wherever Voxelflow is
    installed, and makes the same tables as `voxelflow run` does. Relative paths, in the document and in
    --set, are made absolute from the current directory.
    """
    from engine.checks import check
    from engine.cli.documents import find_pipeline, read_settings
    from engine.cli.screen import COLOURS, say
    from engine.errors import CheckFailed
    from engine.export.source import file_stem
    from engine.export.write import write
    from engine.profiles import find_profile
    from engine.resolve import resolve

    workspace = session.workspace_to_look_at(root)
    document = find_pipeline(pipeline, workspace)
    catalog = session.catalog(workspace)
    values = read_settings(settings, document, catalog)
    resolved = resolve(document, catalog, values, base=Path.cwd())
    chosen = find_profile(profile, workspace)
    # Without a look at the disks: the file may be for another machine.
    found = [*catalog.problems, *check(resolved, None, chosen).diagnostics]
    if any(d.severity == "error" for d in found):
        raise CheckFailed(found)
    for diagnostic in found:
        say(diagnostic.line(), style=COLOURS.get(diagnostic.severity, ""), error=True)
    text = write(resolved, chosen, values, base=Path.cwd(), machine=_is_ready(profile, workspace.root))
    if output == "-":
        click.echo(text, nl=False)
        return 0
    path = Path(output).expanduser() if output is not None else Path(f"{_free_stem(file_stem(document.name))}.py")
    _write(path, text, force)
    say(f"wrote {path}")
    on_spark = "open_spark=" in text
    say(f"run it with: {'spark-submit' if on_spark else 'python'} {shlex.quote(str(path))}")
    return 0


def _is_ready(profile: str, workspace: Path) -> bool:
    """Whether the profile is a ready one, which means the machine that it finds itself on."""
    from engine.profiles.file import read_profiles_file
    from engine.profiles.find import FILE, READY

    return profile in READY and profile not in read_profiles_file(workspace / FILE).tables


def _write(path: Path, text: str, force: bool) -> None:
    from engine.errors import UsageError

    if path.stem != _free_stem(path.stem):
        # Python looks for modules beside the file that it runs.
        raise UsageError(
            f"{path} would hide the module {path.stem} from itself", hint="Choose another name with -o FILE."
        )
    try:
        with path.open("w" if force else "x", encoding="utf-8", newline="\n") as out:
            out.write(text)
    except FileExistsError:
        raise UsageError(
            f"{path} is there already, perhaps changed by hand", hint="Choose another name, or use --force."
        ) from None
    os.chmod(path, path.stat().st_mode | 0o100)


def _free_stem(stem: str) -> str:
    """The name, with a word behind it when a module is called so."""
    if not stem.isidentifier():
        return stem
    try:
        found = importlib.util.find_spec(stem)
    except (ImportError, ValueError):
        found = None
    # A file of an earlier export is a module too, and none that anyone imports.
    is_here = found is not None and found.origin is not None and Path(found.origin).parent == Path.cwd()
    return f"{stem}-pipeline" if found is not None and not is_here else stem
