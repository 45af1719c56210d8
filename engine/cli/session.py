"""What the verbs share: the workspace, the catalogue, the run store, and options that mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from engine.catalog import Catalog
from engine.errors import WorkspaceError
from engine.workspace import Workspace, default_root, open_workspace

if TYPE_CHECKING:
    from engine.runs import RunStore

F = TypeVar("F", bound=Callable[..., Any])


class StartStudio(Protocol):
    """Serve the app until it is stopped; gives the exit status. `port` None means the usual one or the next free."""

    def __call__(
        self, workspace: Workspace, *, address: str, port: int | None, open_browser: bool, traceback: bool
    ) -> int: ...


class Answer(Protocol):
    """What a model says of a file: the likeliest class, None of a regression, and the scores by class; or an error."""

    @property
    def file(self) -> Path: ...
    @property
    def name(self) -> str | None: ...
    @property
    def scores(self) -> Mapping[str, float]: ...
    @property
    def error(self) -> str: ...


class AskModel(Protocol):
    """Ask the trained model in a folder about `.npy` files; gives an answer for each, in their order."""

    def __call__(self, folder: Path, files: Sequence[Path]) -> Sequence[Answer]: ...


@dataclass(frozen=True)
class Session:
    """One call of the command. `traceback` is whether the person wants to see where an error comes from."""

    make_catalog: Callable[[Workspace | None], Catalog]
    start_studio: StartStudio
    ask_model: AskModel
    traceback: bool

    def workspace(self, root: Path | None) -> Workspace:
        """The workspace to work in; made when it is not there."""
        return open_workspace(root)

    def workspace_to_look_at(self, root: Path | None) -> Workspace:
        """The workspace as it is: a verb that only looks leaves no empty folders behind."""
        place = _absolute(root)
        return open_workspace(place) if _is_one(place) else Workspace(place)

    def workspace_with_runs(self, root: Path | None) -> tuple[Workspace, RunStore]:
        """A workspace that must be there already, with its run store. Raises `WorkspaceError`."""
        from engine.runs import RunStore

        place = _absolute(root)
        if not _is_one(place):
            raise WorkspaceError(
                f"there is no workspace at {place}",
                hint="Name it with --workspace; the first run of a pipeline makes one.",
            )
        found = open_workspace(place)
        return found, RunStore(found)

    def catalog(self, workspace: Workspace | None) -> Catalog:
        return self.make_catalog(workspace)


def _absolute(root: Path | None) -> Path:
    return (root or default_root()).expanduser().absolute()


def _is_one(root: Path) -> bool:
    return (root / "workspace.json").exists()


def workspace_option(function: F) -> F:
    return click.option(
        "--workspace",
        "root",
        type=click.Path(path_type=Path),
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
        help="Give a parameter of the pipeline a value; can be repeated. JSON values (5, true, [16,16,8,2]) are"
        " read as such, anything else is text. Relative paths start at the current directory.",
    )(function)
    return click.argument("pipeline")(function)


def choice_options(function: F) -> F:
    """Which part to run, where: --profile, --from, --to, --fresh."""
    for option in (
        click.option("--fresh", is_flag=True, help="Use no result from before."),
        click.option("--to", "end", metavar="NODE", help="Run only this node and what it needs."),
        click.option("--from", "start", metavar="NODE", help="Run this node and all behind it again."),
        click.option("--profile", default="local", show_default=True, metavar="NAME", help="The compute profile."),
    ):
        function = option(function)
    return function
