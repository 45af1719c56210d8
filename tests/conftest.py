"""Shared fixtures: an isolated workspace and the small node types that the engine's tests run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_fixtures import azure, azure_server, container, s3_stand_in

from engine.catalog import Catalog, build_catalog
from engine.runs import RunStore
from engine.workspace import Workspace, open_workspace, trust

__all__ = ["azure", "azure_server", "container", "s3_stand_in"]

# Each Java of these tests lives for seconds: compiling hot code twice, and several threads of clearing up, cost more
# than they save.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Hundreds of processes import the same packages: none shall compile them anew, as where Python keeps no bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PROBES = Path(__file__).parent / "support" / "probes.py"
"""Node types that sleep, fail, count and grow: what the engine's tests execute for real."""


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the person's trust file, workspace or tracking server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(tmp_path))
    monkeypatch.setenv("VOXELFLOW_TRACKING", "off")
    monkeypatch.delenv("VOXELFLOW_WORKSPACE", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return open_workspace(tmp_path / "workspace")


@pytest.fixture
def store(workspace: Workspace) -> Iterator[RunStore]:
    out = RunStore(workspace)
    yield out
    out.close()


@pytest.fixture
def probes(workspace: Workspace) -> Catalog:
    """A catalogue with the test nodes, installed as the workspace's own and trusted."""
    (workspace.my_nodes / "probes.py").write_text(PROBES.read_text())
    trust(workspace)
    return build_catalog((), workspace)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first, so that a mistake shows in a minute.

    Those in a browser last: from the first on, Playwright has this thread's event loop.
    """
    items.sort(key=lambda item: (item.get_closest_marker("slow") is not None) + _in_a_browser(item))


def _in_a_browser(item: pytest.Item) -> bool:
    return item.get_closest_marker("browser") is not None
