"""`voxelflow new`: a pipeline to start from."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click

from engine.cli.screen import say
from engine.cli.session import Session, workspace_option
from engine.document.find import shipped_pipelines
from engine.document.pipeline import SCHEMA_FILE, Pipeline, dump, json_schema, read_pipeline
from engine.errors import UsageError
from engine.storage.files import flush, new_file, write_whole
from engine.text import did_you_mean

_EMPTY = "empty"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9 ._-]{0,99}"


@click.command("new", short_help="Make a pipeline to start from.")
@click.argument("name", required=False)
@click.option(
    "--template",
    default="quickstart",
    show_default=True,
    metavar="NAME",
    help='A pipeline that comes with Voxelflow, e.g. "quickstart" or "volumes-to-resnet"; or "empty".',
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of pipelines instead.")
@workspace_option
@click.pass_obj
def command(session: Session, name: str | None, template: str, schema: bool, root: Path | None) -> int:
    """Write NAME.json into the workspace's pipelines/, with the JSON Schema for editors beside it.

    A pipeline that is there already is never overwritten.
    """
    schema_text = json.dumps(json_schema(), indent=2) + "\n"
    if schema:
        click.echo(schema_text, nl=False)
        return 0
    if name is None:
        raise UsageError("the pipeline needs a name", hint="`voxelflow new my-pipeline` makes one.")
    name = name.removesuffix(".json")
    if not re.fullmatch(_NAME, name):
        raise UsageError(
            f"{name!r} cannot be a pipeline's name",
            hint="Use letters from A to Z, digits, spaces, dots, hyphens and underscores.",
        )
    document = _from_template(template).model_copy(update={"name": name})
    workspace = session.workspace(root)
    path = workspace.pipelines / f"{name}.json"
    try:
        _write_new(path, dump(document).encode())
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="Choose another name.") from None
    write_whole(workspace.pipelines / SCHEMA_FILE, schema_text, durable=False)
    say(f"made {path}")
    missing = [n for n, p in document.parameters.items() if p.value is None]
    if document.nodes:
        say(" ".join(["run it with: voxelflow run", shlex.quote(name), *(f"--set {n}=..." for n in missing)]))
    return 0


def _write_new(path: Path, data: bytes) -> None:
    """Two people who choose one name at once must not overwrite each other either. Raises `FileExistsError`."""
    try:
        with new_file(path) as temporary:
            temporary.write_bytes(data)
    except OSError as exc:
        from engine.storage.hard_link import CANNOT_LINK

        if exc.errno not in CANNOT_LINK:
            raise
        with path.open("xb") as out:
            out.write(data)
        flush([path, path.parent])


def _from_template(template: str) -> Pipeline:
    if template == _EMPTY:
        return Pipeline(name=_EMPTY)
    shipped = shipped_pipelines()
    if template not in shipped:
        known = [*shipped, _EMPTY]
        raise UsageError(
            f"there is no template {template}",
            hint=f"{did_you_mean(template, known)} Choose one of: {', '.join(known)}.".lstrip(),
        )
    return read_pipeline(shipped[template])
