"""What differs between runs: parameters, graph, figures, durations. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.cli.wording import duration, number, safe
from engine.datasets import TrainedModel
from engine.pipeline import Node
from ui.runs.details import Details, parameters, value_text
from ui.runs.feed import Feed
from ui.runs.history import short_id
from ui.runs.metrics import Line

ABSENT = "-"
PIPELINE = "pipeline"


@dataclass(frozen=True)
class Row:
    """One line of a table: where, what, and a text for each run."""

    where: str
    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class GraphChange:
    """Something about the graph that a later run has otherwise than the first one."""

    change: str
    """ "added", "removed" or "changed"."""
    what: str
    """ "node" or "edge"."""
    name: str
    detail: str = ""


def run_label(details: Details) -> str:
    """`3a0f75 quickstart`: short, and different for every run."""
    name = safe(details.run.pipeline)
    return f"{short_id(details.run.run_id)} {name if len(name) <= 30 else name[:29] + '…'}"


def labels(runs: Sequence[Details]) -> list[str]:
    """Labels for runs that stand side by side; where two would be alike, their whole ids."""
    short = [run_label(d) for d in runs]
    return [d.run.run_id if short.count(label) > 1 else label for d, label in zip(runs, short, strict=True)]


# --- parameters --------------------------------------------------------------------------------


def parameter_rows(runs: Sequence[Details]) -> list[Row]:
    """Parameters of the pipelines, then those of the nodes as they ran, in the order of the first run's graph.

    A node that only one of the runs has differs as a whole: the graph's differences tell that.
    """
    out = []
    names = sorted({name for d in runs if d.pipeline for name in d.pipeline.parameters})
    for name in names:
        out.append(Row(PIPELINE, name, tuple(_pipeline_value(d, name) for d in runs)))
    for node in _nodes(runs):
        held = [parameters(d, node) for d in runs]
        if sum(node in d.titles for d in runs) < 2:
            continue
        title = _title(runs, node)
        for name in sorted({n for values in held for n in values}):
            out.append(Row(title, name, tuple(value_text(v[name]) if name in v else ABSENT for v in held)))
    return out


def _pipeline_value(details: Details, name: str) -> str:
    found = details.pipeline.parameters.get(name) if details.pipeline else None
    return value_text(found.value) if found else ABSENT


def _nodes(runs: Sequence[Details]) -> list[str]:
    drawn = [n.id for d in runs if d.pipeline for n in d.pipeline.nodes]
    return list(dict.fromkeys([*drawn, *(t.node for d in runs for t in d.tasks)]))


def _title(runs: Sequence[Details], node: str) -> str:
    title = next((safe(d.titles[node]) for d in runs if node in d.titles), node)
    others = {safe(d.titles[n]) for d in runs for n in d.titles if n != node}
    return f"{title} ({node})" if title in others else title


# --- the graph ---------------------------------------------------------------------------------


def graph_changes(first: Details, other: Details) -> list[GraphChange]:
    """What `other` has otherwise than `first`; where boxes lie on the canvas does not count."""
    if first.pipeline is None or other.pipeline is None:
        return []
    before = {n.id: n for n in first.pipeline.nodes}
    after = {n.id: n for n in other.pipeline.nodes}
    out = [GraphChange("added", "node", _named(n), n.type) for i, n in after.items() if i not in before]
    out += [GraphChange("removed", "node", _named(n), n.type) for i, n in before.items() if i not in after]
    for node_id, node in after.items():
        if node_id in before and (detail := _node_changes(before[node_id], node)):
            out.append(GraphChange("changed", "node", _named(node), detail))
    edges_before = dict.fromkeys((e.source, e.target) for e in first.pipeline.edges)
    edges_after = dict.fromkeys((e.source, e.target) for e in other.pipeline.edges)
    out += [GraphChange("added", "edge", f"{a} → {b}") for a, b in edges_after if (a, b) not in edges_before]
    out += [GraphChange("removed", "edge", f"{a} → {b}") for a, b in edges_before if (a, b) not in edges_after]
    return out


def _named(node: Node) -> str:
    return safe(node.label if node.label == node.id else f"{node.label} ({node.id})")


def _node_changes(before: Node, after: Node) -> str:
    out = []
    for name in ("type", "version", "title", "retries", "timeout_s"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            out.append(f"{name.replace('_s', '')} {_told(old)} → {_told(new)}")
    for name in sorted({*before.params, *after.params}):
        if before.params.get(name) != after.params.get(name):
            old_text = _told(before.params[name]) if name in before.params else "default"
            new_text = _told(after.params[name]) if name in after.params else "default"
            out.append(f"{name} {old_text} → {new_text}")
    return safe(", ".join(out))


def _told(value: Any) -> str:
    if value in (None, ""):
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


# --- figures -----------------------------------------------------------------------------------


def metric_lines(runs: Sequence[Details], feeds: Sequence[Feed]) -> dict[str, list[Line]]:
    """By metric, a curve for each run that has it."""
    out: dict[str, list[Line]] = {}
    for details, feed, label in zip(runs, feeds, labels(runs), strict=True):
        nodes_of: dict[str, list[str]] = {}
        for node, name in feed.metrics:
            nodes_of.setdefault(name, []).append(node)
        for (node, name), series in sorted(feed.metrics.items()):
            several = len(nodes_of[name]) > 1
            full = f"{label}, {safe(details.titles.get(node, node))}" if several else label
            out.setdefault(name, []).append(Line(full, series))
    return dict(sorted(out.items()))


def final_rows(runs: Sequence[Details], feeds: Sequence[Feed]) -> list[Row]:
    """The last value of each metric, and the figures of the models that were made."""
    held = [_finals(d, f) for d, f in zip(runs, feeds, strict=True)]
    keys = list(dict.fromkeys(k for values in held for k in sorted(values)))
    return [Row(where, name, tuple(v.get((where, name), ABSENT) for v in held)) for where, name in keys]


def _finals(details: Details, feed: Feed) -> dict[tuple[str, str], str]:
    out: dict[tuple[str, str], str] = {}
    for task in details.tasks:
        for output in task.outputs.values():
            if isinstance(output, TrainedModel):
                for name, value in output.metrics.items():
                    out[safe(details.titles[task.node]), name] = number(value)
                out[safe(details.titles[task.node]), "parameters of the model"] = number(output.parameters)
    for (node, name), series in feed.metrics.items():
        key = (safe(details.titles.get(node, node)), name)
        if key not in out and series.last is not None:
            out[key] = number(series.last)
    return out


def duration_rows(runs: Sequence[Details]) -> list[Row]:
    """How long the runs and each of their tasks took; "cached" where nothing had to be done."""
    rows = [Row("", "whole run", tuple(duration(d.run.seconds) if d.run.seconds is not None else ABSENT for d in runs))]
    for node in _nodes(runs):
        rows.append(Row("", _title(runs, node), tuple(_spent(d, node) for d in runs)))
    return rows


def _spent(details: Details, node: str) -> str:
    task = details.task(node)
    if task is None:
        return ABSENT
    if task.state == "done" and task.seconds is not None:
        return duration(task.seconds)
    if task.state in ("running", "failed", "cancelled") and task.seconds is not None:
        return f"{task.state}, {duration(task.seconds)}"
    return task.state
