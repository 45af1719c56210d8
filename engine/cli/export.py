"""`voxelflow export`: a pipeline as one Python file, or as what a platform takes."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from engine.cli.session import Session, pipeline_options, profile_option, workspace_option
from engine.storage import folder_to_write

_TARGETS = ("python", "airflow", "databricks", "github", "kubernetes")


@click.command("export", short_help="Write a pipeline as one Python file, or for a platform.")
@pipeline_options
@profile_option
@click.option("--to", "target", type=click.Choice(_TARGETS), default="python", show_default=True, help="What to write.")
@click.option(
    "-o", "--output", metavar="PATH",
    help='The file to write, or the folder for a platform; "-" prints the file. Default: the pipeline\'s name.',
)  # fmt: skip
@click.option("--force", is_flag=True, help="Write over files that are there.")
@workspace_option
@click.pass_obj
def command(
    session: Session,
    pipeline: str,
    settings: tuple[str, ...],
    profile: str | None,
    target: str,
    output: str | None,
    force: bool,
    root: Path | None,
) -> int:
    """Write PIPELINE as a Python file to read, change and run without the editor and the run store.

    It runs with `python FILE`, for a Spark profile with `spark-submit FILE` as well, wherever Voxelflow is
    installed, and makes the same tables as `voxelflow run` does. Relative paths, in the document and in
    --set, are made absolute from the current directory.

    With --to a folder is written, with that file and what runs it: a Databricks asset bundle with a task for each
    node, whose cluster follows the profile; a GitHub workflow; a Kubernetes Job (with arguments for spark-submit and
    templates for pods, under a profile for Spark on Kubernetes). For Airflow it holds a DAG whose one task is
    `voxelflow run`, and the workspace for that, so that a retry goes on from what is done. The head of each says how
    to use it. Credentials are named, never written.

    Only Airflow takes a workspace along. Elsewhere MLFLOW_TRACKING_URI says where RegisterModel and LoadModel find
    MLflow, and a pipeline with a node that needs recorded runs, such as CompareTrainings, is refused.
    """
    from engine.cli.screen import say, say_diagnostics
    from engine.diagnostics.rule import CheckFailed
    from engine.document.resolve import resolve
    from engine.export.platforms import export_files, problems
    from engine.export.source import file_stem
    from engine.profiles import find_profile

    workspace = session.workspace_to_look_at(root)
    document, catalog, values = session.pipeline(pipeline, settings, workspace)
    resolved = resolve(document, catalog, values, base=Path.cwd())
    chosen = find_profile(profile, workspace)
    found = [*catalog.problems, *problems(target, resolved, chosen)]
    if any(d.severity == "error" for d in found):
        raise CheckFailed(found)
    say_diagnostics(found, error=True)
    files = export_files(target, resolved, chosen, values, base=Path.cwd(), workspace=workspace.root)
    if target != "python":
        folder = folder_to_write(output) if output is not None else Path(f"{file_stem(document.name)}-{target}")
        _write_folder(folder, files, force)
        for name in files:
            say(f"wrote {folder / name}")
        return 0
    (text,) = files.values()
    if output == "-":
        click.echo(text, nl=False)
        return 0
    path = folder_to_write(output) if output is not None else Path(f"{_free_stem(file_stem(document.name))}.py")
    _write(path, text, force)
    say(f"wrote {path}")
    on_spark = "open_spark=" in text
    say(f"run it with: {'spark-submit' if on_spark else 'python'} {shlex.quote(str(path))}")
    return 0


def _write(path: Path, text: str, force: bool) -> None:
    from engine.errors import UsageError
    from engine.storage.files import whole_file

    if path.stem != _free_stem(path.stem):
        # Python looks for modules beside the file that it runs.
        raise UsageError(
            f"{path} would hide the module {path.stem} from itself", hint="Choose another name with -o FILE."
        )
    if os.path.lexists(path) and not force:
        raise _is_there(path)
    # Whole, for what is written over may have been changed by hand. A link stays one.
    with whole_file(path.resolve(), durable=True) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        mode = path.stat().st_mode if path.exists() else temporary.stat().st_mode
        temporary.chmod(mode | 0o100)


def _write_folder(folder: Path, files: Mapping[str, str], force: bool) -> None:
    from engine.errors import UsageError
    from engine.storage.files import write_whole

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", hint="Name a folder with -o.")
    for name in files:
        # All of them first, so that nothing is half written.
        if (folder / name).exists() and not force:
            raise _is_there(folder / name)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, durable=False)
        if text.startswith("#!"):
            os.chmod(path, path.stat().st_mode | 0o111)


def _is_there(path: Path) -> Exception:
    from engine.errors import UsageError

    return UsageError(f"{path} is there already, perhaps changed by hand", hint="Choose another name, or use --force.")


def _free_stem(stem: str) -> str:
    """The name, with a word after it when a module is called so."""
    if not stem.isidentifier():
        return stem
    try:
        found = importlib.util.find_spec(stem)
    except (ImportError, ValueError):
        found = None
    # A file of an earlier export is a module too, and none that anyone imports.
    is_here = found is not None and found.origin is not None and Path(found.origin).parent == Path.cwd()
    return f"{stem}-pipeline" if found is not None and not is_here else stem
