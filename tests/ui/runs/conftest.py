"""A studio on the test's own workspace, runs in it, and its pages without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Runner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import ui
from engine import launch
from engine.catalog import Catalog
from engine.events import Metrics, SystemSample
from engine.pipeline import Pipeline
from engine.plan import Choice
from engine.profiles import find_profile
from engine.runs import Run, RunStore
from engine.workspace import Workspace
from ui import studio_context
from ui.studio_context import Studio

APP = Path(ui.__file__ or "").with_name("app.py")


class Runs(Runner):
    """Runs pipelines for real, with the profile that the app can find again."""

    def start(self, document: Pipeline, **choice: Any) -> str:
        run_id, _ = launch.start(
            document, self.catalog, self.workspace, self.store, profile=find_profile("local"), choice=Choice(**choice)
        )
        return run_id

    def train(self, run_id: str, node: str, epochs: int = 5) -> Run:
        """Write into the event log what a training node would have."""
        for epoch in range(1, epochs + 1):
            values = {"loss": 1.0 / epoch, "val_loss": 1.5 / epoch, "accuracy": 1 - 0.5 / epoch}
            steps = [Metrics(node=node, step=10 * epoch + i, values={"step_loss": 1.0 / epoch}) for i in range(10)]
            sample = SystemSample(values={"cpu_utilization_percentage": 10.0 * epoch})
            self.store.add_events(run_id, [*steps, Metrics(node=node, step=epoch, values=values), sample])
        return self.store.run(run_id)


@pytest.fixture
def runs(probes: Catalog, workspace: Workspace, store: RunStore) -> Runs:
    return Runs(probes, workspace, store)


@pytest.fixture
def app(probes: Catalog, workspace: Workspace, store: RunStore) -> Iterator[Callable[..., AppTest]]:
    """`app("run", run=ID)` is the page at /run?run=ID, drawn."""
    studio_context.install(Studio(workspace, store, workspace.root, lambda _: probes))

    def open_page(path: str, **query: str) -> AppTest:
        page = AppTest.from_file(str(APP), default_timeout=30)
        # AppTest itself only switches to pages that are files.
        page._page_hash = calc_hash(path)
        for name, value in query.items():
            page.query_params[name] = value
        return page.run()

    yield open_page
    studio_context._installed.clear()
