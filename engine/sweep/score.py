"""The figure that judges a sweep's trials: where it comes from, and which trial has the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.declare.dataset_type import scores_of
from engine.declare.datasets import Report
from engine.declare.figures import lower_is_better
from engine.store.reported import metric_events, metrics_of
from engine.store.runs import RunStore
from engine.store.sweeps import Trial
from engine.text import numbers

_USUAL = (
    "val_auc", "val_f1", "val_accuracy", "val_r2", "val_loss", "val_mae", "val_rmse", "val_mse", "test_accuracy", "auc",
    "accuracy", "r2", "loss",
)  # fmt: skip
"""Default objectives, the most telling first: the first one that a run reports is used."""


@dataclass(frozen=True)
class Objective:
    """A figure and whether more of it is better. `figure` is its name, or `node.name`."""

    figure: str
    maximise: bool

    @property
    def words(self) -> str:
        """`highest val_auc`."""
        return f"{'highest' if self.maximise else 'lowest'} {self.figure}"


def usual_objective(figures: Mapping[str, float]) -> Objective | None:
    """The objective to take when none was given, from what a run has reported; None: it reported none of the usual."""
    by_name = {name.rpartition(".")[2]: name for name in figures}
    found = next((by_name[name] for name in _USUAL if name in by_name), None)
    return None if found is None else objective_of(found)


def objective_of(figure: str) -> Objective:
    """The objective for a figure by its name alone: a loss or an error is to be small."""
    return Objective(figure, not lower_is_better(figure.rpartition(".")[2]))


def figures_of_run(store: RunStore, run_id: str) -> dict[str, float]:
    """A run's figures by name, and by `node.name`: those of what it made, else the last value of each curve.

    What it took from the cache counts as what it made. Of several nodes with the same figure the last in the plan gives
    the plain name; a report, such as an evaluation's, gives one that no model and no curve has.
    """
    return {name: value for name, (_, value) in _reported_by(store, run_id).items()}


def source_of(store: RunStore, run_id: str, figure: str) -> str | None:
    """The `node.name` of what gives the run's figure, as `figures_of_run` has it; None: the run has none."""
    found = _reported_by(store, run_id).get(figure)
    return None if found is None else f"{found[0]}.{figure.rpartition('.')[2]}"


def _reported_by(store: RunStore, run_id: str) -> dict[str, tuple[str, float]]:
    tasks = store.tasks(run_id)
    curves: dict[str, dict[str, float]] = {}
    for event in metrics_of(store, run_id):
        curves.setdefault(event.node or "", {}).update(event.values)
    out: dict[str, tuple[str, float]] = {}
    reported: dict[str, tuple[str, float]] = {}
    for task in tasks:
        own = dict(curves.get(task.node, {}))
        judged: dict[str, float] = {}
        for output in task.outputs.values():
            (judged if isinstance(output, Report) else own).update(scores_of(output))
        for name, value in own.items():
            out[f"{task.node}.{name}"] = out[name] = task.node, float(value)
        for name, value in judged.items():
            out[f"{task.node}.{name}"] = reported[name] = task.node, float(value)
    return reported | out


def steps_of_run(store: RunStore, run_id: str, figure: str, after: int = 0) -> tuple[int, list[tuple[int, float]]]:
    """The `node.name` step by step, from the events that follow `after`; gives the last event's number too."""
    node, _, name = figure.rpartition(".")
    found = [*metric_events(store, run_id, after)]
    steps = [
        (event.step, float(event.values[name])) for _, event in found if event.node == node and name in event.values
    ]
    return found[-1][0] if found else after, steps


def score_texts(trials: Sequence[Trial]) -> list[str]:
    """The scores of trials that stand below each other, "" for none: two that differ do not read alike."""
    texts = iter(numbers([trial.score for trial in trials if trial.score is not None]))
    return ["" if trial.score is None else next(texts) for trial in trials]


def best_first(trials: Sequence[Trial], objective: Objective | None) -> list[Trial]:
    """Trials that are done by their score, then the others in their order."""

    def place(trial: Trial) -> tuple[int, float, int]:
        if objective is None or (score := _final_score(trial)) is None:
            order = {"done": 1, "pruned": 2}.get(trial.state, 3)
            return order, 0.0, trial.number
        return 0, -score if objective.maximise else score, trial.number

    return sorted(trials, key=place)


def best_of(trials: Sequence[Trial], objective: Objective | None) -> Trial | None:
    """The trial with the best score; None before one is done that has a score, and where none is asked for."""
    first = next(iter(best_first(trials, objective)), None)
    return None if objective is None or first is None or _final_score(first) is None else first


def _final_score(trial: Trial) -> float | None:
    """Of a trial that is done."""
    found = trial.score if trial.state == "done" else None
    return found if found is not None and math.isfinite(found) else None
