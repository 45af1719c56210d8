"""Runs side by side: what differs in their parameters, figures and durations, for the command and the app alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.declare.dataset_type import scores_of
from engine.declare.datasets import TrainedModel
from engine.history.details import Details, parameters, short_id, value_text
from engine.store.reported import metrics_of
from engine.store.runs import RunStore
from engine.text import duration, numbers, safe

ABSENT = "-"
Curves = Mapping[tuple[str, str], float]
"""By node and name, the last value of each curve."""
_LONGEST_NAME = 30


@dataclass(frozen=True)
class Row:
    """One line of a table: where, what, and a text for each run."""

    where: str
    name: str
    values: tuple[str, ...]
    figures: tuple[float | None, ...] = ()
    """Of figures what they are, not rounded; None where a run has none."""

    @property
    def differs(self) -> bool:
        """Whether not all runs have the same text."""
        return len(set(self.values)) > 1


def labels(runs: Sequence[Details]) -> list[str]:
    """Labels of runs, as `3a0f75 quickstart`, without a name that all share; where two would be alike, whole ids."""
    ids = [short_id(d.run.run_id) for d in runs]
    names = ["" if shared_name(runs) else f" {_shortened(d.run.pipeline)}" for d in runs]
    short = [f"{run}{name}" for run, name in zip(ids, names, strict=True)]
    return [d.run.run_id if short.count(label) > 1 else label for d, label in zip(runs, short, strict=True)]


def shared_name(runs: Sequence[Details]) -> str:
    """The name of the pipeline that all runs are of, at most 30 characters of it; "" where they are of several."""
    names = {d.run.pipeline for d in runs}
    return _shortened(names.pop()) if len(names) == 1 else ""


# --- parameters --------------------------------------------------------------------------------


def parameter_rows(runs: Sequence[Details]) -> list[Row]:
    """Parameters of the pipelines, then those of the nodes as they ran, in the order of the first run's graph.

    A node's parameter that is `${name}` in all runs is left out: the pipeline's says the same. A node that only one of
    the runs has differs as a whole: the graph's differences show that.
    """
    out = []
    names = sorted({name for d in runs if d.pipeline for name in d.pipeline.parameters})
    above = [{f"${{{name}}}"} for name in names]
    for name in names:
        out.append(Row("pipeline", name, tuple(_pipeline_value(d, name) for d in runs)))
    for node in _nodes(runs):
        found = [parameters(d, node) for d in runs]
        if sum(node in d.titles for d in runs) < 2:
            continue
        title = node_title(runs, node)
        for name in sorted({n for values in found for n in values}):
            if _written(runs, node, name) not in above:
                out.append(Row(title, name, tuple(value_text(v[name]) if name in v else ABSENT for v in found)))
    return out


def _written(runs: Sequence[Details], node: str, name: str) -> set[str]:
    """What the documents say for the node's parameter."""
    drawn = [d.drawn(node) for d in runs if node in d.titles]
    return {str(each.params.get(name)) if each else "" for each in drawn}


def _pipeline_value(details: Details, name: str) -> str:
    found = details.pipeline.parameters.get(name) if details.pipeline else None
    return value_text(found.value) if found else ABSENT


def _nodes(runs: Sequence[Details]) -> list[str]:
    drawn = [n.id for d in runs if d.pipeline for n in d.pipeline.nodes]
    return list(dict.fromkeys([*drawn, *(t.node for d in runs for t in d.tasks)]))


def node_title(runs: Sequence[Details], node: str) -> str:
    title = next((safe(d.titles[node]) for d in runs if node in d.titles), node)
    others = {safe(d.titles[n]) for d in runs for n in d.titles if n != node}
    return f"{title} ({node})" if title in others else title


# --- figures -----------------------------------------------------------------------------------


def final_rows(runs: Sequence[Details], curves: Sequence[Curves]) -> list[Row]:
    """The last value of each curve, and the figures of the models and evaluations that were made."""
    found = [_finals(d, c) for d, c in zip(runs, curves, strict=True)]
    keys = list(dict.fromkeys(k for values in found for k in sorted(values)))
    return [
        _figures_row(node_title(runs, node), name, [values.get((node, name)) for values in found])
        for node, name in keys
    ]


def _figures_row(where: str, name: str, figures: Sequence[float | None]) -> Row:
    texts = iter(numbers([figure for figure in figures if figure is not None]))
    return Row(where, name, tuple(ABSENT if figure is None else next(texts) for figure in figures), tuple(figures))


def _finals(details: Details, curves: Curves) -> dict[tuple[str, str], float]:
    out: dict[tuple[str, str], float] = {}
    for task in details.tasks:
        for output in task.outputs.values():
            for name, value in scores_of(output).items():
                out[task.node, name] = value
            if isinstance(output, TrainedModel):
                out[task.node, "parameters of the model"] = output.parameters
    for (node, name), last in curves.items():
        out.setdefault((node, name), last)
    return out


def last_of_curves(store: RunStore, run_id: str) -> dict[tuple[str, str], float]:
    """By node and name, what a run's curves have at their highest step; of a cached task, those it had when it ran."""
    out: dict[tuple[str, str], tuple[int, float]] = {}
    for event in metrics_of(store, run_id):
        for name, value in event.values.items():
            key = (event.node or "", name)
            # A resumed run reports some steps again: the last value of a step counts.
            if key not in out or event.step >= out[key][0]:
                out[key] = (event.step, float(value))
    return {key: value for key, (_, value) in out.items()}


def duration_rows(runs: Sequence[Details]) -> list[Row]:
    """How long the runs and each of their tasks took; "cached" where nothing had to be done."""
    rows = [Row("", "whole run", tuple(duration(d.run.seconds) if d.run.seconds is not None else ABSENT for d in runs))]
    for node in _nodes(runs):
        rows.append(Row("", node_title(runs, node), tuple(_spent(d, node) for d in runs)))
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


def _shortened(text: str) -> str:
    text = safe(text)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
