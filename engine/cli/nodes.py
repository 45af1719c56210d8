"""`voxelflow nodes`: the node types and dataset types there are, and the documentation of one."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import click

from engine.catalog import AnyNodeType, Catalog
from engine.cli.screen import say, say_diagnostics, say_json, table
from engine.cli.session import Session, json_option, workspace_option
from engine.declare.dataset_type import Dataset
from engine.declare.parameters import Parameter, type_name
from engine.errors import UsageError
from engine.text import number
from engine.workspace import Workspace


@click.command("nodes", short_help="List node types, or show one.")
@click.argument("name", required=False)
@click.option(
    "--trust",
    is_flag=True,
    help="Allow the files of this workspace's my_nodes/, my_models/ and my_transforms/ to run. Read them first.",
)
@json_option
@workspace_option
@click.pass_obj
def command(session: Session, name: str | None, trust: bool, as_json: bool, root: Path | None) -> int:
    """List the node types by category, or show the ports and parameters of NAME.

    NAME may be a dataset type too: what it is, its fields, which nodes make and take it.
    """
    workspace = session.workspace_to_look_at(root)
    if trust:
        _trust(workspace)
    catalog = session.catalog(workspace)
    if name is not None:
        found, dataset = catalog.find(name), catalog.datasets.find(name)
        if found is not None:
            say_json(found.describe()) if as_json else _show(found)
        elif dataset is not None:
            say_json(dataset_json(dataset, catalog)) if as_json else _show_dataset(dataset, catalog)
        else:
            raise UsageError(f"there is no node type {name}", hint=catalog.hint_for(name))
        return 0
    if as_json:
        problems = [p.model_dump(mode="json") for p in catalog.problems]
        datasets = [dataset_json(each, catalog) for each in catalog.datasets]
        say_json({"nodes": [t.describe() for t in catalog], "datasets": datasets, "problems": problems})
        return 0
    _list(catalog)
    say_diagnostics(catalog.problems, error=True)
    return 0


def _trust(workspace: Workspace) -> None:
    """Trust the workspace, and say which files may run from now on."""
    from engine.workspace import own_code, trust

    files = own_code(workspace)
    if not files:
        raise UsageError(
            f"there are no files in {workspace.my_nodes}, {workspace.my_models.name}/ or"
            f" {workspace.my_transforms.name}/",
            hint="Put a Python file there first.",
        )
    trust(workspace)
    for path in files:
        say(f"trusted: {path}", error=True)


def _list(catalog: Catalog) -> None:
    for category, types in groupby(catalog, key=lambda t: t.category.name):
        say(category, style="bold")
        for node_type in types:
            origin = "" if node_type.origin == "built-in" else f" ({Path(node_type.origin).name})"
            say(f"  {node_type.name:<20} {node_type.summary}{origin}")
    if own := [each for each in catalog.datasets if catalog.datasets.origin(each.__name__) != "built-in"]:
        say("Dataset types", style="bold")
        for each in own:
            described = dataset_json(each, catalog)
            say(f"  {described['kind']:<20} {described['summary']} ({Path(described['origin']).name})")


def dataset_json(dataset: type[Dataset], catalog: Catalog) -> dict[str, Any]:
    """A dataset type with its origin and the node types that make and take it."""
    kind = dataset.__name__
    return dataset.describe_type() | {
        "origin": catalog.datasets.origin(kind),
        "made_by": [t.name for t in catalog if any(kind in port.kinds for port in t.outputs)],
        "taken_by": [t.name for t in catalog if any(kind in port.kinds for port in t.inputs)],
    }


def _say_paragraphs(text: str) -> None:
    for paragraph in filter(str.strip, text.split("\n\n")):
        say("")
        say(" ".join(paragraph.split()))


def _show_dataset(dataset: type[Dataset], catalog: Catalog) -> None:
    described = dataset_json(dataset, catalog)
    say(f"{described['kind']}: {described['summary']}", style="bold")
    say(f"A dataset type ({described['title']}), from {described['origin']}")
    _say_paragraphs(described["description"])
    say("")
    say(f"made by: {', '.join(described['made_by']) or 'no node'}")
    say(f"taken by: {', '.join(described['taken_by']) or 'no node'}")
    say("")
    table(("fields", "value"), list(described["fields"].items()))


def _show(node_type: AnyNodeType) -> None:
    say(f"{node_type.name}, version {node_type.version}: {node_type.summary}", style="bold")
    say(f"{node_type.category.name}, from {node_type.origin}, runs on {_backends(node_type)}")
    _say_paragraphs(node_type.description)
    for title, ports in (("Inputs", node_type.inputs), ("Outputs", node_type.outputs)):
        if ports:
            say("")
            rows = [(p.name, " or ".join(p.kinds) + ("" if p.required else " (optional)"), p.help) for p in ports]
            table((title.lower(), "takes" if title == "Inputs" else "gives", ""), rows)
    if node_type.parameters:
        say("")
        table(
            ("parameters", "value", "default", ""),
            [(p.name, _values(p), _default(p), _help(p)) for p in node_type.parameters],
        )


def _backends(node_type: AnyNodeType) -> str:
    """`embedded, spark`; of a node that needs no variant, why."""
    names = ", ".join(sorted(node_type.backends))
    return f"{names}, under every profile ({node_type.anywhere})" if node_type.anywhere else names


def _values(parameter: Parameter) -> str:
    """What may stand there: type, choices, limits and unit."""
    if parameter.choices:
        return "one of " + ", ".join(str(c) for c in parameter.choices)
    text = type_name(parameter.type)
    if parameter.path_in:
        text = (
            f"a {parameter.path_in.kind}, {', '.join(parameter.path_in.patterns)}"
            if (parameter.path_in.kind == "folder")
            else "a file"
        )
    elif parameter.path_out:
        text = f"a {parameter.path_out.kind} to write"
    elif parameter.secret:
        text = "the name of an environment variable"
    elif parameter.pattern:
        text = f"a list, each {parameter.pattern.help}" if parameter.many else parameter.pattern.help
    if limits := parameter.range:
        low = "" if limits.low is None else number(limits.low)
        high = "" if limits.high is None else number(limits.high)
        text += f" {low}..{high}"
    return f"{text} {parameter.unit}".rstrip()


def _default(parameter: Parameter) -> str:
    if parameter.required:
        return "(required)"
    if parameter.default is None or parameter.default == "":
        return "none"
    if isinstance(parameter.default, tuple):
        return ", ".join(map(str, parameter.default)) or "none"
    return str(parameter.default)


def _help(parameter: Parameter) -> str:
    notes = [parameter.help.rstrip(".")] if parameter.help else []
    if parameter.extendable:
        notes.append("more of it continues from the shorter result")
    if parameter.policy:
        notes.append("does not change the result")
    return "; ".join(notes)
