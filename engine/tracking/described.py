"""A run's document and plan, as MLflow wants to know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue, ValidationError

from engine.datasets import Dataset
from engine.errors import PipelineError
from engine.pipeline import Edge, Pipeline, load, substitute
from engine.runs import Run, RunStore
from engine.workspace import Workspace


@dataclass(frozen=True)
class Described:
    """Parameters of the pipeline and of its nodes, as the run used them."""

    settings: Mapping[str, Any]
    params: Mapping[str, Mapping[str, Any]]
    types: Mapping[str, str]
    edges: tuple[Edge, ...]

    def into(self, node: str) -> list[Edge]:
        return [e for e in self.edges if e.target_node == node]


def describe(workspace: Workspace, run: Run) -> Described:
    """Read the run's document, and its plan where there is one: that one knows the defaults too.

    A document that cannot be read gives an empty description: it is no reason to lose the metrics.
    """
    try:
        pipeline = load(run.document)
    except PipelineError:
        return Described({}, {}, {}, ())
    settings = {name: p.value for name, p in pipeline.parameters.items()}
    params: dict[str, Mapping[str, Any]] = {n.id: _substituted(n.params, settings) for n in pipeline.nodes}
    params.update(_planned(workspace, run, pipeline))
    return Described(settings, params, {n.id: n.type for n in pipeline.nodes}, pipeline.edges)


def outputs_of_tasks(store: RunStore, run_id: str) -> dict[str, dict[str, Dataset]]:
    """By node: the datasets on its output ports, of every task that has ended well so far."""
    return {task.node: dict(task.outputs) for task in store.tasks(run_id) if task.outputs}


def _substituted(params: Mapping[str, JsonValue], settings: dict[str, JsonValue]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in params.items():
        try:
            out[name] = substitute(value, settings)
        except KeyError:
            out[name] = value
    return out


def _planned(workspace: Workspace, run: Run, pipeline: Pipeline) -> dict[str, Mapping[str, Any]]:
    from engine.plan import Plan

    try:
        text = (workspace.run_folder(run.run_id) / "plan.json").read_text(encoding="utf-8")
        plan = Plan.model_validate_json(text)
    except (OSError, ValidationError):
        return {}
    return {task.node: task.params for task in plan.tasks if pipeline.node(task.node) is not None}
