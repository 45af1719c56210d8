"""Runs in the test's own workspace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from building import box, pipeline
from running import Runner, end_active

from engine.catalog import Catalog
from engine.declare.events import Metrics, SystemSample
from engine.document.pipeline import Node, Pipeline
from engine.document.plan import Choice
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace


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


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    """The slow tests are those that start runs."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("forked_runs")


@pytest.fixture
def runs(probes: Catalog, workspace: Workspace, store: RunStore) -> Iterator[Runs]:
    yield Runs(probes, workspace, store)
    end_active(store)


@pytest.fixture
def run_id(store: RunStore) -> str:
    """A run that has reported nothing yet."""
    return store.create_run("p", "{}", {}, "local")


@pytest.fixture
def done(runs: Runs) -> str:
    """A run of two nodes that is done."""
    document = pipeline(
        Node(id="a", type="Make", title="Maker", params={"text": "${text}", "steps": 2}),
        box("j", "Join"),
        wires="a.out>j.first",
        name="demo",
        text="hello",
    )
    run, _ = runs.run(document)
    assert run.state == "done"
    return run.run_id
