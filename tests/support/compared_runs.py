"""Two runs to compare: of two pipelines that share a node, a parameter and a value."""

from __future__ import annotations

from building import box, pipeline, some_run

from engine.document.pipeline import Node, Pipeline
from engine.history.details import Details
from engine.store.runs import Task

FIRST = pipeline(
    Node(id="a", type="Make", title="Maker", params={"steps": 3, "text": "x"}),
    box("j", "Join"),
    wires="a.out>j.first",
    epochs=3,
    data="same",
)
SECOND = pipeline(
    Node(id="a", type="Make", title="Maker", params={"steps": 5}, retries=2),
    box("h", "Halve", part=1),
    wires="a.out>h.whole",
    epochs=5,
    data="same",
)


def compared(document: Pipeline, *tasks: Task, run_id: str = "1-aaa", name: str = "p") -> Details:
    """A run of the pipeline, with these tasks."""
    return Details(some_run(run_id, pipeline=name), tasks, document, None)
