"""The `voxelflow` command. Takes what needs nodes or ui as arguments: the engine knows neither.

    command      the verbs, and what every error becomes
    processes    the hidden verbs, with which Voxelflow starts its own processes
    session      what the verbs share: workspace, catalogue, run store, options
    documents    finding a pipeline, reading --set
    following    watching a run until it ends: Ctrl-C, the wait for MLflow
    live, plain, json_lines    the three ways to show a run that is being watched
    screen, wording            text that is safe and easy to read

Every verb is a module of its own. Modules import what is heavy inside functions: `--help` and
`validate` must answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.catalog import Catalog
from engine.workspace import Workspace

if TYPE_CHECKING:
    from engine.cli.session import AskModel, StartStudio

MakeCatalog = Callable[[Workspace | None], Catalog]


def main(catalog: MakeCatalog, studio: StartStudio, ask_model: AskModel, arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status. `arguments` default to those of this process.

    `studio` serves the app; `ask_model` predicts a few files.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("_worker", "_supervise", "_track"):
        # Before anything of the command itself is imported: workers start by the hundred.
        from engine.cli.processes import serve

        return serve(given, catalog)
    from engine.cli.command import run_command

    return run_command(given, catalog, studio, ask_model)
