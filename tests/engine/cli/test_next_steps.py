"""What a run that has ended says of its models, and `runs show` of its figures."""

from __future__ import annotations

import pytest
from command_line import Command

from engine.cli.next_steps import model_lines
from engine.declare.datasets import Report, TrainedModel, Transform, VolumeSpec
from engine.declare.node_step import node_step
from engine.store.runs import RunStore

FIGURES = {f"figure {i}": i for i in range(20)}


def _with_models(store: RunStore, *nodes: str) -> str:
    run_id = store.create_run("demo", "{}", {}, "local")
    store.set_tasks(run_id, [(node, "TrainResNet3D", node) for node in (*nodes, "evaluate")])
    for node in nodes:
        model = TrainedModel(uri=f"/models/{node}", spec=VolumeSpec(shape=(2, 2, 2), dtype="float32"))
        store.update_task(run_id, node, state="done", outputs={"out": model})
    store.update_task(run_id, "evaluate", state="done", outputs={"out": Report(uri="/r.html", figures=FIGURES)})
    return run_id


@pytest.mark.parametrize(("nodes", "which"), [((), []), (("train",), [""]), (("a", "b"), [" --node a", " --node b"])])
def test_each_model_is_named_with_the_command_that_asks_it(
    store: RunStore, nodes: tuple[str, ...], which: list[str]
) -> None:
    run_id = _with_models(store, *nodes)
    lines = model_lines(store.run(run_id), store.tasks(run_id))
    assert lines[::2] == [f"model: /models/{node}" for node in nodes]
    assert lines[1::2] == [f"       `voxelflow predict {run_id} FILE{node}` asks it" for node in which]


def test_a_model_downstream_of_an_own_node_names_what_can_use_it(store: RunStore) -> None:
    """`voxelflow predict` refuses raw files there, and the last line of the training named it all the same."""
    run_id = store.create_run("demo", "{}", {}, "local")
    store.set_tasks(run_id, [("train", "TrainResNet3D", "train")])
    steps = (Transform(name="clip"), node_step("Blur", {"sigma": 1.5}, "code", "Blur sigma=1.5"))
    spec = VolumeSpec(shape=(2, 2, 2), dtype="float32", transforms=steps)
    store.update_task(run_id, "train", state="done", outputs={"out": TrainedModel(uri="/models/train", spec=spec)})
    where, *what = model_lines(store.run(run_id), store.tasks(run_id))
    assert where == "model: /models/train"
    said = " ".join(map(str.strip, what))
    assert "volumes that went through Blur sigma=1.5" in said
    assert "a table that came out of such a node to BatchPredict" in said
    assert "FILE" not in said


def test_the_first_figures_are_shown_and_all_on_request(command: Command, store: RunStore) -> None:
    _with_models(store, "train")
    shown = command("runs", "show").out
    assert "figure 6 6 and 13 more" in shown
    assert "figure 7" not in shown
    assert max(map(len, shown.splitlines())) < 160
    every = command("runs", "show", "--all").out.splitlines()
    rows = [line.split() for line in every if line.startswith("evaluate") and "figure 19" in line]
    assert rows == [["evaluate", "out", "figure", "19", "19"]]
