from __future__ import annotations

import pytest
from running import Runner

from engine.catalog import Catalog
from engine.store.runs import RunStore
from engine.workspace import Workspace


@pytest.fixture
def runner(probes: Catalog, workspace: Workspace, store: RunStore) -> Runner:
    return Runner(probes, workspace, store)
