"""What a run came to: the figures of what it made beside those of the run before, and what was different there.

The run's page and the editor show the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.declare.dataset_type import details_of, headline_of, scores_of
from engine.declare.datasets import Dataset, Report, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.figures import lower_is_better
from engine.document.node_names import names_in_both, wire_name
from engine.document.pipeline import Pipeline, display_names
from engine.document.plan import Plan, PlannedTask
from engine.history.details import Details, value_text
from engine.store.runs import Run, RunStore, Task
from engine.text import safe
from engine.wording import SPLITS, details_text, figure_name

MOST_TILES = 6
_AFTER_HEADLINE = ("accuracy", "f1", "mae", "rmse", "loss")
ABSENT = "-"


@dataclass(frozen=True)
class Tile:
    """A figure of what a node made, and what it was in the run before; `before` is None when that run has none."""

    node: str
    title: str
    """The node's name for people."""
    name: str
    value: float
    before: float | None = None

    @property
    def text(self) -> str:
        """The figure's name in words: `Validation AUC`."""
        return figure_name(self.name)

    @property
    def better(self) -> bool | None:
        """Whether the figure is better than before; None when it is the same or there is nothing to compare."""
        if self.before is None or self.value == self.before:
            return None
        return (self.value < self.before) == lower_is_better(self.name)


def run_before(store: RunStore, run: Run) -> Run | None:
    """The newest run of the same pipeline that was started before this one and is done; None without one."""
    return store.done_before(run.pipeline, run.created)


def tiles(tasks: Sequence[Task], before: Sequence[Task] = ()) -> list[Tile]:
    """The main figures of what the run made, at most `MOST_TILES`: the last nodes' first, each node's together.

    Each is compared with the same figure of the same node in the run `before`.
    """
    earlier = {task.node: figures_of(task) for task in before}
    found = _last_first(tasks)
    out: list[Tile] = []
    # Of each node what says most, before more is said of any.
    for turn in range(MOST_TILES):
        for task, figures in found:
            if turn < len(figures):
                name, value = list(figures.items())[turn]
                out.append(
                    Tile(task.node, safe(task.title or task.node), name, value, earlier.get(task.node, {}).get(name))
                )
    order = [task.node for task, _ in found]
    return sorted(out[:MOST_TILES], key=lambda tile: order.index(tile.node))


def leading_figures(tasks: Sequence[Task]) -> dict[str, float]:
    """The main figures of a run, for where there is space for one or two: those of the last node that has some, the
    most important first. The first is also the first of `tiles`; {} of a run without a model or a report."""
    return next((figures for _, figures in _last_first(tasks) if figures), {})


def _last_first(tasks: Sequence[Task]) -> list[tuple[Task, dict[str, float]]]:
    return [(task, figures_of(task)) for task in reversed(tasks) if task.state in ("done", "cached")]


def figures_of(task: Task) -> dict[str, float]:
    """Figures of a model or a report that the node made, what says most first; none of other nodes."""
    out: dict[str, float] = {}
    for dataset in task.outputs.values():
        if (headline := headline_of(dataset)) is None:
            continue
        known = {**scores_of(dataset), **(_numbers(dataset.figures) if isinstance(dataset, Report) else {})}
        name = headline[0]
        prefix = next((p for p in SPLITS if name.startswith(p)), "")
        for wanted in (name, *(f"{prefix}{rest}" for rest in _AFTER_HEADLINE)):
            value = headline[1] if wanted == name else known.get(wanted)
            if value is not None and math.isfinite(value):
                out.setdefault(wanted, float(value))
    return out


def _numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    return {k: v for k, v in figures.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}


# --- what changed ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Something that the run had otherwise than the one before. `kind` is "Parameter", "Data", "Code", "Node",
    "Wire" or "Profile"; `where` the node's name, "" for the whole run."""

    kind: str
    where: str
    name: str
    before: str
    now: str


def changes(before: Details, now: Details) -> list[Change]:
    """What `now` had otherwise than `before`: parameters, data, code, nodes and where it ran, in this order."""
    titles = {node: safe(title) for node, title in {**before.titles, **now.titles}.items()}
    ran, runs = _planned(before.plan), _planned(now.plan)
    both = [node for node in runs if node in ran]
    out = [change for node in both for change in _parameters(titles[node], ran[node], runs[node])]
    tasks = {task.node: task for task in before.tasks}
    for task in now.tasks:
        if task.node in tasks:
            out += _data(titles[task.node], tasks[task.node], task, ran.get(task.node), runs.get(task.node))
    out += [change for node in both for change in _code(titles[node], ran[node], runs[node])]
    out += _nodes(before.pipeline, now.pipeline)
    if before.run.profile != now.run.profile:
        out.append(Change("Profile", "", "compute profile", before.run.profile, now.run.profile))
    return out


def _planned(plan: Plan | None) -> dict[str, PlannedTask]:
    return {task.node: task for task in plan.tasks} if plan is not None else {}


def _parameters(where: str, before: PlannedTask, now: PlannedTask) -> Iterator[Change]:
    for name in sorted({*before.params, *now.params}):
        texts = [value_text(p.params[name]) if name in p.params else ABSENT for p in (before, now)]
        if texts[0] != texts[1]:
            yield Change("Parameter", where, name, *texts)


def _data(where: str, before: Task, now: Task, ran: PlannedTask | None, runs: PlannedTask | None) -> Iterator[Change]:
    found = False
    for port, dataset in now.outputs.items():
        earlier = before.outputs.get(port)
        if isinstance(dataset, (VolumeFiles, VolumeParquet, VolumeDelta)) and earlier is not None:
            texts = [_of_data(earlier), _of_data(dataset)]
            if texts[0] != texts[1]:
                found = True
                yield Change("Data", where, port, *texts)
    if found or ran is None or runs is None:
        return
    files, read = ran.identity.parts.get("files", {}), runs.identity.parts.get("files", {})
    for name in sorted(files.keys() & read.keys()):
        if files[name] != read[name]:
            yield Change("Data", where, name, "as it was then", "changed on disk since")


def _of_data(dataset: Dataset) -> str:
    return details_text(details_of(dataset))


def _code(where: str, before: PlannedTask, now: PlannedTask) -> Iterator[Change]:
    old, new = before.identity.parts.get("version"), now.identity.parts.get("version")
    if before.node_type != now.node_type:
        yield Change("Node", where, "type", before.node_type, now.node_type)
    elif old != new:
        # Of a person's own node: the digest of its source.
        numbers = isinstance(old, int) and isinstance(new, int)
        yield Change(
            "Code",
            where,
            now.node_type,
            f"version {old}" if numbers else str(old)[:8],
            f"version {new}" if numbers else str(new)[:8],
        )


def _nodes(before: Pipeline | None, now: Pipeline | None) -> Iterator[Change]:
    if before is None or now is None:
        return
    drawn, draws = ({node.id: node for node in pipeline.nodes} for pipeline in (before, now))
    for node in now.nodes:
        if node.id not in drawn:
            yield Change("Node", safe(display_names(now.nodes)[node.id]), node.type, ABSENT, "added")
    for node in before.nodes:
        if node.id not in draws:
            yield Change("Node", safe(display_names(before.nodes)[node.id]), node.type, "was there", "removed")
    names = names_in_both(before, now)
    wires = [{(e.source, e.target) for e in pipeline.edges} for pipeline in (before, now)]
    for source, target in sorted(wires[1] - wires[0]):
        yield Change("Wire", "", wire_name(source, target, names), ABSENT, "added")
    for source, target in sorted(wires[0] - wires[1]):
        yield Change("Wire", "", wire_name(source, target, names), "was there", "removed")
