"""The `voxelflow` command. Takes what needs nodes or ui as arguments: the engine knows neither.

    command      the verbs, `studio`, and what every error becomes
    node_work    what commands have nodes and ui do
    session      what the verbs share: workspace, catalogue, run store, options
    following    a run from its start to its end: Ctrl-C, the wait for MLflow, the result
    views, live  the ways to show a run that is being followed: lines, JSON lines, a terminal
    screen       printing: safe text, colours, tables, JSON

Every other verb is a module of its own (`validate` beside `plan`). Modules import what is heavy inside functions:
`--help` and `validate` must answer at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.catalog import Catalog
from engine.errors import VoxelflowError
from engine.processes.interrupt import raise_at_interrupt
from engine.workspace import Workspace

if TYPE_CHECKING:
    from engine.cli.node_work import NodeWork, StartStudio

MakeCatalog = Callable[[Workspace | None], Catalog]


def main(
    catalog: MakeCatalog,
    studio: StartStudio,
    work: NodeWork,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run one command; gives the exit status. `arguments` default to those of this process.

    `studio` serves the app; `work` is what commands have nodes do.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("_worker", "_supervise", "_sweep", "_track", "_view", "_mlflow"):
        # Before anything of the command itself is imported: workers start by the hundred.
        raise_at_interrupt()
        return _serve(given, catalog, work)
    from engine.cli.command import run_command

    return run_command(given, catalog, studio, work)


def _serve(arguments: Sequence[str], catalog: MakeCatalog, node_work: NodeWork) -> int:
    """`_worker`, `_view` or `_mlflow`, each with WORKSPACE FD; `_supervise` or `_track` with WORKSPACE RUN_ID;
    `_sweep` with WORKSPACE SWEEP_ID.

    The last line on standard error, which is the process's log, says why it did not work.
    """
    from engine.processes.system import tolerate_full_disk

    if len(arguments) != 3:
        print(f"error: {arguments[0]} takes a workspace and one more argument", file=sys.stderr)
        return 2
    verb, root, subject = arguments
    tolerate_full_disk()
    # Not `open_workspace`: the process that started us has made it.
    workspace = Workspace(Path(root))
    try:
        if verb == "_worker":
            from engine.run.worker import work

            return work(int(subject), lambda: catalog(workspace))
        if verb == "_view":
            from engine.catalog import learn_dataset_types
            from engine.viewing.reader import serve

            learn_dataset_types(workspace)
            serve(int(subject), node_work.open_view, node_work.prepare_views)
        if verb == "_mlflow":
            from engine.tracking.web_ui import serve as serve_mlflow

            serve_mlflow(workspace, int(subject))
        if verb == "_supervise":
            from engine.run.supervisor import supervise

            return supervise(workspace, subject, catalog(workspace))
        if verb == "_sweep":
            from engine.sweep.drive import drive

            return drive(workspace, subject, catalog(workspace))
        from engine.tracking import load_client, send_pending, track_run

        # Importing MLflow takes a second that the run should have.
        os.nice(10)
        load_client()
        if not track_run(workspace, subject, until_ended=True):
            return 1
        # The server answers: what earlier runs could not send goes with us.
        send_pending(workspace)
    except VoxelflowError as exc:
        traceback.print_exc()
        print(f"error: {exc.line()}", file=sys.stderr)
        return exc.exit_code
    return 0
