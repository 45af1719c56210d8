"""MLflow's own web pages, served by a process of their own on a Unix socket (`ui.mlflow_ui` asks for them).

A socket and no port: MLflow has no login, and every user of this computer who reaches a port could see, change and
delete every run. The socket lies in a folder that only this user may enter.
"""

from __future__ import annotations

import os
import tempfile
from typing import NoReturn

from pydantic import BaseModel

from engine.extras import require
from engine.processes.parent import Parent
from engine.processes.system import exit_now
from engine.tracking.destination import connect, destination
from engine.workspace import Workspace


class Order(BaseModel):
    """What the app asks for: pages below the URL path `prefix`, served on `socket`."""

    socket: str
    prefix: str


def serve(workspace: Workspace, handle: int) -> NoReturn:
    """Serve until the app is gone; `handle` is the number of the message pipe. Why it ends is in its log.

    Raises `MissingPackage` without MLflow and `TrackingError` when its database cannot be opened.
    """
    parent = Parent(handle)
    order = Order.model_validate_json(parent.line())
    require("MLflow's pages", "mlflow")
    target = destination(workspace)
    # Makes or migrates the workspace's own file, which MLflow's server itself would refuse to do.
    connect(target, workspace)
    os.environ |= {
        # In the environment: a database's address may hold a password, and everybody sees a command line.
        "MLFLOW_BACKEND_STORE_URI": target.uri,
        "MLFLOW_ARTIFACTS_DESTINATION": target.artifacts or tempfile.gettempdir(),
        # Another three processes, for what language models need.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    from mlflow.cli import cli

    arguments = ["--workers", "1", "--static-prefix", order.prefix, "--uvicorn-opts", f"--uds {order.socket}"]
    cli(["server", *arguments], standalone_mode=False)
    exit_now(1)
