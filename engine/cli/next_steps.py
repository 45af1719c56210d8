"""What a person may do with what a run has made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.declare.datasets import TrainedModel
from engine.declare.node_step import node_of
from engine.store.runs import Run, Task


def models_of(tasks: Iterable[Task], node: str | None = None) -> dict[str, str]:
    """The folders of the models that a run made, by node; of one node where it is named."""
    return {name: model.uri for name, model in _models(tasks) if node in (None, name)}


def _models(tasks: Iterable[Task]) -> list[tuple[str, TrainedModel]]:
    made = [(task.node, dataset) for task in tasks for dataset in task.outputs.values()]
    return [(node, dataset) for node, dataset in made if isinstance(dataset, TrainedModel)]


def model_lines(run: Run, tasks: Sequence[Task]) -> list[str]:
    """Where each model lies that the run has made, and the command that asks it, or what asks it where none can."""
    models = dict(_models(tasks))
    out = []
    for node, model in models.items():
        which = f" --node {node}" if len(models) > 1 else ""
        out.append(f"model: {model.uri}")
        if nodes := _nodes_before(model):
            out += [
                f"       asks for volumes that went through {nodes}; `voxelflow predict` cannot repeat that for files.",
                "       Wire this model and a table that came out of such a node to BatchPredict: it predicts each row",
            ]
        else:
            out.append(f"       `voxelflow predict {run.run_id} FILE{which}` asks it")
    return out


def _nodes_before(model: TrainedModel) -> str:
    """The nodes that made the volumes of the training by code that nothing repeats; "" for none."""
    transforms = model.spec.transforms if model.spec is not None else ()
    return " and ".join(dict.fromkeys(each.words for each in transforms if node_of(each)))
