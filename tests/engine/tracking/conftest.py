"""Workspaces with an MLflow database, and trackers in processes of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tracked_runs import FakeRun, Reader, TrackerProcess

from engine.workspace import Workspace


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("MLFLOW_TRACKING"):
            monkeypatch.delenv(name)


@pytest.fixture
def local(workspace: Workspace, empty_database: Path) -> Workspace:
    """A workspace that has an MLflow database."""
    shutil.copy(empty_database, workspace.mlflow_database)
    return workspace


@pytest.fixture
def reader() -> Callable[[Workspace], Reader]:
    def read(workspace: Workspace) -> Reader:
        from engine.tracking.destination import connect, destination

        return Reader(connect(destination(workspace), workspace))

    return read


@pytest.fixture
def tracker() -> Iterator[Callable[..., TrackerProcess]]:
    started: list[TrackerProcess] = []

    def start(run: FakeRun, **environment: str) -> TrackerProcess:
        started.append(TrackerProcess(run.workspace, run.id, environment).start())
        return started[-1]

    yield start
    for process in started:
        if process.process.is_alive():
            process.kill()
