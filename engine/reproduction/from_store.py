"""A run of this workspace, read from its run store."""

from __future__ import annotations

from collections.abc import Iterator

from engine.datasets import Dataset
from engine.environment import kept_environment
from engine.events import Artifact, Event, Facts, Metrics
from engine.pipeline import load
from engine.reproduction.recorded import Recorded, Told
from engine.runs import Run, RunStore
from engine.tracking.naming import key, param_text
from engine.workspace import Workspace

_PAGE = 10_000


def read_from_store(workspace: Workspace, store: RunStore, run: Run) -> Recorded:
    """What the run store has of `run`. Names are spelled as MLflow has them. Raises `PipelineError`."""
    pipeline = load(run.document)
    environment = kept_environment(workspace.run_folder(run.run_id))
    curves: dict[str, dict[str, dict[int, float]]] = {}
    figures: dict[str, dict[str, str]] = {}
    for event in _events(store, run.run_id):
        node = event.node or ""
        if isinstance(event, Metrics):
            for name, value in event.values.items():
                # A step that was repeated after a resume keeps its first value, as in MLflow.
                curves.setdefault(node, {}).setdefault(key(name), {}).setdefault(event.step, value)
        elif isinstance(event, Facts):
            for name, fact in event.values.items():
                figures.setdefault(node, {}).setdefault(key(name), param_text(fact))
        elif isinstance(event, Artifact) and event.role == "model":
            curves.setdefault(node, {})
    made = {task.node: task.outputs for task in store.tasks(run.run_id)}
    inputs: dict[str, dict[str, Dataset]] = {}
    for edge in pipeline.edges:
        if (reference := made.get(edge.source_node, {}).get(edge.source_port)) is not None:
            inputs.setdefault(edge.target_node, {})[edge.target_port] = reference
    told = {}
    for node, of_node in curves.items():
        code = environment.nodes.get(node) if environment else None
        named = {} if code is None else {k: v for k, v in figures.get(node, {}).items() if k not in code.params}
        told[node] = Told(of_node, named)
    return Recorded(run.run_id, run.state, run.profile, pipeline, environment, inputs, told)


def _events(store: RunStore, run_id: str) -> Iterator[Event]:
    after = 0
    while page := store.events(run_id, after, ("metrics", "facts", "artifact"), _PAGE):
        yield from (event for _, event in page)
        after = page[-1][0]
