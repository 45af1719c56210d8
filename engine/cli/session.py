"""What the verbs share: the workspace, the catalogue, the run store, and options that mean the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.catalog import Catalog
from engine.cli.finite import Finite
from engine.cli.node_work import NodeWork, StartStudio
from engine.diagnostics.rule import Diagnostic
from engine.errors import WorkspaceError
from engine.storage import folder_to_write
from engine.workspace import Workspace, default_root, open_workspace

if TYPE_CHECKING:
    from pydantic import JsonValue

    from engine.document.pipeline import Pipeline
    from engine.limit import Limit
    from engine.store.runs import RunStore

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Session:
    """One call of the command. `traceback` is whether the person wants to see where an error comes from."""

    make_catalog: Callable[[Workspace | None], Catalog]
    start_studio: StartStudio
    work: NodeWork
    traceback: bool
    catalogs: list[Catalog] = field(default_factory=list)
    """Those that were made in this call: what can be said of a problem's code is in them."""

    def workspace(self, root: Path | None) -> Workspace:
        """The workspace to work in; made when it is not there."""
        return open_workspace(root)

    def workspace_to_look_at(self, root: Path | None) -> Workspace:
        """The workspace as it is: a verb that only looks leaves no empty folders behind."""
        place = _absolute(root)
        return open_workspace(place) if _is_one(place) else Workspace(place)

    def workspace_with_runs(self, root: Path | None) -> tuple[Workspace, RunStore]:
        """A workspace that must be there already, with its run store. Raises `WorkspaceError`."""
        from engine.store.runs import RunStore

        found = self.existing_workspace(root)
        return found, RunStore(found)

    def existing_workspace(self, root: Path | None) -> Workspace:
        """A workspace that must be there already. Raises `WorkspaceError`."""
        place = _absolute(root)
        if not _is_one(place):
            raise WorkspaceError(
                f"there is no workspace at {place}",
                hint="Name it with --workspace; the first run of a pipeline makes one.",
            )
        return open_workspace(place)

    def catalog(self, workspace: Workspace | None) -> Catalog:
        """The catalogue of the workspace; `pointer` then knows its rules."""
        self.catalogs.append(self.make_catalog(workspace))
        return self.catalogs[-1]

    def pipeline(
        self, name: str, settings: Iterable[str], workspace: Workspace
    ) -> tuple[Pipeline, Catalog, dict[str, JsonValue]]:
        """The document that `name` means, the catalogue, and the values given with --set.

        Raises `PipelineError` when there is no such document or it cannot be read, `UsageError` for a bad --set.
        """
        from engine.document.find import find_pipeline
        from engine.document.values import read_settings

        document, catalog = find_pipeline(name, workspace), self.catalog(workspace)
        return document, catalog, read_settings(settings, document, catalog)

    def pointer(self, found: Iterable[Diagnostic]) -> str:
        """The line that says where to read more: about the first error, else the first problem, that has a rule."""
        codes = [d.code for d in sorted(found, key=lambda d: d.severity != "error")]
        known = next((c for c in codes if any(catalog.rules.find(c) for catalog in self.catalogs)), None)
        return f"`voxelflow explain {known}` says more." if known else ""


class Listing(click.Group):
    """Commands of which `list` is meant where none is named: `voxelflow runs --limit 5`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in self.get_help_option_names(ctx)):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def _absolute(root: Path | None) -> Path:
    return folder_to_write(str(root or default_root())).absolute()


def _is_one(root: Path) -> bool:
    return (root / "workspace.json").exists()


class _Folder(click.Path):
    """A folder's path; an empty one, such as that of a variable that is not set, would be the current directory."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            self.fail("it is empty; name a folder, or leave the option out.", param, ctx)
        return super().convert(value, param, ctx)


def workspace_option(function: F) -> F:
    return click.option(
        "--workspace",
        "root",
        type=_Folder(path_type=Path),
        metavar="DIR",
        help="The workspace. Default: $VOXELFLOW_WORKSPACE, else the current directory if it is one, else ./workspace.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for other programs.")(function)


def pipeline_options(function: F) -> F:
    """PIPELINE and --set."""
    function = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give a parameter of the pipeline, or NODE.PARAMETER of a node, a value; can be repeated. JSON values"
        " (5, true, [16,16,8,2]) are read as such, anything else is text. Relative paths start at the current"
        " directory.",
    )(function)
    return click.argument("pipeline")(function)


def limit_options(function: F) -> F:
    """--stop-after, --stop-at-cost, --no-limit; `limit_of` makes a limit of them."""
    no_limit = click.option("--no-limit", is_flag=True, help="Without a limit, also where the profile has one.")
    return stop_options("run")(no_limit(function))


def stop_options(what: str) -> Callable[[F], F]:
    """--stop-after and --stop-at-cost alone: `what`, such as a sweep, is stopped there."""

    def decorate(function: F) -> F:
        for option in (
            click.option(
                "--stop-at-cost",
                type=Finite(0, min_open=True),
                metavar="AMOUNT",
                help=f"Stop the {what} when it has cost so much, by the profile's price an hour and in its currency.",
            ),
            click.option(
                "--stop-after",
                metavar="TIME",
                help=f"Stop the {what} when it was at work for so long: 3h, 90min, 1h30min.",
            ),
        ):
            function = option(function)
        return function

    return decorate


def limit_of(before: Limit, stop_after: str | None, stop_at_cost: float | None, *, no_limit: bool) -> Limit:
    """`before` with what was given. Raises `UsageError`."""
    from engine.limit import changed_limit, read_time

    seconds = None if stop_after is None else read_time(stop_after)
    return changed_limit(before, seconds, stop_at_cost, without=no_limit)


def profile_option(function: F) -> F:
    """--profile NAME; None stands for the workspace's default one."""
    help_text = "The compute profile. Default: the workspace's (see `voxelflow profiles`)."
    return click.option("--profile", metavar="NAME", help=help_text)(function)


def choice_options(function: F) -> F:
    """Which part to run, where: --profile, --from, --to, --fresh."""
    for option in (
        click.option("--fresh", is_flag=True, help="Ignore cached results."),
        click.option("--to", "end", metavar="NODE", help="Run only this node and what it needs."),
        click.option("--from", "start", metavar="NODE", help="Rerun this node and everything downstream."),
        profile_option,
    ):
        function = option(function)
    return function
