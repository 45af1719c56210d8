from __future__ import annotations

from collections.abc import Iterator

import pytest
from running import Runner, end_active

from engine.catalog import Catalog
from engine.store.runs import RunStore
from engine.workspace import Workspace


@pytest.fixture
def runner(probes: Catalog, workspace: Workspace, store: RunStore) -> Iterator[Runner]:
    yield Runner(probes, workspace, store)
    end_active(store)
