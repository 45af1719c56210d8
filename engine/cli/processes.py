"""The hidden verbs: Voxelflow's own worker, supervisor and tracker processes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.catalog import Catalog
from engine.errors import VoxelflowError
from engine.workspace import Workspace


def serve(arguments: Sequence[str], catalog: Callable[[Workspace | None], Catalog]) -> int:
    """`_worker WORKSPACE FD`, `_supervise WORKSPACE RUN_ID` or `_track WORKSPACE RUN_ID`.

    The last line on standard error, which is the process's log, says why it did not work.
    """
    if len(arguments) != 3:
        print(f"error: {arguments[0]} takes a workspace and one more argument", file=sys.stderr)
        return 2
    verb, root, subject = arguments
    # Not `open_workspace`: whoever started us has made it.
    workspace = Workspace(Path(root))
    try:
        if verb == "_worker":
            from engine.worker import work

            return work(int(subject), lambda: catalog(workspace))
        if verb == "_supervise":
            from engine.supervisor import supervise

            return supervise(workspace, subject, catalog(workspace))
        from engine.tracking import send_pending, track_run

        # Importing MLflow takes seconds that the run should have.
        os.nice(10)

        if not track_run(workspace, subject, until_ended=True):
            return 1
        # The server answers: what earlier runs could not send goes with us.
        send_pending(workspace)
    except VoxelflowError as exc:
        traceback.print_exc()
        print(f"error: {exc.line()}", file=sys.stderr)
        return exc.exit_code
    return 0
