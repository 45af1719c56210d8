"""One run with all that is known of it: its document, its plan, its tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cli.telling import failure_line
from engine.cli.wording import figures, number, safe
from engine.datasets import Dataset
from engine.errors import PipelineError
from engine.launch import read_plan
from engine.pipeline import Node, Pipeline, load
from engine.plan import Plan, PlannedTask
from engine.runs import Run, RunStore, Task
from engine.workspace import Workspace


@dataclass(frozen=True)
class Details:
    """`pipeline` is None when this Voxelflow cannot read the document; `plan` when its file is gone."""

    run: Run
    tasks: Sequence[Task]
    pipeline: Pipeline | None
    plan: Plan | None

    @property
    def titles(self) -> dict[str, str]:
        """Names of the nodes for people, by id."""
        named = {n.id: n.label for n in self.pipeline.nodes} if self.pipeline else {}
        return {t.node: t.title or t.node for t in self.tasks} | named

    @property
    def names(self) -> dict[str, str]:
        """The titles on one line, with the id where two nodes have the same: lists tell their entries apart by them."""
        titles = {node: safe(title) for node, title in self.titles.items()}
        held = list(titles.values())
        return {node: title if held.count(title) == 1 else f"{title} ({node})" for node, title in titles.items()}

    def task(self, node: str) -> Task | None:
        return next((t for t in self.tasks if t.node == node), None)

    def planned(self, node: str) -> PlannedTask | None:
        return next((t for t in self.plan.tasks if t.node == node), None) if self.plan else None

    def drawn(self, node: str) -> Node | None:
        return self.pipeline.node(node) if self.pipeline else None


def read_details(workspace: Workspace, store: RunStore, run_id: str) -> Details:
    """All about a run. Raises `UsageError` when there is none with this id."""
    run = store.run(run_id)
    try:
        pipeline = load(run.document, f"the document of run {run.run_id}")
    except PipelineError:
        pipeline = None
    return Details(run, store.tasks(run.run_id), pipeline, read_plan(workspace, run.run_id))


def saved_as(workspace: Workspace, document: str) -> str | None:
    """The id of the workspace's pipeline whose file holds exactly this document."""
    wanted = document.encode()
    for path in sorted(workspace.pipelines.glob("*.json")):
        try:
            if path.stat().st_size == len(wanted) and path.read_bytes() == wanted:
                return path.stem
        except OSError:
            continue
    return None


def parameters(details: Details, node: str) -> dict[str, Any]:
    """The values a node ran with, defaults included; of a node that was not planned, those in the document."""
    planned = details.planned(node)
    if planned is not None:
        return dict(planned.params)
    drawn = details.drawn(node)
    return dict(drawn.params) if drawn else {}


def value_text(value: object) -> str:
    """A parameter's value as it would stand in the document; a text without its quotes."""
    return safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def fact_text(value: object) -> str:
    """A figure that a node told about its work."""
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else safe(str(value))


def parameter_rows(details: Details, node: str) -> list[tuple[str, str]]:
    """Names and values, A to Z."""
    return [(name, value_text(value)) for name, value in sorted(parameters(details, node).items())]


def output_rows(outputs: Mapping[str, Dataset]) -> list[tuple[str, str, str, str]]:
    """Port, kind, figures and place of each output."""
    return [(port, dataset.kind, figures(dataset.details()), safe(dataset.uri)) for port, dataset in outputs.items()]


def failure_lines(run: Run, tasks: Sequence[Task]) -> list[tuple[str, str]]:
    """Why the run did not end well: message and hint, one for each task that failed, else the run's own."""
    failed = [t for t in tasks if t.state == "failed"]
    out = []
    for task in failed:
        told = dict(task.failure or {"message": task.reason})
        hint = safe(str(told.pop("hint", "")))
        out.append((failure_line(task.title or task.node, told), hint))
    if run.state == "lost":
        out.append(("The run's process ended without a word.", "Resume goes on from what is done."))
    elif run.error and not failed and run.state == "failed":
        out.append((safe(run.error), ""))
    return out
