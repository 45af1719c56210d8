"""What differs between runs, in words and figures."""

from __future__ import annotations

import pytest
from building import box, pipeline, some_task
from compared_runs import FIRST, SECOND, compared
from running import Runner

from engine.catalog import Catalog
from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.document.pipeline import Node
from engine.history.comparison import (
    duration_rows,
    final_rows,
    labels,
    parameter_rows,
)
from engine.history.details import read_details
from engine.store.runs import RunStore
from engine.workspace import Workspace


def test_parameters_stand_side_by_side_with_those_that_differ_marked() -> None:
    rows = parameter_rows([compared(FIRST), compared(SECOND, run_id="2-bbb")])
    assert [(r.where, r.name, r.values, r.differs) for r in rows] == [
        ("pipeline", "data", ("same", "same"), False),
        ("pipeline", "epochs", ("3", "5"), True),
        ("Maker", "steps", ("3", "5"), True),
        ("Maker", "text", ("x", "-"), True),
    ]


def test_nodes_of_the_same_title_are_distinguished() -> None:
    twins = pipeline(Node(id="a", type="T", title="Same", params={"x": 1}), Node(id="b", type="T", title="Same"))
    rows = parameter_rows([compared(twins), compared(twins, run_id="2-bbb")])
    assert {r.where for r in rows} == {"Same (a)"}


def test_labels_differ_for_every_run() -> None:
    alike = [compared(FIRST, run_id="1-aaa"), compared(FIRST, run_id="2-aaa"), compared(FIRST, run_id="3-bbb")]
    assert labels(alike) == ["1-aaa", "2-aaa", "bbb p"]
    assert len(labels([compared(FIRST, name="x" * 300)])[0]) < 40


def test_final_figures_come_from_the_model_and_else_from_the_curve() -> None:
    spec = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")
    model = TrainedModel(uri="/m", spec=spec, metrics={"loss": 0.25}, parameters=1000)
    runs = [compared(FIRST, some_task("a", outputs={"out": model})), compared(SECOND, some_task("a"), run_id="2-bbb")]
    curves = [{("a", "loss"): 0.3}, {("a", "loss"): 0.2}]
    assert [(r.where, r.name, r.values) for r in final_rows(runs, curves)] == [
        ("Maker", "loss", ("0.25", "0.2")),
        ("Maker", "parameters of the model", ("1,000", "-")),
    ]


def test_durations_stand_side_by_side() -> None:
    runs = [
        compared(FIRST, some_task("a"), some_task("j", state="cached", started=None, ended=None)),
        compared(FIRST, some_task("a", state="failed"), run_id="2-bbb"),
    ]
    assert [(r.name, r.values) for r in duration_rows(runs)] == [
        ("whole run", ("12 s", "12 s")),
        ("Maker", ("5.0 s", "failed, 5.0 s")),
        ("Join", ("cached", "-")),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_real_runs_differ_by_what_they_ran_with(probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    ids = []
    runner = Runner(probes, workspace, store)
    for steps in (2, 3):
        run, _ = runner.run(pipeline(box("a", "Make", text="${text}", steps=steps), text=f"t{steps}"))
        ids.append(run.run_id)
    details = [read_details(workspace, store, run_id) for run_id in ids]
    rows = {(r.where, r.name): r.values for r in parameter_rows(details) if r.differs}
    # Values as they ran: `${text}` is filled in.
    assert rows == {("pipeline", "text"): ("t2", "t3"), ("Make", "steps"): ("2", "3"), ("Make", "text"): ("t2", "t3")}
    everything = {(r.where, r.name): r.values for r in parameter_rows(details)}
    assert everything["Make", "step_s"] == ("0.0", "0.0")
