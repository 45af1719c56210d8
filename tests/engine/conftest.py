"""An MLflow database for tests of what is sent there."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.workspace import open_workspace


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh MLflow database: making one takes seconds, copying it nothing."""
    from engine.tracking.destination import connect, destination

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        workspace = open_workspace(tmp_path_factory.mktemp("template"))
        connect(destination(workspace), workspace)
    return workspace.mlflow_database
