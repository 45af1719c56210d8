"""What a person may do with what a run has made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.declare.datasets import TrainedModel
from engine.store.runs import Run, Task


def models_of(tasks: Iterable[Task], node: str | None = None) -> dict[str, str]:
    """The folders of the models that a run made, by node; of one node where it is named."""
    return {
        task.node: dataset.uri
        for task in tasks
        for dataset in task.outputs.values()
        if isinstance(dataset, TrainedModel) and node in (None, task.node)
    }


def model_lines(run: Run, tasks: Sequence[Task]) -> list[str]:
    """Where each model lies that the run has made, and the command that asks it."""
    models = models_of(tasks)
    out = []
    for node, folder in models.items():
        which = f" --node {node}" if len(models) > 1 else ""
        out += [f"model: {folder}", f"       `voxelflow predict {run.run_id} FILE{which}` asks it"]
    return out
