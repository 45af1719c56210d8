"""One run with all that is known of it: its document, its plan, its tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.declare.dataset_type import details_of
from engine.declare.datasets import Dataset
from engine.document.pipeline import Node, Pipeline, display_names, load
from engine.document.plan import Plan, PlannedTask, read_plan
from engine.errors import PipelineError
from engine.store.liveness import STUCK_AFTER_S
from engine.store.runs import Run, RunStore, Task
from engine.text import number, safe
from engine.wording import MOST_FIGURES, details_text, failure_line
from engine.workspace import Workspace

_MOST_LISTED = 24
LEFT_OUT = "left out"
"""The state of a node that the run was not asked for."""


def short_id(run_id: str) -> str:
    """The end of a run's id, by which the command line finds it too."""
    return run_id.rpartition("-")[2] or run_id


@dataclass(frozen=True)
class Details:
    """A run as the pages show it.

    `pipeline` is None when this Voxelflow cannot read the document; `plan` when its file is gone.
    """

    run: Run
    tasks: Sequence[Task]
    pipeline: Pipeline | None
    plan: Plan | None

    @property
    def titles(self) -> dict[str, str]:
        """Names of the nodes as on the canvas, by id."""
        drawn = display_names(self.pipeline.nodes) if self.pipeline else {}
        return {t.node: t.title or t.node for t in self.tasks} | drawn

    @property
    def names(self) -> dict[str, str]:
        """The titles on one line, with the id where two nodes have the same: entries of a list must differ."""
        titles = {node: safe(title) for node, title in self.titles.items()}
        every = list(titles.values())
        return {node: title if every.count(title) == 1 else f"{title} ({node})" for node, title in titles.items()}

    def task(self, node: str) -> Task | None:
        """The node's task; None when the run was not asked for it."""
        return next((t for t in self.tasks if t.node == node), None)

    def planned(self, node: str) -> PlannedTask | None:
        """The node in the run's plan; None when it is not there."""
        return next((t for t in self.plan.tasks if t.node == node), None) if self.plan else None

    def drawn(self, node: str) -> Node | None:
        """The node in the document; None when it is not there."""
        return self.pipeline.node(node) if self.pipeline else None


def read_details(workspace: Workspace, store: RunStore, run_id: str) -> Details:
    """All about a run. Raises `UsageError` when there is none with this id."""
    run = store.run(run_id)
    pipeline = document_of(run)
    return Details(run, named(store.shown_tasks(run), pipeline), pipeline, read_plan(workspace, run.run_id))


def document_of(run: Run) -> Pipeline | None:
    """The pipeline that ran; None when this Voxelflow cannot read it."""
    try:
        return load(run.document, f"the document of run {run.run_id}")
    except PipelineError:
        return None


def named(tasks: Iterable[Task], pipeline: Pipeline | None) -> list[Task]:
    """The tasks, titled as their nodes are on the canvas."""
    titles = display_names(pipeline.nodes) if pipeline else {}
    return [replace(task, title=titles.get(task.node, task.title)) for task in tasks]


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
    """A figure that a node reported about its work, in words: what it wrote as JSON is spelled out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    text = str(value)
    if text[:1] in ("{", "["):
        try:
            return safe(_spelled_out(json.loads(text)))
        except ValueError:
            pass
    return safe(text)


def _spelled_out(value: Any) -> str:
    """`a 120, b 80` of an object, `0.1, 0.2` of a list, the first of many."""
    if isinstance(value, dict):
        return _listed([f"{name} {_spelled_out(each)}" for name, each in value.items()])
    if isinstance(value, list):
        return _listed([_spelled_out(each) for each in value])
    return fact_text(value) if value is not None else "none"


def _listed(texts: list[str]) -> str:
    rest = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {rest:,} more" if rest > 0 else "")


@dataclass(frozen=True)
class ParameterRow:
    """A parameter's value as text; `default` says that it is the one that the node type declares."""

    name: str
    value: str
    default: bool


def parameter_rows(details: Details, node: str, defaults: Mapping[str, Any]) -> list[ParameterRow]:
    """The node's parameters: those that differ from the default first, each group A to Z.

    `defaults` by name; of a parameter that is not in there, what the document sets is taken for different.
    """
    drawn = details.drawn(node)
    own = drawn.params if drawn else {}
    rows = []
    for name, value in parameters(details, node).items():
        same = value_text(defaults[name]) == value_text(value) if name in defaults else name not in own
        rows.append(ParameterRow(name, value_text(value), same))
    return sorted(rows, key=lambda row: (row.default, row.name))


def output_rows(outputs: Mapping[str, Dataset]) -> list[tuple[str, str, str, str]]:
    """Port, kind, the first `MOST_FIGURES` figures, and place of each output."""
    return [
        (port, dataset.kind, details_text(details_of(dataset), MOST_FIGURES), safe(dataset.uri))
        for port, dataset in outputs.items()
    ]


def failure_of(task: Task, name: str) -> tuple[str, str]:
    """Why a task failed: the message, which begins with `name`, and the hint."""
    failure = dict(task.failure or {"message": task.reason})
    hint = safe(str(failure.pop("hint", "")))
    return failure_line(name, failure), hint


def failure_lines(run: Run, tasks: Sequence[Task]) -> list[tuple[str, str]]:
    """Why the run did not end well: message and hint, one for each task that failed, else the run's own."""
    out = [failure_of(task, task.title or task.node) for task in tasks if task.state == "failed"]
    if run.state == "lost":
        out.append(("The run's process died without reporting a result.", "Resume goes on from what is done."))
    elif run.state == "stuck":
        stuck = f"The run's process lives and has done nothing for over {STUCK_AFTER_S:.0f} s."
        out.append((stuck, "Cancel ends it. Then Resume goes on from what is done."))
    elif run.error and not out and run.state in ("failed", "cancelled"):
        out.append((safe(run.error), ""))
    return out
